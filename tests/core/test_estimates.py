"""Estimates of a snapshot: by columns for policies, and of one job for people."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.estimates import BASES, Basis, Beliefs, Estimates


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 50), st.booleans()), min_size=1, max_size=30), st.data())
def test_time_left_of_some_is_time_left_of_all_at_those(rows, data):
    left, at, burning = (np.array(column) for column in zip(*rows, strict=True))
    left[data.draw(st.integers(0, len(left) - 1))] = np.nan
    estimates = Estimates(lambda: Beliefs(left.astype(float), at.astype(float), burning.astype(bool)))
    some = np.array(data.draw(st.lists(st.integers(0, len(left) - 1))), np.intp)
    assert np.array_equal(estimates.left_of(some, 60.0), estimates.left(60.0)[some], equal_nan=True)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 50), st.booleans()), min_size=1, max_size=9))
def test_one_job_is_told_as_in_the_columns(rows):
    left, at, burning = (np.array(column) for column in zip(*rows, strict=True))
    left[0] = np.nan
    estimates = Estimates(lambda: Beliefs(left.astype(float), at.astype(float), burning.astype(bool)))
    of_all = estimates.left(60.0)
    for row in range(len(left)):
        one = estimates.of(row, 60.0)
        assert one.left == of_all[row] or math.isnan(one.left)
        assert math.isnan(one.left) == math.isnan(of_all[row])
        assert one.basis is estimates.basis(row)
        assert one.sentence == BASES[one.basis]
        assert math.isnan(one.spread)


def test_a_rich_book_tells_its_spread_and_writes_its_own_sentence():
    codes = np.array([int(Basis.STEPS)], np.uint8)
    beliefs = Beliefs(np.array([50.0]), np.array([10.0]), np.array([True]), np.array([0.2]), codes, at_none(), codes)
    one = Estimates(lambda: beliefs, None, lambda row, basis, now: f"{row} {basis.name} {now}").of(0, 30.0)
    assert (one.left, one.spread, one.basis, one.sentence) == (30.0, 0.2, Basis.STEPS, "0 STEPS 30.0")


def at_none():
    return np.array([np.nan])


def test_without_a_book_nothing_is_known_and_the_sentence_says_what_to_do():
    one = Estimates().of(0, 1.0)
    assert (one.basis, math.isnan(one.left)) == (Basis.NOTHING, True)
    assert "--estimates" in one.sentence
    with pytest.raises(AssertionError, match="--estimates"):
        Estimates().left(0.0)
