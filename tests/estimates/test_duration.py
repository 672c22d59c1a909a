"""Durations before a job has run: quantiles of the most alike kind, robust."""

from __future__ import annotations

import pytest

from headway.estimates.fit.duration import ENOUGH, Durations, Histogram, kinds
from make import a_job


def _learned(jobs, seconds):
    durations = Durations()
    for job, one in zip(jobs, seconds, strict=True):
        durations = durations.add(job, one)
    return durations


def _predicted(durations, job):
    """Median seconds and spread of a job that has not run yet."""
    return durations.most_alike(job).left(0.0)


def test_quantiles_are_right_to_a_few_percent():
    histogram = Histogram()
    for second in range(100, 200):
        histogram = histogram.add(float(second))
    assert histogram.quantile(0.5) == pytest.approx(150, rel=0.06)
    assert histogram.quantile(0.1) == pytest.approx(110, rel=0.06)


def test_one_giant_moves_nothing():
    jobs = [a_job(f"j{i}") for i in range(51)]
    median, spread = _predicted(_learned(jobs, [100.0] * 50 + [1e7]), jobs[0])
    assert median == pytest.approx(100.0, rel=0.2)
    assert spread < 0.3


def test_the_most_alike_kind_that_has_enough_answers():
    ann = [a_job(f"a{i}", user="ann", model="m") for i in range(ENOUGH)]
    bob = [a_job(f"b{i}", user="bob", model="n") for i in range(20)]
    durations = _learned([*ann, *bob], [10.0] * len(ann) + [1000.0] * len(bob))
    assert _predicted(durations, a_job("x", user="ann", model="m"))[0] == pytest.approx(10.0, rel=0.2)
    assert _predicted(durations, a_job("x", user="ann", model="other"))[0] == pytest.approx(10.0, rel=0.2)
    assert _predicted(durations, a_job("x", user="new"))[0] == pytest.approx(1000.0, rel=0.2)
    assert _predicted(durations, a_job("x", gpus=8))[0] == pytest.approx(1000.0, rel=0.2), "no job of that size: all"
    assert Durations().most_alike(a_job("x")) is None


def test_what_is_recent_weighs_more():
    jobs = [a_job(f"j{i}") for i in range(1200)]
    assert _predicted(_learned(jobs, [10.0] * 600 + [1000.0] * 600), jobs[0])[0] == pytest.approx(1000.0, rel=0.2)


def test_kinds_go_from_alike_to_all():
    assert [kind[0] for kind in kinds(a_job("x", user="u", queue="q", model="m"))] == [
        "user", "queue", "user", "model", "queue", "size", "all",
    ]  # fmt: skip
    assert [kind[0] for kind in kinds(a_job("x"))] == ["size", "all"]


def test_a_job_that_has_outlived_most_like_jobs_is_not_nearly_done():
    took = Histogram()
    for seconds in [60.0] * 80 + [10_000.0] * 20:
        took = took.add(seconds)
    assert took.left(0.0)[0] == pytest.approx(60.0, rel=0.2)
    assert took.left(120.0)[0] == pytest.approx(9_900.0, rel=0.2)
    assert took.left(50_000.0)[0] >= 0.1 * 40_000.0, "longer than any: it goes on"
    assert took.left(120.0)[1] < took.left(0.0)[1] + 1.0
