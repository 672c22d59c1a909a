"""Runs against each other: who got worse, intervals, means over seeds, and the run over time."""

from __future__ import annotations

import numpy as np
import pytest
from test_metrics import simulated

from headway.record.confidence import of_mean, of_ratio
from headway.record.timeline import binned, gantt, series
from headway.record.versus import averaged, length_classes, named_groups, size_classes, worse
from make import a_job, some_nodes


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


def test_binned_is_exact() -> None:
    means = binned(np.array([0.0, 5.0]), np.array([10.0, 15.0]), np.array([1.0, 2.0]), np.array([0.0, 10.0, 20.0]))
    assert means.tolist() == [2.0, 1.0]
    assert binned(np.array([]), np.array([]), np.array([]), np.array([0.0, 1.0])).tolist() == [0.0]


def test_the_run_over_time_adds_up_to_its_utilisation() -> None:
    jobs = [a_job(f"j{i}", gpus=1 + i % 4, seconds=20.0 + i, submit=3.0 * i) for i in range(30)]
    tally, _ = simulated(jobs, some_nodes(2, gpus=4), "las", stays=True)
    result = tally.result()
    found = series(tally.holdings, 0.0, tally.now, 8.0)
    assert np.mean(found.held) == pytest.approx(result["utilisation"]["gpu"], abs=1e-3)
    free = 1 - result["utilisation"]["gpu"]
    assert np.mean(found.split) == pytest.approx(result["fragmentation"]["split"] * free, abs=1e-3)
    drawn = gantt(tally.holdings, some_nodes(2, gpus=4), 0.0, tally.now)
    area = sum((bar.end - bar.begin) * bar.slots for bar in drawn.bars)
    assert area == pytest.approx(result["held"]["gpu"])
    for one in drawn.bars:
        for other in drawn.bars:
            apart = one.end <= other.begin + 1e-6 or other.end <= one.begin + 1e-6
            beside = one.slot + one.slots <= other.slot or other.slot + other.slots <= one.slot
            assert one is other or one.row != other.row or apart or beside, "two bars over each other"


def test_many_stays_become_shares() -> None:
    jobs = [a_job(f"j{i}", seconds=5.0, submit=float(i)) for i in range(2600)]
    tally, _ = simulated(jobs, some_nodes(50, gpus=1), stays=True)
    drawn = gantt(tally.holdings, some_nodes(50, gpus=1), 0.0, tally.now)
    assert not drawn.bars
    assert len(drawn.shares) == len(drawn.rows) == 40
    assert max(max(row) for row in drawn.shares) <= 1.0
