"""One TrainingJob as this process follows it: its state on the board, its pods, its reports. Mutable, in one thread.

The job's state is kept once, on the board that policies see. `intent` reads it for reconciliation. `set_intent` writes
back what reconciliation found.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headway.core.board import Board
from headway.core.gang import ReplicaKey, SaveRound, to_ask
from headway.core.job import Job
from headway.core.placement import Placement
from headway.core.snapshot import Flight, Sample
from headway.core.states import IN_FLIGHT, OVER, TRANSITIONS, State
from headway.kube.api.errors import ApiError, Forbidden, Invalid, NotFound, Unreachable
from headway.kube.api.objects import Meta, Pod
from headway.kube.job.intent import Allocation, Intent, Memory, allocation_of, intent_of, placement_of
from headway.kube.job.replica import PodReplica, replica_of
from headway.kube.job.status import MOMENTS
from headway.kube.reconcile.model import ApiRefusal, Bind, Create, Delete, ResizePod, View
from headway.kube.reports import JobReports
from headway.kube.settings import KubeSettings
from headway.kube.worker import ActionResult
from headway.progress_server import Connected, Done, Event, Reported, Saved, SaveFailed

log = logging.getLogger("headway.kube")
SHORTEST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 15.0
COLUMNS = ("attained", "service", "saved", "stops")
"""Columns of the board that go into the job's status, beside `MOMENTS`."""
_SAVING = frozenset({State.MOVING, State.STOPPING})


@dataclass(slots=True)
class Attention:
    """When this job is looked at again. Times are on the cluster's clock."""

    dirty: bool = True
    """Something changed that reconciliation has not seen."""
    busy: bool = False
    """The worker has work for it; until that is done nothing more is asked for."""
    wake: float = math.inf
    not_before: float = -math.inf
    """The API server could not be reached; it is tried again then."""
    pause: float = SHORTEST_PAUSE_SECONDS
    troubled: bool = False
    """It was logged once; until it works again nothing more is logged."""

    def due(self, now: float) -> bool:
        return (self.dirty or now >= self.wake) and self.free(now)

    def free(self, now: float) -> bool:
        return not self.busy and now >= self.not_before

    def next(self) -> float:
        """When to look, as far as is known now; infinite while the worker is busy with it."""
        return math.inf if self.busy else max(-math.inf if self.dirty else self.wake, self.not_before)

    def put_off(self, error: ApiError, now: float) -> None:
        """The server did not answer: look again after a pause that doubles."""
        self.troubled, self.dirty = True, True
        self.not_before = now + max(self.pause, error.retry_after_seconds)
        self.pause = min(2 * self.pause, LONGEST_PAUSE_SECONDS)

    def recovered(self) -> None:
        self.pause, self.troubled = SHORTEST_PAUSE_SECONDS, False


