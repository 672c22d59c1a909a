"""Generates workloads with a given load. The same settings and cluster give the same jobs.

Random numbers are drawn in one fixed order, column by column, so that a change of one share leaves the other columns as
they are. Times are rounded to milliseconds, so that a written file reads back as the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from headway.core.errors import UserError
from headway.core.job import Job, JobId, Role
from headway.core.node import FloatArray, IntArray, Node
from headway.core.quantity import CPU, GPU
from headway.core.text import lasting
from headway.workload.models import assign_models
from headway.workload.settings import MIXES, Settings, checked, mix_of
from headway.workload.trace import Trace

DAY = 86_400.0
LEAST_WITHIN = 0.85
"""Share of the work that can be done while jobs arrive; below it a note says so."""
URGENT = 5
WORKERS_PER_PS = 4


@dataclass(frozen=True, slots=True)
class Room:
    """The capacity of a cluster for workers."""

    kind: str
    """Each worker takes one GPU, or one core on a cluster without GPUs."""
    workers: int
    has_cpu: bool

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Room:
        total: dict[str, int] = {}
        for node in nodes:
            for kind, amount in node.capacity:
                # A worker takes whole cores, so the fraction of a node is unusable.
                total[kind] = total.get(kind, 0) + (amount // 1000 if kind == CPU else amount)
        kind = GPU if total.get(GPU) else CPU
        if not total.get(kind):
            raise UserError("cannot generate a workload for a cluster that has neither GPUs nor whole cores")
        return cls(kind, total[kind], total.get(CPU, 0) > 0)


def generate(settings: Settings, nodes: Sequence[Node]) -> Trace:
    checked(settings)
    room = Room.of(nodes)
    if settings.ps and (not room.has_cpu or room.kind == CPU):
        raise UserError(
            "ps: parameter servers need nodes with GPUs for the workers and cpu beside, such as 8x4gpu,32cpu"
        )
    columns = [np.random.default_rng([settings.seed, number]) for number in range(9)]
    sizes = _sizes(settings, room, columns[0])
    seconds = _seconds(settings, columns[1])
    window = math.fsum(sizes * seconds) / (room.workers * settings.load)
    submits = _submits(settings, window, columns[2])
    users = _users(settings, columns[3])
    deadlines = _deadlines(settings, seconds, columns[4])
    declared = np.round(seconds * np.exp(settings.declared_error * columns[5].standard_normal(len(seconds))), 3)
    urgent, ps, elastic = (column.random(settings.jobs) for column in columns[6:9])
    jobs = [
        Job(
            id=JobId(f"job-{i:05}"), user=f"user-{users[i]}", queue=f"queue-{users[i] // 4}",
            roles=_roles(int(sizes[i]), room, bool(elastic[i] < settings.elastic),
                         settings.ps_cpu if sizes[i] > 1 and ps[i] < settings.ps else 0.0),
            priority=URGENT if urgent[i] < settings.urgent else 0, submit=float(submits[i]),
            seconds=float(declared[i]),
            deadline=None if np.isnan(deadlines[i]) else float(submits[i] + deadlines[i]),
        )
        for i in range(settings.jobs)
    ]  # fmt: skip
    truth = {job.id: float(true) for job, true in zip(jobs, seconds, strict=True)} if settings.declared_error else None
    return Trace(
        name=f"generated/{settings.arrivals}-{settings.sizes}-{settings.load:g}-{settings.seed}",
        jobs=assign_models(jobs, settings.seed), nodes=tuple(nodes), truth=truth,
        notes=(f"{settings.jobs} jobs in {window:.3f} s on {room.workers} {room.kind}: load {settings.load:g}",
               *_light(settings, sizes, seconds, submits)),
    )  # fmt: skip


def _light(settings: Settings, sizes: IntArray, seconds: FloatArray, submits: FloatArray) -> list[str]:
    """A sentence where much of the work is left after the last arrival: the cluster is never as full as it sounds."""
    window = float(submits.max())
    if not window:
        return []
    whole = math.fsum(sizes * seconds)
    share = math.fsum(sizes * np.minimum(seconds, window - submits)) / whole
    if share >= LEAST_WITHIN:
        return []
    note = (
        f"{100 * (1 - share):.0f} % of the work is left when the last job arrives, since the longest job takes "
        f"{lasting(float(seconds.max()))} and jobs arrive for {lasting(window)}: while they arrive, the load is about "
        f"{settings.load * share:.2f}. More jobs, or a smaller longest_seconds, bring it nearer to {settings.load:g}"
    )
    return [note]


@dataclass(frozen=True, slots=True)
class GridPoint:
    """The settings of one workload of a grid."""

    load: float
    sizes: str
    seed: int


def grid(
    settings: Settings,
    nodes: Sequence[Node],
    loads: Iterable[float] = (0.5, 0.7, 0.9, 1.1),
    mixes: Iterable[str] = tuple(MIXES),
    seeds: Iterable[int] = (0,),
) -> Iterator[tuple[GridPoint, Trace]]:
    """Yields a workload for every load, mix and seed. Only one is in memory at a time."""
    points = [GridPoint(load, mix, seed) for load in loads for mix in mixes for seed in seeds]
    for point in points:
        yield point, generate(replace(settings, load=point.load, sizes=point.sizes, seed=point.seed), nodes)


@cache
def _roles(size: int, room: Room, elastic: bool, ps_cpu: float) -> tuple[Role, ...]:
    amount = 1 if room.kind == GPU else 1000
    most = min(4 * size, room.workers) if elastic else size
    worker = Role(
        name="worker", replicas=size, min=1 if elastic else size, max=most, request=((room.kind, amount),)
    )  # fmt: skip
    if not ps_cpu:
        return (worker,)
    count = -(-size // WORKERS_PER_PS)
    ps = Role(
        name="ps", replicas=count, min=count, max=count, near=("worker",), request=((CPU, round(ps_cpu * 1000)),)
    )  # fmt: skip
    return (ps, replace(worker, near=("ps",), after=("ps",)))


def _sizes(settings: Settings, room: Room, random: np.random.Generator) -> IntArray:
    mix = [(size, weight) for size, weight in mix_of(settings.sizes) if size <= room.workers]
    if not mix:
        raise UserError(
            f"sizes {settings.sizes}: the cluster holds {room.workers} workers, fewer than the smallest job"
        )
    weights = np.array([weight for _, weight in mix])
    drawn: IntArray = random.choice(
        np.array([size for size, _ in mix], np.int32), settings.jobs, p=weights / weights.sum()
    )
    return drawn


def _seconds(settings: Settings, random: np.random.Generator) -> FloatArray:
    count, mean, spread = settings.jobs, settings.mean_seconds, settings.spread
    match settings.durations:
        case "lognormal":
            drawn = mean * np.exp(spread * random.standard_normal(count) - spread**2 / 2)
        case "pareto":
            shape = 1.0 + 1.0 / spread
            drawn = mean * (shape - 1.0) / shape * (1.0 + random.pareto(shape, count))
        case "bimodal":
            long = random.random(count) < 0.1
            drawn = mean / (0.9 + spread) * np.where(long, 10.0 * spread, 1.0) * random.uniform(0.5, 1.5, count)
        case _:
            drawn = np.full(count, mean)
    seconds: FloatArray = np.clip(drawn, 1.0, max(1.0, settings.longest_seconds)).astype(np.float64).round(3)
    return seconds


def _submits(settings: Settings, window: float, random: np.random.Generator) -> FloatArray:
    """Submit times in the window. A Poisson process with a known number of arrivals is that many uniform draws."""
    count = settings.jobs
    match settings.arrivals:
        case "at-once":
            drawn = np.zeros(count)
        case "bursty":
            bursts = max(1, round(count / settings.burst))
            starts = random.uniform(0.0, window, bursts)
            drawn = np.minimum(starts[random.integers(0, bursts, count)] + random.uniform(0.0, 60.0, count), window)
        case "diurnal":
            drawn = _by_day(settings.swing, window, random.random(count))
        case _:
            drawn = random.uniform(0.0, window, count)
    submits: FloatArray = np.sort(drawn).astype(np.float64).round(3)
    return submits


def _by_day(swing: float, window: float, shares: FloatArray) -> FloatArray:
    """Inverts the integral of the rate 1 - swing cos(2 pi t / day): midnight is second 0, noon second 43,200."""
    at = np.linspace(0.0, window, min(max(1024, int(window / 600.0)), 10_000_000))
    summed = at - swing * DAY / (2 * np.pi) * np.sin(2 * np.pi * at / DAY)
    drawn: FloatArray = np.interp(shares * summed[-1], summed, at)
    return drawn


def _users(settings: Settings, random: np.random.Generator) -> IntArray:
    weights = 1.0 / np.arange(1, settings.users + 1)
    users: IntArray = random.choice(np.arange(settings.users, dtype=np.int32), settings.jobs, p=weights / weights.sum())
    return users


def _deadlines(settings: Settings, seconds: FloatArray, random: np.random.Generator) -> FloatArray:
    """Seconds after submission; NaN for a job without a deadline."""
    count = len(seconds)
    chosen = random.random(count) < settings.deadlines
    if settings.deadline_rule == "uniform":
        factor = random.uniform(0.5, 1.5, count)
    else:
        factor = np.maximum(1.1, 1.97 * np.exp(0.28 * random.standard_normal(count)))
    deadlines: FloatArray = np.where(chosen, np.round(factor * seconds, 3), np.nan)
    return deadlines
