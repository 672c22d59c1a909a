"""Taking in TrainingJobs: valid, invalid, deleted, of the same name, and after a restart."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from small_cluster import MemoryApi, SmallCluster

from headway.core.job import JobId
from headway.core.states import State
from headway.kube.api.errors import Forbidden, KubeError, NotFound, Unreachable
from headway.kube.api.objects import Meta, NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed, WatchFailed
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.intent import Intent, RoleAllocation
from headway.kube.gangs.recover import UNPROVEN, Recovered
from headway.kube.gangs.take import take
from headway.kube.inbox import Inbox, Wake
from headway.kube.intake.table import Intake, IntakeStage
from headway.kube.pods.marks import GangMark, PodMarks
from headway.kube.settings import KubeSettings
from headway.kube.start import read_initial_state
from headway.kube.store.store import Store
from headway.kube.views.status import status_of

BEGAN = 1000.0
MARKS = PodMarks(b"key")
RUNNING = Intent(state=State.RUNNING, allocation=(RoleAllocation("w", ("n1",), (("cpu", 500),)),), attempt=3)


@dataclass
class Told:
    """What the intake writes about objects that are no gang, and what it asks."""

    statuses: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """By uid."""
    events: list[tuple[str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The namespace of each dry run."""
    forgotten: list[str] = field(default_factory=list)

    def status(self, meta: Meta, status: dict[str, Any]) -> None:
        self.statuses.append((meta.uid, status))

    def condition(self, meta: Meta, body: dict[str, Any]) -> None:
        self.statuses.append((meta.uid, body))

    def event(self, namespace: str, body: dict[str, Any]) -> None:
        self.events.append((namespace, body["reason"]))

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)

    def remove(self, meta: Meta) -> None:
        raise AssertionError(meta)

    def dry_run(self, key: str, namespace: str, body: dict[str, Any], after: float = 0.0) -> None:
        self.asked.append(namespace)

    def read_claims(self, pod: Pod, after: float = 0.0) -> None:
        raise AssertionError(pod)


class AnIntake:
    """An intake whose gangs are followed as the cluster does it."""

    def __init__(self, **settings: Any) -> None:
        self.told, self.gangs, self.ids = Told(), dict[str, Gang](), dict[JobId, str]()
        found = KubeSettings(began=BEGAN, **{"marks": MARKS, **settings})
        store = Store(BEGAN, found.marks, self.gangs, self._tell)
        self.table = Intake(
            found, self.told, self.told, self.gangs, self.ids, self._tell, lambda: 50.0,
            store.own_pods, store.adopt,
        )  # fmt: skip

    def _tell(self, uid: str, message: Any) -> None:
        self.gangs[uid] = take(self.gangs[uid], message)

    def hear(self, *messages: Any) -> list[str]:
        """The jobs that come in with these messages."""
        for message in messages:
            self.table.hear(message)
        return self.some()

    def some(self) -> list[str]:
        self.table.new_turn()
        return [self._enrol(found) for found in self.table.some()]

    def first(self, objects: list[TrainingJob], pods: Mapping[str, list[Pod]] | None = None) -> list[Recovered]:
        self.table.begin(objects, pods or {})
        found = self.table.first(objects)
        for one in found:
            self._enrol(one)
        return found

    def _enrol(self, found: Recovered) -> str:
        self.gangs[found.gang.uid], self.ids[found.gang.job.id] = found.gang, found.gang.uid
        return found.gang.job.id

    def forget(self, uid: str) -> None:
        job = self.gangs.pop(uid).job.id
        del self.ids[job]
        self.table.forgotten(job)

    def stages(self) -> dict[str, IntakeStage]:
        return {uid: entry.stage for uid, entry in self.table.entries.items()}


def an_object(name="j", uid="u", spec=None, intent=None, created=1100, **meta) -> TrainingJob:
    status = {} if intent is None else status_of(intent, {"stops": 2.0}, (), BEGAN)
    stamp = f"1970-01-01T00:{created // 60:02}:{created % 60:02}Z"
    found = {
        "metadata": {"name": name, "namespace": "team", "uid": uid, "creationTimestamp": stamp, **meta},
        "spec": {"roles": {"w": {"cpu": "500m"}}} if spec is None else spec, "status": status,
    }  # fmt: skip
    return msgspec.json.decode(json.dumps(found), type=TrainingJob)


