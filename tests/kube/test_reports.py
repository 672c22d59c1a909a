"""Reports of one job: which count, and when progress is written to the status."""

from __future__ import annotations

import pytest

from headway.core.job import JobId
from headway.core.snapshot import Sample
from headway.kube.job.status import TrainingProgress
from headway.kube.reports import JobReports

FIRST, SECOND = ("worker", 0), ("worker", 1)


def a_sample(step: int, loss: float | None = None, total: int | None = None, at: float = 1.0) -> Sample:
    return Sample(JobId("j"), at, step, loss, total)


@pytest.mark.parametrize(
    ("replica", "attempt", "sample", "counts", "progress"),
    [
        (FIRST, 1, a_sample(6, 0.4), True, TrainingProgress(6, 100, 0.4, 1.0, 1)),
        (FIRST, 1, a_sample(6), True, TrainingProgress(6, 100, 0.5, 1.0, 1)),
        (FIRST, 1, a_sample(5, 0.1), True, TrainingProgress(5, 100, 0.1, 1.0, 1)),
        (FIRST, 1, a_sample(6, None, 80), True, TrainingProgress(6, 80, 0.5, 1.0, 1)),
        (FIRST, 1, a_sample(4), False, TrainingProgress(5, 100, 0.5, 1.0, 1)),
        (FIRST, 2, a_sample(4), True, TrainingProgress(4, 100, None, 1.0, 2)),
        (SECOND, 1, a_sample(9), False, TrainingProgress(5, 100, 0.5, 1.0, 1)),
    ],
)
def test_what_a_report_changes(replica, attempt, sample, counts, progress):
    reports = JobReports()
    assert reports.take(FIRST, 1, a_sample(5, 0.5), steps=100)
    reports.sample = None
    assert reports.take(replica, attempt, sample, steps=100) is counts
    assert reports.progress == progress
    assert reports.sample == (sample if counts else None)


@pytest.mark.parametrize(
    ("progress", "written", "now", "due"),
    [
        (None, None, 99.0, False),
        (TrainingProgress(1), None, 10.0, True),
        (TrainingProgress(1, attempt=2), TrainingProgress(1, attempt=1), 10.0, True),
        (TrainingProgress(2), TrainingProgress(1), 69.9, False),
        (TrainingProgress(1), TrainingProgress(1), 99.0, False),
        (TrainingProgress(2), TrainingProgress(1), 99.0, True),
    ],
)
def test_the_first_report_is_written_at_once_and_others_not_too_often(progress, written, now, due):
    assert JobReports(progress=progress, written=written, written_at=10.0).due(now, every=60.0) is due
