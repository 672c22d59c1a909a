"""The book of plain extrapolation: what is left goes on at the speed of the last half minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.estimates import Beliefs
from headway.core.job import JobId
from headway.core.snapshot import Sample, Snapshot
from headway.estimates.declared import annotated, declared_beliefs

WINDOW_SECONDS = 30.0
"""Speed is measured over this much of a job's recent past."""


@dataclass(frozen=True, slots=True)
class Recent:
    """What one job has shown: the newest sample, and the oldest one inside the window."""

    first: Sample
    last: Sample
    recent: tuple[Sample, ...]

    def seconds_left(self, total_steps: int) -> float | None:
        """By plain extrapolation of recent speed; None before there is any."""
        oldest = self.recent[0]
        steps, seconds = self.last.step - oldest.step, self.last.at - oldest.at
        if steps <= 0 or seconds <= 0:
            return None
        return max(0.0, (total_steps - self.last.step) * seconds / steps)


@dataclass(frozen=True, slots=True)
class Linear:
    """A report that goes backwards starts the measurement anew: the job was restarted."""

    tracks: Mapping[JobId, Recent] = field(default_factory=dict)

    def fold(self, snapshot: Snapshot) -> Linear:
        if not snapshot.samples:
            return self
        tracks = dict(self.tracks)
        for sample in snapshot.samples:
            tracks[sample.job] = _extend(tracks.get(sample.job), sample)
        for row in snapshot.changed:
            if snapshot.jobs.is_over(row):  # nothing more will be asked
                tracks.pop(snapshot.jobs.job(row).id, None)
        return Linear(tracks)

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return annotated(snapshot, lambda: self._beliefs(snapshot))

    def _beliefs(self, snapshot: Snapshot) -> Beliefs:
        declared = declared_beliefs(snapshot)
        left, at, burning = declared.left.copy(), declared.at.copy(), np.array(declared.burning)
        for job_id, track in self.tracks.items():
            row = snapshot.jobs.row_of.get(job_id)
            if row is None or row >= snapshot.jobs.count:
                continue
            total = track.last.total_steps or snapshot.jobs.job(row).steps
            seconds = None if total is None else track.seconds_left(total)
            if seconds is not None:
                left[row], at[row] = seconds, track.last.at
        return Beliefs(left, at, burning)


def _extend(track: Recent | None, sample: Sample) -> Recent:
    if track is None or sample.step < track.last.step:
        return Recent(sample, sample, (sample,))
    recent = tuple(old for old in track.recent if sample.at - old.at <= WINDOW_SECONDS) or (track.last,)
    if len(recent) > 32:
        recent = recent[::2]
    return Recent(track.first, sample, (*recent, sample))
