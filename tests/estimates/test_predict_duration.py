"""Durations before a job has run: quantiles of the most alike kind, robust, and trees where the extra is there."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headway.estimates.fit.duration import ENOUGH, Durations, Histogram, kinds, trees
from make import a_job


def _learned(jobs, seconds):
    durations = Durations()
    for job, one in zip(jobs, seconds, strict=True):
        durations = durations.add(job, one)
    return durations


def test_quantiles_are_right_to_a_few_percent():
    histogram = Histogram()
    for second in range(100, 200):
        histogram = histogram.add(float(second))
    assert histogram.quantile(0.5) == pytest.approx(150, rel=0.06)
    assert histogram.quantile(0.1) == pytest.approx(110, rel=0.06)


def test_one_giant_moves_nothing():
    jobs = [a_job(f"j{i}") for i in range(51)]
    median, spread = _learned(jobs, [100.0] * 50 + [1e7]).predict(jobs[0])
    assert median == pytest.approx(100.0, rel=0.2)
    assert spread < 0.3


def test_the_most_alike_kind_that_has_enough_answers():
    ann = [a_job(f"a{i}", user="ann", model="m") for i in range(ENOUGH)]
    bob = [a_job(f"b{i}", user="bob", model="n") for i in range(20)]
    durations = _learned([*ann, *bob], [10.0] * len(ann) + [1000.0] * len(bob))
    assert durations.predict(a_job("x", user="ann", model="m"))[0] == pytest.approx(10.0, rel=0.2)
    assert durations.predict(a_job("x", user="ann", model="other"))[0] == pytest.approx(10.0, rel=0.2)
    assert durations.predict(a_job("x", user="new"))[0] == pytest.approx(1000.0, rel=0.2)
    assert durations.predict(a_job("x", gpus=8))[0] == pytest.approx(1000.0, rel=0.2), "no job of that size: all"
    assert Durations().predict(a_job("x")) is None


def test_what_is_recent_weighs_more():
    jobs = [a_job(f"j{i}") for i in range(1200)]
    assert _learned(jobs, [10.0] * 600 + [1000.0] * 600).predict(jobs[0])[0] == pytest.approx(1000.0, rel=0.2)


def test_kinds_go_from_alike_to_all():
    assert [kind[0] for kind in kinds(a_job("x", user="u", queue="q", model="m"))] == [
        "user", "queue", "user", "model", "queue", "size", "all",
    ]  # fmt: skip
    assert [kind[0] for kind in kinds(a_job("x"))] == ["size", "all"]


def test_trees_learn_what_names_tell():
    pytest.importorskip("sklearn", reason="the extra `predict` is not installed")
    chance = random.Random(0)
    jobs, seconds = [], []
    for number in range(300):
        user, size = chance.choice(["ann", "bob", "cid"]), chance.choice([1, 2, 4])
        jobs.append(a_job(f"j{number}", gpus=size, user=user, submit=60.0 * number))
        seconds.append({"ann": 60.0, "bob": 600.0, "cid": 6000.0}[user] * size * chance.lognormvariate(0.0, 0.1))
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # small trees on a busy machine: threads would only wait for each other
        model, again = (trees(jobs[:250], seconds[:250], seed=1) for _ in range(2))
    known = _learned(jobs[:250], seconds[:250])
    predicted = model.predict(jobs[250:], known)
    assert np.median(np.abs(np.log(predicted / np.array(seconds[250:])))) < 0.2
    assert (predicted == again.predict(jobs[250:], known)).all(), "the seed decides"
    assert np.isfinite(model.predict([a_job("x", user="never seen")], Durations())).all()
