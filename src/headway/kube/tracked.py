"""One TrainingJob as this process follows it: its state on the board, its pods, its reports. Mutable, in one thread.

The job's state is kept once, on the board that policies see. `intent` reads it for reconciliation. `set_intent` writes
back what reconciliation found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headway.core.board import Board
from headway.core.gang import ReplicaKey, SaveRound
from headway.core.job import Job
from headway.core.placement import Placement
from headway.core.snapshot import Flight
from headway.core.states import IN_FLIGHT, OVER, TRANSITIONS, State
from headway.kube.api.objects import Meta, Pod
from headway.kube.api.usage import PodUsage
from headway.kube.attention import Attention
from headway.kube.job.hosts import subdomain_of
from headway.kube.job.intent import EVICTED, Allocation, Intent, allocation_of, placement_of
from headway.kube.job.orders import NO_ORDERS, Orders
from headway.kube.job.pod_marks import PodMarks, claims, is_marked
from headway.kube.job.replica import PodReplica, replica_of
from headway.kube.job.spec import JobSpec
from headway.kube.job.status import MOMENTS
from headway.kube.pod.seat_pause import SeatPause
from headway.kube.pod.seating import Seat
from headway.kube.reconcile.model import ApiRefusal, View
from headway.kube.rehearsal import Cast, SamplePod
from headway.kube.reports import JobReports
from headway.kube.roster import PodRoster
from headway.kube.settings import KubeSettings

COLUMNS = ("attained", "service", "saved", "stops")
"""Columns of the board that are written to the job's status, in addition to `MOMENTS`."""


