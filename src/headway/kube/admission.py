"""TrainingJobs in: each becomes a record, goes on where its status says it was, or is told what is wrong with it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from headway.core.board import Board
from headway.core.gang import SaveRound
from headway.core.job import JobId
from headway.core.states import OVER, State
from headway.kube.api.objects import TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.begin import adopted
from headway.kube.job.intent import Intent, Remembered, unpack
from headway.kube.job.spec import SpecError, job_id, job_of, read_spec, submitted
from headway.kube.job.status import Progress, event_of, status_of
from headway.kube.mirror import restore
from headway.kube.settings import KubeSettings
from headway.kube.store import Store
from headway.kube.tracked import Tracked
from headway.kube.worker import ApiWork, ApiWorker

log = logging.getLogger("headway.kube")
Admitted = tuple[Tracked, dict[str, float]]
"""A record, and the board's columns that go with it."""


@dataclass(slots=True)
class Admission:
    store: Store
    remote: ApiWorker
    setup: KubeSettings
    _rejected: set[str] = field(default_factory=set)
    _later: dict[JobId, TrainingJob] = field(default_factory=dict)
    """Jobs of a name whose earlier bearer is still going."""

    def first(self, objects: Iterable[TrainingJob]) -> list[Admitted]:
        """All there are at the start, also those that are over: their pods may not have been cleared away."""
        admitted = [entry for found in _in_order(objects) if (entry := self._admit(found)) is not None]
        return sorted(admitted, key=lambda entry: self.setup.serials.get(entry[0].job.id, math.inf))

    def news(self, message: Any) -> list[Admitted]:
        match message:
            case Listed(objects=objects):
                there = {found.metadata.uid for found in objects}
                for uid, record in self.store.records.items():
                    if uid not in there:
                        self._withdraw(record)
                return [a for found in _in_order(objects) if (a := self._changed(found)) is not None]
            case Changed(object=found):
                admitted = self._changed(found)
                return [] if admitted is None else [admitted]
            case Deleted(object=found):
                known = self.store.records.get(found.metadata.uid)
                if known is not None:
                    self._withdraw(known)
                self._later = {
                    key: late for key, late in self._later.items() if late.metadata.uid != found.metadata.uid
                }
        return []

    def enrol(self, board: Board, record: Tracked, kept: dict[str, float], now: float) -> None:
        """Onto the board, unless it is over: then only its pods are of interest."""
        record.on_board = record.intent.state not in OVER
        if record.on_board:
            serials, table = self.setup.serials, board.table
            after = max(serials.values(), default=-1) + 1
            table.arrivals = max(table.arrivals, serials.get(record.job.id, after))
            restore(board, board.add(record.job, now), record, kept, self.setup.began)

    def forgotten(self, record: Tracked) -> list[Admitted]:
        late = self._later.pop(record.job.id, None)
        admitted = None if late is None else self._admit(late)
        return [] if admitted is None else [admitted]

    def _withdraw(self, record: Tracked) -> None:
        record.withdrawn = record.dirty = True

    def _changed(self, found: TrainingJob) -> Admitted | None:
        meta = found.metadata
        record = self.store.records.get(meta.uid)
        if record is not None:
            if meta.deletionTimestamp is not None and not record.withdrawn:
                self._withdraw(record)
            return None
        if meta.deletionTimestamp is not None or meta.uid in self._rejected or self._is_over(found):
            return None
        key = job_id(meta.namespace, meta.name)
        if any(other.job.id == key for other in self.store.records.values()):
            self._later[key] = found
            return None
        return self._admit(found)

    def _is_over(self, found: TrainingJob) -> bool:
        return _remembered(found).intent.state in OVER

    def _admit(self, found: TrainingJob) -> Admitted | None:
        memory = _remembered(found)
        try:
            spec = read_spec(found.spec)
            job = job_of(found, spec, self.setup.began)
        except SpecError as error:
            if memory.intent.state not in OVER:
                self._reject(found, str(error))
            return None
        intent = memory.intent if memory.intent.since else replace(memory.intent, since=submitted(found))
        written = intent if memory.intent.since else None
        record = Tracked(found.metadata, job, spec.template, adopted(intent, time.time(), self.setup.patience), written)
        record.savers = set(memory.savers)
        record.saves = SaveRound(int(time.time() * 1000))  # not one that an earlier process asked
        record.size_changed = intent.allocation is not None  # nobody knows what its replicas were told
        if memory.step:
            record.progress = record.progress_written = Progress(memory.step, job.steps)
        self.store.records[found.metadata.uid] = record
        return record, memory.history

    def _reject(self, found: TrainingJob, why: str) -> None:
        """Told once, in the job's own status; the others go on."""
        meta = found.metadata
        self._rejected.add(meta.uid)
        intent = Intent(state=State.FAILED, since=time.time(), reason="InvalidSpec", message=why)
        log.warning("TrainingJob %s/%s is refused: %s", meta.namespace, meta.name, why)
        self.remote.perform(ApiWork(meta.uid, meta.namespace, meta.name, status_of(intent, {}, None)))
        self.remote.announce(meta.namespace, event_of(meta, Intent(), intent))


def _in_order(objects: Iterable[TrainingJob]) -> list[TrainingJob]:
    return sorted(objects, key=lambda found: (submitted(found), found.metadata.namespace, found.metadata.name))


def _remembered(found: TrainingJob) -> Remembered:
    try:
        return unpack(found.status)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        log.warning("TrainingJob %s: its status is not of our making and is ignored: %s", found.metadata.name, error)
        return Remembered(Intent())
