"""What is simulated: the jobs, the nodes and the world, read from files once and shared by all runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs
from headway.core.errors import UserError
from headway.core.node import Node
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.profiles import Profile
from headway.jobspec import Number, seconds
from headway.sim.cluster import Costs, Reports, World
from headway.sim.faults import NO_FAULTS, Faults, Outage, ReplicaExit
from headway.sim.measured import load_profiles
from headway.sim.sharing import Sharing
from headway.sim.speed import Speed
from headway.workload.cluster import open_cluster
from headway.workload.decode import at_line, decode
from headway.workload.jobsfile import JobFields, NodeFields
from headway.workload.models import assign_models
from headway.workload.open import open_workload
from headway.workload.simulate_fields import ExitFields, FaultFields, SimulateFields
from headway.workload.trace import Trace

MakeWorld = Callable[[Trace, int], World]
"""From a trace and a seed to the world in which its jobs run."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that the runs of one comparison share."""

    trace: Trace
    nodes: tuple[Node, ...]
    world: MakeWorld
    estimates: str = "oracle"
    """Where estimates come from, unless a task says otherwise."""
    source: str = ""
    """The name of the trace's file."""
    world_file: str = ""
    """The name of the file that describes the world, where it is not the trace itself."""
    beliefs: LearnedBeliefs = NO_BELIEFS
    """What estimates by progress begin with."""
    shuffles: bool = False
    """Whether a seed other than 0 shuffles jobs that are submitted at the same moment."""


class WorldFields(msgspec.Struct, forbid_unknown_fields=True):
    """A file with a `simulate` section. A jobs file or a cluster file is one, too."""

    simulate: SimulateFields
    nodes: list[NodeFields] = []
    jobs: list[JobFields] = []


def read_scenario(
    file: Path, format_: str = "", cluster: str = "", world: Path | None = None, estimates: str = "declared"
) -> Scenario:
    """Reads the trace, the nodes (`cluster` or the trace's own) and the world (`world` or the trace's own)."""
    trace = open_workload(file, format_)
    if world is not None:
        trace = replace(trace, simulate=decode(world, WorldFields).simulate)
    if trace.simulate.speed.profiles:
        trace = replace(trace, jobs=assign_models(trace.jobs))
    nodes = open_cluster(cluster) if cluster else list(trace.nodes)
    if not trace.jobs:
        raise UserError(f"{file}: there is no job in it")
    if not nodes:
        raise UserError(f"{file}: it names no nodes; give --cluster such as 32x4 (nodes x GPUs) or a file of nodes")
    _check_names(world or file, trace, nodes)
    return Scenario(
        trace, tuple(nodes), partial(described_world, str(world or file)), estimates, file.name,
        world.name if world else "", shuffles=True,
    )  # fmt: skip


def scenario_of(trace: Trace, nodes: Sequence[Node] = (), *, estimates: str = "declared") -> Scenario:
    """A scenario from what Python made: a trace, on its own nodes or on others."""
    if not trace.jobs:
        raise UserError(f"{trace.name}: there is no job in it")
    if not (nodes or trace.nodes):
        raise UserError(f"{trace.name}: it names no nodes; give some")
    return Scenario(
        trace, tuple(nodes or trace.nodes), partial(described_world, trace.name), estimates, trace.name, shuffles=True
    )


def _check_names(path: Path, trace: Trace, nodes: Sequence[Node]) -> None:
    """What a `simulate` section names must be there."""
    faults = trace.simulate.faults
    for number, outage in enumerate(faults.outages):
        if all(outage.node != node.name for node in nodes):
            where = at_line(path, ("simulate", "faults", "outages", number))
            raise UserError(f"{where}: field simulate.faults.outages.node: there is no node {outage.node!r}")
    for number, fault in enumerate(faults.exits):
        where = at_line(path, ("simulate", "faults", "exits", number))
        job = next((job for job in trace.jobs if job.id == fault.job), None)
        if job is None:
            raise UserError(f"{where}: field simulate.faults.exits.job: there is no job {fault.job!r}")
        if all(fault.role != role.name for role in job.roles):
            raise UserError(f"{where}: field simulate.faults.exits.role: job {fault.job!r} has no role {fault.role!r}")
    for name, speed in trace.simulate.speed.accelerators.items():
        if not speed > 0:
            where = at_line(path, ("simulate", "speed", "accelerators", name))
            raise UserError(f"{where}: field simulate.speed.accelerators.{name}: must be above zero, is {speed:g}")


def described_world(source: str, trace: Trace, seed: int) -> World:
    """The world that the trace's `simulate` section describes. A mistake is told with the name of its source."""
    try:
        world = _world(trace, seed)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error
    if not trace.seconds_on or not isinstance(world.speed, Speed):
        return world
    return replace(world, speed=replace(world.speed, seconds_on=trace.seconds_on))


def differing(fields: msgspec.Struct, plain: msgspec.Struct) -> dict[str, Any]:
    """The fields that differ from the default."""
    said, default = msgspec.to_builtins(fields), msgspec.to_builtins(plain)
    return {name: value for name, value in said.items() if value != default.get(name)}


def _world(trace: Trace, seed: int) -> World:
    fields = trace.simulate
    speed = fields.speed
    return World(
        costs=Costs(**{name: _seconds(fields, name) for name in ("start", "save", "stop", "scale", "resize")}),
        speed=Speed(
            node_loss=speed.node_loss, domain_loss=speed.domain_loss, accelerators=dict(speed.accelerators),
            profiles=_profiles(speed.profiles),
        ),
        sharing=Sharing(cpu=shares_cpu(trace), neighbour_loss=speed.neighbour_loss),
        faults=_faults(fields.faults),
        checkpoint_seconds=None if fields.checkpoint is None else _seconds(fields, "checkpoint"),
        reports=Reports(seconds=_seconds(fields, "report"), noise=fields.noise),
        work=trace.work, samples=False, seed=seed,
    )  # fmt: skip


def shares_cpu(trace: Trace) -> bool:
    """Whether replicas may use more cpu than they hold. If none may, nobody looks at neighbours."""
    return trace.simulate.speed.share_cpu and any(role.shares_cpu for job in trace.jobs for role in job.roles)


def _profiles(wanted: str) -> Mapping[str, Profile]:
    if not wanted:
        return {}
    return BUILT_IN if wanted == "built-in" else load_profiles(Path(wanted))


def _faults(fields: FaultFields) -> Faults:
    if fields == FaultFields():
        return NO_FAULTS
    between, repair = (_duration(f"faults.{name}", getattr(fields, name)) for name in ("between", "repair"))
    if repair <= 0:
        raise UserError("field simulate.faults.repair: must be above zero")
    return Faults(
        outages=tuple(
            Outage(outage.node, _duration("faults.outages.at", outage.at), _duration("faults.outages", outage.seconds))
            for outage in fields.outages
        ),
        exits=tuple(_exit(fault) for fault in fields.exits),
        mean_seconds_between=between, mean_repair_seconds=repair, refused_starts=fields.refused_starts,
        stragglers=fields.stragglers, straggler_speed=fields.straggler_speed,
    )  # fmt: skip


def _exit(fields: ExitFields) -> ReplicaExit:
    return ReplicaExit(
        job=fields.job, role=fields.role, index=fields.index, after=_duration("faults.exits.after", fields.after),
        code=fields.code, out_of_memory=fields.out_of_memory, attempt=fields.attempt,
    )  # fmt: skip


def _seconds(fields: SimulateFields, name: str) -> float:
    return _duration(name, getattr(fields, name))


def _duration(name: str, value: Number) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise UserError(f"field simulate.{name}: {error}") from error
