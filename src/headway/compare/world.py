"""From the `simulate` section of a file to the world in which a simulation runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from headway.core.errors import UserError
from headway.core.job import Job
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.profiles import Profile
from headway.jobspec.fields import Number
from headway.sim.cluster import Costs, Reports, World
from headway.sim.faults import NO_FAULTS, Faults, Outage
from headway.sim.measured import load_profiles
from headway.sim.sharing import Sharing
from headway.sim.speed import Speed
from headway.workload.schema import FaultFields, SimulateFields, seconds


def world_of(
    source: str, fields: SimulateFields, *, work: Callable[[Job], float | None], samples: bool, seed: int
) -> World:
    """Mistakes are told with the name of their source."""
    try:
        return _world(fields, work=work, samples=samples, seed=seed)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error


def _world(fields: SimulateFields, *, work: Callable[[Job], float | None], samples: bool, seed: int) -> World:
    speed = fields.speed
    return World(
        costs=Costs(**{name: _seconds(fields, name) for name in ("start", "save", "stop", "scale", "resize")}),
        speed=Speed(
            node_loss=speed.node_loss, domain_loss=speed.domain_loss, accelerators=dict(speed.accelerators),
            profiles=_profiles(speed.profiles),
        ),
        sharing=Sharing(cpu=speed.share_cpu, neighbour_loss=speed.neighbour_loss),
        faults=_faults(fields.faults),
        checkpoint_seconds=_seconds(fields, "checkpoint"),
        reports=Reports(seconds=_seconds(fields, "report"), noise=fields.noise),
        work=work, samples=samples, seed=seed,
    )  # fmt: skip


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
        mean_seconds_between=between, mean_repair_seconds=repair, refused_starts=fields.refused_starts,
        stragglers=fields.stragglers, straggler_speed=fields.straggler_speed,
    )  # fmt: skip


def _seconds(fields: SimulateFields, name: str) -> float:
    return _duration(name, getattr(fields, name))


def _duration(name: str, value: Number) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise UserError(f"field simulate.{name}: {error}") from error
