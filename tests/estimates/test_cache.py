"""The book of progress remembers answers; it must say the same as one that works everything out anew."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from headway.core.node import Nodes
from headway.core.scaling import SizeSpan
from headway.core.states import State
from headway.cycle.loop import decide
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.sim.cluster import Costs, Reports, SimCluster, World
from headway.sim.speed import Speed
from make import a_job, a_node, a_role, some_nodes

SPAN = SizeSpan(1, 4, 4)
COLUMNS = ("left", "at", "burning", "spread", "growth", "growth_since", "basis")


def _jobs(seed, count=150):
    chance = random.Random(seed)
    return [
        a_job(
            f"j{i}", roles=[a_role(replicas=chance.choice([1, 1, 2, 3]), min=1, max=chance.choice([3, 4]))],
            submit=40.0 * i, user=chance.choice("abcd"), model=chance.choice(["", "m", "n"]),
            seconds=None if chance.random() < 0.9 else 300.0, steps=chance.choice([None, 1000, 5000]),
        )
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("policy", ["srtf", "optimus"])
@pytest.mark.parametrize(("seed", "types"), [(1, ("", "")), (2, ("", "")), (3, ("t4", "a100"))])
def test_with_and_without_its_memory_the_book_says_the_same(policy, seed, types):
    chance = random.Random(seed)
    nodes = Nodes.of(a_node(f"n{number}", accelerator=name) for number, name in enumerate(types))
    world = World(costs=Costs(start=2.0, save=1.0, scale=1.0), reports=Reports(seconds=20.0, growth=0.1),
                  work=lambda job: 30.0 + 17.0 * (hash(job.submit) % 41),
                  speed=Speed(accelerators={"a100": 2.0}))  # fmt: skip
    cluster, book, decider = SimCluster(nodes, _jobs(seed), world), ProgressBook(), POLICIES[policy]()
    looked, generations = 0, set()
    while (snapshot := cluster.next_snapshot()) is not None:
        book = book.fold(snapshot)
        generations.add(id(snapshot.jobs.row_of))
        if chance.random() < 0.4:
            anew = ProgressBook(book.tracks, book.history)
            remembered, fresh = (one.annotate(snapshot).estimates.beliefs for one in (book, anew))
            alive = snapshot.jobs.state < int(State.FINISHED)
            rows = np.flatnonzero(alive).tolist()
            told, wanted = (one.annotate(snapshot).estimates.scalings(rows, [SPAN] * len(rows)) for one in (book, anew))
            assert [one.speeds for one in told] == [one.speeds for one in wanted]
            for name in COLUMNS:
                found, wanted = getattr(remembered, name)[alive], getattr(fresh, name)[alive]
                np.testing.assert_allclose(found, wanted, rtol=1e-9, err_msg=f"{name} at {snapshot.now}")
            looked += 1
        cluster.apply(decide(decider, book.annotate(snapshot)).plan)
    assert looked > 50
    assert len(generations) > 1, "rows were never renumbered"


def _same(one, other, snapshot):
    alive = ~snapshot.jobs.over()
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name)[alive], getattr(other, name)[alive], err_msg=name)


def test_asking_or_folding_elsewhere_leaves_a_book_as_it_is():
    """Two runs go on from one book; each believes what a book without a cache believes."""
    world = World(costs=Costs(start=2.0), reports=Reports(seconds=20.0), work=lambda job: 90.0 + job.submit % 7)
    cluster, book, decider = SimCluster(some_nodes(2), _jobs(3, 40), world), ProgressBook(), POLICIES["srtf"]()
    past = []
    while (snapshot := cluster.next_snapshot()) is not None:
        elsewhere = book.fold(replace(snapshot, samples=()))
        elsewhere.annotate(snapshot).estimates.left(snapshot.now)
        book = book.fold(snapshot)
        annotated = book.annotate(snapshot)
        for one in (elsewhere, book):
            anew = ProgressBook(one.tracks, one.history).annotate(snapshot)
            _same(one.annotate(snapshot).estimates.beliefs, anew.estimates.beliefs, snapshot)
        past.append((book, snapshot, annotated.estimates.beliefs))
        cluster.apply(decide(decider, annotated).plan)
    for one, then, beliefs in past:
        _same(one.annotate(then).estimates.beliefs, beliefs, then)


def test_only_what_changed_is_computed(monkeypatch):
    world = World(reports=Reports(seconds=20.0), work=lambda job: 90.0 + job.submit % 7)
    cluster, book = SimCluster(some_nodes(2), _jobs(3), world), ProgressBook()
    computed, read, rows = 0, ProgressBook._row, 0

    def counted(self, snapshot, row):
        nonlocal computed
        computed += 1
        return read(self, snapshot, row)

    monkeypatch.setattr(ProgressBook, "_row", counted)
    while (snapshot := cluster.next_snapshot()) is not None:
        book = book.fold(snapshot)
        annotated = book.annotate(snapshot)
        annotated.estimates.left(snapshot.now)
        rows += snapshot.jobs.count
        cluster.apply(decide(POLICIES["srtf"](), annotated).plan)
    assert computed < 0.2 * rows
