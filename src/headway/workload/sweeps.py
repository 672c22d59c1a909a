"""A sweep: one entry of a jobs file that stands for many jobs, one for each combination of values.

Example: `for: {lr: [0.1, 0.01], seed: 2}` with `name: mlp` and `command: [python, train.py, --lr, "{lr}"]` gives
mlp-lr0-1-seed0, mlp-lr0-1-seed1, mlp-lr0-01-seed0 and mlp-lr0-01-seed1.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headway.jobspec import NAME, Word, Wrong

if TYPE_CHECKING:
    from headway.workload.jobsfile import JobFields

MOST_SWEPT = 10_000
_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def swept(fields: JobFields) -> list[JobFields]:
    """The entries that it stands for: itself where it has no sweep. Raises Wrong."""
    if not fields.sweep:
        return [fields]
    values = {key: _values(key, given) for key, given in fields.sweep.items()}
    count = math.prod(len(each) for each in values.values())
    if count > MOST_SWEPT:
        raise Wrong("for", f"gives {count} jobs; {MOST_SWEPT} are allowed")
    chosen = [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]
    names = _names(fields.name, chosen)
    return [_filled(fields, name, one) for name, one in zip(names, chosen, strict=True)]


def _values(key: str, given: list[Word] | int) -> list[str]:
    if not _KEY.fullmatch(key):
        raise Wrong("for", f"{key[:40]!r} is no name: use letters, digits and _")
    if isinstance(given, int):
        if not 1 <= given <= MOST_SWEPT:
            raise Wrong(f"for.{key}", f"must be between 1 and {MOST_SWEPT}, or a list, not {given}")
        return [str(number) for number in range(given)]
    values = [str(value) for value in given]
    if not values or len(set(values)) < len(values):
        raise Wrong(f"for.{key}", "has a value twice" if values else "has no value")
    return values


def _names(name: str, chosen: list[dict[str, str]]) -> list[str]:
    """Each name tells its values. Where they do not fit into a name, or two would be alike, jobs are numbered."""
    if "{" in name:
        return [put_in(name, {key: _in_name(value) for key, value in one.items()}) for one in chosen]
    told = ["-".join([name, *(f"{_in_name(key)}{_in_name(value)}" for key, value in one.items())]) for one in chosen]
    if len(set(told)) == len(told) and all(NAME.fullmatch(one) for one in told):
        return told
    digits = len(str(len(chosen) - 1))
    return [f"{name}-{number:0{digits}}" for number in range(len(chosen))]


def _in_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def put_in(text: str, values: Mapping[str, str]) -> str:
    """The text with the value in place of each `{name}` of the sweep. Other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


def _filled(fields: JobFields, name: str, values: Mapping[str, str]) -> JobFields:
    roles = {role: msgspec.structs.replace(each, **_texts(each, values)) for role, each in fields.roles.items()}
    more = {hook: [put_in(str(word), values) for word in getattr(fields, hook)] for hook in ("on_end", "on_failure")}
    return msgspec.structs.replace(fields, name=name, roles=roles, sweep={}, **more, **_texts(fields, values))


def _texts(fields: Any, values: Mapping[str, str]) -> dict[str, Any]:
    command = None if fields.command is None else [put_in(str(word), values) for word in fields.command]
    return {"command": command, "env": {name: put_in(str(value), values) for name, value in fields.env.items()}}
