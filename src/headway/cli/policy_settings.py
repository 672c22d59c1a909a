"""The words of `--set name=value`: a policy's settings, and what stands around any policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headway.cli.queue_config import read_queues
from headway.core.errors import UserError
from headway.jobspec import meant
from headway.policies.ranges import FORMER_NAMES, Range
from headway.policies.wrappers.around import Wrappers
from headway.workload.decode import decode
from headway.workload.yaml_values import shortened

NO_RANGES: Mapping[str, Range] = {}
ANY_NUMBER = Range(-math.inf)
QUEUES = "queues="
ROUND = "round="


def own_settings(settings: Sequence[str]) -> list[str]:
    """Those of the policy itself."""
    return [item for item in settings if not item.startswith((QUEUES, ROUND))]


def wrappers_of(name: str, settings: Sequence[str]) -> Wrappers:
    """What `queues=FILE` and `round=SECONDS` put around the policy `name`; the file is read now. What is in it may
    stand in its place, in one line.
    """
    files, rounds = ([item for item in settings if item.startswith(word)] for word in (QUEUES, ROUND))
    seconds = read_settings(name, rounds[-1:], {"round": 0.0}, {"round": Range(0.0)}).get("round", 0.0)
    return Wrappers(read_queues(files[-1].partition("=")[2]) if files else (), seconds)


def read_settings(
    name: str, settings: Sequence[str], known: Mapping[str, Any], ranges: Mapping[str, Range] = NO_RANGES
) -> dict[str, Any]:
    """By name, the values that `settings` say; `known` has the settings of the policy `name` with their defaults.

    A value out of its range is refused; a setting without a range may have any number.
    """
    chosen: dict[str, Any] = {}
    for item in settings:
        key, equals, value = item.partition("=")
        if not equals or key not in known:
            offer = ", ".join(f"{key}={default}" for key, default in known.items()) or "none"
            former = FORMER_NAMES.get(key, key)
            close = f"; did you mean {former}?" if former in known else meant(key, known)
            close = close if "mean" in close else ""
            raise UserError(f"--set {shortened(item, 80)}: policy {name} has these settings: {offer}{close}")
        try:
            chosen[key] = _value(value, known[key])
        except msgspec.ValidationError as error:
            raise UserError(f"--set {shortened(item, 80)}: {error}") from error
        check_range(item, chosen[key], ranges.get(key, ANY_NUMBER))
    return chosen


def check_range(item: str, value: Any, allowed: Range) -> None:
    """Refuses the setting `item` where one of its numbers is not allowed."""
    numbers = [number for _, number in value] if isinstance(value, tuple) else [value]
    for number in numbers:
        why = allowed.refusal(number) if isinstance(number, int | float) else ""
        if why:
            raise UserError(f"--set {shortened(item, 80)}: {why}")


def _value(text: str, default: Any) -> Any:
    return named_numbers(text) if isinstance(default, tuple) else msgspec.convert(text, type(default), strict=False)


def named_numbers(value: str) -> tuple[tuple[str, float], ...]:
    """From ann=8,bob=2, or from a YAML file of names and numbers."""
    if value.endswith((".yaml", ".yml")):
        return tuple(decode(Path(value), dict[str, float]).items())
    pairs = [part.rpartition("=") for part in value.split(",") if part]
    if not all(equals for _, equals, _ in pairs):
        raise UserError(f"{shortened(value, 80)}: give pairs such as ann=8,bob=2, or a YAML file of names and numbers")
    return tuple((name, msgspec.convert(number, float, strict=False)) for name, _, number in pairs)
