"""What deadlines ask of jobs, and the calendar that promises them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.policies.value.deadlines import Calendar, DeadlineNeed, most_in_time, needs
from make import a_job, a_snapshot, running, some_nodes


def a_need(row=0, work=100.0, deadline=100.0, sizes=(1, 2, 4), capacity=4, **more):
    given_ = {"spread": 0.0, "delay": 0.0} | more
    return DeadlineNeed(
        row, [(size,) for size in sizes], np.array(sizes) / capacity, np.array(sizes, float), work, deadline=deadline,
        **given_,
    )  # fmt: skip


def test_the_least_satisfactory_size_is_the_smallest_that_is_in_time():
    need = a_need(work=100.0)
    assert [need.smallest(seconds) for seconds in (20.0, 25.0, 49.0, 50.0, 100.0)] == [None, 2, 2, 1, 0]


def test_the_chance_follows_the_spread():
    assert a_need(work=100.0, sizes=(1,)).chance(99.0) == 0.0
    assert a_need(work=100.0, sizes=(1,), spread=0.1).chance(100.0) == pytest.approx(0.5)
    assert a_need(work=100.0, sizes=(1,), spread=0.1).chance(80.0) == pytest.approx(0.0228, abs=1e-3)


def test_sizes_that_are_no_faster_are_no_sizes():
    """More workers than four slow this job down."""
    snapshot = a_snapshot(
        a_job("a", 2, min=1, max=8, seconds=10.0), nodes=some_nodes(2, gpus=4),
        speed=lambda _, counts: min(counts[0], 8 - counts[0]) / 2,
    )  # fmt: skip
    assert needs(snapshot, [0], 0.0)[0].counts == [(1,), (2,), (3,), (4,)]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), max_size=7))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_choosing_is_optimal_on_one_machine(pairs):
    found = [a_need(row, float(work), float(due), sizes=(1,), capacity=1) for row, (work, due) in enumerate(pairs)]
    hopeful = [need for need in found if need.smallest(need.deadline) is not None]

    def possible(jobs):
        ordered = sorted(jobs, key=lambda need: need.deadline)
        ends = itertools.accumulate(need.work for need in ordered)
        return all(end <= need.deadline for end, need in zip(ends, ordered, strict=True))

    best = max(len(s) for n in range(len(hopeful) + 1) for s in itertools.combinations(hopeful, n) if possible(s))
    chosen = most_in_time(hopeful, 0.0, 1.0)
    assert len(chosen) == best
    assert possible([need for need in hopeful if need.row in chosen])


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 300)), max_size=8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_calendar_never_promises_more_than_there_is_and_keeps_its_word(pairs):
    calendar = Calendar(0.0)
    for row, (work, due) in enumerate(pairs):
        run = calendar.promise(a_need(row, work, due), due)
        assert run is None or run.end <= due
    assert min(calendar.left) >= -1e-9
    assert calendar.starts == sorted(set(calendar.starts))


def test_a_job_that_should_be_done_and_is_not_is_not_taken_for_done():
    entry = running(a_job("a", 1, deadline=500.0), [0], since=0.0, attained=0.0)
    snapshot = a_snapshot(entry, nodes=some_nodes(1), now=200.0, left={"a": 0.0})
    assert needs(snapshot, [0], 0.0)[0].work == pytest.approx(20.0)
