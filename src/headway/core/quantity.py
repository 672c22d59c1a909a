"""Amounts of resources as whole numbers: cpu in thousandths of a core, memory in MiB, everything else in units.

Whole numbers, because capacity must add up exactly: with floats, a node could be almost free.
"""

from __future__ import annotations

from collections.abc import Mapping

CPU = "cpu"
MEMORY = "memory"
GPU = "gpu"

_MIB = 1 << 20
_SUFFIX_BYTES: Mapping[str, int] = {
    "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
    "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
}  # fmt: skip
LARGEST = 2**31 - 1
"""Columns of amounts are int32, so no node and no request may hold more."""


class QuantityError(ValueError):
    """An amount that cannot be read; its message is a sentence for the user."""


def parse(kind: str, value: str | float) -> int:
    """Reads an amount as people and Kubernetes write it: `500m`, `1.5`, `2Gi`, `4`."""
    amount = _parse(kind, value)
    if not 0 <= amount <= LARGEST:
        raise QuantityError(f"{kind} must be between 0 and {show(kind, LARGEST)}, not {str(value)[:40]!r}")
    return amount


def _parse(kind: str, value: str | float) -> int:
    text = str(value).strip()
    try:
        if kind == CPU:
            return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)
        if kind == MEMORY:
            return -(-_bytes(text) // _MIB)
        if text.endswith("m"):
            return -(-int(text[:-1]) // 1000)
        return -(-_bytes(text) // 1)
    except (ValueError, OverflowError) as error:
        raise QuantityError(f"{kind} cannot be {str(value)[:40]!r}: write for example {_example(kind)}") from error


def _bytes(text: str) -> int:
    for suffix, size in _SUFFIX_BYTES.items():
        if text.endswith(suffix):
            return round(float(text[: -len(suffix)]) * size)
    return round(float(text))


def _example(kind: str) -> str:
    return {CPU: "500m or 1.5", MEMORY: "512Mi or 2Gi"}.get(kind, "1")


def show(kind: str, amount: float) -> str:
    """An amount as a person reads it."""
    if kind == CPU:
        return f"{amount / 1000:g} cpu"
    if kind == MEMORY:
        return f"{_rounded(amount / 1024)} GiB" if amount >= 1024 else f"{amount:g} MiB"
    return f"{amount:g} {kind}"


def _rounded(value: float) -> str:
    """With one digit after the point at most: 23, 1.5."""
    return f"{value:.1f}".removesuffix(".0")


def write(kind: str, amount: int) -> str:
    """An amount as Kubernetes and our own files read it: the inverse of `parse`."""
    return {CPU: f"{amount}m", MEMORY: f"{amount}Mi"}.get(kind, str(amount))
