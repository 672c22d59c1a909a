"""How far a job or pod is that is not on the board yet, and what the intake needs of others."""

from __future__ import annotations

import enum
import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from headway.kube.api.objects import Meta, Pod, TrainingJob
from headway.kube.intake.groups import GroupRef
from headway.kube.intake.orders import read_orders
from headway.kube.views.status_read import KeptStatus

AGAIN_SECONDS = 30.0
"""After this a dry run that had no answer, and a removal that was not done, is tried again."""


class IntakeStage(enum.Enum):
    UNREAD = "unread"
    """It waits for its namespace's turn."""
    NAMESAKE = "namesake"
    """It waits until an earlier gang of the same name is forgotten."""
    DRY_RUN = "dry run"
    """It waits until it is known how its pods will be."""
    GROUP = "group"
    """A pod of a gang of others, of which it is not known how many pods it has, or not all are there."""
    VOLUMES = "volumes"
    """A pod whose claims for volumes are being read."""
    REFUSED = "refused"
    """It was told why. Only another object, or a pod that changes, is looked at again."""
    UNREADABLE = "unreadable"
    """It has pods and a spec that cannot be read: they stay, and another spec is looked at."""


@dataclass(slots=True)
class Entry:
    found: TrainingJob | Pod
    stage: IntakeStage = IntakeStage.UNREAD
    told: str = ""
    """What it was told to wait for."""

    @property
    def meta(self) -> Meta:
        return self.found.metadata


class Reads(Protocol):
    """Questions to the API server; the answers come into the inbox."""

    def dry_run(self, key: str, namespace: str, body: dict[str, Any], after: float = 0.0) -> None: ...
    def read_claims(self, pod: Pod, after: float = 0.0) -> None: ...
    def read_group(self, ref: GroupRef, after: float = 0.0) -> None: ...


class Tells(Protocol):
    """What is written about objects that are no gang."""

    def status(self, meta: Meta, status: dict[str, Any]) -> None: ...
    def condition(self, meta: Meta, body: dict[str, Any]) -> None: ...
    def event(self, namespace: str, body: dict[str, Any]) -> None: ...
    def forget(self, uid: str) -> None: ...


@dataclass(slots=True)
class Expiry:
    """`ttlSecondsAfterFinished` seconds after their end jobs are deleted, and their pods with them."""

    at: dict[str, tuple[float, Meta]] = field(default_factory=dict)
    """By uid: when a job that is over is deleted."""
    _heap: list[tuple[float, str]] = field(default_factory=list)
    """These moments, and some that count no more."""

    def see(self, found: TrainingJob, kept: KeptStatus | None) -> None:
        """Takes in a job and its status. One that is not over, or has no lifetime, stays."""
        meta, lifetime = found.metadata, None
        if kept is not None and kept.intent.is_over and not kept.intent.suspended and meta.deletionTimestamp is None:
            lifetime = read_orders(found.spec).lifetime
        if kept is None or lifetime is None:
            self.forget(meta.uid)
        else:
            self._put(kept.intent.since + lifetime, meta)

    def forget(self, uid: str) -> None:
        self.at.pop(uid, None)

    def due(self, now: float) -> Iterator[Meta]:
        while self.next() <= now:
            _, meta = self.at[heapq.heappop(self._heap)[1]]
            self._put(now + AGAIN_SECONDS, meta)
            yield meta

    def next(self) -> float:
        while self._heap and self.at.get(self._heap[0][1], (math.nan,))[0] != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def _put(self, at: float, meta: Meta) -> None:
        known = self.at.get(meta.uid)
        self.at[meta.uid] = at, meta
        if known is None or known[0] != at:
            heapq.heappush(self._heap, (at, meta.uid))
