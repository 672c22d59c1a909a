"""Jobs that stop at a target: how long the way is by its shape, and how good such predictions are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.estimates.evaluate import SHARES, Way, by_line, error_of, evaluate_targets, summary
from headway.estimates.fit.target import known_length, length_by_shape, plain_shapes, shape_of


def _way(shape, length, name="m", like="a", count=40):
    points = tuple((length * i / count, 0.9 * shape(i / count)) for i in range(1, count + 1))
    return Way(name, like, points, 0.9)


def test_the_length_of_the_way_is_found_by_its_shape():
    way = _way(lambda u: 1 - math.exp(-4 * u) + math.exp(-4) * u, 1000.0)
    library = np.concatenate([plain_shapes(), shape_of(way.points, way.target)[None, :]])
    other = _way(lambda u: 1 - math.exp(-4 * u) + math.exp(-4) * u, 3000.0)
    found = length_by_shape(other.points[:24], other.target, library)
    assert found.low <= found.median <= found.high
    assert found.median == pytest.approx(3000.0, rel=0.25)


def test_like_jobs_decide_until_theirs_is_overdue():
    way = _way(lambda u: u**0.5, 1000.0)
    early, known = way.points[:4], (1000.0, 0.05)
    assert length_by_shape(early, 0.9, known=known).median == pytest.approx(1000.0, rel=0.05)
    late = tuple((at * 3, value) for at, value in early)
    assert length_by_shape(late, 0.9, known=known, elapsed=5000.0).median > 5000.0


def test_lengths_of_like_jobs_are_robust():
    ways = [_way(lambda u: u, 100.0 + i) for i in range(9)] + [_way(lambda u: u, 1e6)]
    middle, spread = known_length([way.length for way in ways])
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


def test_errors_are_bounded_and_no_answer_is_the_worst():
    assert error_of(110.0, 100.0) == pytest.approx(0.1)
    assert error_of(None, 100.0) == error_of(float("inf"), 100.0) == error_of(1e9, 1.0) == 10.0
    assert summary([], 3).none == 3
    assert summary([0.1, 0.2, 0.3]).median == pytest.approx(0.2)
