"""A simulation that starts from a snapshot: what would happen from here on?"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from headway.core.job import Job
from headway.core.node import FloatArray
from headway.core.snapshot import Flight, Snapshot
from headway.core.states import OVER, TRAINING
from headway.sim.cluster import SimCluster, SimulationError
from headway.sim.speed import ALONE
from headway.sim.world import World

_COPIED = ("since", "attained", "service", "touched", "first_start", "saved", "stops")


def from_snapshot(
    snapshot: Snapshot, world: World | None = None, jobs: Iterable[Job] = (), left: FloatArray | None = None
) -> SimCluster:
    """A simulated cluster in which the snapshot's jobs go on, and `jobs` arrive at their submit times.

    The work left comes from `left` (seconds at the present size, by row) if it is given. Otherwise it comes from the
    snapshot's estimates, and where those are unknown from the seconds that users declared.
    """
    cluster = SimCluster(snapshot.nodes, jobs, world, now=snapshot.now)
    known = _left(snapshot) if left is None else left
    board = cluster.board
    for old in range(snapshot.jobs.count):
        state = snapshot.jobs.state_of(old)
        if state in OVER:
            continue
        job = snapshot.jobs.job(old)
        seconds = _seconds(snapshot, cluster.world, old, float(known[old]))
        row = cluster.arrive(job, seconds)
        flight = snapshot.flights.get(old)
        board.restore(row, state, snapshot.placements.get(old), flight)
        for name in _COPIED:
            board.table.set(name, row, snapshot.jobs.value(old, name))
        _go_on(cluster, row, flight, training=state in TRAINING)
    cluster.snapshot_now()
    return cluster


def _left(snapshot: Snapshot) -> FloatArray:
    if snapshot.estimates.known:
        return snapshot.estimates.left(snapshot.now)
    nothing: FloatArray = np.full(snapshot.jobs.count, np.nan)
    return nothing


def _seconds(snapshot: Snapshot, world: World, row: int, known: float) -> float:
    """Work left, in seconds at the requested size."""
    job, placement = snapshot.jobs.job(row), snapshot.placements.get(row)
    if math.isfinite(known):
        if placement is None or snapshot.jobs.state_of(row) not in TRAINING:
            return known
        rate = world.speed(job, placement, snapshot.nodes, ALONE)
        return known * rate if rate > 0 else known
    work = world.work(job)
    if work is None:
        raise SimulationError(
            f"job {job.id!r}: field seconds is needed to simulate it, or an estimate of the time left"
        )
    work *= world.reach(job)
    attained, since = snapshot.jobs.values(row, ("attained", "since"))
    trained: float = attained + (snapshot.now - since if snapshot.jobs.state_of(row) in TRAINING else 0.0)
    return max(0.0, work - trained)


def _go_on(cluster: SimCluster, row: int, flight: Flight | None, *, training: bool) -> None:
    if training:
        cluster.resume(row)
    if flight is not None:
        cluster.resume_change(row, flight.until)
