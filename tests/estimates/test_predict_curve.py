"""Loss curves: the right family is found, its future is right, and targets are reached when they are."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.estimates.evaluate import SHARES, Way, by_line, evaluate_targets, known_length
from headway.estimates.fit import curve, shapes

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
def test_the_future_is_foretold_from_the_first_half(family):
    found = curve.fit(_points(TRUE[family], 400, noise=0.002))
    assert found is not None
    assert found.loss(800) == pytest.approx(TRUE[family](800), rel=0.08)
    target = TRUE[family](600)
    assert found.steps_to(target) == pytest.approx(600, rel=0.25)


@pytest.mark.parametrize("family", list(TRUE))
def test_a_curve_falls_and_its_inverse_is_its_inverse(family):
    found = curve._fitted(family, *(np.array(c) for c in zip(*_points(TRUE[family], 400), strict=True)))
    losses = [found.loss(k) for k in range(0, 2000, 50)]
    assert losses == sorted(losses, reverse=True)
    assert found.steps_to(found.loss(321.0)) == pytest.approx(321.0, rel=1e-6)
    assert found.steps_to(found.loss(0.0) + 1) <= 0


def test_a_target_below_the_floor_is_never_reached():
    found = curve.fit(_points(TRUE["exponential"], 800))
    assert found.steps_to(0.1) == math.inf


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


def _way(shape, length, name="m", like="a", count=40):
    points = tuple((length * i / count, 0.9 * shape(i / count)) for i in range(1, count + 1))
    return Way(name, like, points, 0.9)


def test_the_length_of_the_way_is_found_by_its_shape():
    way = _way(lambda u: 1 - math.exp(-4 * u) + math.exp(-4) * u, 1000.0)
    library = np.concatenate([shapes.plain_shapes(), shapes.shape_of(way.points, way.target)[None, :]])
    other = _way(lambda u: 1 - math.exp(-4 * u) + math.exp(-4) * u, 3000.0)
    found = shapes.length(other.points[:24], other.target, library)
    assert found.low <= found.median <= found.high
    assert found.median == pytest.approx(3000.0, rel=0.25)


def test_like_jobs_decide_until_theirs_is_overdue():
    way = _way(lambda u: u**0.5, 1000.0)
    early, known = way.points[:4], (1000.0, 0.05)
    assert shapes.length(early, 0.9, known=known).median == pytest.approx(1000.0, rel=0.05)
    late = tuple((at * 3, value) for at, value in early)
    assert shapes.length(late, 0.9, known=known, elapsed=5000.0).median > 5000.0


def test_lengths_of_like_jobs_are_robust():
    ways = [_way(lambda u: u, 100.0 + i) for i in range(9)] + [_way(lambda u: u, 1e6)]
    middle, spread = known_length(ways)
    assert 100 < middle < 110
    assert spread < 0.1
    assert known_length([]) is None


def test_a_straight_line_is_perfect_where_training_is_straight():
    way = _way(lambda u: u, 100.0)
    assert by_line(way.points[:20], way.target) == pytest.approx(50.0)
    assert by_line(((1.0, 0.5), (2.0, 0.4)), 0.9) == math.inf


def test_evaluation_holds_models_out_and_counts_what_it_cannot_answer():
    ways = [_way(lambda u, p=p: u**p, 100.0 * (i + 1), f"model {p}", f"{p}/{i % 2}") for p in (0.3, 0.5, 1.0)
            for i in range(4)]  # fmt: skip
    found = evaluate_targets(ways, 2)
    assert found.jobs == 6
    assert len(found.shares) == len(SHARES)
    ours, like, line = found.shares[0]
    assert (ours.count, ours.none, line.count) == (0, 6, 0), "no job has two values after one hundredth"
    assert like.count == 6
    assert found.shares[5][0].count == 6
    assert set(found.models) == {"model 0.3", "model 0.5", "model 1.0"}
