"""The lines of a log, one JSON object each. One format for virtual time, this machine and Kubernetes.

    head    what ran: cluster, policy, settings, estimates, seed          (a resumed run writes another)
    nodes   the node table; whenever it changes, again or only the nodes that changed
    job     a job as submitted, once
    cycle   the time, what changed since the last cycle, the samples, and the plan
    end     the run was completed

A log keeps changes, not snapshots. The snapshot of every cycle can be built again from it, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import msgspec

from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.plan import Because, Decision, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.snapshot import Sample
from headway.record.env_marks import hidden_env

VERSION = 1
PackedPlacement = list[list[list[int] | None]]
"""Nodes per role and, after a resize, amounts per role."""
MOST_ROLES = 4096


class Head(msgspec.Struct, tag="head", tag_field="line"):
    cluster: str
    policy: str
    estimates: str
    settings: dict[str, Any] = {}
    seed: int = 0
    began: float = 0.0
    """Unix time at which the cluster's clock showed zero; 0 in virtual time."""
    source: str = ""
    version: int = VERSION


class NodesLine(msgspec.Struct, tag="nodes", tag_field="line", omit_defaults=True):
    nodes: list[Node]
    kinds: list[str]
    at: list[int] | None = None
    """Only these nodes changed or are new, by number; None: these are all nodes."""

    def table(self, before: Sequence[Node]) -> list[Node]:
        """All nodes after the change. Raises IndexError where the line does not fit."""
        if self.at is None:
            return self.nodes
        whole = list(before)
        for number, node in zip(self.at, self.nodes, strict=True):
            if not 0 <= number <= len(whole):
                raise IndexError(f"there is no node number {number}")
            whole[number : number + 1] = [node]
        return whole


def nodes_line(nodes: Nodes, before: Nodes | None) -> NodesLine:
    """What to write after a change: where few of many nodes changed, only those."""
    whole, kinds = list(nodes.nodes), list(nodes.kinds)
    if before is None or before.kinds != nodes.kinds or len(before.nodes) > len(whole):
        return NodesLine(whole, kinds)
    known = len(before.nodes)
    at = [number for number, node in enumerate(whole) if number >= known or node != before.nodes[number]]
    return NodesLine([whole[number] for number in at], kinds, at) if 2 * len(at) < known else NodesLine(whole, kinds)


class JobLine(msgspec.Struct, tag="job", tag_field="line", omit_defaults=True):
    serial: int
    job: dict[str, Any]


class Change(msgspec.Struct, array_like=True):
    """One job's columns after the change. Null means: has not happened yet."""

    serial: int
    state: int
    since: float
    attained: float
    service: float
    touched: float | None
    first_start: float | None
    saved: float
    stops: int
    placement: PackedPlacement | None
    flight: tuple[PackedPlacement | None, float, float | None] | None


class CycleLine(msgspec.Struct, tag="cycle", tag_field="line", omit_defaults=True):
    cycle: int
    now: float
    changed: list[Change] = []
    beliefs: list[list[float | int | bool | None]] = []
    """Serial, seconds left, as of, burning: for jobs whose beliefs were read and may have changed. A book that has more
    adds spread, growth, since when, basis."""
    speeds: list[tuple[int, list[int], float | None]] = []
    """Serial, counts, relative speed: answers to the policy that are new or have changed."""
    scalings: list[tuple[int, float | None, int, list[float | None]]] = []
    """The same for jobs of one role at all sizes. Serial, the factor where replicas are apart, the least size, and the
    speeds of this and all larger sizes."""
    on_types: list[tuple[int, list[float | None], list[bool]]] = []
    """The same for types of accelerators. Serial, seconds there for each second left, and whether it was measured."""
    restart: float | None = None
    """In logs of earlier versions; it is read over."""
    samples: list[list[Any]] = []
    used_cpu: list[tuple[int, float]] = []
    gpus: list[tuple[int, list[str], float | None, int | None]] = []
    """Serial, GPUs, how many of them compute, MiB in use: where that has changed."""
    notes: list[tuple[str, str]] = []
    standing: tuple[str, str] | None = None
    """How a trained policy stands, where that has changed: mode and why."""
    plan: list[list[Any]] = []
    until: float | None = None
    refused: list[list[Any]] = []


class End(msgspec.Struct, tag="end", tag_field="line"):
    now: float
    unfinished: int = 0


Line = Head | NodesLine | JobLine | CycleLine | End


def pack_placement(placement: Placement | None) -> list[Any] | None:
    """Nodes per role and, after a resize, amounts per role. Tuples are written as lists are."""
    if placement is None:
        return None
    return [placement.nodes] if placement.requests is None else [placement.nodes, placement.requests]


def unpack_placement(packed: list[Any] | None) -> Placement | None:
    if packed is None:
        return None
    nodes = tuple(tuple(role) for role in packed[0])
    if len(packed) == 1:
        return Placement(nodes)
    return Placement(nodes, tuple(None if vector is None else tuple(vector) for vector in packed[1]))


def _placed(packed: list[Any]) -> Placement:
    placement = unpack_placement(packed)
    assert placement is not None
    return placement


def pack_sample(sample: Sample) -> list[Any]:
    packed = [sample.job, sample.at, sample.step, sample.loss, sample.total_steps]
    return packed if sample.metric is None else [*packed, sample.metric]


