"""Choosing by counting, where all replicas are alike."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.policies.steps.slots import _deal, choose

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