@dataclass(slots=True, eq=False)
class Tracked:
    meta: Meta
    job: Job
    template: Mapping[str, Any]
    board: Board
    memory: Intent = Intent()
    """What the board does not keep; its other fields are blank."""
    ended: Intent | None = None
    """The last intent of a job that is over. The board forgets such jobs."""
    written: Intent | None = None
    """The intent in the API server."""
    replicas: dict[str, PodReplica] = field(default_factory=dict)
    """By the pod's uid."""
    usage: PodUsage | None = None
    """What all its replicas together really use, as last measured."""
    usage_written: PodUsage | None = None
    """What its status says of that."""
    withdrawn: bool = False
    orders: Orders = NO_ORDERS
    """What its user wants of it."""
    spec: JobSpec | None = None
    """Its spec as it was accepted."""
    raw: bytes = b""
    """Its spec as it was last seen."""
    terms: Job | None = None
    """The job under new terms, until they are taken over."""
    stays: bool = False
    """It was to be stopped for its new size; if it still runs, it could not save."""
    change_refused: str = ""
    """Why its user's last change does not count."""
    last_columns: Mapping[str, float] = field(default_factory=dict)
    """Those of a job that is suspended: the board forgets it."""
    attention: Attention = field(default_factory=Attention)
    reports: JobReports = field(default_factory=JobReports)
    refusal: ApiRefusal | None = None
    marks: PodMarks = PodMarks()
    published: int = -1
    """The attempt whose host names are known."""
    released: set[str] = field(default_factory=set)
    """What its pods waited for, as far as it was made since the last decision."""
    excused: set[str] = field(default_factory=set)
    """Pods of this start, by uid, that were turned away and are made elsewhere."""
    avoided: set[str] = field(default_factory=set)
    """Nodes that turned a pod of this start away."""
    lacking: dict[str, int] = field(default_factory=dict)
    """By role: replicas of a start that an earlier process left without a pod. They have no node yet."""
    unmarked: bool = False
    """Its pods were made by an earlier version, without marks."""
    faults: int = 0
    """Steps in a row that raised."""
    explained_at: float = -math.inf
    """When its status last said why it waits."""
    looked_at: float = -math.inf
    """When that was last asked."""
    size_changed: bool = False
    """The size changed in this attempt: a replica that connects late must be told."""
    savers: set[ReplicaKey] = field(default_factory=set)
    """Replicas that can save, as they said in this attempt. A checkpoint is complete when all have saved."""
    saves: SaveRound = SaveRound()
    seats: Mapping[str, Seat] = field(default_factory=dict)
    """By role: what its pods demand of the pods around them."""
    parts: tuple[SamplePod, ...] = ()
    """Its pods as Headway would send them."""
    recast: Cast | None = None
    """The job as its pods will be by the last dry run, until that is taken over."""
    pause: SeatPause = field(default_factory=SeatPause)
    """It rests after no node was left for it beside its neighbours."""
    roster: PodRoster = field(default_factory=dict)
    """Of all jobs: which replica each pod is. The progress server reads it."""

    # ── its state ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def row(self) -> int:
        row = self.board.row(self.job.id)
        assert row is not None, f"{self.job.id} is not on the board"
        return row

    @property
    def state(self) -> State:
        if self.ended is not None:
            return self.ended.state
        return State.WAITING if self.pause.resting else self.board.state(self.row)

    @property
    def since(self) -> float:
        """When it entered its state."""
        since: float = self.board.table.get("since", self.row)
        return since

    @property
    def intent(self) -> Intent:
        """The job's state and memory as one value, read from the board."""
        if self.ended is not None:
            return self.ended
        board, row = self.board, self.row
        flight, plain = board.flight(row), replace(self.memory, state=self.state, since=self.since)
        here = self._named(board.placement(row))
        if flight is None or self.pause.resting:
            return replace(plain, allocation=here)
        return replace(
            plain, allocation=here, target=self._named(flight.towards), since=flight.since, until=flight.until
        )

    def set_intent(self, new: Intent) -> None:
        """Writes an intent that reconciliation found to the board, and forgets the last refusal of the API server."""
        old = self.intent
        self._remember(new)
        self._part(old, new)
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
        """Begins the change of a decision."""
        self.board.begin(self.row, new.state, placement, new.since, new.until)
        self._remember(new)
        self.saves, self.released = self.saves.next(), set()
        self.excused, self.avoided, self.lacking = set(), set(), {}
        self.attention.dirty = True

    def restore(self, intent: Intent, columns: Mapping[str, float]) -> None:
        """Puts the job on the board in the state of its status. A job that is over is not put on the board."""
        self.memory = intent.without_board()
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
        """The job's columns of the board that its status keeps."""
        row = self.board.row(self.job.id)
        if row is None or self.ended is not None:
            return dict(self.last_columns)
        kept = {name: float(self.board.table.get(name, row)) for name in COLUMNS}
        for name, column in MOMENTS.items():
            moment = float(self.board.table.get(column, row))
            if math.isfinite(moment):
                kept[name] = moment
        return kept

    @property
    def waits(self) -> bool:
        return self.ended is None and self.state is State.WAITING

    @property
    def said(self) -> tuple[str, str]:
        """Why it waits, as its status says."""
        return self.memory.reason, self.memory.message

    def _part(self, old: Intent, new: Intent) -> None:
        """It is asked to save before it goes, or it leaves the board. A suspended one goes on from its checkpoint."""
        if new.state is State.STOPPING is not old.state and not new.draining:
            self.saves = self.saves.next()
        if new.state not in OVER:
            return
        if new.suspended and old.state not in OVER:
            columns = self.columns()
            if old.state is not State.WAITING:
                columns["stops"] += 1
                columns["attained"] = columns["attained"] if old.saved else columns["saved"]
            self.last_columns = columns
        self.ended = new

    def explain(self, reason: str, message: str, now: float) -> None:
        """Sets why the job waits. The next reconciliation writes it to the status."""
        self.memory = replace(self.memory, reason=reason, message=message)
        self.explained_at, self.attention.dirty = now, True

    def _remember(self, new: Intent) -> None:
        if new.reason == EVICTED and self.memory.reason != EVICTED:
            self.saves = self.saves.next()
        if new.attempt != self.memory.attempt:
            self.reports.reporter, self.size_changed, self.savers, self.unmarked = None, False, set(), False
        self.memory, self.refusal = new.without_board(), None

    def _named(self, placement: Placement | None) -> Allocation | None:
        if placement is None:
            return None
        return allocation_of(placement, self.job, self.board.table.shape_at(self.row), self.board.nodes)

    def nodes(self) -> set[str]:
        """The nodes that it or one of its pods names."""
        return {*self.intent.nodes(), *(replica.node for replica in self.replicas.values() if not replica.over)}

    # ── its pods ────────────────────────────────────────────────────────────────────────────────────────

    def view(
        self, intent: Intent, now: float, gone: frozenset[str], settings: KubeSettings,
        doubtful: frozenset[str] = frozenset(),
    ) -> View:  # fmt: skip
        return View(
            name=self.meta.name, job=self.job, intent=intent,
            replicas=tuple(sorted(self.replicas.values(), key=lambda r: (r.role, r.index, r.attempt))),
            subdomain=subdomain_of(self.meta, self.job), published=self.published == intent.attempt,
            released=frozenset(self.released), excused=frozenset(self.excused),
            doubtful=doubtful, now=now, gone=gone,
            step=0 if self.reports.progress is None else self.reports.progress.step,
            saves=self.saves, refusal=self.refusal, withdrawn=self.withdrawn, orders=self.orders,
            can_save=bool(self.savers), timeouts=settings.timeouts,
            limits=settings.claims.limits.of(self.job.restarts),
        )  # fmt: skip

    def owns(self, pod: Pod) -> bool:
        """Whether Headway made this pod for this job. Once known, it stays so, whatever others write to it."""
        if pod.metadata.uid in self.replicas or is_marked(pod, self.meta, self.marks):
            return True
        return self.unmarked and claims(pod, self.meta)

    def see(self, pod: Pod, began: float) -> None:
        replica = replica_of(pod, self.meta.name, began)
        if replica is not None and self.replicas.get(pod.metadata.uid) != replica:
            self.replicas[pod.metadata.uid] = replica
            self.roster[pod.metadata.uid] = (self.job.id, replica.role, replica.index, replica.attempt)
            self.attention.dirty = True

    def lose(self, uid: str) -> None:
        self.roster.pop(uid, None)
        if self.replicas.pop(uid, None) is not None:
            self.attention.dirty = True

    def settled(self) -> bool:
        """Whether nothing is left to do for a job that is over."""
        done = self.withdrawn or self.written == self.intent
        return not self.attention.busy and done and all(replica.over for replica in self.replicas.values())
