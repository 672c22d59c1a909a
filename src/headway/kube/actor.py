"""Acts for one job at a time: begins decisions, takes the next step, tells the API server and training."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace

from headway.core.board import Board
from headway.core.plan import Action, Because, Stop
from headway.core.quantity import CPU
from headway.core.snapshot import Snapshot
from headway.core.states import OVER, State
from headway.kube.amendment import apply_cast, apply_terms, must_stop
from headway.kube.elsewhere import fill, find_elsewhere, rebook
from headway.kube.hearing import ask_to_save
from headway.kube.heartbeats import Heartbeats
from headway.kube.inventory import Inventory
from headway.kube.job.intent import Allocation, Intent, allocation_of, begun
from headway.kube.job.status import event_of
from headway.kube.outgoing import status_for, work_for
from headway.kube.reconcile.model import NextStep, RequestCheckpoint
from headway.kube.reconcile.observe import suspects
from headway.kube.reconcile.outcome import take_down
from headway.kube.reconcile.reconcile import reconcile
from headway.kube.settings import KubeSettings
from headway.kube.tracked import Tracked
from headway.kube.worker import ApiWorker
from headway.progress_server import ProgressServer

log = logging.getLogger("headway.kube")


@dataclass(slots=True)
class Actor:
    board: Board
    worker: ApiWorker
    server: ProgressServer
    settings: KubeSettings
    inventory: Inventory
    shown: Snapshot | None = None
    """The last snapshot with estimates: statuses show these."""
    heartbeats: Heartbeats = field(init=False)
    changed: bool = False
    """A job's state changed. Policies must see it."""

    def __post_init__(self) -> None:
        self.heartbeats = Heartbeats(self.worker)

    def begin(self, job: Tracked, action: Action, now: float) -> None:
        """Begins a decision."""
        state, placement = self.board.aim(job.row, action)
        shape = self.board.table.shape_at(job.row)
        target = None if placement is None else allocation_of(placement, job.job, shape, self.board.nodes)
        old = job.intent
        new = begun(old, action, target, now, self.settings.timeouts)
        anew = state is State.SCALING and job.job.saves_itself
        new = replace(new, attempt=new.attempt + 1) if anew else new
        job.begin(new, placement)
        self.inventory.own.unsettled.add(job.meta.uid)
        log.info("job %s: %s", job.job.id, state.name.lower())
        self._announce(job, old, new)
        if state is State.SCALING and target is not None and not anew:
            self.tell_size(job, target)

    def advance(self, job: Tracked, now: float, gone: frozenset[str]) -> None:
        """Takes the next step with a job."""
        self.changed |= job.ended is None and job.pause.end(self.board, job.row, now)
        self.changed |= apply_cast(job, now)
        self.changed |= apply_terms(job, now)
        if must_stop(job):
            self.begin(job, Stop(job.job.id, Because.SUSPENDED), now)
            why = "its user changed its size: it saves, stops and starts again"
            job.memory = replace(job.memory, reason="SizeChanged", message=why)
        doubtful = frozenset(self.inventory.not_ready_since) - gone
        self.inventory.own.unsettled.add(job.meta.uid)
        self._fill(job, now, gone)
        rebook(job, self.inventory.own, now)
        find_elsewhere(job, job.view(job.intent, now, gone, self.settings), self.inventory.neighbours)
        intent = job.intent
        view = replace(job.view(intent, now, gone, self.settings, doubtful), alive_after=self.heartbeats.alive_after)
        step, unsure = reconcile(view), frozenset() if intent.draining else suspects(view)
        if step.intent != intent:
            self._set_intent(job, intent, step.intent)
            self.changed |= apply_terms(job, now)  # before a policy sees a job that was stopped to be changed
        rests = job.pause.again if job.pause.resting else math.inf
        job.attention.dirty, job.attention.wake = False, min(step.wake, rests, self.heartbeats.ask(unsure, now))
        self._send(job, step, now)

    def _fill(self, job: Tracked, now: float, gone: frozenset[str]) -> None:
        """A start that an earlier process left half made goes on, or is released."""
        if job.lacking and not fill(job, self.inventory.neighbours):
            view = job.view(job.intent, now, gone, self.settings)
            why = "its gang was half made while Headway was away, and there is no room for the rest"
            self._set_intent(job, view.intent, take_down(view, State.WAITING, "Released", why))
        job.lacking = {}

    def _set_intent(self, job: Tracked, old: Intent, new: Intent) -> None:
        self.changed |= old.state not in OVER
        job.set_intent(new)
        words = f": {new.message}" if new.message else ""
        log.info("job %s: %s%s", job.job.id, new.state.name.lower(), words)
        if not job.withdrawn:
            self._announce(job, old, new)
        if new.state is State.RUNNING and old.state in (State.SCALING, State.RESIZING):
            self.tell_size(job, new.allocation or ())

    def _announce(self, job: Tracked, old: Intent, new: Intent) -> None:
        self.worker.announce(job.meta.namespace, event_of(job.meta, old, new, self.settings.began))

    def tell_size(self, job: Tracked, allocation: Allocation) -> None:
        job.size_changed = True
        cores = {one.role: dict(one.amounts)[CPU] / 1000 for one in allocation if CPU in dict(one.amounts)}
        self.server.resize(job.job.id, {one.role: len(one.nodes) for one in allocation}, cores)

    def _send(self, job: Tracked, step: NextStep, now: float) -> None:
        if RequestCheckpoint() in step.actions and ask_to_save(job, self.server.connected(job.job.id)):
            self.server.save(job.job.id, job.saves.request)
        intent, status = job.intent, None
        if not job.withdrawn and (job.written != intent or self.progress_due(job, now)):
            status = status_for(job, intent, self.shown, now, self.settings.began)
            job.reports.written_at, job.usage_written = now, job.usage
        defaults = replace(self.settings.pods, gpus=self.inventory.table.gpus)
        work = work_for(job, intent, status, step, defaults)
        if work is not None:
            job.attention.busy = True
            self.worker.perform(work)

    def progress_due(self, job: Tracked, now: float) -> bool:
        """Whether its status lacks what it reported, or what it uses; at most once in a while."""
        every = self.settings.progress_seconds
        measured = job.usage != job.usage_written and now - job.reports.written_at >= every
        return measured or job.reports.due(now, every)
