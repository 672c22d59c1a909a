"""The fields of a jobs file, as users write them. Unknown fields are errors, never silently dropped."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from headway.jobspec.fields import Number, RoleFields, SuccessFields, TargetFields


class JobFields(RoleFields, forbid_unknown_fields=True):
    """A job. One with a single role may give the role's fields on the job itself."""

    name: str = ""
    user: str = ""
    queue: str = ""
    priority: int = 0
    submit: Number = 0
    deadline: Number | None = None
    steps: int | None = None
    target: TargetFields | None = None
    success: SuccessFields | None = None
    seconds: Number | None = None
    can: list[str] | None = None
    checkpoints: bool = True
    model: str = ""
    roles: dict[str, RoleFields] = {}  # noqa: RUF012  msgspec copies it


class NodeFields(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    count: int = 1
    cpu: Number | None = None
    memory: Number | None = None
    gpu: Number | None = None
    resources: dict[str, Number] = {}
    labels: dict[str, str] = {}
    taints: list[str] = []
    domain: str = ""
    accelerator: str = ""


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class OutageFields(msgspec.Struct, forbid_unknown_fields=True):
    """A node that fails at a known moment, for so long."""

    node: str
    at: Number
    seconds: Number


class FaultFields(msgspec.Struct, forbid_unknown_fields=True):
    """What goes wrong in virtual time; nothing does unless it is asked for."""

    between: Number = 0
    """Mean time of one node from repair to failure; 0 means never."""
    repair: Number = "1h"
    """Mean time that a repair takes."""
    outages: list[OutageFields] = []
    refused_starts: Share = 0.0
    stragglers: Share = 0.0
    straggler_speed: Share = 0.5


class SpeedFields(msgspec.Struct, forbid_unknown_fields=True):
    """How speed depends on place and company."""

    profiles: str = ""
    """`built-in`, or a folder of published measurements; empty takes durations as they are, wherever a job runs."""
    accelerators: dict[str, float] = {}
    """Relative speed by type."""
    node_loss: Share = 0.0
    domain_loss: Share = 0.0
    neighbour_loss: Share = 0.0
    share_cpu: bool = False


class SimulateFields(msgspec.Struct, forbid_unknown_fields=True):
    """What things cost in virtual time, and how its world behaves."""

    start: Number = 0
    save: Number = 0
    stop: Number = 0
    scale: Number = 0
    resize: Number = 0
    checkpoint: Number = 0
    """Jobs save after every so much training; 0 means only when they are told to."""
    report: Number = 0
    """At most one progress report of a job in this time."""
    noise: Share = 0.0
    """Standard deviation of a reported loss, as a share of it."""
    faults: FaultFields = msgspec.field(default_factory=FaultFields)
    speed: SpeedFields = msgspec.field(default_factory=SpeedFields)


class FileFields(msgspec.Struct, forbid_unknown_fields=True):
    jobs: list[JobFields]
    nodes: list[NodeFields] = []
    simulate: SimulateFields = msgspec.field(default_factory=SimulateFields)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: Number) -> float:
    """A duration as people write it: 90, 90s, 5m, 1.5h, 2d."""
    text = str(value).strip()
    number, unit = text, 1.0
    for suffix, size in _UNITS.items() if text[-1:].isalpha() else ():
        if text.endswith(suffix) and text[: -len(suffix)].replace(".", "", 1).isdigit():
            number, unit = text[: -len(suffix)], size
            break
    try:
        result = float(number) * unit
    except ValueError as error:
        raise ValueError(f"{value!r} is no duration: write for example 90s, 5m or 2h") from error
    if not math.isfinite(result) or result < 0:
        raise ValueError(f"{value!r} is no duration: it must be finite and not below zero")
    return result
