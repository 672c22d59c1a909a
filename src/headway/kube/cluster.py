"""Kubernetes behind the seam: snapshots of TrainingJobs and nodes, plans carried out by pods.

One thread decides and keeps the books; another (`ApiWorker`) talks to the API server; a third hears training. They meet
in one queue. Everything that matters is in the API server before it is acted on, so that this process may be killed
at any moment and started again anywhere.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from typing import Any

from headway.core.board import Board
from headway.core.gang import ask_again_at
from headway.core.job import JobId
from headway.core.node import Nodes
from headway.core.plan import Action, Plan, Reserve
from headway.core.quantity import CPU
from headway.core.snapshot import Snapshot
from headway.core.states import OVER, State
from headway.kube.admission import Admission
from headway.kube.api.errors import NotFound
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.begin import begun
from headway.kube.hearing import hear
from headway.kube.job.intent import Allocation, Intent
from headway.kube.job.status import event_of
from headway.kube.look import first_look
from headway.kube.mirror import mirror
from headway.kube.nodes import NodeTable
from headway.kube.places import allocation_of
from headway.kube.reconcile.model import AskSave, NextStep
from headway.kube.reconcile.reconcile import reconcile
from headway.kube.sending import named, status_for, work_of
from headway.kube.settings import KubeSettings
from headway.kube.store import Store
from headway.kube.tracked import Tracked
from headway.kube.waiting import tell_why
from headway.kube.worker import ApiWorker, Performed, Wake
from headway.progress_server import Connected, ProgressServer

log = logging.getLogger("headway.kube")
SAMPLE_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 5.0
IDLE_SECONDS = 10.0


class KubeCluster:
    def __init__(self, remote: ApiWorker, server: ProgressServer, setup: KubeSettings) -> None:
        self.setup = setup
        self._remote = remote
        self._server = server
        self._offset = time.time() - setup.began - time.monotonic()
        self._store = Store()
        self._table = NodeTable()
        self.board = Board(Nodes.of(()))
        self._admission = Admission(self._store, remote, setup)
        self._by_id: dict[JobId, Tracked] = {}
        self._wake = self._idle_since = math.inf
        self._sampled = -math.inf
        self._shown: Snapshot | None = None
        self._happened = self._heard = True
        self._seen_any = self._closing = False
        self._first_look()

    def now(self) -> float:
        """Seconds on the cluster's clock; never goes back, also not when the wall clock is set."""
        return time.monotonic() + self._offset

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        while True:
            self._take_in()
            self._look_at_nodes()
            self._reconcile()
            now = self.now()
            if self._closing or self._idle():
                return None
            if self._happened or now >= self._wake or (self._heard and now - self._sampled >= SAMPLE_SECONDS):
                return self._snapshot(now)
            self._wait(now)

    def apply(self, plan: Plan) -> None:
        self.board.compact()
        self._wake = plan.until
        for decision in plan.decisions:
            if not isinstance(decision, Reserve) and self._may_begin(decision):
                self._begin(decision)
        if self._shown is not None:
            tell_why(self._shown, plan, self._by_id.get, self.now(), self.setup.progress_seconds)

    def stop(self) -> None:
        """From a signal handler: the next snapshot is the last. Pods go on; the next start takes over."""
        self._closing = True
        self._remote.ring()

    def close(self) -> None:
        """Sees writes that are under way through, and leaves everything as it is."""
        give_up = time.monotonic() + 10
        while any(record.busy for record in self._store.records.values()) and time.monotonic() < give_up:
            self._wait(self.now(), longest=0.1)
            self._take_in()
        self._remote.close()
        self._server.close()

    # ── seeing ──────────────────────────────────────────────────────────────────────────────────────────

    def _first_look(self) -> None:
        """Nodes first, then jobs, then pods: each needs the one before."""
        look = first_look(self._remote.inbox)
        assert look.nodes is not None and look.jobs is not None and look.pods is not None  # noqa: PT018  it is whole
        self._store.see_nodes(look.nodes, self.now())
        jobs = self._admission.first(look.jobs.objects)
        self._set_nodes([record.intent for record, _ in jobs])
        for record, kept in jobs:
            self._enrol(record, kept)
        self._store.see_pods(look.pods)
        self._remote.inbox.put_back(look.later)

    def _take_in(self) -> None:
        while (message := self._remote.inbox.next()) is not None:
            match message:
                case Wake():
                    self._remote.heard()
                case Performed():
                    self._performed(message)
                case Listed(kind=kind) | Changed(kind=kind) | Deleted(kind=kind):
                    self._news(kind, message)
        for event in self._server.poll():
            record = self._by_id.get(event.job)
            if record is not None:
                self._heard |= hear(record, event, self.board, self.now(), self.setup.began)
                if isinstance(event, Connected) and record.size_changed:
                    self._tell_size(record, record.intent.allocation or ())

    def _news(self, kind: type, message: Any) -> None:
        if kind is Pod:
            self._store.see_pods(message)
        elif kind is NodeObject:
            self._store.see_nodes(message, self.now())
        else:
            for record, kept in self._admission.news(message):
                self._set_nodes([record.intent])
                self._enrol(record, kept)

    def _enrol(self, record: Tracked, kept: dict[str, float]) -> None:
        self._admission.enrol(self.board, record, kept, self.now())
        if record.on_board:
            self._by_id[record.job.id] = record
            self._happened = self._seen_any = True

    def _look_at_nodes(self) -> None:
        if self._store.nodes_changed:
            self._set_nodes(())
        gone = self._store.gone(self.now(), self.setup.patience.lost_node)
        for record in self._store.records.values() if gone else ():
            record.dirty |= any(r.node in gone and not r.over for r in record.replicas.values())

    def _set_nodes(self, intents: Iterable[Intent]) -> None:
        """Allocations may name nodes that are no more: they keep a number, and are not ready."""
        named = [name for i in intents for share in (*(i.allocation or ()), *(i.target or ())) for name in share.nodes]
        if not self._store.nodes_changed and all(name in self._table.numbers for name in named):
            return
        self._store.absent |= {name for name in named if name not in self._store.nodes}
        nodes = self._table.nodes(self._store.nodes, self._store.foreign.by_node, named)
        self._store.nodes_changed = False
        if nodes.nodes != self.board.nodes.nodes or nodes.kinds != self.board.nodes.kinds:
            self.board.set_nodes(nodes)
            self._happened = True

    def _performed(self, message: Performed) -> None:
        record = self._store.records.get(message.work.uid)
        if record is None:
            return
        now = self.now() + self.setup.began
        record.busy, record.dirty = False, True
        if isinstance(message.error, NotFound):
            record.withdrawn = True
        elif message.error is not None:
            record.trouble(message.error, now)
        elif message.work.status is not None:
            record.written, record.progress_written = message.work.token  # type: ignore[misc]
        for outcome in message.outcomes:
            if outcome.pod is not None:
                self._store.see_pod(outcome.pod)
            record.learn(outcome, now)
        if message.error is None and not any(outcome.error for outcome in message.outcomes):
            record.well()

    # ── doing ───────────────────────────────────────────────────────────────────────────────────────────

    def _may_begin(self, decision: Action) -> bool:
        """What a job has just refused is left for later, whatever the policy wishes."""
        now, intent = self.now() + self.setup.began, self._by_id[decision.job].intent
        then = ask_again_at(decision, intent.declined, intent.since, now)
        if then > now:
            self._wake = min(self._wake, then - self.setup.began)
        return then <= now

    def _begin(self, decision: Action) -> None:
        record, row = self._by_id[decision.job], self.board.row(decision.job)
        assert row is not None
        shape = self.board.table.shapes[int(self.board.table.get("shape", row))]
        state, placement = self.board.aim(row, decision)
        target = None if placement is None else allocation_of(placement, record.job, shape, self.board.nodes)
        now = self.now()
        intent = begun(record.intent, decision, target, now + self.setup.began, self.setup.patience)
        self.board.begin(row, state, placement, now, intent.until - self.setup.began)
        log.info("job %s: %s", record.job.id, state.name.lower())
        self._remote.announce(record.meta.namespace, event_of(record.meta, record.intent, intent))
        record.turn(intent)
        record.begin_save()
        record.dirty = True
        if state is State.SCALING and target is not None:
            self._tell_size(record, target)

    def _reconcile(self) -> None:
        now = self.now() + self.setup.began
        gone = self._store.gone(now - self.setup.began, self.setup.patience.lost_node)
        for record in list(self._store.records.values()):
            due = record.dirty or now >= record.wake or self._progress_due(record, now)
            if record.busy or not due or now < record.not_before:
                continue
            step = reconcile(record.view(now, gone, self.setup.patience))
            if step.intent != record.intent:
                self._turn(record, step.intent)
            record.dirty, record.wake = False, step.wake
            self._send(record, step, now)
            if record.intent.state in OVER and record.settled():
                self._forget(record)

    def _turn(self, record: Tracked, intent: Intent) -> None:
        old, row = record.intent, self.board.row(record.job.id)
        record.turn(intent)
        if record.on_board and row is not None:
            mirror(self.board, row, old, intent, self.setup.began)
            self._happened = True
            if intent.message:
                self.board.note(record.job.id, intent.message)
        words = f": {intent.message}" if intent.message else ""
        log.info("job %s: %s%s", record.job.id, intent.state.name.lower(), words)
        if not record.withdrawn:
            self._remote.announce(record.meta.namespace, event_of(record.meta, old, intent))
        if intent.state is State.RUNNING and old.state in (State.SCALING, State.RESIZING):
            self._tell_size(record, intent.allocation or ())

    def _tell_size(self, record: Tracked, allocation: Allocation) -> None:
        record.size_changed = True
        cores = {s.role: dict(s.amounts)[CPU] / 1000 for s in allocation if CPU in dict(s.amounts)}
        self._server.resize(record.job.id, {s.role: len(s.nodes) for s in allocation}, cores)

    def _send(self, record: Tracked, step: NextStep, now: float) -> None:
        if AskSave() in step.actions and record.ask_to_save(self._server.connected(record.job.id)):
            self._server.save(record.job.id, record.saves.request)
        status = None
        if not record.withdrawn and (record.written != record.intent or self._progress_due(record, now)):
            status = status_for(record, self.board, self.setup.began)
            record.progress_written_at = now
        if (work := work_of(record, step, named(self.setup.making, self._table.gpu), status)) is not None:
            record.busy = True
            self._remote.perform(work)

    def _progress_due(self, record: Tracked, now: float) -> bool:
        fresh = record.progress is not None and record.progress != record.progress_written
        return fresh and now - record.progress_written_at >= self.setup.progress_seconds

    def _forget(self, record: Tracked) -> None:
        del self._store.records[record.meta.uid]
        if self._by_id.get(record.job.id) is record:
            del self._by_id[record.job.id]
        for late, kept in self._admission.forgotten(record):
            self._enrol(late, kept)

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────

    def _snapshot(self, now: float) -> Snapshot:
        for record in self._store.records.values():
            if record.sample is not None:
                self.board.sampled(record.sample)
                record.sample = None
        if now >= self._wake:
            self._wake = math.inf
        self._happened = self._heard = False
        self._sampled = now
        self._shown = self.board.snapshot(now)
        return self._shown

    def _idle(self) -> bool:
        busy = self._store.records or not self._seen_any
        self._idle_since = math.inf if busy else min(self._idle_since, self.now())
        return self.setup.until_idle and self.now() - self._idle_since >= IDLE_SECONDS

    def _wait(self, now: float, longest: float = LONGEST_WAIT_SECONDS) -> None:
        began = self.setup.began
        moments = [self._wake, self._sampled + SAMPLE_SECONDS if self._heard else math.inf]
        idle = [record for record in self._store.records.values() if not record.busy]
        moments += [max(0.0 if r.dirty else r.wake, r.not_before) - began for r in idle]
        seconds = min(longest, max(0.0, min(moments) - now))
        self._remote.inbox.wait(seconds)
