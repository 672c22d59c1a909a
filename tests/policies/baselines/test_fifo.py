"""fifo, first-fit and sjf: who starts, and where."""

from __future__ import annotations

import pytest

from headway.core.board import Board
from headway.core.placement import Placement
from headway.core.plan import Plan, Start
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.registry import POLICIES
from make import a_job, a_role, a_snapshot, running, some_nodes, started

CASES = [
    ("fifo", "the head blocks", ["a"]),
    ("first-fit", "whatever fits passes", ["a", "c", "d"]),
    ("sjf", "the shortest that fit; b is too wide", ["d", "c", "a"]),
    ("backfill", "all that are done before the head can start", ["a", "c", "d"]),
]


def crowded() -> Snapshot:
    """Two nodes of two GPUs; one GPU is held for 50 seconds. `b` fits only when that job ends."""
    return a_snapshot(
        running(a_job("up", 1), [0]),
        a_job("a", 1), a_job("b", 4), a_job("c", 1), a_job("d", 1),
        nodes=some_nodes(2, gpus=2), left={"up": 50, "a": 40, "b": 10, "c": 35, "d": 30},
    )  # fmt: skip


@pytest.mark.parametrize(("name", "why", "jobs"), CASES)
def test_who_starts(name: str, why: str, jobs: list[str]) -> None:
    assert started(POLICIES[name]()(crowded())) == jobs, why


def test_backfill_lets_nobody_delay_the_head() -> None:
    snapshot = a_snapshot(
        running(a_job("up", 3), [0, 0, 1]), a_job("head", 4), a_job("long", 1), a_job("short", 1),
        nodes=some_nodes(2, gpus=2), left={"up": 50, "head": 10, "long": 60, "short": 40},
    )  # fmt: skip
    plan = POLICIES["backfill"]()(snapshot)
    assert started(plan) == ["short"]
    assert [type(decision).__name__ for decision in plan.decisions] == ["Reserve", "Start"]
    assert plan.until == 50


def test_a_job_larger_than_the_cluster_blocks_nobody() -> None:
    snapshot = a_snapshot(a_job("huge", 9), a_job("small", 1), nodes=some_nodes(2, gpus=4))
    assert started(POLICIES["fifo"]()(snapshot)) == ["small"]


def test_an_unknown_length_comes_last() -> None:
    snapshot = a_snapshot(a_job("unknown", 1), a_job("known", 1), nodes=some_nodes(1, gpus=1), left={"known": 9e6})
    assert started(POLICIES["sjf"]()(snapshot)) == ["known"]


def test_golden_plan_of_an_elastic_job_with_servers() -> None:
    """Asked for eight workers, six fit beside the server: it starts smaller, all on one node."""
    job = a_job("e", roles=[a_role("ps", 1, cpu=2), a_role("worker", 8, min=2, gpu=1, cpu=1, near=("ps",))])
    snapshot = a_snapshot(job, nodes=some_nodes(1, gpus=6, cpu=16))
    plan = POLICIES["first-fit"]()(snapshot)
    assert plan == Plan((Start(job.id, Placement(((0,), (0,) * 6))),))


def test_a_head_that_was_blocked_starts_as_soon_as_there_is_room_for_it() -> None:
    """What was found in one snapshot is remembered with it, and only there."""
    nodes, wide, narrow = some_nodes(1, gpus=4), a_job("wide", 3), a_job("narrow", 1)
    board = Board(nodes)
    board.restore(board.add(a_job("old", 2), 0.0), State.RUNNING, Placement(((0, 0),)), None)
    board.add(wide, 0.0)
    fifo = POLICIES["fifo"]()
    assert started(fifo(board.snapshot(1.0))) == []
    board.add(narrow, 2.0)
    assert started(fifo(board.snapshot(2.0))) == [], "narrow waits behind wide, as before"
    assert started(POLICIES["first-fit"]()(board.snapshot(2.0))) == ["narrow"]
    board.settle(0, State.FINISHED, None, 3.0)
    assert started(fifo(board.snapshot(3.0))) == ["wide", "narrow"]
