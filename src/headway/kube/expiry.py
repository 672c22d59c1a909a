"""When TrainingJobs that are over are deleted: `ttlSecondsAfterFinished` seconds after their end.

Their pods go with them: the API server collects what a deleted object owns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.kube.api.objects import Meta, TrainingJob
from headway.kube.job.kept_status import KeptStatus
from headway.kube.job.orders import read_orders

AGAIN_SECONDS = 30.0
"""An object that is still there is tried again after this."""


class Outlived(NamedTuple):
    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class Expiry:
    _at: dict[str, tuple[float, Outlived]] = field(default_factory=dict)
    """By uid: when it is deleted, on the cluster's clock."""

    def see(self, found: TrainingJob, kept: KeptStatus | None) -> None:
        """Takes in a job and its status. One that is not over, or has no lifetime, stays."""
        meta = found.metadata
        lifetime = None
        if kept is not None and kept.intent.is_over and not kept.intent.suspended and meta.deletionTimestamp is None:
            lifetime = read_orders(found.spec).lifetime
        if kept is None or lifetime is None:
            self._at.pop(meta.uid, None)
        else:
            self._at[meta.uid] = kept.intent.since + lifetime, _outlived(meta)

    def forget(self, uid: str) -> None:
        self._at.pop(uid, None)

    def due(self, now: float) -> list[Outlived]:
        """The jobs to delete now."""
        found = [one for at, one in self._at.values() if at <= now]
        self._at |= {one.uid: (now + AGAIN_SECONDS, one) for one in found}
        return found

    def next(self) -> float:
        return min((at for at, _ in self._at.values()), default=math.inf)


def _outlived(meta: Meta) -> Outlived:
    return Outlived(meta.namespace, meta.name, meta.uid)
