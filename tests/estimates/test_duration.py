"""Durations before a job has run: quantiles of like jobs, as far as it has shown that they are alike; robust."""

from __future__ import annotations

import numpy as np
import pytest

from headway.estimates.history.durations import ENOUGH, Durations, Histogram, kinds
from make import a_job


def _learned(jobs, seconds):
    durations = Durations()
    for job, one in zip(jobs, seconds, strict=True):
        durations = durations.add(job, one)
    return durations


def _predicted(durations, job):
    """Median seconds and spread of a job that has not run yet."""
    return durations.told(job).left(0.0)


def test_quantiles_are_right_to_a_few_percent():
    histogram = Histogram()
    for second in range(100, 200):
        histogram = histogram.add(float(second))
    assert histogram.lengths.quantile(0.5) == pytest.approx(150, rel=0.06)
    assert histogram.lengths.quantile(0.1) == pytest.approx(110, rel=0.06)


def test_one_giant_moves_nothing():
    jobs = [a_job(f"j{i}") for i in range(51)]
    median, spread = _predicted(_learned(jobs, [100.0] * 50 + [1e7]), jobs[0])
    assert median == pytest.approx(100.0, rel=0.2)
    assert spread < 0.3


def test_like_jobs_answer_where_there_are_enough():
    ann = [a_job(f"a{i}", user="ann", model="m") for i in range(30)]
    bob = [a_job(f"b{i}", user="bob", model="n") for i in range(90)]
    jobs = [job for number in range(30) for job in (ann[number], *bob[3 * number : 3 * number + 3])]
    durations = _learned(jobs, [10.0 if job.user == "ann" else 1000.0 for job in jobs])
    assert _predicted(durations, a_job("x", user="ann", model="m"))[0] == pytest.approx(10.0, rel=0.2)
    assert _predicted(durations, a_job("x", user="ann", model="other"))[0] == pytest.approx(10.0, rel=0.2)
    assert _predicted(durations, a_job("x", user="new"))[0] == pytest.approx(1000.0, rel=0.2)
    assert _predicted(durations, a_job("x", gpus=8))[0] == pytest.approx(1000.0, rel=0.2), "no job of that size: all"
    few = _learned(ann[: ENOUGH - 1], [10.0] * (ENOUGH - 1))
    assert few.told(ann[0]) is None


@pytest.mark.parametrize("users_differ", [True, False])
def test_kinds_count_as_far_as_they_have_explained_lengths(users_differ):
    """The last five jobs of one user were short. That says something of the next where users differ."""
    chance = np.random.default_rng(3)
    users = chance.integers(20, size=400)
    jobs = [a_job(f"j{number}", user=f"u{user}") for number, user in enumerate(users)]
    of_user = 2.0 * chance.standard_normal(20)
    apart = of_user[users] if users_differ else 2.0 * chance.standard_normal(400)
    lengths = 300.0 * np.exp(apart + 0.3 * chance.standard_normal(400))
    new = [a_job(f"n{number}", user="new") for number in range(ENOUGH)]
    durations = _learned([*jobs, *new], [*lengths.tolist(), *[10.0] * ENOUGH])
    median, spread = _predicted(durations, a_job("x", user="new"))
    if users_differ:
        assert durations.explained["user, size"].share > 0.9
        assert median < 60.0
    else:
        assert durations.explained["user, size"].share < 0.3
        assert median > 150.0
        assert spread > 1.5


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
    assert took.lengths.left(0.0)[0] == pytest.approx(60.0, rel=0.2)
    assert took.lengths.left(120.0)[0] == pytest.approx(9_900.0, rel=0.2)
    assert took.lengths.left(50_000.0)[0] >= 0.1 * 40_000.0, "longer than any: it goes on"
    assert took.lengths.left(120.0)[1] < took.lengths.left(0.0)[1] + 1.0