def unpack_sample(packed: list[Any]) -> Sample:
    return Sample(JobId(packed[0]), *packed[1:])


_SAMPLE = (str, float, int, float, int, float)


def wrong_sample(packed: list[Any]) -> bool:
    """Whether it is no sample: too short or too long, or with a text where a number must be."""
    if not 5 <= len(packed) <= len(_SAMPLE) or None in packed[:3]:
        return True
    return any(
        value is not None and type(value) is not kind and not (kind is float and type(value) is int)
        for value, kind in zip(packed, _SAMPLE, strict=False)
    )


def pack_decision(decision: Decision) -> list[Any]:
    match decision:
        case Start(job, placement):
            return ["start", job, pack_placement(placement)]
        case Scale(job, role, where):
            return ["scale", job, role, where]
        case Resize(job, role, cpu, memory):
            return ["resize", job, role, cpu, memory]
        case Move(job, placement):
            return ["move", job, pack_placement(placement)]
        case Stop(job, because):
            return ["stop", job, str(because)]
        case Reserve(job, placement, until):
            return ["reserve", job, pack_placement(placement), until]


def unpack_decision(packed: list[Any]) -> Decision:
    kind, job = packed[0], JobId(packed[1])
    match kind:
        case "start":
            return Start(job, _placed(packed[2]))
        case "scale":
            return Scale(job, packed[2], tuple(packed[3]))
        case "resize":
            return Resize(job, packed[2], packed[3], packed[4])
        case "move":
            return Move(job, _placed(packed[2]))
        case "stop":
            return Stop(job, Because(packed[2]))
        case "reserve":
            return Reserve(job, _placed(packed[2]), packed[3])
    raise ValueError(f"unknown decision {kind!r} in the log")


def unpack_plan(line: CycleLine) -> Plan:
    decisions = tuple(unpack_decision(packed) for packed in line.plan)
    return Plan(decisions, math.inf if line.until is None else line.until)


_JOB_DEFAULTS = {field.name: field.default for field in fields(Job) if field.name not in ("roles", "can")}
_ROLE_KEYS = {field.name: {"min": "least", "max": "most"}.get(field.name, field.name) for field in fields(Role)}
"""Fields of a role and their keys in a log, which stay what they were."""
_ROLE_FIELDS = {key: name for name, key in _ROLE_KEYS.items()}
_ROLE_DEFAULTS = {field.name: field.default for field in fields(Role)}
_JOB_FIELDS = {*_JOB_DEFAULTS, "roles", "can"}
_job_values = attrgetter(*_JOB_DEFAULTS)
_known_roles: dict[tuple[int, bytes], tuple[tuple[Role, ...], list[dict[str, Any]]]] = {}
"""By identity, which is valid while the roles are kept beside it, and key: a trace has many jobs and few roles."""


class PackedJob(dict[str, Any]):
    """A job as the log has it, with the job itself: readers in the same process need not build it again."""

    __slots__ = ("origin",)

    def __init__(self, values: dict[str, Any], origin: Job) -> None:
        super().__init__(values)
        self.origin = origin


def pack_job(job: Job, key: bytes = b"") -> PackedJob:
    """Only what differs from the defaults, so that lines are short. `key` is for the marks of its env."""
    differing = zip(_JOB_DEFAULTS.items(), _job_values(job), strict=True)
    packed = PackedJob({name: value for (name, default), value in differing if value != default}, job)
    packed["can"] = int(job.can)
    packed["roles"] = _pack_roles(job.roles, key)
    return packed


def _pack_roles(roles: tuple[Role, ...], key: bytes) -> list[dict[str, Any]]:
    known = _known_roles.get((id(roles), key))
    if known is not None and known[0] is roles:
        return known[1]
    if len(_known_roles) >= MOST_ROLES:
        _known_roles.clear()
    packed = [_pack_role(role, key) for role in roles]
    _known_roles[id(roles), key] = (roles, packed)
    return packed


def _pack_role(role: Role, key: bytes) -> dict[str, Any]:
    packed = {_ROLE_KEYS[name]: value for name, value in _differing(role, _ROLE_DEFAULTS).items()}
    if role.env:
        packed["env"] = hidden_env(role.env, key)
    return packed


def _differing(thing: object, defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, default in defaults.items() if (value := getattr(thing, name)) != default}


def unpack_job(packed: dict[str, Any]) -> Job:
    """Raises ValueError if a field is unknown or wrong."""
    if isinstance(packed, PackedJob):
        return packed.origin
    unknown = packed.keys() - _JOB_FIELDS
    if unknown:
        raise ValueError(f"a job has an unknown field {min(unknown)!r}")
    if "can" not in packed:
        raise ValueError("a job has no field 'can'")
    roles = packed.get("roles", ())
    for role in roles:
        if isinstance(role, dict) and role.keys() - _ROLE_FIELDS.keys():
            raise ValueError(f"a role has an unknown field {min(role.keys() - _ROLE_FIELDS.keys())!r}")
    return msgspec.convert({**packed, "roles": [_role_fields(role) for role in roles]}, Job)


def _role_fields(packed: Any) -> Any:
    return {_ROLE_FIELDS[key]: value for key, value in packed.items()} if isinstance(packed, dict) else packed
