"""The books that need no fitting: each turns what it knows into estimates. A policy cannot tell which book is open.

`NoEstimates` knows nothing. `DeclaredBook` believes the user. `LinearBook` extrapolates the speed of the last half
minute. `OracleBook` knows the truth, which only a simulator has. The book that fits models is in `progress`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from headway.core.estimates import (
    Basis,
    Beliefs,
    Counts,
    Estimates,
    OnTypes,
    RowBelief,
    SentenceSource,
    TypesSource,
    says_basis,
)
from headway.core.job import Job, JobId, Role, computes
from headway.core.node import Nodes
from headway.core.scaling import Scaling, ScalingSource, SizeSpan, step_at
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import TRAINING
from headway.estimates.models.scaling import plain_speed
from headway.estimates.sizes.holder import SizesHolder
from headway.estimates.speed.accelerators import type_at

WINDOW_SECONDS = 30.0
"""`LinearBook` measures speed over this much of a job's recent past."""
MOST_SAMPLES = 32
"""More samples than this inside the window are thinned."""
MOST_TABLES = 10_000
"""Beyond this number of tables of speeds, all are forgotten."""
Truth = Callable[[Snapshot], Beliefs]


@dataclass(frozen=True, slots=True)
class NoEstimates:
    """No estimates at all: asking for one is an error. Also for replays, whose log has the estimates."""

    sizes: SizesHolder = field(default_factory=SizesHolder, compare=False, repr=False)

    def fold(self, snapshot: Snapshot) -> NoEstimates:  # noqa: ARG002  the book's protocol
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return _with_sizes(snapshot, self.sizes) if snapshot.estimates.known else snapshot


@dataclass(frozen=True, slots=True)
class DeclaredBook:
    """Believes the training time that the user declared."""

    sizes: SizesHolder = field(default_factory=SizesHolder, compare=False, repr=False)

    def fold(self, snapshot: Snapshot) -> DeclaredBook:  # noqa: ARG002  what was declared does not change
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        found = annotated(snapshot, lambda: declared_beliefs(snapshot), of_row=lambda row: _declared(snapshot, row))
        return _with_sizes(found, self.sizes)


@dataclass(frozen=True, slots=True)
class OracleBook:
    """Knows the truth."""

    truth: Truth
    speed: Callable[[Job, Counts], float] = plain_speed
    on_types: Callable[[Job], Mapping[str, float]] | None = None
    """Speed of a job by type of accelerators, relative to the work that `truth` counts in seconds."""
    tables: Tables = field(default_factory=lambda: Tables(), compare=False, repr=False)  # noqa: PLW0108  defined below
    sizes: SizesHolder = field(default_factory=SizesHolder, compare=False, repr=False)

    def fold(self, snapshot: Snapshot) -> OracleBook:  # noqa: ARG002  the truth needs no evidence
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        tables = self.tables.of(snapshot, self.speed)
        found = annotated(snapshot, lambda: self.truth(snapshot), self.speed, _says_truth, tables)
        if self.on_types is not None:
            found.estimates.with_types(self._types(snapshot, self.on_types))
        return _with_sizes(found, self.sizes)

    @staticmethod
    def _types(snapshot: Snapshot, speeds: Callable[[Job], Mapping[str, float]]) -> TypesSource:
        """While a job trains, its time left is told for where it is; else in seconds of work."""
        jobs, names = snapshot.jobs, snapshot.nodes.types.names
        sure = (True,) * len(names)

        def of(row: int) -> OnTypes:
            job = jobs.job(row)
            speed = speeds(job)
            trains = snapshot.placements.get(row) if jobs.value(row, "state") in TRAINING else None
            here = 1.0 if trains is None else speed.get(type_at(job, trains, snapshot.nodes), 1.0)
            return OnTypes(tuple(here / speed[kind] if speed[kind] else math.inf for kind in names), sure)

        return lambda rows: [of(row) for row in rows]


@dataclass(frozen=True, slots=True)
class LinearBook:
    """Expects that a job goes on at its recent speed. A report that goes backwards starts the measurement anew."""

    tracks: Mapping[JobId, Recent] = field(default_factory=dict)
    sizes: SizesHolder = field(default_factory=SizesHolder, compare=False, repr=False)

    def fold(self, snapshot: Snapshot) -> LinearBook:
        jobs = snapshot.jobs
        ended = [(jobs.job(row).id, row) for row in snapshot.changed if jobs.is_over(row)]
        over = [job for job, row in ended if jobs.row_of.get(job) == row]
        if not snapshot.samples and not any(job in self.tracks for job in over):
            return self
        tracks = dict(self.tracks)
        for sample in snapshot.samples:
            track = tracks.get(sample.job)
            tracks[sample.job] = Recent(sample, (sample,)) if track is None else track.extended(sample)
        for job in over:  # nothing more will be asked
            tracks.pop(job, None)
        return LinearBook(tracks, self.sizes)

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        found = annotated(snapshot, lambda: self._beliefs(snapshot), sentence=_says_recent_speed)
        return _with_sizes(found, self.sizes)

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


