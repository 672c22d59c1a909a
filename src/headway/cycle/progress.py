"""The book that believes progress: fitted speeds, growth, like jobs' history, and doubt where reports are odd.

Time left is steps left times seconds per step where the job is now, or at the asked-for size while it waits. A job that
gives no total is taken to end when its loss no longer falls. Before a job has reported, the user is believed, then like
jobs. A job whose reports are silent or odd is treated as if it did not report, and `why` says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.estimates import BASES, Basis, Beliefs, Counts, Estimates, Growth
from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import OVER, State
from headway.cycle.declared import declared_beliefs
from headway.predict.doubt import patience
from headway.predict.history import History
from headway.predict.pace import Guess
from headway.predict.scaling import plain_speed
from headway.predict.shapes import Length
from headway.predict.speed import Fit, Setting, workers_per_node
from headway.predict.track import Track, Where

_OVER = tuple(int(state) for state in OVER)
CURVE_SPREAD = 0.6
"""When a loss stops falling is known no better than this."""
MOST_SPREAD = 2.0
"""Close to a target, or beyond where it was expected, nothing is known of what is left."""


@dataclass(frozen=True, slots=True)
class Belief:
    """One job's row."""

    basis: Basis
    left: float = math.nan
    at: float = 0.0
    spread: float = math.nan


