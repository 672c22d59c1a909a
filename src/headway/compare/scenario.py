"""What is simulated: jobs, nodes and the world's behaviour, from the command line to one finished run."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from headway.cli.wiring import make_book, make_policy, parse_cluster
from headway.compare.world import world_of
from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.node import Node, Nodes
from headway.cycle.loop import run
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.metrics import Tally
from headway.record.outcome import Outcome, outcome
from headway.sim.cluster import SimCluster
from headway.sim.speed import Speed
from headway.sim.world import World
from headway.workload.jobsfile import decode
from headway.workload.models import assign_models
from headway.workload.open import open_workload
from headway.workload.schema import JobFields, NodeFields, SimulateFields
from headway.workload.trace import Trace

Progress = Callable[[float], None]
"""Told now and then which share of the jobs is over."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that the runs of one comparison share. It is sent to other processes."""

    trace: Trace
    nodes: tuple[Node, ...]
    source: str
    world: str = ""
    """The file that says how the world behaves, where it is not the trace itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run to be made."""

    policy: str
    estimates: str
    settings: tuple[str, ...] = ()
    seed: int = 0
    picture: bool = False
    samples: bool = False
    """Whether jobs report progress though no estimate needs it: for a log that somebody looks at."""


class WorldFields(msgspec.Struct, forbid_unknown_fields=True):
    """A file that says how the simulated world behaves. A jobs or cluster file will do as well."""

    simulate: SimulateFields
    nodes: list[NodeFields] = []
    jobs: list[JobFields] = []


def read_scenario(file: Path, format_: str, cluster: str, world: Path | None = None) -> Scenario:
    trace = open_workload(file, format_)
    if world is not None:
        trace = replace(trace, simulate=decode(world, WorldFields).simulate)
    if trace.simulate.speed.profiles:
        trace = replace(trace, jobs=assign_models(trace.jobs))
    nodes = parse_cluster(cluster) if cluster else list(trace.nodes)
    if not trace.jobs:
        raise UserError(f"{file}: there is no job in it")
    if not nodes:
        raise UserError(f"{file}: it names no nodes; give --cluster such as 32x4 (nodes x GPUs) or a file of nodes")
    return Scenario(trace, tuple(nodes), file.name, world.name if world else "")


def make_world(scenario: Scenario, task: Task) -> World:
    samples = task.estimates in ("progress", "linear") or task.samples
    trace = scenario.trace
    world = world_of(scenario.source, trace.simulate, work=trace.work, samples=samples, seed=task.seed)
    if not trace.seconds_on or not isinstance(world.speed, Speed):
        return world
    return replace(world, speed=replace(world.speed, seconds_on=trace.seconds_on))


def seeded(trace: Trace, seed: int) -> tuple[Job, ...]:
    """Seed 0 leaves the trace as it is; any other shuffles jobs that were submitted at the same moment."""
    if not seed:
        return trace.jobs
    chance = random.Random(seed)  # noqa: S311  a simulation, not a secret
    return tuple(sorted(trace.jobs, key=lambda job: (job.submit, chance.random())))


def make_cluster(scenario: Scenario, task: Task) -> SimCluster:
    return SimCluster(Nodes.of(scenario.nodes), seeded(scenario.trace, task.seed), make_world(scenario, task))


def make_head(scenario: Scenario, task: Task) -> Head:
    chosen: dict[str, Any] = {"set": list(task.settings)}
    if (world := differing(scenario.trace.simulate, SimulateFields())) and scenario.world:
        chosen["simulate"] = world
    return Head("sim", task.policy, task.estimates, chosen, task.seed, 0.0, scenario.source)


def differing(fields: msgspec.Struct, plain: msgspec.Struct) -> dict[str, Any]:
    """What was said otherwise than the default."""
    said, default = msgspec.to_builtins(fields), msgspec.to_builtins(plain)
    return {name: value for name, value in said.items() if value != default.get(name)}


def make_tally(scenario: Scenario, task: Task) -> Tally:
    return Tally(stays=task.picture, worth=scenario.trace.expectations)


def perform(scenario: Scenario, task: Task, progress: Progress | None = None) -> Outcome:
    """One run from beginning to end, its log seen by the tally only."""
    cluster, tally = make_cluster(scenario, task), make_tally(scenario, task)
    writer = LogWriter(None, make_head(scenario, task), tally, *watched(tally, scenario, progress))
    book = make_book(task.estimates, cluster.truth, cluster.speed_at)
    policy = make_policy(task.policy, task.settings)
    run(cluster, policy, book, lambda d: writer.cycle(d.snapshot, d.plan, d.refusals))
    writer.end(cluster.now, cluster.board.unfinished)
    return outcome(tally, scenario.trace.jobs, name=task.policy, seed=task.seed)


def watched(tally: Tally, scenario: Scenario, progress: Progress | None) -> list[Callable[[object], None]]:
    """A reader of the log that reports progress, every few hundred lines."""
    if progress is None:
        return []
    lines, jobs = 0, max(1, len(scenario.trace.jobs))

    def watch(_: object) -> None:
        nonlocal lines
        lines += 1
        if lines % 256 == 0:
            progress(tally.over / jobs)

    return [watch]