@dataclass(frozen=True, slots=True)
class Recent:
    """What one job has reported: its first sample, and those inside the window, the newest last."""

    first: Sample
    samples: tuple[Sample, ...]

    @property
    def last(self) -> Sample:
        return self.samples[-1]

    def seconds_left(self, total_steps: int) -> float | None:
        """By the speed between the oldest sample and the newest; None before there is a speed."""
        oldest, last = self.samples[0], self.last
        steps, seconds = last.step - oldest.step, last.at - oldest.at
        if steps <= 0 or seconds <= 0:
            return None
        return max(0.0, (total_steps - last.step) * seconds / steps)

    def extended(self, sample: Sample) -> Recent:
        if sample.step < self.last.step:
            return Recent(sample, (sample,))
        recent = tuple(old for old in self.samples if sample.at - old.at <= WINDOW_SECONDS) or (self.last,)
        if len(recent) > MOST_SAMPLES:
            recent = recent[::2]
        return Recent(self.first, (*recent, sample))


@dataclass(slots=True)
class Tables:
    """True speeds at all sizes by job. An answer depends on the job and the nodes only, so asking changes nothing."""

    known: dict[JobId, Scaling] = field(default_factory=dict)
    nodes: Nodes | None = None

    def of(self, snapshot: Snapshot, speed: Callable[[Job, Counts], float]) -> ScalingSource:
        if snapshot.nodes is not self.nodes or len(self.known) > MOST_TABLES:
            self.known, self.nodes = {}, snapshot.nodes
        known, jobs = self.known, snapshot.jobs

        def scaling(row: int, span: SizeSpan) -> Scaling:
            job = jobs.job(row)
            found = known.get(job.id)
            if found is None or len(found.speeds) <= span.max:
                found = known[job.id] = _by_size(job, speed, span)
            return found

        return scaling


def _by_size(job: Job, speed: Callable[[Job, Counts], float], span: SizeSpan) -> Scaling:
    fits = span.per_node
    found = Scaling.asked_one_by_one(lambda count: speed(job, (count,)), span)
    return Scaling(found.speeds, step_at([speed(job, (fits,)), speed(job, (fits + 1,))], fits))


def plain_scaling(snapshot: Snapshot) -> ScalingSource:
    """`plain_speed` at all sizes."""
    jobs = snapshot.jobs

    def scaling(row: int, span: SizeSpan) -> Scaling:
        role = jobs.job(row).roles[0]
        return _plain_table(computes(role.name), role.replicas, span)

    return scaling


@lru_cache(maxsize=MOST_TABLES)
def _plain_table(trains: bool, asked: int, span: SizeSpan) -> Scaling:
    role = Role(name="worker" if trains else "ps", replicas=asked, min=span.min, max=span.max)
    return _by_size(Job(id=JobId(""), roles=(role,)), plain_speed, span)


def annotated(
    snapshot: Snapshot,
    source: Callable[[], Beliefs],
    speed: Callable[[Job, Counts], float] = plain_speed,
    sentence: SentenceSource = says_basis,
    scaling: ScalingSource | None = None,
    of_row: RowBelief | None = None,
) -> Snapshot:
    """The snapshot with estimates that are computed when first asked for."""
    jobs, tables = snapshot.jobs, scaling or plain_scaling(snapshot)
    return snapshot.with_estimates(
        Estimates(source, lambda row, counts: speed(jobs.job(row), counts), sentence, tables, of_row=of_row)
    )


def _with_sizes(snapshot: Snapshot, sizes: SizesHolder) -> Snapshot:
    snapshot.estimates.with_sizes(sizes)
    return snapshot


def _says_truth(row: int, basis: Basis, now: float) -> str:
    return "the truth, as the simulator knows it" if basis is Basis.DECLARED else says_basis(row, basis, now)


def _says_recent_speed(row: int, basis: Basis, now: float) -> str:
    if basis is Basis.DECLARED:
        return "steps left at the speed of its last 30 seconds; before there is one, as the user declared"
    return says_basis(row, basis, now)


def declared_beliefs(snapshot: Snapshot) -> Beliefs:
    jobs = snapshot.jobs
    return Beliefs(jobs.declared - jobs.attained, jobs.since, jobs.training())


def _declared(snapshot: Snapshot, row: int) -> tuple[float, float, bool]:
    """The same of one row."""
    fields, declared = snapshot.jobs.read(row), snapshot.jobs.job(row).seconds
    left = math.nan if declared is None else declared - fields.attained
    return left, fields.since, fields.state in TRAINING