SUSPENDED_SPEC = {"roles": {"w": {"cpu": "500m"}}, "suspend": True}


def changed(found: TrainingJob) -> Changed:
    return Changed(TrainingJob, found)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (an_object(), ["team/j"]),
        (an_object(intent=RUNNING), ["team/j"]),
        (an_object(intent=Intent(state=State.FAILED)), []),
        (an_object(deletionTimestamp="1970-01-01T00:00:00Z"), []),
        (an_object(spec={"roles": {}}), []),
    ],
)
def test_which_new_jobs_are_taken_in(found, expected):
    intake = AnIntake()
    assert intake.hear(changed(found)) == expected
    assert intake.hear(changed(found)) == [], "a second message about the same job is not a new job"


def test_an_invalid_spec_is_reported_once_in_the_jobs_own_status():
    intake = AnIntake()
    for _ in range(2):
        assert intake.hear(changed(an_object(spec={"roles": {"w": {"cpu": "lots"}}}))) == []
    ((uid, status),) = intake.told.statuses
    assert (uid, status["phase"], status["reason"]) == ("u", "Failed", "InvalidSpec")
    assert "spec.roles.w.cpu" in status["message"]
    assert intake.told.events == [("team", "InvalidSpec")]


def test_a_job_is_read_when_it_is_its_namespaces_turn_and_a_list_does_not_change_that():
    intake = AnIntake()
    crowd = [an_object(f"a{n}", f"a{n}", namespace="crowd") for n in range(300)]
    intake.table.clock = lambda: math.inf  # no time: only so many in a turn
    assert len(intake.hear(*map(changed, crowd))) == 8
    assert intake.hear(changed(an_object(namespace="other")))[:2] == ["crowd/a8", "other/j"]
    assert intake.table.waiting
    assert intake.table.to_come


# ── a restart ──


def test_at_the_start_jobs_keep_their_numbers_and_new_ones_follow_by_age():
    api = MemoryApi()
    for name, minute in (("newer", 20), ("old", 40), ("new", 10)):
        uid = api.submit(name, {"roles": {"w": {"cpu": "100m"}}})
        api.jobs[uid]["metadata"]["creationTimestamp"] = f"2023-11-14T22:{minute}:00Z"
    small = SmallCluster(api, serials={"team/old": 7})
    small.turn()
    table = small.cluster.board.table
    serials = {job: table.get("serial", row) for job, row in table.row_of.items()}
    assert serials == {"team/old": 7, "team/new": 8, "team/newer": 9}


def its_pod(marks: PodMarks = MARKS) -> Pod:
    owner = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "uid": "u", "controller": True}
    meta = {"name": "j-3-w-0", "namespace": "team", "uid": "p", "ownerReferences": [owner]}
    meta["annotations"] = marks.written(Meta(uid="u"), "j-3-w-0", GangMark(3, "n1", {"w": 1}, {"cpu": 500}))
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, Pod)


def test_a_job_goes_on_from_its_status_and_its_pods():
    intake = AnIntake()
    ((gang, columns, _),) = intake.first([an_object(intent=RUNNING)], {"u": [its_pod()]})
    assert gang.wanted.nodes() == ["n1"]
    assert (gang.state, gang.wanted.attempt, gang.frozen.why) == (State.RUNNING, 3, "")
    assert columns["stops"] == 2
    assert set(gang.pods) == {"p"}


@pytest.mark.parametrize("status", [None, Intent(attempt=3), Intent(attempt=2)], ids=["none", "waiting", "earlier"])
def test_a_start_that_no_status_tells_of_is_told_by_its_pods(status):
    intake = AnIntake()
    ((gang, *_),) = intake.first([an_object(intent=status)], {"u": [its_pod()]})
    assert (gang.state, gang.wanted.attempt, gang.wanted.nodes()) == (State.STARTING, 3, ["n1"])
    assert gang.wanted.until == math.inf


def test_a_job_whose_pods_went_meanwhile_starts_again_from_its_checkpoint():
    intake = AnIntake()
    ((gang, columns, _),) = intake.first([an_object(intent=RUNNING)])
    assert gang.wanted.nodes() == []
    assert (gang.state, gang.wanted.reason) == (State.WAITING, "Interrupted")
    assert columns["stops"] == 3


