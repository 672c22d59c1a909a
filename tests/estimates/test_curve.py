"""Loss curves: the right family is found, and its future is right."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.estimates.job import curve

TRUE = {
    "inverse": lambda k: 1 / (0.01 * k + 1) + 0.2,
    "power": lambda k: 3 * (1 + k / 10) ** -0.5 + 0.1,
    "exponential": lambda k: 2 * math.exp(-k / 200) + 0.3,
    "log": lambda k: 5 - 0.5 * math.log1p(k / 5),
}


def _points(loss, upto, noise=0.0, seed=0):
    chance = random.Random(seed)
    return [(float(k), loss(k) * (1 + chance.gauss(0.0, noise))) for k in range(10, upto + 1, 10)]


@pytest.mark.parametrize("family", list(TRUE))
def test_the_future_is_predicted_from_the_first_half(family):
    found = curve.fit(_points(TRUE[family], 400, noise=0.002))
    assert found is not None
    assert found.loss(800) == pytest.approx(TRUE[family](800), rel=0.08)


@pytest.mark.parametrize("family", list(TRUE))
def test_a_curve_falls(family):
    found = curve._fitted(family, *(np.array(c) for c in zip(*_points(TRUE[family], 400), strict=True)))
    losses = [found.loss(k) for k in range(0, 2000, 50)]
    assert losses == sorted(losses, reverse=True)


def test_convergence_is_later_for_a_slower_curve():
    fast = curve.fit(_points(lambda k: math.exp(-k / 50) + 0.1, 400)).steps_to_converge()
    slow = curve.fit(_points(lambda k: math.exp(-k / 200) + 0.1, 400)).steps_to_converge()
    assert 50 < fast < slow < 4000


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(allow_nan=True, allow_infinity=True)), max_size=40))
def test_garbage_gives_no_curve_or_a_finite_one(points):
    points = sorted({step: (float(step), loss) for step, loss in points}.values())
    found = curve.fit(points) if all(abs(loss) < 1e12 or math.isnan(loss) for _, loss in points) else None
    if found is not None:
        assert math.isfinite(found.loss(points[-1][0]))
        assert found.drop >= 0
        assert found.steps_to_converge() >= 0


def test_thinning_keeps_ends_and_bounds():
    points: tuple[tuple[float, float], ...] = ()
    for step in range(1000):
        points = curve.thinned((*points, (float(step), 1.0 / (1 + step))))
        assert len(points) <= curve.MOST_POINTS
    assert points[-1] == (999.0, 0.001)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
