"""migration in whole runs: no job goes to and fro, and reports that are garbage win nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.estimates import BASES, Basis, Growth
from headway.core.node import Nodes
from headway.core.plan import Move
from headway.core.states import State
from headway.cycle.loop import decide
from headway.estimates.progress import ProgressBook
from headway.experiment.case import Cell
from headway.experiment.short_jobs import short_jobs
from headway.policies.baselines.spread import spread
from headway.policies.migration import Migration
from headway.sim.cluster import Reports, SimCluster

COUNT = 16
CELL = Cell("load 1.2", "mixed")


class Run:
    """A run in virtual time, every report passed through `garble` first."""

    def __init__(self, policy, garble=lambda sample: sample, *, seed=1, noise=0.01, cell=CELL, count=COUNT):
        case = short_jobs(cell, seed, count)
        world = replace(case.world(case.trace, seed), reports=Reports(seconds=10.0, noise=noise))
        cluster = SimCluster(Nodes.of(case.nodes), case.trace.jobs, world)
        self.ends, self.path, self.kinds, self.told = {}, defaultdict(list), defaultdict(set), set()
        book = ProgressBook()
        while (snapshot := cluster.next_snapshot()) is not None:
            samples = tuple(one for sample in snapshot.samples if (one := garble(sample)) is not None)
            snapshot = replace(snapshot, samples=samples)
            book = book.fold(snapshot)
            decided = decide(policy, book.annotate(snapshot))
            assert decided.refusals == ()
            self._note(decided, book)
            cluster.apply(decided.plan)
        assert len(self.ends) == count

    def _note(self, decided, book):
        snapshot = decided.snapshot
        growth, _ = snapshot.estimates.growth()
        for row, placement in snapshot.placements.items():
            job = snapshot.jobs.job(row).id
            self.kinds[job].add(Growth(int(growth[row])))
            self.told.add(book.annotate(snapshot).estimates.of(row, snapshot.now).sentence.partition(" (")[0])
            if not self.path[job]:
                self.path[job].append(placement.nodes[0][0])
        for decision in decided.plan.decisions:
            if isinstance(decision, Move):
                self.path[decision.job].append(decision.placement.nodes[0][0])
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                self.ends[snapshot.jobs.job(row).id] = snapshot.now

    def moved(self):
        return {job for job, path in self.path.items() if len(path) > 1}


def test_growth_is_known_end_to_end():
    """Losses from the simulator, through the book, to classes that a policy sees; and jobs move by them."""
    run = Run(Migration())
    everybody = set.union(*run.kinds.values())
    assert {Growth.PROGRESSING, Growth.WATCHING, Growth.CONVERGING} <= everybody
    assert run.moved()
    without = Run(spread)
    assert np.mean(list(run.ends.values())) < np.mean(list(without.ends.values()))


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 10_000), noise=st.sampled_from([0.0, 0.05, 0.5]), load=st.sampled_from(["0.9", "2.0"]),
    crowd=st.sampled_from([1.0, 2.0, 1e9]),
)  # fmt: skip
def test_no_job_goes_to_and_fro(seed, noise, load, crowd):
    run = Run(Migration(crowd=crowd), seed=seed, noise=noise, cell=Cell(f"load {load}", "heavy-tailed"))
    for path in run.path.values():
        assert len(path) <= 1 + Migration().max_moves
        assert len(set(path)) == len(path), "it came back to a node that it had left"


def _backwards(sample):
    return replace(sample, step=max(0, 990 - sample.step))


def _clock_jumps(sample):
    return replace(sample, at=sample.at + 1e6) if sample.step > 5 else sample


def _nearly_done(sample):
    """Claims to be a step from the end, for ever."""
    return replace(sample, total_steps=sample.step + 1)


def _jumping(sample):
    return replace(sample, step=sample.step + int(sample.at * 7919) % 100_000)


@pytest.mark.parametrize(
    ("garble", "bases"),
    [
        (_backwards, {Basis.BACKWARDS}),
        (_clock_jumps, {Basis.CLOCK}),
        (_nearly_done, {Basis.ERRATIC, Basis.OVERRUN}),
        (_jumping, {Basis.ERRATIC, Basis.BACKWARDS, Basis.OVERRUN}),
    ],
)
def test_garbage_is_not_moved_by_and_is_told(garble, bases):
    """Reports of every second job are garbage: those stay where they are, and are told why; the honest ones move."""
    liars = {f"job-{number}" for number in range(0, COUNT, 2)}
    run = Run(Migration(), lambda sample: garble(sample) if sample.job in liars else sample)
    assert not run.moved() & liars
    assert run.moved()
    assert run.told & {BASES[basis] for basis in bases}


def test_where_all_is_garbage_it_is_spreading():
    assert Run(Migration(), _backwards).ends == pytest.approx(Run(spread, _backwards).ends)


def test_a_loss_that_is_no_number_leaves_times_and_no_classes():
    run = Run(Migration(), lambda sample: replace(sample, loss=math.nan))
    assert set.union(*run.kinds.values()) == {Growth.UNKNOWN}
    assert run.moved()
