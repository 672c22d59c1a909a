"""Builders with defaults: a test says what its case is about, and these fill in the rest.

`a_snapshot` takes jobs (they wait) and what `running`, `flying` and `waiting` make of them:

    a_snapshot(a_job("a", gpus=4), running(a_job("b"), [0, 0]), nodes=some_nodes(2, gpus=4), now=60, left={"b": 30})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.core.board import Board
from headway.core.estimates import Beliefs, Counts, Estimates
from headway.core.job import Amounts, Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.plan import Plan, Start
from headway.core.snapshot import Flight, Snapshot
from headway.core.states import State
from headway.estimates.models.scaling import plain_speed


def amounts(gpu: int = 0, cpu: float = 0, memory: int = 0) -> Amounts:
    """Whole GPUs, cores, MiB."""
    wanted = {"cpu": round(cpu * 1000), "gpu": gpu, "memory": memory}
    return tuple((kind, amount) for kind, amount in sorted(wanted.items()) if amount)


def a_role(
    name: str = "worker", replicas: int = 1, *, gpu: int = 0, cpu: float = 0, memory: int = 0, **more: Any
) -> Role:
    """Not elastic unless `min` or `max` say so; asks for one GPU where nothing is asked for."""
    request = amounts(gpu, cpu, memory) or amounts(gpu=1)
    bounds = {"min": replicas, "max": replicas} | more
    return Role(name=name, replicas=replicas, request=request, **bounds)


def a_job(name: str = "a", gpus: int = 1, *, roles: Sequence[Role] = (), **more: Any) -> Job:
    """`gpus` replicas of one GPU each, unless roles are given; `min` and `max` make those elastic."""
    bounds = {key: more.pop(key) for key in ("min", "max") if key in more}
    chosen = tuple(roles) or (a_role(replicas=gpus, **bounds),)
    return Job(id=JobId(name), roles=chosen, **more)


def a_node(name: str = "n0", *, gpus: int = 4, cpu: float = 0, memory: int = 0, **more: Any) -> Node:
    return Node(name=name, capacity=amounts(gpus, cpu, memory), **more)


def some_nodes(count: int = 1, **each: Any) -> Nodes:
    return Nodes.of(a_node(f"n{number}", **each) for number in range(count))


@dataclass(frozen=True, slots=True)
class Put:
    """A job in the state in which a snapshot shall show it."""

    job: Job
    state: State = State.WAITING
    placement: Placement | None = None
    flight: Flight | None = None
    columns: Mapping[str, float] = field(default_factory=dict)


def waiting(job: Job, **columns: float) -> Put:
    return Put(job, columns=columns)


def running(job: Job, *nodes: Sequence[int], requests: Any = None, **columns: float) -> Put:
    """Node numbers per role. Columns such as `since`, `attained`, `service` and `touched` may be given."""
    return Put(job, State.RUNNING, Placement(tuple(tuple(role) for role in nodes), requests), columns=columns)


def flying(
    job: Job, state: State, *, at: Placement | None = None, towards: Placement | None = None, **columns: float
) -> Put:
    since = columns.get("since", 0.0)
    return Put(job, state, at, Flight(towards, since, since + 600.0), columns)


def over(job: Job, state: State = State.FINISHED) -> Put:
    return Put(job, state)


def a_board(entries: Iterable[Job | Put], nodes: Nodes | None = None, now: float = 0.0) -> Board:
    board = Board(nodes or some_nodes())
    for entry in entries:
        put = Put(entry) if isinstance(entry, Job) else entry
        row = board.add(put.job, min(put.job.submit, now))
        if put.state is not State.WAITING:
            board.restore(row, put.state, put.placement, put.flight)
        for name, value in put.columns.items():
            board.table.set(name, row, value)
    return board


def a_snapshot(
    *entries: Job | Put,
    nodes: Nodes | None = None,
    now: float = 0.0,
    left: Mapping[str, float] | None = None,
    speed: Any = plain_speed,
) -> Snapshot:
    """Jobs in arrival order. Without `left` the book believes what the jobs declare."""
    return annotated(a_board(entries, nodes, now).snapshot(now), left, speed)


def annotated(snapshot: Snapshot, left: Mapping[str, float] | None = None, speed: Any = plain_speed) -> Snapshot:
    jobs = snapshot.jobs

    def beliefs() -> Beliefs:
        if left is None:
            return Beliefs(jobs.declared - jobs.attained, jobs.since, jobs.training())
        seconds = [left.get(jobs.job(row).id, np.nan) for row in range(jobs.count)]
        return Beliefs(np.array(seconds, float), np.full(jobs.count, snapshot.now), jobs.training())

    def speed_of(row: int, counts: Counts) -> float:
        return float(speed(jobs.job(row), counts))

    return snapshot.with_estimates(Estimates(beliefs, speed_of))


def started(plan: Plan) -> list[str]:
    """Jobs that the plan starts, in its order."""
    return [decision.job for decision in plan.decisions if isinstance(decision, Start)]


def decided(plan: Plan) -> dict[str, str]:
    """Job to the name of what the plan does to it."""
    return {decision.job: type(decision).__name__.lower() for decision in plan.decisions}
