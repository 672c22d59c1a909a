"""How good predictions to a target are: models are held out, and what cannot be answered is counted."""

from __future__ import annotations

import math

import pytest

from headway.estimates.evaluate import SHARES, Way, by_line, error_of, evaluate_targets, summary


def _way(shape, length, name="m", like="a", count=40):
    points = tuple((length * i / count, 0.9 * shape(i / count)) for i in range(1, count + 1))
    return Way(name, like, points, 0.9)


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
