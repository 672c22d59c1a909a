"""The short jobs of the migration experiment: arrivals as published, and bounds that hold and are reached."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.core.job import JobId
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.quantity import CPU
from headway.experiment.case import Cell, RunSize
from headway.experiment.migration import MIGRATION
from headway.experiment.perform import measure
from headway.experiment.short_jobs import FIRST, MIXES, OWN, best_possible, even_sharing, parallel, queued, short_jobs
from headway.sim.speed import SharingEffect, Speed

NODE_SECOND = 8.0 * 10.0
"""Of work, in seconds at the tenth of a core that a job asks for: what a node of 8 cores does in a second."""


def _case(*jobs):
    """Submission and seconds alone on a node."""
    case = short_jobs(Cell(OWN, ""), 1, len(jobs))
    named = tuple(replace(job, submit=at) for job, (at, _) in zip(case.trace.jobs, jobs, strict=True))
    truth = {JobId(job.id): seconds * NODE_SECOND for job, (_, seconds) in zip(named, jobs, strict=True)}
    return replace(case, trace=replace(case.trace, jobs=named, truth=truth))


def test_the_first_arrivals_are_the_published_ones_and_later_gaps_are_like_them():
    case = short_jobs(Cell(OWN, ""), 3, 50)
    submits = [job.submit for job in case.trace.jobs]
    assert tuple(submits[:7]) == FIRST
    assert set(np.diff(submits[7:])) <= set(np.diff(FIRST))
    assert all(job.seconds is None for job in case.trace.jobs), "nobody declares a time"


@pytest.mark.parametrize("mix", MIXES)
def test_the_load_is_what_the_cell_says(mix):
    case = short_jobs(Cell("load 0.9", mix), 1, 4000)
    last = case.trace.jobs[-1].submit
    fastest = 3.0 if mix == "narrow" else 8.0
    speed = Speed(parallel_cpu=parallel(case.trace.name))
    alone = speed(case.trace.jobs[0], Placement(((0,),)), Nodes.of(case.nodes), SharingEffect(cpu=(1000.0 * fastest,)))
    seconds = sum(case.trace.work(job) or 0.0 for job in case.trace.jobs) / alone
    assert seconds * fastest / last / 32.0 == pytest.approx(0.9, rel=0.06)
    assert {dict(job.roles[0].limit)[CPU] for job in case.trace.jobs} == {3000 if mix == "narrow" else 8000}


def test_even_sharing_and_the_bound_of_a_worked_example():
    """Eight jobs of 100 s on four nodes: shared evenly all are done after 200 s; alone, none before 100 s."""
    case = _case(*[(0.0, 100.0)] * 8)
    assert even_sharing(case) == (pytest.approx(200.0), pytest.approx(200.0))
    assert queued(case) == pytest.approx((4 * 105.0 + 4 * 210.0) / 8)
    best = best_possible(case)
    assert best.makespan == pytest.approx(200.0)
    assert 100.0 <= best.completion <= 150.0
    assert even_sharing(_case((0.0, 100.0), (50.0, 100.0)))[0] == pytest.approx(100.0)


def test_nobody_beats_the_bound_and_moves_are_counted():
    found = measure(MIGRATION, MIGRATION.cells[0], 7, RunSize(16, (7,)))
    for figures in found.figures.values():
        assert figures["jct"] >= found.bound["jct"] - 1e-6
        assert figures["makespan"] >= found.bound["makespan"] - 1e-6
        assert figures["bound"] <= 1.0
    assert found.figures["no migration"]["saved"] == 0.0
    assert found.figures["no migration"]["moves"] == 0.0
    assert found.figures["migration"]["moves"] > 0
    assert all(target.measure(found.figures) is not None for target in MIGRATION.targets)
    other = measure(MIGRATION, MIGRATION.cells[1], 7, RunSize(8, (7,)))
    assert [target.measure(other.figures) is None for target in MIGRATION.targets[:3]] == [True] * 3
