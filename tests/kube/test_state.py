"""What the next leader goes on with: the files beside a run's log, mirrored in a Secret."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
from functools import partial

import pytest
from aiohttp import web
from fake_api_server import serving, status
from small_cluster import BEGAN, MemoryApi, SmallCluster

from headway.beliefs.file import NO_BELIEFS
from headway.cli.wiring import keep_beliefs
from headway.core.job import JobId
from headway.kube import state as state_module
from headway.kube.api.errors import Denied, KubeError
from headway.kube.api.patience import patiently
from headway.kube.state import ClusterState, _part
from headway.kube.writes.write import KeepState
from headway.progress_server import Reported


def parts_of(body: dict) -> dict[str, bytes]:
    return {name: _part(told) for name, told in body["data"].items()}


def a_state(folder, **more) -> ClusterState:
    return ClusterState("headway-system", folder / "run.log", **more)


def test_files_beside_the_log_come_to_the_next_leader(tmp_path):
    first = a_state(tmp_path / "one", began=1234.5)
    first.log.parent.mkdir()
    assert parts_of(first.changed(now=True)) == {"began": b"1234.5"}
    (tmp_path / "one/run.log.beliefs").write_bytes(b"what was learned" * 1000)
    (tmp_path / "one/run.log.guard").write_bytes(b'{"mode": "on"}')
    body = first.changed(now=True)
    assert len(json.dumps(body)) < 1000, "compressed"
    assert first.changed(now=True) is None, "nothing has changed"
    (tmp_path / "two").mkdir()
    second = a_state(tmp_path / "two")
    second.unpack(parts_of(body))
    assert (second.began, second.taken_over) == (1234.5, True)
    assert (tmp_path / "two/run.log.beliefs").read_bytes() == b"what was learned" * 1000
    assert (tmp_path / "two/run.log.beliefs").stat().st_mode & 0o777 == 0o600
    assert second.changed(now=True) is None, "the Secret has it already"
    (tmp_path / "two/run.log.speeds").write_bytes(b"new")
    assert set(parts_of(second.changed(now=True))) == {"began", "beliefs", "guard", "speeds"}


def test_schedulers_of_two_namespaces_have_keys_of_their_own(tmp_path):
    one, other = a_state(tmp_path, instance="team-a", began=1.0), a_state(tmp_path, instance="team-b", began=2.0)
    assert set(one.changed(now=True)["data"]).isdisjoint(other.changed(now=True)["data"])


@pytest.mark.parametrize("told", ["!!!", "AAAA", None, 7, ""])
def test_what_cannot_be_read_is_learned_anew(tmp_path, told):
    state = a_state(tmp_path)
    state.unpack({name: _part(told) for name in ("began", "beliefs", "speeds", "guard")})
    assert not state.taken_over
    assert not list(tmp_path.iterdir())


def test_what_has_no_room_is_left_out_and_told(tmp_path, caplog):
    state = a_state(tmp_path, began=1.0)
    (tmp_path / "run.log.guard").write_bytes(b"{}")
    (tmp_path / "run.log.speeds").write_bytes(os.urandom(state_module.MOST_BYTES + 1000))
    assert set(state.changed(now=True)["data"]) == {"began", "guard"}
    assert "has no room for speeds" in caplog.text


def test_only_the_newest_is_sent(tmp_path):
    small, state = SmallCluster(), a_state(tmp_path, began=1.0)
    small.cluster.keep(state)
    small.turn(2)
    (write,) = [one for one in small.api.sent if isinstance(one.what, KeepState)]
    assert (write.namespace, write.name) == ("headway-system", "headway-state")
    assert small.cluster.outbox.is_idle
    small.cluster.keep(state)
    small.turn()
    assert sum(isinstance(one.what, KeepState) for one in small.api.sent) == 1, "it is not written again unchanged"


def read_from(tmp_path, *answers) -> ClusterState:
    """A state that was read from a server which answers so, one after the other."""
    left = list(answers)

    async def main() -> ClusterState:
        async def answer(_request):
            return left.pop(0) if left else web.json_response({"data": {"began": base64.b64encode(b"77.0").decode()}})

        async with serving(answer) as client:
            state = a_state(tmp_path)
            await state.read(client._access)
            return state

    return asyncio.run(main())


def test_a_server_that_is_away_for_a_moment_wipes_nothing(tmp_path):
    state = read_from(tmp_path, status(503), status(429))
    assert (state.began, state.taken_over) == (77.0, True)


def test_what_may_not_be_read_is_not_written_over(tmp_path, caplog):
    state = read_from(tmp_path, status(403))
    state.began = 1.0
    (tmp_path / "run.log.beliefs").write_bytes(b"new")
    assert state.changed(now=True) is None
    assert "neither taken over nor kept" in caplog.text
    assert read_from(tmp_path, status(404)).changed(now=True) is not None, "there is none"


def test_a_server_that_stays_away_ends_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr("headway.kube.state.patiently", partial(patiently, seconds=0.0))
    with pytest.raises(KubeError, match="cannot be reached within 0 seconds"):
        read_from(tmp_path, *(status(503) for _ in range(9)))


def test_what_is_refused_is_told_and_written_again(tmp_path, caplog, monkeypatch):
    small, state = SmallCluster(), a_state(tmp_path, began=1.0)
    take = small.api.take

    def refuses(write):
        if isinstance(write.what, KeepState):
            raise Denied(403, "no room")
        return take(write)

    small.api.take = refuses
    small.cluster.keep(state)
    small.turn(2)
    assert "Secret headway-system/headway-state cannot be written, trying again: no room" in caplog.text
    small.api.take = take
    small.cluster.keep(state)
    small.turn()
    assert sum(isinstance(one.what, KeepState) for one in small.api.sent) == 1, "not at once"
    monkeypatch.setattr(state, "_look_at", -math.inf)
    small.cluster.keep(state)
    small.turn()
    assert sum(isinstance(one.what, KeepState) for one in small.api.sent) == 2


class Leader(SmallCluster):
    """A scheduler with an empty disk: what it has learned is in the Secret that the last one wrote."""

    def __init__(self, folder, api=None) -> None:
        folder.mkdir()
        self.state = a_state(folder, began=BEGAN)
        super().__init__(api)
        kept = [one.body for one in self.api.sent if isinstance(one.what, KeepState)]
        if kept:
            self.state.unpack(parts_of(kept[-1]))
        self.book = keep_beliefs("progress", NO_BELIEFS, self.state.log, same_clock=self.state.taken_over)

    def later(self, seconds: float) -> None:
        self.clock.ahead += seconds
        self.turn(3)
        self.state._look_at = -math.inf
        self.cluster.keep(self.state)
        self.turn()

    def seconds_left(self, job: str, now: float) -> float:
        shown = self.book.annotate(self.cluster.snapshot(now))
        return shown.estimates.of(shown.jobs.row_of[JobId(job)], now).left


def test_the_estimate_of_a_job_that_waits_outlives_a_leader_that_is_killed(tmp_path, monkeypatch):
    """Its disk is gone with it, and it wrote nothing at its end."""
    monkeypatch.setattr("headway.beliefs.kept_book.EVERY", 0.0)
    first = Leader(tmp_path / "one")
    small = {"worker": {"cpu": "6"}}
    for number in range(6):
        job = f"taught-{number}"
        first.api.submit(job, {"roles": small, "model": "bert", "steps": 100})
        first.turn(6)
        for step in (25, 50, 75, 100):
            first.reports.events.append(Reported(JobId(f"team/{job}"), "worker", 0, 0, step, None, 100))
            first.later(100.0 + number)
        (pod,) = first.api.pods_of(job)
        pod["status"] = {"phase": "Succeeded", "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 0}}}
        ]}  # fmt: skip
        first.api.tell(pod)
        first.later(1.0)
    for job in ("runs", "too", "waits"):
        first.api.submit(job, {"roles": small, "model": "bert", "steps": 100})
    first.turn(6)
    for step in range(1, 6):
        first.reports.events.append(Reported(JobId("team/runs"), "worker", 0, 0, 10 * step, None, 100))
        first.later(20.0)
    now = first.cluster.now()
    before = {job: first.seconds_left(job, now) for job in ("team/waits", "team/runs")}
    learned_anew = Leader(tmp_path / "anew", MemoryApi())
    learned_anew.api.submit("waits", {"roles": small, "model": "bert", "steps": 100})
    second = Leader(tmp_path / "two", first.api)
    for one in (second, learned_anew):
        one.clock.ahead = first.clock.ahead
        one.turn(6)
    after = {job: second.seconds_left(job, now) for job in before}
    assert after == pytest.approx(before, rel=1e-6)
    assert learned_anew.seconds_left("team/waits", now) != pytest.approx(before["team/waits"], rel=0.01, nan_ok=True)
