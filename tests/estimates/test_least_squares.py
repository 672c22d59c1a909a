"""The coefficients that no other non-negative ones are better than."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.estimates.speed.least_squares import NormalEquations

NUMBERS = st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0])
ROWS = st.lists(st.tuples(*[NUMBERS] * 4), min_size=1, max_size=7)


def _equations(rows, pulls=()):
    equations = NormalEquations(4)
    for row in rows:
        equations.add(row, 1.0)
    for number, to in enumerate(pulls):
        equations.pull(number, 0.3, to)
    return equations


def _best_by_trying(rows, pulls):
    """The least squared error over all choices of coefficients that are not 0."""
    left = np.concatenate([np.array(rows), 0.3 * np.eye(4)])
    right = np.concatenate([np.ones(len(rows)), 0.3 * np.array(pulls)])
    found = float(right @ right)
    for free in itertools.chain.from_iterable(itertools.combinations(range(4), count) for count in range(1, 5)):
        solved = np.linalg.lstsq(left[:, free], right, rcond=None)[0]
        if (solved >= 0).all():
            found = min(found, float(np.square(left[:, free] @ solved - right).sum()))
    return found, lambda x: float(np.square(left @ np.array(x) - right).sum())


@given(rows=ROWS, pulls=st.tuples(*[NUMBERS] * 4), start=st.none() | st.tuples(*[NUMBERS] * 4))
def test_nothing_is_better_wherever_it_begins(rows, pulls, start):
    x = _equations(rows, pulls).solved(start)
    least, error = _best_by_trying(rows, pulls)
    assert min(x) >= 0.0
    assert error(x) == pytest.approx(least, rel=1e-9, abs=1e-9)


@given(rows=ROWS)
def test_terms_that_others_explain_do_no_harm(rows):
    x = _equations([(*row[:2], row[1], 0.0) for row in rows]).solved()
    assert min(x) >= 0.0
    assert x[3] == 0.0
    assert np.isfinite(x).all()