@dataclass(slots=True, eq=False)
class Tracked:
    meta: Meta
    job: Job
    template: Mapping[str, Any]
    board: Board
    memory: Memory = field(default_factory=Memory)
    ended: Intent | None = None
    """The last intent of a job that is over: the board forgets such jobs."""
    written: Intent | None = None
    """As the API server has it."""
    replicas: dict[str, PodReplica] = field(default_factory=dict)
    """By the pod's uid."""
    withdrawn: bool = False
    attention: Attention = field(default_factory=Attention)
    reports: JobReports = field(default_factory=JobReports)
    refusal: ApiRefusal | None = None
    explained_at: float = -math.inf
    """When its status last said why it waits."""
    size_changed: bool = False
    """Since this attempt began: a replica that connects late must be told."""
    savers: set[ReplicaKey] = field(default_factory=set)
    """Replicas that said in this attempt that they can save: without one of them a checkpoint is not complete."""
    saves: SaveRound = SaveRound()

    # ── its state ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def row(self) -> int:
        row = self.board.row(self.job.id)
        assert row is not None, f"{self.job.id} is not on the board"
        return row

    @property
    def state(self) -> State:
        return self.board.state(self.row) if self.ended is None else self.ended.state

    @property
    def intent(self) -> Intent:
        """State and memory as one value, read from the board."""
        if self.ended is not None:
            return self.ended
        board, row = self.board, self.row
        flight, plain = board.flight(row), intent_of(self.memory, board.state(row), board.table.get("since", row))
        here = self._named(board.placement(row))
        if flight is None:
            return replace(plain, allocation=here)
        return replace(
            plain, allocation=here, target=self._named(flight.towards), since=flight.since, until=flight.until
        )

    def set_intent(self, new: Intent) -> None:
        """To another intent that reconciliation found. What was refused, and who reported, belongs to the old one."""
        old = self.intent
        self._remember(new)
        if new.state in OVER:
            self.ended = new
        if old.state in OVER:
            return
        board, row, state = self.board, self.row, self.board.state(self.row)
        if new.state in IN_FLIGHT:
            if old.state is not new.state:
                board.begin(row, new.state, None, new.since, new.until)
            elif (old.since, old.until) != (new.since, new.until):
                board.prolong(row, new.since, new.until)
        else:
            if state is not new.state and (state, new.state) not in TRANSITIONS:
                board.begin(row, State.STOPPING, None, new.since, math.inf)
            up = new.state is State.RUNNING and new.allocation is not None
            placement = placement_of(new.allocation, self.job, board.nodes) if up and new.allocation else None
            if state is not new.state or placement != board.placement(row):
                board.settle(row, new.state, placement, new.since)
        if new.reason == "Interrupted" and old.reason != "Interrupted":
            board.rewind(row)
        if new.message:
            board.note(self.job.id, new.message)

    def begin(self, new: Intent, placement: Placement | None) -> None:
        """A decision was made: to the intent that carries it out."""
        self.board.begin(self.row, new.state, placement, new.since, new.until)
        self._remember(new)
        self.saves = self.saves.next()
        self.attention.dirty = True

    def restore(self, intent: Intent, columns: Mapping[str, float]) -> None:
        """Onto the board, where its status says it was; a job that is over stays off it."""
        self.memory = intent.memory()
        if intent.state in OVER:
            self.ended = intent
            return
        board, row, job = self.board, self.row, self.job
        here = None if intent.allocation is None else placement_of(intent.allocation, job, board.nodes)
        flight = None
        if intent.state in IN_FLIGHT:
            towards = None if intent.target is None else placement_of(intent.target, job, board.nodes)
            flight = Flight(towards, intent.since, intent.until)
        board.restore(row, intent.state, here, flight)
        board.table.set("since", row, intent.since)
        for name, value in columns.items():
            if name in COLUMNS or name in MOMENTS:
                board.table.set(MOMENTS.get(name, name), row, value)

    def columns(self) -> dict[str, float]:
        """The board's columns of this job, for its status."""
        row = self.board.row(self.job.id)
        if row is None or self.ended is not None:
            return {}
        kept = {name: float(self.board.table.get(name, row)) for name in COLUMNS}
        for name, column in MOMENTS.items():
            moment = float(self.board.table.get(column, row))
            if math.isfinite(moment):
                kept[name] = moment
        return kept

    def explain(self, reason: str, message: str, now: float) -> None:
        """Why it waits; the next look at it writes that to its status."""
        self.memory = replace(self.memory, reason=reason, message=message)
        self.explained_at, self.attention.dirty = now, True

    def _remember(self, new: Intent) -> None:
        if new.attempt != self.memory.attempt:
            self.reports.speaker, self.size_changed, self.savers = None, False, set()
        self.memory, self.refusal = new.memory(), None

    def _named(self, placement: Placement | None) -> Allocation | None:
        if placement is None:
            return None
        return allocation_of(placement, self.job, self.board.table.shape_at(self.row), self.board.nodes)

    # ── its pods ────────────────────────────────────────────────────────────────────────────────────────

    def view(self, intent: Intent, now: float, gone: frozenset[str], settings: KubeSettings) -> View:
        return View(
            name=self.meta.name, job=self.job, intent=intent,
            replicas=tuple(sorted(self.replicas.values(), key=lambda r: (r.role, r.index, r.attempt))),
            now=now, step=0 if self.reports.progress is None else self.reports.progress.step, gone=gone,
            saves=self.saves, refusal=self.refusal, withdrawn=self.withdrawn, timeouts=settings.timeouts,
            limits=settings.limits,
        )  # fmt: skip

    def see(self, pod: Pod, began: float) -> None:
        replica = replica_of(pod, began)
        if replica is not None and self.replicas.get(pod.metadata.uid) != replica:
            self.replicas[pod.metadata.uid] = replica
            self.attention.dirty = True

    def lose(self, uid: str) -> None:
        if self.replicas.pop(uid, None) is not None:
            self.attention.dirty = True

    def learn(self, result: ActionResult, now: float) -> None:
        """What came of an action, beside what the pods themselves will show."""
        action, error = result.action, result.error
        if isinstance(action, Delete) and result.gone:
            self.lose(action.uid)
        if isinstance(action, Bind) and error is None and action.uid in self.replicas:
            self.replicas[action.uid] = replace(self.replicas[action.uid], bound=True)
        if error is None:
            return
        if isinstance(action, Bind | ResizePod) and isinstance(error, NotFound):
            self.lose(action.uid)  # it was deleted meanwhile: the gang lacks it
        elif isinstance(error, Unreachable | Forbidden) or not isinstance(action, Create | Bind | ResizePod):
            self.trouble(error, now)
        else:
            permanent = isinstance(error, Invalid) and isinstance(action, Create)
            verb = type(action).__name__.removesuffix("Pod").lower()
            self.refusal = ApiRefusal(f"{verb} of pod {action.name} was refused: {error.message}"[:500], permanent)

    def trouble(self, error: ApiError, now: float) -> None:
        """The API server did not do it, and may yet."""
        if not self.attention.troubled:
            log.warning("job %s: trying again: %s", self.job.id, error)
        self.attention.put_off(error, now)

    def settled(self) -> bool:
        """Nothing more will ever be done about it."""
        done = self.withdrawn or self.written == self.intent
        return not self.attention.busy and done and all(replica.over for replica in self.replicas.values())

    # ── what training says ──────────────────────────────────────────────────────────────────────────────

    def hear(self, event: Event, now: float) -> bool:
        """Whether it is news for a policy. Messages of an earlier attempt are ignored."""
        if event.attempt != self.memory.attempt or self.ended is not None:
            return False
        replica, reports = (event.role, event.index), self.reports
        match event:
            case Reported(step=step, loss=loss, total_steps=total):
                sample = Sample(self.job.id, now, step, loss, total, event.metric(self.job.target))
                return reports.take(replica, event.attempt, sample, self.job.steps)
            case Done(step=step):
                last = reports.sample  # not yet passed on: being done must not take its loss away
                total = None if reports.progress is None else reports.progress.total
                sample = Sample(self.job.id, now, step, None, total)
                sample = last if last is not None and last.step == step else sample
                return reports.take(replica, event.attempt, sample, self.job.steps)
            case Connected(can_save=can_save):
                self.attention.dirty |= self.state in _SAVING
                self.savers |= {replica} if can_save else set()
            case Saved(request=request):
                self.board.saved(self.row, self.board.trained_seconds(self.row, now))
                self._answered(replica, request, None)
            case SaveFailed(request=request, why=why):
                self._answered(replica, request, why)
        return False

    def _answered(self, replica: ReplicaKey, request: int | None, error: str | None) -> None:
        answered = self.saves.answered(replica, request, error)
        self.attention.dirty |= answered != self.saves
        self.saves = answered

    def ask_to_save(self, connected: Iterable[Connected]) -> bool:
        """Whether there is a replica to ask now; `saves` says which."""
        attempt = self.memory.attempt
        there = {(one.role, one.index) for one in connected if one.can_save and one.attempt == attempt}
        present = {(r.role, r.index) for r in self.replicas.values() if r.attempt == attempt and not r.over}
        self.saves = replace(self.saves, asked=to_ask(self.savers, there, present))
        return bool(self.saves.asked)
