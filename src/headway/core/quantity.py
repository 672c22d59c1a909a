"""Amounts of resources as whole numbers: cpu in thousandths of a core, memory and disk in MiB, all else in units.

Whole numbers, because capacity must add up exactly: with floats, a node could be almost free.
"""

from __future__ import annotations

import re
from functools import lru_cache

CPU = "cpu"
MEMORY = "memory"
GPU = "gpu"
PODS = "pods"
STORAGE = "ephemeral-storage"
HUGE_PAGES = "hugepages-"
"""Prefix: pages of each size are a kind of their own."""

_MIB = 1 << 20
_WRITTEN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*(?:[+-]?[0-9]+)?)", re.ASCII)
"""Sign, digits, digits after the point, suffix."""
_TENS = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST, _FURTHEST = 256, 400
LARGEST = 2**31 - 1
"""Columns of amounts are int32, so no node and no request may hold more."""
DEFAULT_CPU = 1000
"""One core: what a replica counts for that names no cpu."""


class QuantityError(ValueError):
    """An amount that cannot be read; its message is a sentence for the user."""


def parse(kind: str, value: str | float) -> int:
    """Reads an amount as people and Kubernetes write it: `500m`, `1.5`, `2Gi`, `4`."""
    text = repr(round(value, 9)) if isinstance(value, float) else str(value).strip()
    text = text[:-1] + "k" if text.endswith("K") else text
    try:
        amount = planned(kind, count(kind, text if any(char.isdigit() for char in text) else ""))
    except QuantityError as error:
        raise QuantityError(f"{kind} cannot be {str(value)[:40]!r}: write for example {_example(kind)}") from error
    if not 0 <= amount <= LARGEST:
        raise QuantityError(f"{kind} must be between 0 and {show(kind, LARGEST)}, not {str(value)[:40]!r}")
    return amount


def count(kind: str, text: str) -> int:
    """The amount as the Kubernetes scheduler counts it, rounded up: cpu in thousandths, all else in units or bytes.

    Reads exactly the texts that the API server reads: `3221225472000m` of memory is 3 GiB, and `.` is nothing.
    """
    return _count(text, 3 if kind == CPU else 0)


@lru_cache(maxsize=4096)
def _count(text: str, shift: int) -> int:
    found = _WRITTEN.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if found is None:
        raise QuantityError(f"{text[:40]!r} is no amount")
    sign, whole, part, suffix = found[1], found[2], found[3] or "", found[4]
    digits, tens, twos = int(whole + part or "0"), shift - len(part), 0
    if suffix in _TWOS:
        twos = _TWOS[suffix]
    elif suffix in _TENS:
        tens += _TENS[suffix]
    else:
        tens += _exponent(text, suffix)
    if not whole and not part and (tens - shift < -9 or twos > _TWOS["Ti"]):  # as the API server: `Ki` is 0, `Pi` not
        raise QuantityError(f"{text[:40]!r} is no amount")
    top, bottom = (digits << twos) * int(10 ** max(0, tens)), int(10 ** max(0, -tens))
    amount = -(-top // bottom)
    return -amount if sign == "-" else amount


def _exponent(text: str, suffix: str) -> int:
    exponent = suffix[1:]
    if suffix[:1] not in ("e", "E") or not exponent.lstrip("+-").isdecimal() or abs(int(exponent)) >= 2**31:
        raise QuantityError(f"{text[:40]!r} ends in no suffix that Kubernetes knows")
    return max(-_FURTHEST, min(_FURTHEST, int(exponent)))  # beyond that an amount is nothing, or more than all there is


def planned(kind: str, counted: int, *, floor: bool = False) -> int:
    """A counted amount in the units of plans. Rounded up; with `floor` down: no node may seem larger than it is."""
    if not in_bytes(kind):
        return counted
    return counted // _MIB if floor else -(-counted // _MIB)


def in_bytes(kind: str) -> bool:
    """Whether Kubernetes counts this kind in bytes. Plans count it in MiB."""
    return kind in (MEMORY, STORAGE) or kind.startswith(HUGE_PAGES)


def _example(kind: str) -> str:
    return "500m or 1.5" if kind == CPU else "512Mi or 2Gi" if in_bytes(kind) else "1"


def show(kind: str, amount: float) -> str:
    """An amount as a person reads it."""
    if kind == CPU:
        return f"{amount / 1000:g} cpu"
    if in_bytes(kind):
        size = f"{_rounded(amount / 1024)} GiB" if amount >= 1024 else f"{amount:g} MiB"
        return size if kind == MEMORY else f"{size} of {kind}"
    return f"{amount:g} {kind}"


def _rounded(value: float) -> str:
    """With one digit after the point at most: 23, 1.5."""
    return f"{value:.1f}".removesuffix(".0")


def write(kind: str, amount: int) -> str:
    """An amount as Kubernetes and our own files read it: the inverse of `parse`."""
    if kind == CPU:
        return f"{amount}m"
    return f"{amount}Mi" if in_bytes(kind) else str(amount)