def test_a_job_whose_pods_prove_nothing_stays_as_it_is_and_is_told_why():
    intake = AnIntake()
    ((gang, columns, _),) = intake.first([an_object(intent=RUNNING)], {"u": [its_pod(PodMarks(b"another key"))]})
    assert (gang.state, gang.wanted.attempt, gang.unproven) == (State.RUNNING, 3, {"p"})
    assert (gang.frozen.why, gang.frozen.again) == (UNPROVEN, math.inf)
    assert columns["stops"] == 2, "it was not stopped"


def test_a_job_that_has_pods_and_a_spec_that_cannot_be_read_keeps_them():
    intake = AnIntake()
    assert intake.first([an_object(intent=RUNNING, spec={"roles": {}})], {"u": [its_pod()]}) == []
    ((_, status),) = intake.told.statuses
    assert status["reason"] == "Fault"
    assert "phase" not in status, "nobody says that it has failed"
    assert intake.stages() == {"u": IntakeStage.UNREADABLE}
    assert not intake.table.to_come


def test_a_job_that_is_over_is_followed_while_it_has_pods_but_not_on_the_board():
    intake = AnIntake()
    gone = an_object("gone", "v", intent=Intent(state=State.FINISHED))
    over = an_object(intent=Intent(state=State.FINISHED))
    ((gang, *_),) = intake.first([over, gone], {"u": [its_pod()]})
    assert intake.some() == [], "of the other no pod is left"
    assert (gang.is_over, list(intake.gangs)) == (True, ["u"])
    small = SmallCluster()
    uid = small.api.submit("over", {"roles": {"w": {"cpu": "100m"}}})
    small.turn(5)
    assert small.phase(uid) == "Running"
    small.api.status(uid)["phase"] = "Succeeded"
    small.start()
    assert (list(small.cluster.gangs), small.cluster.board.table.count) == ([uid], 0)


@pytest.mark.parametrize(
    "message",
    [
        Listed(TrainingJob, ()),
        Deleted(TrainingJob, an_object()),
        changed(an_object(deletionTimestamp="1970-01-01T00:00:00Z")),
    ],
)
def test_a_deleted_job_is_withdrawn(message):
    intake = AnIntake()
    assert intake.hear(changed(an_object())) == ["team/j"]
    assert intake.hear(message) == []
    assert intake.gangs["u"].terms.withdrawn


@pytest.mark.parametrize(("deleted", "expected"), [(False, ["team/j"]), (True, [])])
def test_a_second_job_of_the_same_name_waits_for_the_first(deleted, expected):
    intake = AnIntake()
    assert intake.hear(changed(an_object())) == ["team/j"]
    again = an_object(uid="u2")
    assert intake.hear(changed(again)) == []
    assert intake.stages() == {"u2": IntakeStage.NAMESAKE}
    if deleted:
        intake.hear(Deleted(TrainingJob, again))
    intake.forget("u")
    assert intake.some() == expected
    assert set(intake.gangs) == ({"u2"} if expected else set())


# ── the state at the start ──


def an_inbox(*messages) -> Inbox:
    inbox = Inbox()
    for message in messages:
        inbox.put(message)
    return inbox


LISTS = [Listed(kind, ()) for kind in (TrainingJob, Pod, NodeObject)]


def test_the_start_waits_for_all_three_lists_and_keeps_the_rest():
    later = changed(an_object())
    state = read_initial_state(
        an_inbox(WatchFailed(Unreachable(0, "slow"), TrainingJob), LISTS[0], later, Wake(), *LISTS[1:])
    )
    assert (state.jobs, state.pods, state.nodes) == tuple(LISTS)
    assert state.later == [later, Wake()]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([WatchFailed(NotFound(404, "no"), TrainingJob)], "headway schedule --install"),
        ([WatchFailed(Forbidden(403, "may not list"), Pod)], "refuses access: may not list"),
        ([WatchFailed(Unreachable(503, "restarting"), Pod), *LISTS[:2]], "restarting"),
        ([], "no answer"),
    ],
)
def test_a_start_that_fails_says_what_to_do(messages, words):
    with pytest.raises(KubeError, match=words):
        read_initial_state(an_inbox(*messages), seconds=0.01, at_most=0.05)


