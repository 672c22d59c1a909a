"""The book that believes progress: fitted speeds, growth, the history of like jobs, and doubt where reports are odd.

Time left is steps left times seconds per step: where the job is now, or at the requested size while it waits. A job
that reports no total is expected to end when its loss no longer falls. Before a job has reported, the book believes the
user, then like jobs. A job whose reports stopped or are odd is treated as if it did not report; the basis says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from headway.core.estimates import BASES, Basis, Beliefs, Counts, Estimates, OnTypes
from headway.core.job import Job, JobId
from headway.core.node import FloatArray
from headway.core.placement import Placement
from headway.core.scaling import Scaling, SizeSpan, workers_per_node
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import TRAINING, State
from headway.estimates.cache import NO_REPORTS, NOT_SILENT, Answers, BeliefCache, BeliefRow, Lean, shown_or_declared
from headway.estimates.history.change_costs import ChangeWatch
from headway.estimates.history.history import History
from headway.estimates.history.similar_jobs import SimilarJobs
from headway.estimates.invalidate import of_models, taught_by
from headway.estimates.job.doubt import patience
from headway.estimates.job.pace import Guess
from headway.estimates.job.target import Length
from headway.estimates.job.track import Track, Where
from headway.estimates.sizes.holder import SizesHolder
from headway.estimates.speed.model import PRIOR_SPREAD, Setting, SpeedFit, scaling
from headway.estimates.speed.prior import Prior
from headway.estimates.speed.requested import requested_by, requested_setting
from headway.estimates.speed.types import Leaning, on_types

CURVE_SPREAD = 0.6
"""Spread of a prediction of when a loss stops falling."""
MOST_SPREAD = 2.0
"""Max spread: close to a target, or past where it was expected, what is left is unknown."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What one job's own reports say of the time left."""

    basis: Basis
    left: float = math.nan
    at: float = 0.0
    spread: float = math.nan


def to_target(way: Length, step: float, total: int | None, guess: Guess, at: float) -> Belief:
    """Time left to the target, or to the last step if that comes first."""
    end = min(way.median, total or math.inf)
    left = max(0.0, end - step)
    spread = way.spread * end / left if left > 0 else MOST_SPREAD
    return Belief(Basis.TARGET, left * guess.seconds, at, min(MOST_SPREAD, math.hypot(guess.spread, spread)))


