"""How good estimates of remaining time are for jobs with known total steps, while jobs and neighbours change size.

The study runs a cluster in virtual time whose truth no estimator sees. Speeds are published or fitted, neighbours slow
each other down, a restless policy resizes jobs at random, and reports are late, lost or off by some steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.plan import Decision, Plan, Scale
from headway.core.snapshot import Sample, Snapshot
from headway.cycle.loop import decide
from headway.estimates.evaluate import SHARES, Error, error_of, summary
from headway.estimates.models.profiles import Profile
from headway.estimates.plain_books import LinearBook
from headway.estimates.progress import ProgressBook
from headway.policies.baselines.fifo import first_fit
from headway.sim.cluster import SimCluster
from headway.sim.sharing import Sharing
from headway.sim.speed import Speed
from headway.sim.world import Costs, Reports, World

REPORT_SECONDS = 5.0
RESIZE_CHANCE = 0.15
"""The chance that one running job is resized, whenever jobs report."""
LATE = 0.15
"""Standard deviation of how late or early a report is, as a share of the time between two."""
LOST = 0.05
NEIGHBOUR_LOSS = 0.3
METHODS = ("headway", "linear", "recent")
"""Headway's; a line from the first report to the newest; the speed of the last half minute (the book `linear`)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One moment of one job."""

    job: JobId
    model: str
    share: float
    now: float
    true: float
    """Seconds left if everything stays as it is."""
    left: tuple[float, ...]
    """By method; NaN where it has no answer."""


@dataclass(frozen=True, slots=True)
class StepErrors:
    """By share of the job done and method, in the order of SHARES and METHODS."""

    as_it_is: tuple[tuple[Error, ...], ...]
    """Against what is left if nothing changes any more."""
    as_it_came: tuple[tuple[Error, ...], ...]
    """Against what was left in the end, with all later resizes, neighbours and stops."""
    jobs: int
    resizes: int


def evaluate_steps(profiles: Mapping[str, Profile], jobs: int, seed: int, told: Callable[[float], None]) -> StepErrors:
    cluster, work = _cluster(profiles, jobs, seed)
    restless = Restless(random.Random(seed))  # noqa: S311  a simulation
    noise = Noise(random.Random(seed + 1))  # noqa: S311
    progress, linear = ProgressBook(), LinearBook()
    seen: list[Seen] = []
    ends: dict[JobId, float] = {}
    next_share = dict.fromkeys(work, 0)
    while (snapshot := cluster.next_snapshot()) is not None:
        snapshot = noise(snapshot)
        progress, linear = progress.fold(snapshot), linear.fold(snapshot)
        seen += _look(cluster, snapshot, (progress, linear), next_share)
        for row in snapshot.changed:
            if snapshot.jobs.is_over(row):
                ends[snapshot.jobs.job(row).id] = snapshot.now
        told(len(ends) / jobs)
        cluster.apply(decide(restless, snapshot).plan)
    came = [replace(one, true=ends[one.job] - one.now) for one in seen if one.job in ends]
    return StepErrors(_errors(seen), _errors(came), len(ends), restless.resizes)


def _cluster(profiles: Mapping[str, Profile], count: int, seed: int) -> tuple[SimCluster, dict[JobId, float]]:
    chance = random.Random(seed)  # noqa: S311
    names = sorted(profiles)
    nodes = [Node(name=f"n{i}", capacity=(("cpu", 32_000), ("gpu", 4)), accelerator="t4") for i in range(8)]
    work: dict[JobId, float] = {}
    jobs, submit = [], 0.0
    for number in range(count):
        job = _job(number, names[chance.randrange(len(names))], chance, submit)
        work[job.id] = min(6000.0, max(300.0, chance.lognormvariate(7.0, 0.7)))
        jobs.append(job)
        submit += chance.expovariate(1 / 150.0)
    world = World(
        costs=Costs(start=8.0, scale=4.0), speed=Speed(profiles=profiles), work=lambda job: work[job.id],
        reports=Reports(seconds=0.0, noise=0.02), sharing=Sharing(neighbour_loss=NEIGHBOUR_LOSS), seed=seed,
    )  # fmt: skip
    return SimCluster(Nodes.of(nodes), jobs, world), work


