"""The progress reports of one job, and which of them is in the job's status."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.gang import ReplicaKey
from headway.core.snapshot import Sample
from headway.kube.job.status import TrainingProgress


@dataclass(slots=True)
class JobReports:
    """The last report of one job, and the last one that was written to its status."""

    progress: TrainingProgress | None = None
    written: TrainingProgress | None = None
    written_at: float = -math.inf
    attempt: int = -1
    """The attempt that last reported."""
    reporter: ReplicaKey | None = None
    """The replica whose reports count for the job: the first one that reported in this attempt."""
    sample: Sample | None = None
    """The last report, until it is in a snapshot."""

    def due(self, now: float, every: float) -> bool:
        """Whether there is progress to write to the status: the first report of an attempt at once, others at most
        once per `every` seconds.
        """
        if self.progress is None or self.progress == self.written:
            return False
        is_first = self.written is None or self.written.attempt != self.progress.attempt
        return is_first or now - self.written_at >= every

    def take(self, replica: ReplicaKey, attempt: int, sample: Sample, steps: int | None) -> bool:
        """Takes a report; returns whether it counts.

        Reports of one replica count. A step that goes backwards within an attempt is ignored.
        """
        self.reporter = self.reporter or replica
        if self.reporter != replica:
            return False
        old = self.progress
        if old is None or self.attempt != attempt:
            total = sample.total_steps or steps
            self.progress = TrainingProgress(sample.step, total, sample.loss, sample.at, attempt)
        elif sample.step < old.step:
            return False
        else:
            loss = old.loss if sample.loss is None else sample.loss
            self.progress = TrainingProgress(sample.step, sample.total_steps or old.total, loss, sample.at, attempt)
        self.attempt, self.sample = attempt, sample
        return True
