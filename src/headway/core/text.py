"""Texts from outside, made safe to print, to log and to compare; durations as people read them.

Example: `clean("cannot\\nwrite \\x1b[2J")` is `cannot write �[2J`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

_BREAKS = re.compile("[\t\n\r\x0b\x0c\x85\u2028\u2029]+")
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that turn the direction of writing, and lone surrogates, which no file can hold."""
_UNITS = ((120.0, "s", 1.0), (7200.0, "min", 60.0), (172_800.0, "h", 3600.0), (float("inf"), "d", 86_400.0))


def clean(text: str, longest: int | None = None) -> str:
    """The text on one line, without characters that a terminal obeys or a file cannot hold."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", _BREAKS.sub(" ", text[:longest]))


def lasting(seconds: float) -> str:
    """A duration as people say it: `45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    if abs(seconds) < 119.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    hours = round(seconds / 3600)
    return f"{hours // 24} d" + (f" {hours % 24} h" if hours % 24 else "")


def duration(seconds: float | None) -> str:
    """With three digits, in the unit that suits the value."""
    return in_one_unit([seconds])(seconds)


def in_one_unit(values: Sequence[float | None]) -> Callable[[float | None], str]:
    """A formatter that uses the unit of the middle value for all, so that a column can be compared by eye."""
    known = sorted(abs(value) for value in values if value is not None) or [0.0]
    middle = known[len(known) // 2]
    _, unit, divisor = next(entry for entry in _UNITS if middle < entry[0])
    return lambda seconds: "" if seconds is None else f"{_digits(seconds / divisor)} {unit}"


def _digits(value: float) -> str:
    if value and abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def is_clean(text: str) -> bool:
    return _UNSAFE.search(text) is None and _BREAKS.search(text) is None


def writable(value: Any) -> Any:
    """The same value, with lone surrogates in its texts replaced: no file and no request can hold them."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {writable(key): writable(inner) for key, inner in value.items()}
        case list() | tuple():
            return [writable(inner) for inner in value]
    return value
