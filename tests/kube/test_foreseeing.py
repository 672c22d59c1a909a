"""While jobs of a cluster wait, the scheduler looks ahead and tells when they start and end, also when all is idle."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import ClassVar

import pytest
from small_cluster import SmallCluster

from headway.cli.cluster import foreseeing, schedule
from headway.cli.cluster.followed_settings import FollowedPolicy
from headway.cli.cluster.foreseeing import Foreseeing
from headway.cli.screen import clock_times
from headway.cli.wiring import make_book, make_policy
from headway.forecast.times import Eta, Forecast, Range
from headway.kube.inbox import Wake
from headway.kube.state import ClusterState
from headway.record.lines import Head
from headway.record.log import LogWriter

ONE_NODE = {"roles": {"main": {"replicas": 2, "cpu": 5}}, "seconds": 600}
NEVER = 3600.0


@pytest.fixture
def served(monkeypatch, tmp_path) -> Callable[..., int]:
    """Runs the real loop until this holds, or for so long; returns how many cycles that took."""

    def serve(small: SmallCluster, until: Callable[[], bool] = lambda: False, seconds: float = 20.0) -> int:
        cluster = small.cluster
        cycles, turn, show = [0], cluster.turn, cluster.show

        def watched() -> None:
            turn()
            if until():
                cluster.stop()

        def counted(snapshot) -> None:
            cycles[0] += 1
            show(snapshot)

        monkeypatch.setattr(schedule.signal, "signal", lambda *_: None)
        monkeypatch.setattr(small.api, "wake", lambda: small.api.inbox.put(Wake()))
        monkeypatch.setattr(cluster, "turn", watched)
        monkeypatch.setattr(cluster, "show", counted)
        monkeypatch.setattr(clock_times, "FIRST_LOOK", 0.3)
        end = threading.Timer(seconds, cluster.stop)
        end.start()
        writer, state = LogWriter(tmp_path / "run.log", Head("kube", "fifo", "declared")), ClusterState("s", tmp_path)
        policy = make_policy("fifo")
        schedule._serve(cluster, policy, ("fifo", []), make_book("declared"), writer, None, state)
        end.cancel()
        return cycles[0]

    return serve


def test_a_job_that_waits_in_an_idle_cluster_is_told_when_it_starts_and_ends(served, tmp_path):
    small = SmallCluster()
    uids = [small.api.submit(name, ONE_NODE) for name in ("first", "second", "third")]

    def told() -> bool:
        return bool((small.api.status(uids[-1]).get("progress") or {}).get("starts"))

    served(small, told)
    second, third = (small.api.status(uid)["progress"] for uid in uids[1:])
    assert told()
    assert second["starts"][:16] < third["starts"][:16] < third["done"][:16], "one after the other"
    assert third["eta"][:16].replace("T", " ") == third["done"][:16]
    assert "starts" not in small.api.status(uids[0])["progress"], "it runs"
    assert third["done"][:16] not in (tmp_path / "run.log").read_text(), "the log has no forecast"


def test_where_no_job_waits_no_cycle_is_asked_for(served):
    small = SmallCluster()
    uid = small.api.submit("only", ONE_NODE)
    cycles = served(small, seconds=1.5)
    assert small.phase(uid) == "Running"
    assert cycles <= 5
    assert small.cluster._wake == math.inf


def test_where_one_waits_an_idle_cluster_decides_again_when_it_was_foreseen_and_then_once_a_minute(served):
    small = SmallCluster()
    for name in ("first", "second"):
        small.api.submit(name, ONE_NODE)
    cycles = served(small, seconds=3.0)
    assert cycles <= 9
    assert 40.0 < small.cluster._wake - small.cluster.now() <= foreseeing.EVERY


class Looks:
    """In place of `LooksAhead`."""

    made: ClassVar[list[Looks]] = []

    def __init__(self, make, *_more) -> None:
        self.policy, self.looked, self.due_in, self.newest = make, 0, 0.0, None
        Looks.made.append(self)

    def look(self, _snapshot) -> None:
        self.looked += 1


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(foreseeing, "LooksAhead", Looks)
    Looks.made = []


@pytest.fixture
def looks(stand_in):
    small = SmallCluster()
    small.api.submit("huge", {"roles": {"main": {"replicas": 1, "cpu": 900}}})
    small.turn(3)
    return small


def _looked(small, seeing, *, after: float = 0.0) -> tuple[int, float]:
    """How often it has looked, and when it wants to again, after a cycle in which nothing changes."""
    small.clock.ahead += after
    cluster = small.cluster
    cluster.turn()
    seeing.look(cluster.snapshot(cluster.now()))
    return Looks.made[-1].looked, round(cluster._look_at - cluster.now())


def test_it_looks_after_a_change_and_else_once_a_minute(looks):
    seeing = Foreseeing(looks.cluster, "fifo", make_policy("fifo"), [])
    assert _looked(looks, seeing) == (1, 60)
    assert _looked(looks, seeing, after=20.0) == (1, 40)
    looks.api.submit("more", {"roles": {"main": {"replicas": 1, "cpu": 900}}})
    Looks.made[-1].due_in = 3.0
    for _ in range(3):
        found = _looked(looks, seeing)
    assert found == (1, 3), "it has just looked"
    Looks.made[-1].due_in = 0.0
    assert _looked(looks, seeing, after=3.0) == (2, 60)
    assert _looked(looks, seeing, after=61.0)[0] == 3


def test_what_cannot_be_foreseen_is_told_and_stops_nothing(looks, monkeypatch, caplog):
    monkeypatch.setattr(Looks, "look", lambda _self, _snapshot: 1 / 0)
    seeing = Foreseeing(looks.cluster, "fifo", make_policy("fifo"), [])
    assert _looked(looks, seeing) == (0, 60)
    assert caplog.text.count("is not foreseen: ZeroDivisionError") == 1


def test_too_many_jobs_are_not_foreseen(looks, monkeypatch):
    monkeypatch.setattr(foreseeing, "MOST_FORESEEN", 0)
    seeing = Foreseeing(looks.cluster, "fifo", make_policy("fifo"), [])
    seeing.look(looks.cluster.snapshot(looks.cluster.now()))
    assert (Looks.made[-1].looked, looks.cluster._look_at) == (0, math.inf)


def test_what_was_foreseen_long_ago_is_not_told_any_more(looks):
    seeing, cluster = Foreseeing(looks.cluster, "fifo", make_policy("fifo"), []), looks.cluster
    now = cluster.now()
    eta = Eta(Range(now, now, now), Range(now, now + 60.0, now + 90.0))
    Looks.made[-1].newest = clock_times.ClockTimes(Forecast(now, {"huge": eta}, draws=40), 0.0)
    _looked(looks, seeing)
    assert cluster.following.foreseen == {"huge": eta}
    Looks.made[-1].newest = None
    _looked(looks, seeing, after=foreseeing.OLD_SECONDS - 5.0)
    assert cluster.following.foreseen
    _looked(looks, seeing, after=10.0)
    assert not cluster.following.foreseen


def test_the_last_job_that_waited_is_told_what_was_foreseen_while_it_starts(stand_in, monkeypatch):
    small = SmallCluster()
    monkeypatch.setattr(small.api, "bind_pod", lambda pod, node: pod["spec"].update(nodeName=node))
    uid = small.api.submit("only", ONE_NODE)
    seeing, now = Foreseeing(small.cluster, "fifo", make_policy("fifo"), []), small.cluster.now()
    eta = Eta(Range(now, now, now), Range(now, now + 600.0, now + 900.0))
    Looks.made[-1].newest = clock_times.ClockTimes(Forecast(now, {"team/only": eta}, draws=40), 0.0)
    while not small.cluster.following.waiting:
        small.cluster.turn()
    for _ in range(5):
        seeing.look(small.cluster.snapshot(small.cluster.now()))
        small.turn()
        small.clock.ahead += 5.0
    assert not small.cluster.following.waiting
    assert (small.phase(uid), "starts" in small.api.status(uid)["progress"]) == ("Starting", True)
    assert (Looks.made[-1].looked, small.cluster._look_at) == (1, math.inf)


def test_of_few_futures_no_range_is_told_and_nothing_of_a_job_that_may_never_end(looks):
    seeing, now = Foreseeing(looks.cluster, "fifo", make_policy("fifo"), []), looks.cluster.now()
    eta, never = Eta(None, Range(now, now + 60.0, math.inf)), Eta(None, Range(now, math.inf, math.inf))
    Looks.made[-1].newest = clock_times.ClockTimes(Forecast(now, {"huge": eta, "never": never}, draws=2), 0.0)
    _looked(looks, seeing)
    assert looks.cluster.following.foreseen == {"huge": (None, (now + 60.0,) * 3)}


def test_changed_settings_count_for_what_is_foreseen(looks, tmp_path):
    users = tmp_path / "users.yaml"
    users.write_text("ana: 2\n")
    policy = FollowedPolicy("combined-priority", [f"user_priority={users}"], clock=lambda: time.monotonic() + NEVER)
    seeing = Foreseeing(looks.cluster, "combined-priority", policy, policy.settings)
    _looked(looks, seeing)
    users.write_text("ana: 4\n")
    policy._look_at = 0.0
    policy.look()
    assert _looked(looks, seeing) == (1, 60), "another one looks, at once"
    assert len(Looks.made) == 2
    assert Looks.made[-1].policy.args == ("combined-priority", ["user_priority=ana=4"])
