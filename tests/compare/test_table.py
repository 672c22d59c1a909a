"""Runs against each other: who got worse, intervals, and means over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from headway.compare.report_tables import length_classes, named_groups, size_classes
from headway.compare.table import averaged, of_mean, of_ratio, worse
from make import a_job


def test_who_got_worse_and_by_how_much() -> None:
    before = np.array([10.0, 100.0, 100.0, 100.0, np.nan, 0.0])
    now = np.array([10.5, 100.5, 150.0, 50.0, 5.0, 0.0])
    found = worse(now, before)
    assert found["jobs"] == 5, "what did not finish under the baseline cannot have got worse"
    assert found["share"] == pytest.approx(1 / 5), "half a second, or half a percent, is no harm"
    assert found["better"] == pytest.approx(1 / 5)
    assert (found["seconds"], found["factor"]["p50"]) == (50.0, 1.5)


def test_a_job_that_no_longer_finishes_got_worse() -> None:
    found = worse(np.array([np.nan, 10.0]), np.array([10.0, 10.0]))
    assert (found["share"], found["lost"]) == (0.5, 1)


def test_an_interval_holds_the_mean_and_narrows_with_jobs() -> None:
    draw = np.random.default_rng(1)
    few, many = draw.exponential(100, 50), draw.exponential(100, 5000)
    one, other = of_mean([few]), of_mean([many])
    assert one is not None
    assert other is not None
    assert one.low < few.mean() < one.high
    assert other.high - other.low < one.high - one.low
    assert one.over == "jobs"


def test_seeds_that_differ_are_what_is_drawn() -> None:
    found = of_mean([np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0])])
    assert found is not None
    assert (found.over, found.low >= 1.5, found.high <= 5.5) == ("seeds", True, True)


def test_pairs_are_drawn_together() -> None:
    """Every job takes exactly half as long: whichever are drawn, the ratio is a half."""
    before = np.random.default_rng(2).exponential(100, 300)
    found = of_ratio([before / 2], [before])
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert of_ratio([np.array([np.nan])], [np.array([1.0])]) is None


def test_means_over_seeds() -> None:
    results = [{"a": 1, "b": {"c": 2.0, "d": None}, "e": "x"}, {"a": 1, "b": {"c": 4.0, "d": 3.0}, "e": "x"}]
    assert averaged(results) == {"a": 1, "b": {"c": 3.0, "d": 3.0}, "e": "x"}


def test_classes_of_jobs_hold_every_job_once() -> None:
    jobs = [a_job(f"j{i}", gpus=g, seconds=s, user=u) for i, (g, s, u) in enumerate(
        [(1, 5.0, "a"), (2, 700.0, "b"), (8, 4000.0, "a"), (16, 1e6, "")])]  # fmt: skip
    for groups in (size_classes(jobs, "gpu"), length_classes(jobs), named_groups([job.user for job in jobs])):
        assert sum(group.mask for group in groups).tolist() == [1, 1, 1, 1]  # type: ignore[attr-defined]
    assert named_groups(["", ""]) == []
    assert [group.name for group in named_groups([str(i) for i in range(20)], most=2)][-1] == "18 others"
