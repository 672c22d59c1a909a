"""A line through reports: right under noise, quick after a change, unmoved by a single outlier."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.estimates.job.pace import Guess, Pace


def _run(speeds, seed=0, noise=2.0):
    chance = random.Random(seed)
    pace, step = Pace.beginning(0.0, 0), 0.0
    for at, speed in enumerate(speeds, 1):
        step += speed
        pace = pace.add(float(at), max(0, round(step + chance.gauss(0.0, noise))))
    return pace


@pytest.mark.parametrize("seed", range(5))
def test_noise_averages_out(seed):
    guess = _run([10.0] * 100, seed).guess()
    assert guess.seconds == pytest.approx(0.1, rel=0.01)
    assert guess.spread < 0.01


@pytest.mark.parametrize("after", [5.0, 7.0, 14.0, 30.0])
def test_a_changed_speed_is_known_after_a_few_reports(after):
    guess = _run([10.0] * 100 + [after] * 12).guess()
    assert guess.seconds == pytest.approx(1 / after, rel=0.08)


def test_one_outlier_changes_nothing():
    pace = _run([10.0] * 50, noise=0.5)
    assert pace.add(51.0, 5000).guess() == pace.guess()
    assert pace.add(51.0, 5000).add(52.0, 520).guess().seconds == pytest.approx(0.1, rel=0.02)


def test_more_reports_are_surer():
    spreads = [_run([10.0] * count).guess().spread for count in (3, 10, 30, 100)]
    assert spreads == sorted(spreads, reverse=True)


def test_guesses_join_by_how_sure_they_are():
    joined = Guess(1.0, 0.1).joined(Guess(2.0, 0.1))
    assert joined.seconds == pytest.approx(2**0.5)
    assert joined.spread < 0.1
    assert Guess(1.0, 0.01).joined(Guess(9.0, 10.0)).seconds == pytest.approx(1.0, rel=1e-3)


def test_before_anything_is_measured_the_prior_stands():
    assert Pace.beginning(0.0, 5).guess() is None
    assert Pace.beginning(0.0, 5, Guess(2.0, 0.1)).guess() == Guess(2.0, 0.1)
    assert Pace.beginning(0.0, 5).add(1.0, 5).guess() is None, "no step was made"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-3, 1e6), st.integers(0, 10**9)), max_size=60))
def test_whatever_is_reported_the_guess_is_a_positive_number(gaps):
    pace, at = Pace.beginning(0.0, 0), 0.0
    for gap, step in gaps:
        at += gap
        pace = pace.add(at, step)
        guess = pace.guess()
        assert guess is None or (0 < guess.seconds < float("inf") and guess.spread > 0)
