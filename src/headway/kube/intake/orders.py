"""What a user orders of a job that is there: hold it back, end it, remove it some time after its end. Pure.

Example: `kubectl patch tj bert --type=merge -p '{"spec": {"suspend": true}}'`. The job saves, its pods go, and its
phase is Suspended. With `false` it waits again and goes on from its checkpoint. `cancel: true` ends it for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from headway.jobspec import LONGEST


@dataclass(frozen=True, slots=True)
class Orders:
    suspend: bool = False
    cancel: bool = False
    lifetime: float | None = None
    """Seconds after its end when the object is deleted; None: never."""

    @property
    def holds_back(self) -> bool:
        """It must not run."""
        return self.suspend or self.cancel


NO_ORDERS = Orders()


class _Ordered(msgspec.Struct):
    suspend: bool = False
    cancel: bool = False
    ttlSecondsAfterFinished: Annotated[float, msgspec.Meta(ge=0, le=LONGEST)] | None = None  # noqa: N815  Kubernetes' spelling


_decoder = msgspec.json.Decoder(_Ordered)


def read_orders(spec: bytes) -> Orders:
    """Reads nothing else of the spec. What is no order is none: the error is told when the whole spec is read."""
    try:
        read = _decoder.decode(spec)
    except (msgspec.MsgspecError, RecursionError):
        return NO_ORDERS
    return Orders(read.suspend, read.cancel, read.ttlSecondsAfterFinished)
