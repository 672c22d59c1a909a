"""What a job says about its restarts, as people write it: `restarts:` of a jobs file and of a TrainingJob."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.core.restarts import Restarts
from headway.jobspec import Number, Wrong, seconds

LARGEST_COUNT = 1_000_000


class RestartFields(msgspec.Struct, forbid_unknown_fields=True):
    """How often the job may start again before it fails; what is left out is as the cluster has it."""

    losses: int | None = None
    window: Number | None = None
    refusals: int | None = None


def restarts_of(fields: RestartFields | None) -> Restarts:
    """Raises `Wrong`."""
    if fields is None:
        return Restarts()
    for name in ("losses", "refusals"):
        value = getattr(fields, name)
        if value is not None and not 0 <= value <= LARGEST_COUNT:
            raise Wrong(f"restarts.{name}", f"must be between 0 and {LARGEST_COUNT}, not {value}")
    try:
        window = None if fields.window is None else seconds(fields.window)
    except ValueError as error:
        raise Wrong("restarts.window", str(error)) from error
    return Restarts(losses=fields.losses, window=window, refusals=fields.refusals)


def restarts_entry(restarts: Restarts) -> dict[str, Any]:
    """Empty where it is the default."""
    given = {"losses": restarts.losses, "window": restarts.window, "refusals": restarts.refusals}
    return {name: value for name, value in given.items() if value is not None}
