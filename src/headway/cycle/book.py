"""The book of estimates: where beliefs about remaining time come from. A policy cannot tell which book is open.

`Declared` believes the user. `Progress` believes what training has shown and, before that, the user. `Oracle` knows
the truth, which only a simulator has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.estimates import Beliefs, Counts, Estimates
from headway.core.job import Job, JobId
from headway.core.snapshot import Sample, Snapshot
from headway.predict.scaling import plain_speed

Truth = Callable[[Snapshot], Beliefs]

WINDOW_SECONDS = 30.0
"""Speed is measured over this much of a job's recent past."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No estimates at all; a policy that asks for one is told so. Also for replays, whose log has them."""

    def fold(self, snapshot: Snapshot) -> Nothing:  # noqa: ARG002  the book's protocol
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return snapshot


@dataclass(frozen=True, slots=True)
class Oracle:
    truth: Truth
    speed: Callable[[Job, Counts], float] = plain_speed

    def fold(self, snapshot: Snapshot) -> Oracle:  # noqa: ARG002  the truth needs no evidence
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return _annotated(snapshot, lambda: self.truth(snapshot), self.speed)


@dataclass(frozen=True, slots=True)
class Declared:
    def fold(self, snapshot: Snapshot) -> Declared:  # noqa: ARG002  what was declared does not change
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return _annotated(snapshot, lambda: declared_beliefs(snapshot))


def _annotated(
    snapshot: Snapshot, source: Callable[[], Beliefs], speed: Callable[[Job, Counts], float] = plain_speed
) -> Snapshot:
    jobs = snapshot.jobs
    return snapshot.with_estimates(Estimates(source, lambda row, counts: speed(jobs.job(row), counts)))


def declared_beliefs(snapshot: Snapshot) -> Beliefs:
    jobs = snapshot.jobs
    return Beliefs(jobs.declared - jobs.attained, jobs.since, jobs.training())


@dataclass(frozen=True, slots=True)
class Track:
    """What one job has shown: the newest sample, and the oldest one inside the window."""

    first: Sample
    last: Sample
    recent: tuple[Sample, ...]
    lost: bool = False

    def seconds_left(self, total_steps: int) -> float | None:
        """By plain extrapolation of recent speed; None before there is any."""
        oldest = self.recent[0]
        steps, seconds = self.last.step - oldest.step, self.last.at - oldest.at
        if steps <= 0 or seconds <= 0:
            return None
        return max(0.0, (total_steps - self.last.step) * seconds / steps)


@dataclass(frozen=True, slots=True)
class Progress:
    """Plain extrapolation. A report that goes backwards starts the measurement anew: the job was restarted."""

    tracks: Mapping[JobId, Track] = field(default_factory=dict)

    def fold(self, snapshot: Snapshot) -> Progress:
        if not snapshot.samples:
            return self
        tracks = dict(self.tracks)
        for sample in snapshot.samples:
            tracks[sample.job] = _extend(tracks.get(sample.job), sample)
        for row in snapshot.changed:
            if snapshot.jobs.state[row] >= 7:  # over: nothing more will be asked
                tracks.pop(snapshot.jobs.job(row).id, None)
        return Progress(tracks)

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return _annotated(snapshot, lambda: self._beliefs(snapshot))

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


def _extend(track: Track | None, sample: Sample) -> Track:
    if track is None or sample.step < track.last.step:
        return Track(sample, sample, (sample,))
    recent = tuple(old for old in track.recent if sample.at - old.at <= WINDOW_SECONDS) or (track.last,)
    if len(recent) > 32:
        recent = recent[::2]
    return Track(track.first, sample, (*recent, sample))
