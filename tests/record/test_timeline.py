"""A run over time: what is drawn adds up to what was held."""

from __future__ import annotations

import numpy as np
import pytest
from test_metrics import simulated

from headway.record.timeline import binned, gantt, series
from make import a_job, some_nodes


def test_binned_is_exact() -> None:
    means = binned(np.array([0.0, 5.0]), np.array([10.0, 15.0]), np.array([1.0, 2.0]), np.array([0.0, 10.0, 20.0]))
    assert means.tolist() == [2.0, 1.0]
    assert binned(np.array([]), np.array([]), np.array([]), np.array([0.0, 1.0])).tolist() == [0.0]


def test_the_run_over_time_adds_up_to_its_utilisation() -> None:
    jobs = [a_job(f"j{i}", gpus=1 + i % 4, seconds=20.0 + i, submit=3.0 * i) for i in range(30)]
    tally, _ = simulated(jobs, some_nodes(2, gpus=4), "las", stays=True)
    result = tally.result()
    found = series(tally.holdings.kept, 0.0, tally.now, 8.0)
    assert np.mean(found.held) == pytest.approx(result["utilisation"]["gpu"], abs=1e-3)
    free = 1 - result["utilisation"]["gpu"]
    assert np.mean(found.split) == pytest.approx(result["fragmentation"]["split"] * free, abs=1e-3)
    nodes = some_nodes(2, gpus=4)
    drawn = gantt(tally.holdings.kept, nodes, nodes.capacity[0], (0.0, tally.now))
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
    nodes = some_nodes(50, gpus=1)
    drawn = gantt(tally.holdings.kept, nodes, nodes.capacity[0], (0.0, tally.now))
    assert not drawn.bars
    assert len(drawn.shares) == len(drawn.rows) == 40
    assert max(max(row) for row in drawn.shares) <= 1.0
