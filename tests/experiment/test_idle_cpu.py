"""Users who ask for too much cpu: what is used of what is allocated."""

from __future__ import annotations

from headway.experiment.case import Cell, RunSize
from headway.experiment.idle_cpu import IDLE_CPU
from headway.experiment.perform import measure


def test_headway_uses_what_it_allocates_and_slows_nobody_and_a_stopped_job_uses_nothing():
    found = measure(IDLE_CPU, Cell("load 1.5", "2 to 4 times"), 11, RunSize(30, (11,), quick=True)).figures
    assert found["headway"]["of_held"] > 0.85
    assert found["headway"]["slowest"] < 0.02
    for label in ("fifo", "kube-default", "headway, cpu as asked"):
        assert found[label]["of_held"] < 0.5, "they ask for twice what they use, at least"