def test_a_list_that_takes_long_is_waited_for():
    inbox = an_inbox(*LISTS[:2])
    threading.Timer(0.2, inbox.put, [LISTS[2]]).start()
    assert read_initial_state(inbox, seconds=0.01, at_most=30.0).whole, "the server never failed, it is only slow"


# ── the end ──


def test_what_was_refused_is_forgotten_when_it_is_deleted():
    intake = AnIntake()
    for number in range(3):
        intake.hear(changed(an_object(f"j{number}", uid=f"u{number}", spec={"roles": {}})))
    assert intake.stages() == dict.fromkeys(("u0", "u1", "u2"), IntakeStage.REFUSED)
    intake.hear(Deleted(TrainingJob, an_object("j0", uid="u0", spec={"roles": {}})))
    intake.hear(Listed(TrainingJob, (an_object("j1", uid="u1", spec={"roles": {}}),)))
    assert intake.stages() == {"u1": IntakeStage.REFUSED}
    assert set(intake.told.forgotten) == {"u0", "u2"}, "what was to be told of them is asked for no more"


@pytest.mark.parametrize("message", [Listed(TrainingJob, ()), Deleted(TrainingJob, an_object())])
def test_what_is_to_be_told_of_a_suspended_job_is_forgotten_with_it_and_of_a_gang_is_not(message):
    suspended, gang = AnIntake(), AnIntake()
    assert suspended.hear(changed(an_object(spec=SUSPENDED_SPEC))) == []
    assert gang.hear(changed(an_object())) == ["team/j"]
    for intake in (suspended, gang):
        intake.hear(message)
    assert suspended.told.forgotten == ["u"]
    assert gang.told.forgotten == [], "its pods are yet to be deleted"


def test_a_job_that_is_forgotten_leaves_the_roster_of_pods():
    small = SmallCluster()
    uid = small.api.submit("j", {"roles": {"w": {"cpu": "100m"}}})
    small.turn(5)
    assert list(small.cluster.following._roster.values()) == [("team/j", "w", 0, 0)]
    small.api.inbox.put(Deleted(TrainingJob, small.api._job(uid)))
    small.turn(5)
    assert (small.cluster.following._roster, small.cluster.gangs, small.api.pods) == ({}, {}, {})


def test_a_job_that_is_over_is_removed_when_its_time_has_come_and_asked_for_again_later():
    intake = AnIntake()
    spec = {"roles": {"w": {"cpu": "500m"}}, "ttlSecondsAfterFinished": 100}
    intake.hear(changed(an_object(spec=spec, intent=Intent(state=State.FINISHED, since=10.0))))
    expiry = intake.table.expiry
    assert expiry.next() == 110.0
    for now, due in ((109.0, []), (110.0, ["j"]), (111.0, []), (140.0, ["j"])):
        assert [meta.name for meta in expiry.due(now)] == due, now
    intake.hear(Deleted(TrainingJob, an_object(spec=spec)))
    assert expiry.next() == math.inf


class NoScan(dict):
    """Whoever goes through all of it has made one message cost as much as there are jobs."""

    def _scanned(self, *_: object) -> Any:
        raise AssertionError("a scan")

    __iter__ = items = values = keys = _scanned


def test_no_message_costs_a_scan_over_jobs_that_wait_or_are_over():
    intake = AnIntake()
    intake.hear(changed(an_object()))
    intake.hear(changed(an_object(uid="u2")))
    table = intake.table
    table.entries = table._others.entries = NoScan(table.entries)
    table.expiry.at = NoScan(table.expiry.at)
    spec = {"roles": {"w": {"cpu": "500m"}}, "ttlSecondsAfterFinished": 100}
    for number in range(3):
        over = an_object(f"over{number}", uid=f"o{number}", spec=spec, intent=Intent(state=State.FINISHED, since=10.0))
        intake.hear(changed(over))
    assert table.expiry.next() == 110.0
    assert len(list(table.expiry.due(120.0))) == 3
    intake.forget("u")
    assert intake.some() == ["team/j"]