@dataclass(frozen=True, slots=True)
class ProgressBook:
    """Pure: folding a snapshot makes another book. `tracks` has the jobs that have reported and are not over."""

    tracks: Mapping[JobId, Track] = field(default_factory=dict)
    history: History = History()
    cache: BeliefCache = field(default_factory=lambda: BeliefCache([]), compare=False, repr=False)
    """Answers computed before; with an empty one the book believes the same."""
    since: float = -math.inf
    """Jobs that finished up to this moment have taught already: a run that goes on shows them once more."""
    watch: ChangeWatch = ChangeWatch()
    """What was seen of starts and stops that are under way."""
    sizes: SizesHolder = field(default_factory=SizesHolder, compare=False, repr=False)
    """Handed on: what it answers does not depend on what it was asked before."""

    def teaches(self, snapshot: Snapshot, row: int) -> bool:
        """Whether this job has finished, and is not one that an earlier run has learned from."""
        state, since = snapshot.jobs.values(row, ("state", "since"))
        return bool(state == State.FINISHED and since > self.since)

    def fold(self, snapshot: Snapshot) -> ProgressBook:
        jobs, row_of = snapshot.jobs, snapshot.jobs.row_of
        over = [row for row in snapshot.changed if jobs.is_over(row)]
        watch, history = self._changes(snapshot)
        if not snapshot.samples and not over:
            cache = self.cache.after(snapshot, snapshot.changed)
            return replace(self, history=history, cache=cache, watch=watch)
        reported = [row_of[one.job] for one in snapshot.samples if one.job in row_of]
        touched, scaled = [*snapshot.changed, *reported], [*reported, *over]
        tracks, lessons = dict(self.tracks), set[str]()  # models of which running jobs have shown something else
        for sample in snapshot.samples:
            track = self._extended(tracks.get(sample.job), sample, snapshot)
            if track is not None:
                tracks[sample.job] = track
                if track.seen and (row := row_of.get(sample.job)) is not None:
                    before, job = history, jobs.job(row)
                    history = history.heard(job, track, requested_setting(job, snapshot.nodes))
                    if history is not before:
                        lessons.add(job.model)
                    history = history.heard_on_types(job, track)
        for row in over:
            job = jobs.job(row)
            lives_on = row_of.get(job.id) != row  # under other terms, or as another job of that name
            gone = None if lives_on else tracks.pop(job.id, None)
            if self.teaches(snapshot, row):
                before = history
                trained, asked = jobs.value(row, "attained"), requested_setting(job, snapshot.nodes)
                history = history.learn(job, gone, asked, trained)
                if gone is not None:
                    taught = taught_by(job, snapshot, tracks, before, history)
                    touched, scaled = touched + taught.times, scaled + taught.scalings
            elif (left := history.without_lesson(job)) is not history:
                history = left
                lessons.add(job.model)
        scaled += of_models(snapshot, lessons) if lessons else []
        cache = self.cache.after(snapshot, touched, scaled)
        return replace(self, tracks=tracks, history=history, cache=cache, watch=watch)

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        told = Estimates(
            lambda: self._beliefs(snapshot),
            lambda row, counts: self._speed(snapshot, row, counts),
            lambda row, basis, now: self._sentence(snapshot.jobs.job(row), basis, now),
            lambda row, span: self._scaling(snapshot, row, span),
            lambda rows, spans: self._scalings(snapshot, rows, spans),
        )
        told.with_sizes(self.sizes).with_types(lambda rows: self._on_types(snapshot, rows))
        return snapshot.with_estimates(told)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _changes(self, snapshot: Snapshot) -> tuple[ChangeWatch, History]:
        """What is seen of starts and stops, and the history with what they took."""
        watch, costs = self.watch.fold(snapshot, self.history.costs, self.since)
        return watch, self.history if costs is self.history.costs else replace(self.history, costs=costs)

    def _extended(self, track: Track | None, sample: Sample, snapshot: Snapshot) -> Track | None:
        """The track with one more report. A job that was down since its last report starts a new measurement."""
        row = snapshot.jobs.row_of.get(sample.job)
        placement = None if row is None else snapshot.placements.get(row)
        if row is None or placement is None:
            return track
        if track is not None and _gives_up(snapshot, row, placement):
            return track
        if track is not None:
            since: float = snapshot.jobs.value(row, "since")
            here = track.placement is placement or track.placement == placement
            if not here and sample.at < since:
                return track  # it was said on the way: its speed is that of neither place
            if here and (since <= track.at or sample.at < since):
                return track.fold(sample, snapshot.now)
        job = snapshot.jobs.job(row)
        where = self._where(snapshot, row, placement)
        asked = requested_setting(job, snapshot.nodes)
        setting, prior = where.setting, where.prior
        if track is None:
            expected = self.history.step(job, asked.on_type(setting.on or asked.on))
            if expected is not None and setting != asked:
                model = SpeedFit(prior.form, prior.coefficients)
                expected = Guess(expected.seconds / model.relative(setting, asked), expected.spread).vaguer(
                    prior.spread
                )
            return Track.beginning(sample, where, expected)
        return track.moved(sample, where)

    def _where(self, snapshot: Snapshot, row: int, placement: Placement) -> Where:
        job, (attained, since) = snapshot.jobs.job(row), snapshot.jobs.values(row, ("attained", "since"))
        setting, asked = Setting.of(job, placement, snapshot.nodes), requested_setting(job, snapshot.nodes)
        return Where(
            placement=placement, setting=setting, now=snapshot.now,
            prior=self.history.prior(job, asked.on_type(setting.on or asked.on)), clock=attained - since,
        )  # fmt: skip

    def _beliefs(self, snapshot: Snapshot) -> Beliefs:
        """By the job's own reports; else as declared; else as like jobs took."""
        answers = self.cache.answers_for(snapshot, lambda row: self._row(snapshot, row))
        beliefs = shown_or_declared(snapshot, answers.columns)
        unknown = np.flatnonzero(np.isnan(beliefs.left) & ~snapshot.jobs.over())
        if len(unknown):
            self._fill_by_like_jobs(snapshot, answers, beliefs, unknown)
        return beliefs

    def _fill_by_like_jobs(
        self, snapshot: Snapshot, answers: Answers, beliefs: Beliefs, rows: npt.NDArray[np.intp]
    ) -> None:
        """Fills in what like jobs took, group by group."""
        assert beliefs.spread is not None
        assert beliefs.basis is not None
        new, waits = snapshot.jobs.attained[rows] == 0.0, ~beliefs.burning[rows]
        group, steps = answers.columns.group[rows], answers.columns.steps[rows]
        for number in np.unique(group).tolist():
            like = answers.similar.of(number, answers.groups.examples[number], self.history, snapshot.nodes)
            members = group == number
            fresh = members & new & (waits | like.by_steps(steps))
            told = like.new(steps[fresh])
            if told is not None:
                beliefs.left[rows[fresh]], beliefs.spread[rows[fresh]] = told
            going = rows[members & ~fresh]
            found = _going(snapshot, like, going) if len(going) else None
            if found is not None:
                beliefs.left[going], beliefs.at[going], beliefs.spread[going] = found
        told_now = rows[~np.isnan(beliefs.left[rows]) & (beliefs.basis[rows] == int(Basis.NOTHING))]
        beliefs.basis[told_now] = int(Basis.HISTORY)

    def _row(self, snapshot: Snapshot, row: int) -> BeliefRow:
        """What the job's own reports say."""
        job = snapshot.jobs.job(row)
        track = self.tracks.get(job.id)
        if track is None:
            return NO_REPORTS
        state, since = snapshot.jobs.values(row, ("state", "since"))
        training = state in TRAINING
        odd = self.history.doubt(job, track)
        shown = self._shown(snapshot, row, track) if odd is Basis.NOTHING else None
        silent_at = max(track.at, since) + patience(track.pace) if training and odd is Basis.NOTHING else NOT_SILENT
        grower = track.grower if odd is Basis.NOTHING else None
        growth = (0, math.nan) if grower is None else (int(grower.kind), grower.since)
        if shown is None or math.isnan(shown.left):
            return BeliefRow(math.nan, 0.0, math.nan, Basis.NOTHING, odd, silent_at, *growth)
        return BeliefRow(shown.left, shown.at, shown.spread, shown.basis, odd, silent_at, *growth)

    def _sentence(self, job: Job, basis: Basis, now: float) -> str:
        """What the belief rests on, with the last report where it rests on reports."""
        track = self.tracks.get(job.id)
        if track is None or basis in (Basis.NOTHING, Basis.DECLARED, Basis.HISTORY):
            return BASES[basis]
        total = track.total or job.steps
        step = f"step {track.step}" + (f" of {total}" if total else "")
        return f"{BASES[basis]} (last: {step}, {now - track.at:.0f} s ago)"

    def _shown(self, snapshot: Snapshot, row: int, track: Track) -> Belief | None:
        """Time left by the job's own reports; None where they do not tell."""
        job, (state, since) = snapshot.jobs.job(row), snapshot.jobs.values(row, ("state", "since"))
        training = state in TRAINING
        guess = self._pace_now(snapshot, row, track, training=training)
        if guess is None:
            return None
        # It may have been changed since its last report: then this was its step when it began here.
        step, at = float(track.step), track.at
        if since > track.at:
            step, at = track.step_when(snapshot.jobs.value(row, "attained")), since
        total = track.total or job.steps
        if job.target is not None:
            way = track.steps_to_target(job.target, self.history.reached(job))
            if way is not None:
                return to_target(way, step, total, guess, at)
        if total:
            left = max(0.0, total - step) * guess.seconds
            return Belief(Basis.STEPS, left, at, guess.spread)
        end = track.steps_to_converge()
        if end is None:
            return None
        return Belief(Basis.CURVE, max(0.0, end - step) * guess.seconds, at, CURVE_SPREAD)

    def _pace_now(self, snapshot: Snapshot, row: int, track: Track, *, training: bool) -> Guess | None:
        """Seconds per step where the job is now: measured, or as the model says until it reports from there. While it
        waits: at the requested size.
        """
        job, placement = snapshot.jobs.job(row), snapshot.placements.get(row)
        here = training and (placement is None or placement is track.placement or placement == track.placement)
        guess = track.guess() if here else None
        if guess is not None:
            return guess
        asked = requested_by(job, track, snapshot.nodes)
        if not training:
            guess = track.seconds_at(asked, self.history.prior(job, asked))
        elif not here:
            assert placement is not None
            setting = Setting.of(job, placement, snapshot.nodes)
            guess = track.expected_at(setting, self.history.prior(job, asked))
        if guess is None and track.setting == asked:
            return self.history.step(job, asked)
        return guess

    def _believed(self, job: Job) -> Track | None:
        """Its reports; None where there are none, or they are not believed."""
        track = self.tracks.get(job.id)
        return None if track is None or self.history.doubt(job, track) is not Basis.NOTHING else track

    def _speed(self, snapshot: Snapshot, row: int, counts: Counts) -> float:
        job = snapshot.jobs.job(row)
        track = self._believed(job)
        if any(count < role.min for role, count in zip(job.roles, counts, strict=True)):
            return 0.0
        asked = requested_by(job, track, snapshot.nodes)
        prior = self._hoped(job, track, asked)
        setting = Setting.sized(job, counts, workers_per_node(job, snapshot.nodes))
        if track is None:
            return SpeedFit(prior.form, prior.coefficients).relative(setting, asked)
        return track.shape(prior).relative(setting, asked)

    def _hoped(self, job: Job, track: Track | None, asked: Setting) -> Prior:
        """What to expect of its sizes. That more workers are slower is not believed of a job which was seen in one
        setting only: nobody would try, and a belief that has become wrong would stay. Likewise a long job finds out
        what it costs to leave a node, where no job of its model has.
        """
        prior = self.history.prior_of_sizes(job, asked)
        if track is None:
            return prior
        if prior.across_spread >= PRIOR_SPREAD and track.may_leave_a_node(job.steps):
            prior = prior.without_exchange()
        return prior if track.seen else prior.without_decline()

    def _on_types(self, snapshot: Snapshot, rows: Sequence[int]) -> list[OnTypes]:
        """By own measurements, by like jobs that ran on several types, and by what is published."""
        lessons, names, jobs = self.history.on_types, snapshot.nodes.types.names, snapshot.jobs

        def leaning(row: int) -> Leaning:
            job = jobs.job(row)
            return lessons.leaning(job.model, job.user, names)

        lean = Lean(lessons, leaning)
        return [
            self.cache.on_types_of(snapshot, row, lean, lambda found, row=row: self._on_type(snapshot, row, found))  # type: ignore[misc]
            for row in rows
        ]

    def _on_type(self, snapshot: Snapshot, row: int, leaning: Leaning) -> OnTypes:
        names, track = snapshot.nodes.types.names, self._believed(snapshot.jobs.job(row))
        own = {} if track is None else track.paces_on_types()
        if track is None or not own:
            return on_types(names, leaning, {}, "" if track is None else track.setting.on)
        training = snapshot.jobs.value(row, "state") in TRAINING
        guess = self._pace_now(snapshot, row, track, training=training)
        return on_types(names, leaning, own, track.setting.on if guess is None else math.log(guess.seconds))

    def _scalings(self, snapshot: Snapshot, rows: Sequence[int], spans: Sequence[SizeSpan]) -> list[Scaling]:
        known = self.cache.tables_of(snapshot, rows)
        return [
            found if found is not None and len(found.speeds) > span.max else self._scaling(snapshot, row, span)
            for row, span, found in zip(rows, spans, known, strict=True)
        ]

    def _scaling(self, snapshot: Snapshot, row: int, span: SizeSpan) -> Scaling:
        found = self.cache.table_of(snapshot, row)
        if found is None or len(found.speeds) <= span.max:
            job = snapshot.jobs.job(row)
            track = self._believed(job)
            asked = requested_by(job, track, snapshot.nodes)
            prior = self._hoped(job, track, asked)
            coefficients = prior.coefficients if track is None else track.shape(prior).coefficients
            found = scaling(prior.form, coefficients, job, span)
            self.cache.keep_table(snapshot, row, found)
        return found


def _gives_up(snapshot: Snapshot, row: int, placement: Placement) -> bool:
    """Whether replicas of it are ending. Its reports are then those of a smaller job than the snapshot shows, or of one
    that waits for those that end: they would be remembered as the speed of the size that it had.
    """
    flight = snapshot.flights.get(row)
    if flight is None or flight.towards is None or snapshot.jobs.state_of(row) is not State.SCALING:
        return False
    return flight.towards.width() < placement.width()


def _going(snapshot: Snapshot, like: SimilarJobs, rows: npt.NDArray[np.intp]) -> FloatArray | None:
    """What is left of jobs that have trained, by how long like jobs took."""
    jobs = snapshot.jobs
    attained, since = jobs.attained[rows], jobs.since[rows]
    return like.going(attained, since, attained + np.where(jobs.training()[rows], snapshot.now - since, 0.0))
