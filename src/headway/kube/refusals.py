"""What is written to TrainingJobs that are not taken in: why not, or what they wait for. Once each."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from headway.core.states import State
from headway.core.text import clean
from headway.kube.api.objects import Meta
from headway.kube.job.intent import Intent
from headway.kube.job.kept_status import KeptStatus
from headway.kube.job.orders import Orders
from headway.kube.job.status import event_of, status_of
from headway.kube.reconcile.obey import CANCELLED, SUSPENDED
from headway.kube.work import ApiWork
from headway.kube.worker import ApiWorker

log = logging.getLogger("headway.kube")
LONGEST_TEXT = 2000


@dataclass(slots=True)
class Refusals:
    worker: ApiWorker
    began: float
    refused: set[str] = field(default_factory=set)
    """By uid: jobs that are not looked at again."""
    _told: dict[str, str] = field(default_factory=dict)
    """By uid: what a job was told to wait for."""

    def reject(self, meta: Meta, reason: str, why: str) -> None:
        """Writes the error to the job's own status. Other jobs are not affected."""
        self.refused.add(meta.uid)
        why = clean(why, LONGEST_TEXT)
        intent = Intent(state=State.FAILED, since=time.time() - self.began, reason=reason, message=why)
        log.warning("TrainingJob %s/%s is refused: %s", meta.namespace, meta.name, why)
        status = status_of(intent, {}, (), self.began) | {"progress": None}
        self.worker.perform(ApiWork(meta.uid, meta.namespace, meta.name, status, in_hand=False))
        self.worker.announce(meta.namespace, event_of(meta, Intent(), intent, self.began))

    def forget(self, uid: str) -> None:
        self.refused.discard(uid)
        self._told.pop(uid, None)

    def rest(self, meta: Meta, kept: KeptStatus | None, orders: Orders) -> None:
        """A job that is not followed and has no pods is suspended or cancelled by writing that."""
        reason, message = CANCELLED if orders.cancel else SUSPENDED
        old = Intent() if kept is None else kept.intent
        intent = Intent(
            state=State.CANCELLED, suspended=not orders.cancel, attempt=old.attempt, losses=old.losses,
            since=time.time() - self.began, reason=reason, message=message,
        )  # fmt: skip
        columns = {} if kept is None else kept.columns
        self.worker.perform(ApiWork(meta.uid, meta.namespace, meta.name, status_of(intent, columns, (), self.began)))
        self.worker.announce(meta.namespace, event_of(meta, old, intent, self.began))

    def tell(self, meta: Meta, why: str) -> None:
        """Says in the status of a job what it waits for before it is taken in."""
        if self._told.get(meta.uid) != why:
            self._told[meta.uid] = why
            status = {"reason": "Unplaceable", "message": clean(why, LONGEST_TEXT)}
            self.worker.perform(ApiWork(meta.uid, meta.namespace, meta.name, status, in_hand=False))
