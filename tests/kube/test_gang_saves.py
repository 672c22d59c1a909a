"""Gangs on Kubernetes are asked to save by time, by the rule of core/gang.py, and train on."""

from __future__ import annotations

from typing import Any

import pytest
from small_cluster import MemoryApi, SmallCluster

from headway.core.job import JobId
from headway.core.plan import Plan, Scale
from headway.core.snapshot import Snapshot
from headway.kube.pods.checkpoints import CheckpointVolume
from headway.kube.settings import PodDefaults
from headway.progress_server import Connected, Reported, Saved, SaveFailed

KEPT = CheckpointVolume(definition={"name": "kept", "hostPath": {"path": "/kept"}}, mounted="/kept")
MINUTE = 60.0


class Small(SmallCluster):
    """With jobs that run, whose only replica is connected and can save; `asked` has the requests."""

    def __init__(self, *jobs: str, shared: bool = True, **spec: Any) -> None:
        self.asked: list[tuple[JobId, int]] = []
        api = MemoryApi(nodes=4)
        self.uids = [api.submit(job, {"roles": {"worker": {"cpu": "100m"}}, **spec}) for job in jobs]
        pods = PodDefaults(checkpoints="/kept", volume=KEPT) if shared else PodDefaults()
        super().__init__(api, pods=pods)
        self.turn(4)
        assert [self.phase(uid) for uid in self.uids] == ["Running"] * len(jobs)
        self.reports.connected = lambda job: [self.hello(job)]
        self.reports.save = lambda job, request: self.asked.append((job, request))
        self.reports.events += [self.hello(JobId(f"team/{job}")) for job in jobs]
        self.later(0)

    def hello(self, job: JobId) -> Connected:
        return Connected(job, "worker", 0, self.gang(job).wanted.attempt, True, None)

    def later(self, seconds: float) -> list[str]:
        """Time passes; the jobs that are asked then."""
        self.clock.ahead += seconds
        self.cluster._save_at, before = 0.0, len(self.asked)
        self.turn()
        return [job for job, _ in self.asked[before:]]

    def answer(self, kind: type[Saved | SaveFailed], what: Any, *more: Any) -> None:
        job, request = self.asked[-1]
        self.reports.events.append(kind(job, "worker", 0, self.gang(job).wanted.attempt, request, what, *more))
        self.later(0)


def test_a_gang_is_asked_every_ten_minutes_and_trains_on():
    small = Small("a")
    assert small.later(9 * MINUTE) == []
    assert small.later(2 * MINUTE) == ["team/a"]
    small.answer(Saved, 100, 0.5)
    gang = small.gang("team/a")
    assert (small.phase(small.uids[0]), gang.saving.round.is_complete, gang.saving.seconds) == ("Running", True, (0.5,))
    assert small.later(9 * MINUTE) == []
    assert small.later(2 * MINUTE) == ["team/a"]
    assert len(small.api.pods_of("a")) == 1


def test_a_dear_save_is_asked_for_less_often():
    small = Small("a")
    small.later(11 * MINUTE)
    small.answer(Saved, 100, 60.0)
    assert small.later(48 * MINUTE) == []
    assert small.later(2 * MINUTE) == ["team/a"]


def test_a_gang_that_grows_all_the_time_is_asked_as_often():
    """A replica is added every five minutes for two hours: the clock counts from when its attempt began to train."""
    small = Small("a", roles={"worker": {"cpu": "100m", "max": 30}})
    asked = list[str]()

    def grow(snapshot: Snapshot) -> Plan:
        nodes = snapshot.placements[int(snapshot.jobs.running()[0])].nodes[0]
        return Plan((Scale(JobId("team/a"), "worker", (*nodes, len(nodes) % 4)),))

    for _ in range(24):
        small.policy, stays = grow, small.policy
        small.turn()
        small.policy = stays
        small.turn(3)
        assert small.phase(small.uids[0]) == "Running"
        asked += small.later(5 * MINUTE)
        if small.gang("team/a").saving.round.is_open:
            small.answer(Saved, 100, 0.5)
    assert len(small.api.pods_of("a")) == 25
    assert len(asked) == 12


@pytest.mark.parametrize("spec", [{"saveEvery": 0}, {"checkpoints": False}, {"saves": "itself"}])
def test_who_is_not_to_be_asked_is_not(spec):
    assert Small("a", **spec).later(300 * MINUTE) == []


def test_one_at_a_time_in_a_namespace_and_who_does_not_answer_is_not_waited_for():
    small = Small("a", "b", saveEvery=100)
    (first,) = small.later(10 * MINUTE)
    assert small.later(30) == []
    (second,) = small.later(40)
    assert {first, second} == {"team/a", "team/b"}
    assert sorted(Small("a", "b", shared=False).later(11 * MINUTE)) == ["team/a", "team/b"], "each has its own disk"


def test_a_save_that_fails_is_told_and_the_gang_trains_on():
    small = Small("a")
    small.later(11 * MINUTE)
    seen: list[tuple[str, str]] = []
    small.policy = lambda snapshot, then=small.policy: (seen.extend(snapshot.notes), then(snapshot))[1]
    small.answer(SaveFailed, "OSError: no room")
    assert ("team/a", "it could not save and trains on: OSError: no room") in seen
    assert small.phase(small.uids[0]) == "Running"
    assert small.later(9 * MINUTE) == []
    assert small.later(2 * MINUTE) == ["team/a"]


def test_a_gang_that_goes_on_says_from_which_step():
    small = Small("a")
    seen: list[tuple[str, str]] = []
    small.policy = lambda snapshot, then=small.policy: (seen.extend(snapshot.notes), then(snapshot))[1]

    def report(step: int, first: int) -> None:
        attempt = small.gang("team/a").wanted.attempt
        small.reports.events.append(Reported(JobId("team/a"), "worker", 0, attempt, step, None, None, {}, first))
        small.later(0)

    report(520, 1)
    (pod,) = small.api.pods_of("a")
    pod["status"] = {"phase": "Failed", "containerStatuses": [
        {"name": "trainer", "state": {"terminated": {"exitCode": 137}}}
    ]}  # fmt: skip
    small.api.tell(pod)
    for _ in range(8):
        small.hurry()
        small.later(5)
    report(255, 251)
    assert ("team/a", "it goes on from step 250; 270 steps were lost") in seen, seen
