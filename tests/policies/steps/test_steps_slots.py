"""Choosing by counting, where all replicas are alike."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.draft import Draft
from headway.policies.steps.slots import _deal, choose, slots_add_up, start_by_counting
from make import a_job, a_snapshot, running, some_nodes

CHOICES = [([2, 3, 1, 4, 1], 4, [0, 2, 4]), ([5, 5], 4, []), ([1, 1, 1], 9, [0, 1, 2]), ([4, 1, 3], 7, [0, 1])]


@pytest.mark.parametrize(("widths", "capacity", "chosen"), CHOICES)
def test_choosing_by_counting_is_greedy_in_order(widths: list[int], capacity: int, chosen: list[int]) -> None:
    assert np.flatnonzero(choose(np.array(widths), capacity)).tolist() == chosen


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(0, 30), st.integers(0, 60), st.randoms())
def test_dealing_is_greedy_in_order(widths: list[int], up: int, capacity: int, chance: random.Random) -> None:
    order, running = list(range(len(widths))), min(up, len(widths))
    chance.shuffle(order)
    left, fits = capacity, []
    for number in order:
        fits.append(widths[number] <= left)
        left -= widths[number] if fits[-1] else 0
    come = [number - running for number, fit in zip(order, fits, strict=True) if fit and number >= running]
    go = [number for number, fit in zip(order, fits, strict=True) if not fit and number < running]
    assert _deal(np.array(order, np.intp), np.array(widths, np.int32), running, capacity) == (left, come, go)


ADD_UP = [
    ("all is free", [], 4, True),
    ("held as asked for", [running(a_job("a", 2), [0, 0])], 2, True),
    ("held in part", [running(a_job("a", 2), [0])], 3, False),
]


@pytest.mark.parametrize(("why", "entries", "free", "adds_up"), ADD_UP)
def test_slots_add_up_where_every_job_holds_what_it_asked_for(why, entries, free, adds_up):
    snapshot = a_snapshot(*entries, a_job("new"), nodes=some_nodes(1, gpus=4))
    assert snapshot.jobs.shapes.only_role is not None
    assert slots_add_up(snapshot, free) is adds_up, why


START = [
    ("all fit: no key is asked", 3, [1, 2], None, ["w0", "w1"], []),
    ("the best fit", 2, [1, 2], [5.0, 1.0], ["w1"], []),
    ("what is left over goes to the next that fits", 3, [2, 2, 1], [5.0, 6.0, 7.0], ["w0", "w2"], []),
    ("running jobs go for better ones", 0, [2], [1.0], [], ["up"]),
]


@pytest.mark.parametrize(("why", "free", "widths", "keys", "starts", "stops"), START)
def test_start_by_counting(why, free, widths, keys, starts, stops):
    """The running job has key 4 and holds what is not free."""
    up = [running(a_job("up", 4 - free), [0] * (4 - free))]
    waiting = [a_job(f"w{number}", width) for number, width in enumerate(widths)]
    snapshot = a_snapshot(*up, *waiting, nodes=some_nodes(1, gpus=4), now=10.0)
    draft, role = Draft(snapshot), snapshot.jobs.shapes.only_role
    rows = start_by_counting(draft, lambda _: np.array(keys), lambda _: np.array([4.0]), free, role)
    assert [snapshot.jobs.job(row).id for row in rows] == starts, why
    assert [snapshot.jobs.job(row).id for row in draft.decided_rows()] == stops, why
