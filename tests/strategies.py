"""Hypothesis strategies: clusters of several kinds of nodes, and snapshots with jobs in every state on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from headway.core.board import Board
from headway.core.job import Can, Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.placement import Placement, holds, resized, take
from headway.core.snapshot import Flight, Snapshot
from headway.core.states import State
from make import a_job, amounts, annotated

NOW = 1000.0
_CAPACITIES = [amounts(4, 8, 4096), amounts(8, 32, 8192), amounts(0, 16, 2048), amounts(2, 4, 1024)]
_REQUESTS = [amounts(1), amounts(1, 2, 256), amounts(2, 1, 512), amounts(0, 1), amounts(0, 4, 1024), amounts(9), ()]


@st.composite
def nodes(draw: Any, most: int = 5) -> Nodes:
    def a_node(number: int) -> Node:
        return Node(
            name=f"n{number}", capacity=draw(st.sampled_from(_CAPACITIES)),
            labels=draw(st.sampled_from([(), (), (("disk", "ssd"),)])),
            taints=draw(st.sampled_from([(), (), (), ("reserved",)])),
            domain=draw(st.sampled_from(["", "r0", "r1"])),
            accelerator=draw(st.sampled_from(["", "a100", "t4"])),
            ready=draw(st.integers(0, 9)) > 0,
        )  # fmt: skip

    return Nodes.of([a_node(number) for number in range(draw(st.integers(1, most)))], kinds=("cpu", "gpu", "memory"))


@st.composite
def roles(draw: Any) -> tuple[Role, ...]:
    names = draw(st.sampled_from([("worker",), ("worker",), ("ps", "worker")]))
    made = []
    for name in names:
        replicas = draw(st.integers(1, 6))
        elastic = draw(st.booleans())
        made.append(
            Role(
                name=name, replicas=replicas,
                min=draw(st.integers(1, replicas)) if elastic else replicas,
                max=replicas + draw(st.integers(0, 3)) if elastic else replicas,
                request=draw(st.sampled_from(_REQUESTS)),
                selector=draw(st.sampled_from([(), (), (), (("disk", "ssd"),)])),
                tolerates=draw(st.sampled_from([(), ("reserved",)])),
                accelerator=draw(st.sampled_from(["", "", "", "t4"])),
                near=("ps",) if name == "worker" and len(names) > 1 else (),
                apart=draw(st.sampled_from([(), (), ("ps",)])) if name == "ps" else (),
                after=("ps",) if name == "worker" and len(names) > 1 and draw(st.booleans()) else (),
            )
        )  # fmt: skip
    return tuple(made)


@st.composite
def jobs(draw: Any, number: int) -> Job:
    seconds = draw(st.one_of(st.none(), st.floats(0, 5000, allow_nan=False)))
    deadline = draw(st.one_of(st.none(), st.floats(0, 8000, allow_nan=False)))
    return Job(
        id=JobId(f"j{number}"), roles=draw(roles()), user=draw(st.sampled_from(["", "ann", "bob"])),
        queue=draw(st.sampled_from(["", "q"])), priority=draw(st.integers(0, 3)), submit=float(100 * number),
        deadline=deadline, seconds=seconds, steps=draw(st.sampled_from([None, 100])),
        can=draw(st.sampled_from([Can.everything(), Can.everything(), Can.NOTHING, Can.SIZE | Can.SCALE, Can.STOP])),
        checkpoints=draw(st.integers(0, 3)) > 0,
    )  # fmt: skip


@st.composite
def snapshots(draw: Any, most_jobs: int = 8, *, whole: bool = True) -> Snapshot:
    """With `whole` false, running gangs may lack replicas, as the native scheduler leaves them."""
    board = Board(draw(nodes()))
    left: dict[str, float] = {}
    for number in range(draw(st.integers(0, most_jobs))):
        job = draw(jobs(number))
        row = board.add(job, job.submit)
        _put(draw, board, row, whole)
        if draw(st.integers(0, 3)):
            left[job.id] = draw(st.sampled_from([0.0, 1.0, 60.0, 600.0, 3600.5, 90000.0]))
    known = left if draw(st.booleans()) else None
    return annotated(board.snapshot(NOW), known)


_STATES = [
    State.WAITING, State.WAITING, State.WAITING, State.WAITING, State.RUNNING, State.RUNNING, State.RUNNING,
    State.STARTING, State.SCALING, State.RESIZING, State.MOVING, State.STOPPING, State.FINISHED, State.CANCELLED,
]  # fmt: skip


def _put(draw: Any, board: Board, row: int, whole: bool) -> None:
    """In a drawn state, where that fits; waiting where it does not."""
    state = draw(st.sampled_from(_STATES))
    table, job = board.table, board.job(row)
    table.set("since", row, draw(st.sampled_from([job.submit, NOW - 45, NOW - 1, NOW])))
    if state is State.WAITING or board.table.shapes[table.get("shape", row)].missing:
        return
    if state in (State.FINISHED, State.CANCELLED):
        board.restore(row, state, None, None)
        return
    wished = _wished(draw, board, row, state, whole)
    if wished is None:
        return
    source, towards = wished
    flight = None if state is State.RUNNING else Flight(towards, NOW - 5, NOW + 600)
    board.restore(row, state, source, flight)
    if state is State.STARTING:
        return
    seconds = draw(st.sampled_from([0.0, 10.0, 400.0]))
    table.set("attained", row, seconds)
    table.set("saved", row, draw(st.sampled_from([0.0, seconds])))
    table.set("service", row, seconds * table.get("size", row))
    table.set("first_start", row, job.submit)
    table.set("touched", row, draw(st.sampled_from([job.submit, NOW - 1])))


def _wished(
    draw: Any, board: Board, row: int, state: State, whole: bool
) -> tuple[Placement | None, Placement | None] | None:
    """Where it is and where it goes, if both ends together fit."""
    shape = board.table.shapes[board.table.get("shape", row)]
    kinds = board.nodes.kinds
    source = None if state is State.STARTING else _some_placement(draw, board, row, whole)
    towards = None if state in (State.RUNNING, State.STOPPING) else _some_placement(draw, board, row, whole)
    if state is State.RUNNING and source is not None and draw(st.integers(0, 4)) == 0:
        source = resized(source, shape, 0, kinds, {"cpu": draw(st.sampled_from([500, 3000])), "memory": 700})
    if state is State.RESIZING:
        towards = None if source is None else resized(source, shape, 0, kinds, {"cpu": 1500, "memory": 300})
    if (source is None) != (state is State.STARTING) or (towards is None) != (state in (State.RUNNING, State.STOPPING)):
        return None
    if state is State.MOVING and source is not None and towards is not None and source.counts != towards.counts:
        return None
    trial = board.snapshot(NOW).free.copy()
    for placement in holds(state, source, towards, shape):
        take(trial, placement, shape)
    return (source, towards) if bool((trial >= 0).all()) else None


def _some_placement(draw: Any, board: Board, row: int, whole: bool) -> Placement | None:
    """Any size that the job may have, replica by replica on drawn nodes that suit and have room."""
    shape = board.table.shapes[board.table.get("shape", row)]
    free = board.snapshot(NOW).free.copy()
    chosen = []
    for role in shape.roles:
        where: list[int] = []
        for _ in range(draw(st.integers(role.min if whole else 0, role.max if whole else role.replicas))):
            fits = board.nodes.mask(role.constraint) & np.all(free >= role.vector[:, None], axis=0)
            candidates = [int(node) for node in np.flatnonzero(fits)]
            if not candidates:
                return None
            node = draw(st.sampled_from(candidates))
            free[:, node] -= role.vector
            where.append(node)
        chosen.append(tuple(where))
    return Placement(tuple(chosen))


@st.composite
def workloads(draw: Any) -> list[Job]:
    """A few jobs of different size, length and abilities, for whole runs."""
    jobs = []
    for number in range(draw(st.integers(1, 8))):
        size, spare = draw(st.integers(1, 4)), draw(st.integers(0, 3))
        jobs.append(a_job(
            f"j{number}", size, min=draw(st.integers(1, size)), max=size + spare,
            seconds=float(draw(st.integers(0, 60))), submit=float(draw(st.integers(0, 30))),
            priority=draw(st.integers(0, 2)), user=draw(st.sampled_from(["", "u", "v"])),
            can=draw(st.sampled_from([Can.everything(), Can.NOTHING, Can.STOP | Can.SIZE])),
        ))  # fmt: skip
    return jobs