def _job(number: int, model: str, chance: random.Random, submit: float) -> Job:
    size = chance.choice((1, 2, 2, 4, 4, 8))
    worker = Role(name="worker", replicas=size, min=1, max=12, request=(("cpu", 2000), ("gpu", 1)))
    roles: tuple[Role, ...] = (worker,)
    if model in _SERVED:
        ps = Role(name="ps", replicas=max(1, size // 2), min=max(1, size // 2), max=max(1, size // 2),
                  request=(("cpu", 2000),), near=("worker",))  # fmt: skip
        roles = (ps, replace(worker, near=("ps",), after=("ps",)))
    return Job(id=JobId(f"job-{number:03}"), roles=roles, model=model, submit=submit, steps=chance.randint(800, 40_000))


_SERVED = ("resnet-50", "vgg-16", "resnext-110", "inception-bn", "seq2seq", "cnn-text", "dssm", "wlm")


def _look(
    cluster: SimCluster, snapshot: Snapshot, books: tuple[ProgressBook, LinearBook], next_share: dict[JobId, int]
) -> list[Seen]:
    """For every job that has just passed one of the shares: the truth and what each method says."""
    truth = cluster.truth(snapshot)
    total = cluster.work.total[: snapshot.jobs.count]
    done = 1.0 - np.array([cluster.work.left_at(row, snapshot.now) for row in range(snapshot.jobs.count)]) / total
    passed = []
    for row in np.flatnonzero(snapshot.jobs.training()).tolist():
        job = snapshot.jobs.job(row)
        number = next_share[job.id]
        if number < len(SHARES) and done[row] >= SHARES[number]:
            while number < len(SHARES) and done[row] >= SHARES[number]:
                number += 1
            next_share[job.id] = number
            passed.append((row, job, SHARES[number - 1]))
    if not passed:
        return []
    now = snapshot.now
    true = np.maximum(0.0, truth.left - np.where(truth.burning, now - truth.at, 0.0))
    ours, recent = (book.annotate(snapshot).estimates.left(now) for book in books)
    return [
        Seen(job.id, job.model, share, now, float(true[row]),
             (float(ours[row]), _line(books[1], job, now), float(recent[row])))
        for row, job, share in passed
    ]  # fmt: skip


def _line(book: LinearBook, job: Job, now: float) -> float:
    """Plain linear extrapolation over the whole life of the job."""
    track = book.tracks.get(job.id)
    if track is None or track.last.step <= track.first.step or job.steps is None:
        return float("nan")
    pace = (track.last.at - track.first.at) / (track.last.step - track.first.step)
    return max(0.0, (job.steps - track.last.step) * pace - (now - track.last.at))


def _errors(seen: list[Seen]) -> tuple[tuple[Error, ...], ...]:
    found = []
    for share in SHARES:
        here = [one for one in seen if one.share == share and one.true > 0]
        errors = []
        for number in range(len(METHODS)):
            known = [one for one in here if not np.isnan(one.left[number])]
            errors.append(summary([error_of(one.left[number], one.true) for one in known], len(here) - len(known)))
        found.append(tuple(errors))
    return tuple(found)


@dataclass(slots=True)
class Restless:
    """first-fit, but from time to time one running job gains or loses a worker or two."""

    chance: random.Random
    resizes: int = 0

    def __call__(self, snapshot: Snapshot) -> Plan:
        decisions: list[Decision] = list(first_fit(snapshot).decisions)
        running = snapshot.jobs.running().tolist()
        if not decisions and running and self.chance.random() < RESIZE_CHANCE:
            scale = self._scaled(snapshot, self.chance.choice(running))
            if scale is not None:
                decisions.append(scale)
                self.resizes += 1
        return Plan(tuple(decisions), snapshot.now + REPORT_SECONDS)

    def _scaled(self, snapshot: Snapshot, row: int) -> Scale | None:
        job, placement = snapshot.jobs.job(row), snapshot.placements[row]
        number = len(job.roles) - 1
        here = placement.nodes[number]
        if len(here) > 1 and self.chance.random() < 0.5:
            return Scale(job.id, job.roles[number].name, here[: -self.chance.randint(1, min(2, len(here) - 1))])
        room = _room(snapshot, placement, number, row)
        more = (self.chance.choice(room),) if room and len(here) < job.roles[number].max else ()
        return Scale(job.id, job.roles[number].name, here + more) if more else None


def _room(snapshot: Snapshot, placement: Placement, number: int, row: int) -> list[int]:
    vector = placement.vector(snapshot.jobs.shape_at(row), number)
    fits: list[int] = np.flatnonzero((snapshot.free >= vector[:, None]).all(axis=0)).tolist()
    return fits


@dataclass(slots=True)
class Noise:
    """Makes reports late, lost and inexact, as real ones are."""

    chance: random.Random
    before: dict[JobId, Sample] = field(default_factory=dict)

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        samples = []
        for sample in snapshot.samples:
            last = self.before.get(sample.job)
            if last is None or sample.at - last.at >= REPORT_SECONDS - 1e-6 or sample.step < last.step:
                self.before[sample.job] = sample
                if self.chance.random() >= LOST:
                    samples.append(self._off(sample, last))
        return replace(snapshot, samples=tuple(samples))

    def _off(self, sample: Sample, last: Sample | None) -> Sample:
        advance = 0 if last is None else max(0, sample.step - last.step)
        off = round(self.chance.gauss(0.0, LATE * advance))
        total = sample.total_steps or sample.step
        lowest = 0 if last is None else last.step
        return replace(sample, step=min(total, max(min(lowest, sample.step), sample.step + off)))