@dataclass(frozen=True, slots=True)
class Progress:
    tracks: Mapping[JobId, Track] = field(default_factory=dict)
    history: History = History()

    def fold(self, snapshot: Snapshot) -> Progress:
        state = snapshot.jobs.state if snapshot.changed else ()
        over = [row for row in snapshot.changed if state[row] in _OVER]
        if not snapshot.samples and not over:
            return self
        tracks, history = dict(self.tracks), self.history
        for sample in snapshot.samples:
            track = self._extended(tracks.get(sample.job), sample, snapshot)
            if track is not None:
                tracks[sample.job] = track
        for row in over:
            job = snapshot.jobs.job(row)
            gone = tracks.pop(job.id, None)
            if state[row] == State.FINISHED:
                history = history.learn(job, gone, _asked(job, snapshot.nodes), snapshot.jobs.value(row, "attained"))
        return Progress(tracks, history)

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return snapshot.with_estimates(
            Estimates(lambda: self._beliefs(snapshot), lambda row, counts: self._speed(snapshot, row, counts))
        )

    def why(self, snapshot: Snapshot, row: int) -> str:
        """What the belief about this job rests on, in a sentence with its numbers."""
        belief, track = self._belief(snapshot, row), self.tracks.get(snapshot.jobs.job(row).id)
        if track is None or belief.basis in (Basis.NOTHING, Basis.DECLARED, Basis.HISTORY):
            return BASES[belief.basis]
        total = track.total or snapshot.jobs.job(row).steps
        step = f"step {track.step}" + (f" of {total}" if total else "")
        return f"{BASES[belief.basis]} (last: {step}, {snapshot.now - track.at:.0f} s ago)"

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _extended(self, track: Track | None, sample: Sample, snapshot: Snapshot) -> Track | None:
        """A job that was down since its last report begins a new line, even where it was before."""
        row = snapshot.jobs.row_of.get(sample.job)
        placement = None if row is None else snapshot.placements.get(row)
        if row is None or placement is None:
            return track
        if track is not None and (track.placement is placement or track.placement == placement):
            since: float = snapshot.jobs.value(row, "since")
            if since <= track.at or sample.at <= since:
                return track.fold(sample, snapshot.now)
        job = snapshot.jobs.job(row)
        setting = Setting.of(job, placement, snapshot.nodes)
        asked = _asked(job, snapshot.nodes)
        prior = self.history.prior(job, asked)
        if track is None:
            expected = self.history.step(job, asked)
            if expected is not None and setting != asked:
                model = Fit(prior.form, prior.coefficients)
                expected = Guess(expected.seconds / model.relative(setting, asked), expected.spread).vaguer(
                    prior.spread
                )
            return Track.beginning(sample, placement, setting, snapshot.now, expected)
        return track.moved(sample, Where(placement=placement, setting=setting, now=snapshot.now, prior=prior))

    def _beliefs(self, snapshot: Snapshot) -> Beliefs:
        jobs, declared = snapshot.jobs, declared_beliefs(snapshot)
        left, at, burning = declared.left.copy(), declared.at.copy(), np.array(declared.burning)
        spread, since = np.full(jobs.count, np.nan), np.full(jobs.count, np.nan)
        growth = np.full(jobs.count, int(Growth.UNKNOWN), np.uint8)
        basis = np.where(np.isnan(left), int(Basis.NOTHING), int(Basis.DECLARED)).astype(np.uint8)
        for row in self._rows(snapshot, np.isnan(left)):
            belief = self._belief(snapshot, row)
            basis[row] = int(belief.basis)
            if not math.isnan(belief.left):
                left[row], at[row], spread[row] = belief.left, belief.at, belief.spread
            track = self.tracks.get(jobs.jobs[row].id)
            if track is not None and track.grower is not None and track.doubt.basis is None:
                growth[row], since[row] = int(track.grower.kind), track.grower.since
        return Beliefs(left, at, burning, spread, growth, since, basis)

    def _rows(self, snapshot: Snapshot, undeclared: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[int]:
        """Jobs of which more may be known than what was declared."""
        jobs = snapshot.jobs
        rows = {row for job_id in self.tracks if (row := jobs.row_of.get(job_id)) is not None and row < jobs.count}
        if self.history.durations.histograms:
            rows.update(np.flatnonzero(undeclared & (jobs.state < _OVER[0])).tolist())
        return sorted(rows)

    def _belief(self, snapshot: Snapshot, row: int) -> Belief:
        jobs = snapshot.jobs
        job = jobs.job(row)
        track = self.tracks.get(job.id)
        state, since, attained = jobs.values(row, ("state", "since", "attained"))
        training = State.RUNNING <= state <= State.RESIZING
        odd: Basis | None = None
        if track is not None:
            odd = track.doubt.basis
            if odd is None and training and snapshot.now - max(track.at, since) > patience(track.pace):
                odd = Basis.SILENT
            if odd is None:
                shown = self._shown(snapshot, job, track, training=training)
                if shown is not None:
                    return shown
        if job.seconds is not None:
            return Belief(odd or Basis.DECLARED)
        return self._like(snapshot, job, odd, since, attained)

    def _shown(self, snapshot: Snapshot, job: Job, track: Track, *, training: bool) -> Belief | None:
        """What is left by the job's own reports."""
        guess = track.guess() if training else None
        if guess is None:
            asked = _asked(job, snapshot.nodes)
            guess = track.seconds_at(asked, self.history.prior(job, asked)) if not training else None
            if guess is None and track.setting == asked:
                guess = self.history.step(job, asked)
            if guess is None:
                return None
        at = track.at if training else snapshot.now
        total = track.total or job.steps
        if job.target is not None:
            way = track.steps_to_target(job.target, self.history.reached(job))
            if way is not None:
                return _to_target(way, track.step, total, guess, at)
        if total:
            return Belief(Basis.STEPS, max(0, total - track.step) * guess.seconds, at, guess.spread)
        end = track.steps_to_converge()
        if end is None:
            return None
        return Belief(Basis.CURVE, max(0.0, end - track.step) * guess.seconds, at, CURVE_SPREAD)

    def _like(self, snapshot: Snapshot, job: Job, odd: Basis | None, since: float, attained: float) -> Belief:
        """What is left by what like jobs took."""
        known = self.history.reached(job).known()
        steps = min(job.steps or math.inf, known[0]) if known is not None else job.steps
        step = self.history.step(job, _asked(job, snapshot.nodes)) if steps and not attained else None
        if step is not None and steps:
            spread = step.spread if known is None else math.hypot(step.spread, known[1])
            return Belief(odd or Basis.HISTORY, steps * step.seconds, since, spread)
        took = self.history.durations.predict(job)
        if took is None:
            return Belief(odd or Basis.NOTHING)
        return Belief(odd or Basis.HISTORY, max(0.0, took[0] - attained), since, took[1])

    def _speed(self, snapshot: Snapshot, row: int, counts: Counts) -> float:
        job = snapshot.jobs.job(row)
        track = self.tracks.get(job.id)
        plain = plain_speed(job, counts)
        if plain == 0.0 or (track is None and not self.history.knows(job)):
            return plain
        asked = _asked(job, snapshot.nodes)
        prior = self.history.prior(job, asked)
        setting = Setting.sized(job, counts, workers_per_node(job, snapshot.nodes))
        if track is None or track.doubt.basis is not None:
            return Fit(prior.form, prior.coefficients).relative(setting, asked)
        if counts == track.placement.counts:
            setting = track.setting
        return track.fitted(prior).relative(setting, asked)


def _to_target(way: Length, step: int, total: int | None, guess: Guess, at: float) -> Belief:
    """What is left to the target, or to the last step where that comes before."""
    end = min(way.median, total or math.inf)
    left = max(0.0, end - step)
    spread = way.spread * end / left if left > 0 else MOST_SPREAD
    return Belief(Basis.TARGET, left * guess.seconds, at, min(MOST_SPREAD, math.hypot(guess.spread, spread)))


def _asked(job: Job, nodes: Nodes) -> Setting:
    return Setting.sized(job, tuple(role.replicas for role in job.roles), workers_per_node(job, nodes))
