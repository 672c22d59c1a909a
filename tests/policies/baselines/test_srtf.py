"""Preempting policies: who is stopped for whom, and that nobody takes turns."""

from __future__ import annotations

import math

import pytest

from headway.core.job import Can
from headway.core.placement import Placement
from headway.core.plan import Because, Plan, Start, Stop
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.baselines.las import Las
from headway.policies.registry import POLICIES
from make import a_job, a_role, a_snapshot, decided, flying, running, some_nodes


def full(new_left: float, *, old_left: float = 100, **job: object) -> Snapshot:
    """One node, four GPUs, all held by `old`; `new` wants two."""
    return a_snapshot(
        running(a_job("old", 4, **job), [0] * 4, since=0.0), a_job("new", 2),
        nodes=some_nodes(1, gpus=4), now=10.0, left={"old": old_left, "new": new_left},
    )  # fmt: skip


CASES = [
    ("shorter stops longer", full(50), {"old": "stop"}),
    ("a tie stops nobody", full(100), {}),
    ("longer waits", full(101), {}),
    ("who may not be stopped is not", full(50, can=Can.NOTHING), {}),
    ("who cannot save is not", full(50, checkpoints=False), {}),
    ("an unknown length stops nobody", full(math.nan), {}),
    ("a known one stops an unknown one", full(50, old_left=math.nan), {"old": "stop"}),
]


@pytest.mark.parametrize(("why", "snapshot", "plan"), CASES)
def test_who_is_stopped(why: str, snapshot: Snapshot, plan: dict[str, str]) -> None:
    assert decided(POLICIES["srtf"]()(snapshot)) == plan, why


def test_srsf_weighs_by_width() -> None:
    """old has 100 x 4 left, new 150 x 2."""
    assert decided(POLICIES["srtf"]()(full(150))) == {}
    assert decided(POLICIES["srsf"]()(full(150))) == {"old": "stop"}


def test_golden_plan_starts_what_fits_and_stops_the_fewest() -> None:
    snapshot = a_snapshot(
        running(a_job("long", 2), [0, 0]), running(a_job("longest", 1), [1]), a_job("wide", 2), a_job("one", 1),
        nodes=some_nodes(2, gpus=2), now=5.0, left={"long": 90, "longest": 99, "wide": 50, "one": 10},
    )  # fmt: skip
    # one (1) and wide (2) run: of four GPUs one is left, which longest keeps and which long does not fit into
    assert POLICIES["srtf"]()(snapshot) == Plan((Stop("long", Because.PREEMPTED), Start("one", Placement(((1,),)))))


def test_what_is_coming_is_counted_and_nobody_else_is_stopped() -> None:
    snapshot = a_snapshot(
        flying(a_job("going", 2), State.STOPPING, at=Placement(((0, 0),))), running(a_job("stays", 2), [0, 0]),
        a_job("new", 2), nodes=some_nodes(1, gpus=4), now=10.0, left={"going": 500, "stays": 400, "new": 5},
    )  # fmt: skip
    assert decided(POLICIES["srtf"]()(snapshot)) == {}


def test_different_jobs_make_room_one_by_one_worst_first() -> None:
    """Only the job on the GPU nodes helps: the longer one on the other kind of node is left alone."""
    small = a_role("worker", 1, cpu=4)
    snapshot = a_snapshot(
        running(a_job("gpu", 4), [0] * 4), running(a_job("cpu", roles=[small]), [0]), a_job("new", 2),
        nodes=some_nodes(1, gpus=4, cpu=8), now=10.0, left={"gpu": 100, "cpu": 1000, "new": 20},
    )  # fmt: skip
    assert decided(POLICIES["srtf"]()(snapshot)) == {"gpu": "stop"}


def test_las_falls_at_the_threshold_and_asks_to_be_called_then() -> None:
    """Four GPUs since 0: at 10 it has had 40 replica-seconds."""
    policy = Las(threshold=100.0)
    young = full(1)
    assert policy(young) == Plan((), until=25.0)
    old = a_snapshot(
        running(a_job("old", 4), [0] * 4, since=0.0), a_job("new", 2), nodes=some_nodes(1, gpus=4), now=25.0
    )
    assert decided(policy(old)) == {"old": "stop"}


def test_las_does_not_wake_for_nobody() -> None:
    alone = a_snapshot(running(a_job("old", 4), [0] * 4, since=0.0), nodes=some_nodes(1, gpus=4), now=10.0)
    assert Las(threshold=100.0)(alone) == Plan()


EDF = [("earlier deadline", 50.0, {"old": "stop"}), ("later deadline", 200.0, {}), ("none", None, {})]


@pytest.mark.parametrize(("why", "deadline", "plan"), EDF)
def test_edf(why: str, deadline: float | None, plan: dict[str, str]) -> None:
    snapshot = a_snapshot(
        running(a_job("old", 4, deadline=100.0), [0] * 4), a_job("new", 2, deadline=deadline),
        nodes=some_nodes(1, gpus=4), now=10.0,
    )  # fmt: skip
    assert decided(POLICIES["edf"]()(snapshot)) == plan, why
