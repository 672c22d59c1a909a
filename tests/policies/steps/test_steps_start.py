"""Starting jobs in order: what fits, what blocks, what waits."""

from __future__ import annotations

import pytest

from headway.core.draft import Draft
from headway.core.job import Can, Role
from headway.policies.placing.pack import place
from headway.policies.placing.room import empty
from headway.policies.steps.start import fits_empty, may_fit, start_in_order
from make import a_job, a_role, a_snapshot, running, some_nodes, started


def test_counting_leaves_out_shapes_without_room() -> None:
    waiting = [a_job(f"a{number}", 2) for number in range(40)]
    snapshot = a_snapshot(running(a_job("up", 3), [0] * 3), *waiting, a_job("b", 1), nodes=some_nodes(1, gpus=4))
    rows = may_fit(Draft(snapshot), snapshot.jobs.waiting())
    assert [snapshot.jobs.job(int(row)).id for row in rows] == ["b"]


FREE = [
    ("in order, as far as it fits", [1, 1, 1], 2, False, ["a", "b"]),
    ("a job that does not fit is passed", [1, 4, 1], 2, False, ["a", "c"]),
    ("or blocks those behind it", [1, 4, 1], 2, True, ["a"]),
    ("unless the empty cluster does not hold it either", [1, 9, 1], 2, True, ["a", "c"]),
    ("a full cluster", [1, 1], 0, True, []),
]


@pytest.mark.parametrize(("why", "widths", "free", "head_blocks", "starts"), FREE)
def test_starting_in_order(why, widths, free, head_blocks, starts):
    jobs = [a_job(name, gpus) for name, gpus in zip("abc", widths, strict=False)]
    held = [running(a_job("held", 4 - free), [0] * (4 - free))] if free < 4 else []
    snapshot = a_snapshot(*held, *jobs, nodes=some_nodes(1, gpus=4))
    draft = Draft(snapshot)
    left = start_in_order(draft, snapshot.jobs.waiting(), head_blocks=head_blocks)
    assert started(draft.plan()) == starts, why
    assert sorted([*starts, *(snapshot.jobs.job(int(row)).id for row in left)]) == [job.id for job in jobs]


EMPTY = [
    ("one role", a_job("a", 4), True),
    ("one role, too wide", a_job("a", 5), False),
    ("elastic: its min counts", a_job("a", 5, min=2, max=8), True),
    ("elastic, but it keeps its size", a_job("a", 5, min=2, max=8, can=Can.STOP), False),
    ("two roles", a_job("a", roles=[a_role("ps", 1), a_role("worker", 3)]), True),
    ("two roles that fit only alone", a_job("a", roles=[a_role("ps", 2), a_role("worker", 3)]), False),
    ("a kind that no node has", a_job("a", roles=[a_role(cpu=1)]), False),
    ("a label that no node has", a_job("a", roles=[a_role(selector=(("disk", "ssd"),))]), False),
    ("asks for nothing", a_job("a", roles=[Role(name="worker", replicas=9, min=9, max=9)]), True),
]


@pytest.mark.parametrize(("why", "job", "fits"), EMPTY)
def test_whether_waiting_can_help_at_all(why, job, fits):
    snapshot = a_snapshot(job, running(a_job("held", 4), [0, 0, 1, 1]), nodes=some_nodes(2, gpus=2))
    assert fits_empty(snapshot, 0) is fits, why
    assert fits is (place(snapshot, empty(snapshot.nodes), snapshot.jobs.shape_at(0), _least(snapshot)) is not None)


def _least(snapshot):
    shape = snapshot.jobs.shape_at(0)
    return shape.min if int(snapshot.jobs.can[0]) & Can.SIZE else shape.counts
