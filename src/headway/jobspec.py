"""A job as people write it: what a jobs file and a TrainingJob have in common.

It has the fields of roles and targets, and converts them to `Role` and `Target` and back. An unknown field is an error.
`Wrong` names a wrong field; the caller adds the file and the job.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec

from headway.core.job import Amounts, Can, Role, Success, Target, start_order
from headway.core.quantity import CPU, DEFAULT_CPU, GPU, LARGEST, MEMORY, parse, write

Number = int | float | str
Word = str | int | float
"""A part of a command, or a value of an environment. A number is written out as text."""
MOST_REPLICAS = 1_000_000
MOST_STEPS = 10**15
AUTO_MAX = 64
"""`replicas: auto`: never more than this, unless `max` says so."""
LONGEST = 1e12
"""No duration and no time is longer, in seconds. Sums of some of them stay exact enough."""
KINDS = (CPU, MEMORY, GPU)


class Limit(msgspec.Struct, forbid_unknown_fields=True):
    """The limit up to which a replica may grow in place."""

    cpu: Number | None = None
    memory: Number | None = None


class RoleFields(msgspec.Struct, forbid_unknown_fields=True):
    replicas: int | Literal["auto"] = 1
    min: int | None = None
    max: int | None = None
    cpu: Number | None = None
    memory: Number | None = None
    gpu: Number | None = None
    resources: dict[str, Number] = {}
    limit: Limit | None = None
    selector: dict[str, str] = {}
    tolerates: list[str] = []
    accelerator: str = ""
    after: list[str] = []
    near: list[str] = []
    apart: list[str] = []
    command: list[Word] | None = None
    env: dict[str, Word] = {}


class TargetFields(msgspec.Struct, forbid_unknown_fields=True):
    """The job stops itself when a metric that it reports is at least `at_least`, or at most `at_most`."""

    metric: str = "loss"
    at_least: float | None = None
    at_most: float | None = None


Saves = Literal["asked", "itself"]
"""Who decides when the job saves: Headway asks it to, or its script saves by itself."""


class SuccessFields(msgspec.Struct, forbid_unknown_fields=True):
    """Which replicas must end well for the job to have succeeded."""

    roles: list[str] = []
    """Empty: `chief` or `master` if there is one, else the roles that no other role comes after."""
    when: Literal["all", "any"] = "all"
    """Whether all replicas of these roles must end well, or any one of them."""


def amounts_of(fields: Any) -> dict[str, Number]:
    """All resources, from their own fields and from `resources`."""
    named = {kind: getattr(fields, kind) for kind in KINDS if getattr(fields, kind) is not None}
    return {**fields.resources, **named}


_RENAMED = re.compile(r"(?<![a-z])(least|most)(?![a-z])")
"""Words that files and settings once had in place of min and max."""


def meant(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: which known one was probably meant, else all of them."""
    names = list(known)
    return mistyped(name, names) or (f"; there are {', '.join(names)}" if names else "")


def mistyped(name: str, known: Iterable[str]) -> str:
    """The same where a known name is close; else empty."""
    names = list(known)
    if (renamed := _RENAMED.sub(lambda word: "min" if word[0] == "least" else "max", name)) in names:
        return f"; did you mean {renamed}?"
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.7)
    close = close or [known for known in names if len(name) > 2 and known.startswith(name.lower())]
    return f"; did you mean {close[0]}?" if close else ""


NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
_CAN = {flag.name.lower(): flag for flag in Can if flag.name}


