"""Values with a few fields changed: structs, which are made ten times as fast, and dataclasses alike."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(thing: T, /, **changes: Any) -> T:
    if isinstance(thing, msgspec.Struct):
        return msgspec.structs.replace(thing, **changes)
    return dataclasses.replace(thing, **changes)  # type: ignore[type-var, unused-ignore]