class Wrong(ValueError):  # noqa: N818  it names what a field is
    """A field that cannot be used, and why, in a sentence."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


def role_of(name: str, fields: RoleFields, command: Sequence[Word] = (), env: Mapping[str, Word] | None = None) -> Role:
    """Makes a role. It takes command and environment of the job where it has none of its own."""
    if not NAME.fullmatch(name):
        raise Wrong("name", "a role's name may have a-z, 0-9 and - only")
    asked, most = fields.replicas, fields.max
    if asked == "auto":
        asked, most = fields.min or 1, AUTO_MAX if most is None else most
    least = asked if fields.min is None else fields.min
    most = asked if most is None else most
    if not 0 <= least <= asked <= most:
        raise Wrong("replicas", f"min ({least}) <= replicas ({asked}) <= max ({most}) must hold")
    if most > MOST_REPLICAS:
        field = "max" if asked <= MOST_REPLICAS else "replicas"
        raise Wrong(field, f"must be {MOST_REPLICAS} or less, not {getattr(fields, field)}")
    request = amounts(amounts_of(fields))
    own = fields.command if fields.command is not None else command
    return Role(
        name=name, replicas=asked, min=least, max=most, request=request,
        limit=_limit(fields.limit, request), selector=tuple(sorted(fields.selector.items())),
        tolerates=tuple(fields.tolerates), accelerator=fields.accelerator, after=tuple(fields.after),
        near=tuple(fields.near), apart=tuple(fields.apart),
        command=words("command", own), env=_environment({**(env or {}), **fields.env}),
    )  # fmt: skip


def stated(role: Role) -> Role:
    """The role with what it counts for where its user names no resources at all: one core, until it was measured."""
    return role if role.request else with_cpu(role)


def with_cpu(role: Role) -> Role:
    """The same for a role that asks for GPUs and names neither cpu nor memory: its pod would be BestEffort, and could
    not be resized.
    """
    if role.amount(CPU) or role.amount(MEMORY):
        return role
    return replace(role, request=tuple(sorted({**dict(role.request), CPU: DEFAULT_CPU}.items())), unstated=True)


def words(field: str, given: Iterable[Word]) -> tuple[str, ...]:
    words = tuple(str(word) for word in given)
    if any("\0" in word for word in words):
        raise Wrong(field, "has a NUL character, which no program can be given")
    return words


def _environment(given: Mapping[str, Word]) -> tuple[tuple[str, str], ...]:
    for name in given:
        if not name or "=" in name or "\0" in name:
            raise Wrong("env", f"{name[:40]!r} is not a name of a variable")
    return tuple(sorted(zip(given, words("env", given.values()), strict=True)))


def check_roles(roles: Sequence[Role]) -> None:
    """Checks what roles say about each other."""
    names = {role.name for role in roles}
    for role in roles:
        for field in ("near", "apart"):
            for other in getattr(role, field):
                if other not in names:
                    raise Wrong(f"roles.{role.name}.{field}", f"there is no role {other!r}")
    try:
        start_order(tuple(roles))
    except ValueError as error:
        raise Wrong("roles", str(error)) from error
    if sum(role.min for role in roles) < 1:
        raise Wrong("min", "a gang needs at least one replica")
    if sum(role.max for role in roles) > MOST_REPLICAS:
        raise Wrong("roles", f"the roles have more than {MOST_REPLICAS} replicas together")


def priority_of(value: int) -> int:
    if not -LARGEST <= value <= LARGEST:
        raise Wrong("priority", f"must be between {-LARGEST} and {LARGEST}, not {value}")
    return value


def steps_of(value: int | None) -> int | None:
    if value is not None and not 1 <= value <= MOST_STEPS:
        raise Wrong("steps", f"must be at least 1, not {value}" if value < 1 else f"must be {MOST_STEPS} or less")
    return value


def amounts(given: Mapping[str, Number]) -> Amounts:
    return tuple(sorted((kind, _amount(kind, kind, value)) for kind, value in given.items()))


def target_of(fields: TargetFields | None) -> Target | None:
    if fields is None:
        return None
    if not fields.metric or (fields.at_least is None) == (fields.at_most is None):
        raise Wrong("target", "name a metric and either at_least or at_most")
    value = fields.at_most if fields.at_least is None else fields.at_least
    if value is None or not math.isfinite(value):
        raise Wrong("target", f"{value} can never be reached")
    return Target(metric=fields.metric, value=value, higher=fields.at_least is not None)


def saves_itself(saves: Saves, *, checkpoints: bool) -> bool:
    if saves == "itself" and not checkpoints:
        raise Wrong("saves", "a job without checkpoints cannot save by itself; remove one of the two")
    return saves == "itself"


def save_every_of(value: Number) -> float:
    """0, or `never`: it is asked only before it is stopped or moved."""
    try:
        return 0.0 if value == "never" else seconds(value)
    except ValueError as error:
        raise Wrong("save_every", f"{error}; never: only before it is stopped or moved") from error


def success_of(fields: SuccessFields | None, roles: Sequence[Role]) -> Success:
    if fields is None:
        return Success()
    names = {role.name for role in roles}
    for name in fields.roles:
        if name not in names:
            raise Wrong("success.roles", f"there is no role {name!r}")
    return Success(roles=tuple(fields.roles), any_replica=fields.when == "any")


def can_of(names: Sequence[str] | None) -> Can:
    if names is None:
        return Can.everything()
    allowed = Can.NOTHING
    for name in names:
        if name not in _CAN:
            raise Wrong("can", f"{name!r} is unknown; choose from {', '.join(_CAN)}")
        allowed |= _CAN[name]
    return allowed


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
        raise ValueError(f"{text[:40]!r} is not a duration: write for example 90s, 5m or 2h") from error
    if not math.isfinite(result) or result < 0:
        raise ValueError(f"{text[:40]!r} is not a duration: it must be finite and 0 or more")
    if result > LONGEST:
        raise ValueError(f"{text[:40]!r} is too long: durations are {LONGEST:g} seconds at most")
    return result


# ── and back: fields with their default are left out ──────────────────────────────────────────────────────────────


def role_entry(role: Role) -> dict[str, Any]:
    entry: dict[str, Any] = {"replicas": role.replicas}
    for name in ("min", "max"):
        if getattr(role, name) != role.replicas:
            entry[name] = getattr(role, name)
    entry |= amounts_entry(role.named)
    if role.limit:
        entry["limit"] = {kind: write(kind, amount) for kind, amount in role.limit}
    if role.selector:
        entry["selector"] = dict(role.selector)
    for name in ("tolerates", "after", "near", "apart", "command"):
        if getattr(role, name):
            entry[name] = list(getattr(role, name))
    if role.env:
        entry["env"] = dict(role.env)
    return entry | ({"accelerator": role.accelerator} if role.accelerator else {})


def amounts_entry(given: Amounts) -> dict[str, Any]:
    written = {kind: int(amount) if kind == GPU else write(kind, amount) for kind, amount in given}
    own = {kind: value for kind, value in written.items() if kind in (CPU, MEMORY, GPU)}
    others = {kind: value for kind, value in written.items() if kind not in own}
    return {**own, "resources": others} if others else own


def target_entry(target: Target) -> dict[str, Any]:
    return {"metric": target.metric, ("at_least" if target.higher else "at_most"): target.value}


def success_entry(success: Success) -> dict[str, Any]:
    """Empty where it is the default."""
    entry: dict[str, Any] = {"roles": list(success.roles)} if success.roles else {}
    return entry | ({"when": "any"} if success.any_replica else {})


def can_entry(can: Can) -> list[str] | None:
    return None if can == Can.everything() else [name for name, flag in _CAN.items() if flag in can]


def _limit(fields: Limit | None, request: Amounts) -> Amounts:
    limits = []
    for kind in (CPU, MEMORY) if fields is not None else ():
        value = getattr(fields, kind)
        if value is None:
            continue
        amount = _amount(f"limit.{kind}", kind, value)
        if amount < dict(request).get(kind, 0):
            raise Wrong(f"limit.{kind}", "must not be below the request")
        limits.append((kind, amount))
    return tuple(limits)


def _amount(field: str, kind: str, value: Number) -> int:
    try:
        return parse(kind, value)
    except ValueError as error:
        raise Wrong(field, str(error)) from error
