"""All gangs that this process follows. Each is given what happens to it, goes on step by step, is shown on the board,
and what it needs is sent. Whatever raises is one gang's fault: it freezes, and all others go on.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable, Iterable
from itertools import chain, islice, zip_longest
from typing import Any

from headway.core.board import Board
from headway.core.gang import ReplicaKey, SaveTurn, due_saves, to_ask
from headway.core.job import JobId
from headway.core.node import Nodes
from headway.core.quantity import CPU
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.kube.gangs.fault import FAULT, sentence
from headway.kube.gangs.gang import Around, Gang
from headway.kube.gangs.intent import Allocation
from headway.kube.gangs.messages import (
    Faulted,
    Heard,
    LeftBoard,
    LookedAt,
    Message,
    NodesFound,
    PodSeen,
    Sampled,
    SaveAsked,
    SaveByTime,
    SizeTold,
    StatusWritten,
    Unbookable,
    UsageSeen,
)
from headway.kube.gangs.model import (
    Create,
    Effect,
    PostEvent,
    ReadLeases,
    RequestCheckpoint,
    SetCondition,
    TellSize,
    Ungate,
    WriteStatus,
)
from headway.kube.gangs.recover import Recovered
from headway.kube.gangs.replace_pods import Room, find_nodes, held_more, too_full, wants_nodes
from headway.kube.gangs.step import is_shown, shown, step
from headway.kube.gangs.take import take
from headway.kube.identity.tokens import PodRoster
from headway.kube.pods.body import body_of
from headway.kube.pods.conditions import unscheduled
from headway.kube.pods.gate import lifted
from headway.kube.pods.marks import GangMark
from headway.kube.settings import KubeSettings
from headway.kube.store.store import Store
from headway.kube.telemetry.figures import NOBODY, Watcher
from headway.kube.values import replace
from headway.kube.views import board as rows
from headway.kube.views.explain import PolicySays
from headway.kube.views.foreseen import Foreseen
from headway.kube.views.status import Shown, event_of, status_for
from headway.kube.writes.outbox import Outbox
from headway.kube.writes.worker import ApiWorker
from headway.kube.writes.write import What
from headway.progress_server import ProgressServer

log = logging.getLogger("headway.kube")
MAX_STEPS = 256
"""Gangs that go on in one turn."""
LACKING_SECONDS = 5.0
"""A pod of others for which there was no node is looked at again after this."""


class Following:
    def __init__(
        self, worker: ApiWorker, server: ProgressServer, settings: KubeSettings, now: Callable[[], float],
        roster: PodRoster, watcher: Watcher = NOBODY,
    ) -> None:  # fmt: skip
        """`now` is the cluster's clock. `roster` is kept up to date with the pods of all gangs."""
        self.board = Board(Nodes.of(()))
        self.gangs: dict[str, Gang] = {}
        """By uid."""
        self.ids: dict[JobId, str] = {}
        """By the id of its job: the uid of a gang."""
        self.due: dict[str, None] = {}
        """Gangs that go on in the next turn."""
        self.wakes: list[tuple[float, str]] = []
        self.waiting: set[str] = set()
        self.reported: set[str] = set()
        """Gangs with a report that is in no snapshot yet."""
        self.outbox = Outbox(worker.put, lambda: worker.fence.epoch)
        self.store = Store(settings.began, settings.marks, self.gangs, self.tell)
        self.around = Around(
            timeouts=settings.timeouts, limits=settings.claims.limits, progress_seconds=settings.progress_seconds
        )
        self.shown: Snapshot | None = None
        """The last snapshot with estimates: statuses show these."""
        self.foreseen: Foreseen = {}
        """Statuses of jobs that wait or start show this."""
        self.happened = self.heard = True
        """Policies must see what became of a gang; there are reports to see."""
        self.seen_any = False
        self.forgotten: Callable[[JobId], None] = lambda _job: None
        self.now, self.settings, self.watcher = now, settings, watcher
        self._worker, self._server, self._roster = worker, server, roster
        self._says = PolicySays(settings.explain)
        self._first_serial = max(settings.serials.values(), default=-1) + 1

    def of(self, job: JobId) -> Gang | None:
        return self.gangs.get(self.ids.get(job, ""))

    def tell(self, uid: str, message: Message) -> None:
        """Gives a gang a message. It goes on in this turn, unless nothing follows from it."""
        gang = self.gangs.get(uid)
        if gang is None:
            return
        quiet = isinstance(message, PodSeen) and gang.pods.get(message.pod.uid) == message.pod
        try:
            new = take(gang, message)
        except Exception as error:  # noqa: BLE001  it is this gang's fault, and all others go on
            self.fault(uid, "take in what happened to this job", error)
            return
        if new is gang:
            return
        self.set(gang, new)
        self._follow_roster(gang, message)
        if quiet or isinstance(message, LookedAt | Sampled) or (isinstance(message, StatusWritten) and _rests(new)):
            return
        if isinstance(message, Heard | UsageSeen) and new.saving is gang.saving:
            self.wake_at(uid, max(new.progress_at(self.settings.progress_seconds), new.written.rest_until))
        else:
            self.due[uid] = None

    def set(self, old: Gang, new: Gang, *, notes: bool = False) -> Gang:
        """The gang is another one from now on, and so is its row."""
        if new.is_over and not old.is_over and new.wanted.suspended:
            new = take(new, LeftBoard(rows.history_of(self.board, old)))
        self.gangs[new.uid] = new
        if new.state is not old.state:
            self.watcher.changed(old, new, self.now())
        self.happened |= rows.show(self.board, old, new, self.now(), notes=notes)
        if old.wanted is not new.wanted or old.job is not new.job:
            self.store.own.unsettled.add(new.uid)
        if new.waits != old.waits:
            (self.waiting.add if new.waits else self.waiting.discard)(new.uid)
        return new

    def fault(self, uid: str, doing: str, error: Exception, *, tell: bool = True) -> None:
        """Freezes the gang, and tells it by its status."""
        log.debug("gang %s: the trace of its fault", uid, exc_info=error)
        gang, why = self.gangs[uid], sentence(doing, error)
        self.watcher.fault()
        if not gang.frozen.faults:
            log.error("job %s: %s", gang.job.id, why, extra={"job": gang.job.id})
        new = self.set(gang, take(gang, Faulted(why, self.now())))
        self.wake_at(uid, new.frozen.again)
        if tell and shown(new) != new.written.intent:
            self.due[uid] = None

    def _follow_roster(self, gang: Gang, message: Message) -> None:
        if isinstance(message, PodSeen) and not gang.is_foreign:
            pod = message.pod
            self._roster[pod.uid] = (gang.job.id, pod.role, pod.index, pod.attempt)
        elif len(left := self.gangs[gang.uid].pods) < len(gang.pods):
            for uid in gang.pods.keys() - left.keys():
                self._roster.pop(uid, None)

    def enrol(self, found: Recovered) -> None:
        """Follows the gang from now on. It is put on the board, unless it is over: then only its pods matter."""
        gang, now = found.gang, self.now()
        if gang.is_foreign and not set(gang.wanted.nodes()) <= self.board.nodes.index.keys():
            return
        self.gangs[gang.uid], self.ids[gang.job.id] = gang, gang.uid
        if not gang.is_over:
            serial = self.settings.serials.get(gang.job.id, self._first_serial)
            rows.enter(self.board, gang, found.columns, now, serial)
            self.happened = self.seen_any = True
        if gang.waits:
            self.waiting.add(gang.uid)
        for pod in gang.pods.values():
            if not gang.is_foreign:
                self._roster[pod.uid] = (gang.job.id, pod.role, pod.index, pod.attempt)
        self.due[gang.uid] = None
        self.store.adopt(gang, found.pods)

    def forget(self, gang: Gang) -> None:
        del self.gangs[gang.uid]
        if self.ids.get(gang.job.id) == gang.uid:
            del self.ids[gang.job.id]
        self.waiting.discard(gang.uid)
        self.reported.discard(gang.uid)
        for uid in gang.pods:
            self._roster.pop(uid, None)
        self.outbox.forget(gang.uid)
        self.store.forget(gang)
        self.forgotten(gang.job.id)

    def step_due(self) -> None:
        now = self.now()
        while self.wakes and self.wakes[0][0] <= now:
            self.due[heapq.heappop(self.wakes)[1]] = None
        due = [gang for uid in self.due if (gang := self.gangs.get(uid)) is not None]
        chosen = due if len(due) <= MAX_STEPS else list(_in_turn(due))
        self.due = {} if chosen is due else {gang.uid: None for gang in due}
        for gang in chosen:
            self.due.pop(gang.uid, None)
        for gang in chosen:
            if gang.uid in self.gangs:
                self._step(gang.uid, now)

    def _step(self, uid: str, now: float) -> None:
        try:
            gang = self._placed(self.gangs[uid])
            new, effects = step(gang, self.around, now)
            new = self.set(gang, new, notes=True)
        except Exception as error:  # noqa: BLE001  it is this gang's fault, and all others go on
            self.fault(uid, "go on with this job", error)
            return
        if new.wanted.state is not gang.wanted.state or new.wanted.message != gang.wanted.message:
            words = f": {new.wanted.message}" if new.wanted.message else ""
            log.info("job %s: %s%s", new.job.id, new.wanted.state.name.lower(), words, extra={"job": new.job.id})
        self._perform(new, effects, now)
        self.wake_at(uid, new.wake)
        if new.is_over and new.is_settled() and not self.outbox.is_busy(uid):
            self.forget(self.gangs[uid])

    def wake_at(self, uid: str, at: float) -> None:
        if at < math.inf:
            heapq.heappush(self.wakes, (at, uid))

    def _placed(self, gang: Gang) -> Gang:
        """Nodes for replicas that need one, and a booking that matches the pods: what a step cannot know by itself."""
        gone = self.around.gone
        if gang.is_over or gang.frozen.why:
            return gang
        if gang.is_foreign:
            return self._placed_foreign(gang)
        if wants_nodes(gang, gone):
            message = find_nodes(gang, Room.of(self.board, gang, self.store.neighbours), gone, self.now())
            if message is not None:
                gang = self.set(gang, take(gang, message))
        if gang.state is State.STARTING and not all(pod.bound for pod in gang.pods.values()):
            own = self.store.own.of(gang.uid)
            booked = {uid: rows.booked_for(self.board, gang, pod.role, pod.node) for uid, pod in own.items()}
            more = held_more(gang, {uid: pod.held for uid, pod in own.items()}, booked)
            if more is not None:
                gang = self.set(gang, take(gang, more))
                full = too_full(gang, self.board.nodes, self.board.free())
                if full is not None:
                    gang = self.set(gang, take(gang, replace(more, refusal=full)))
        return gang

    def _placed_foreign(self, gang: Gang) -> Gang:
        """Pods that were made in place of others get a node, as soon as there is room."""
        if gang.start.lacking:
            room, now = Room.of(self.board, gang, self.store.neighbours), self.now()
            message = find_nodes(gang, room, self.around.gone, now)
            if isinstance(message, NodesFound):
                return self.set(gang, take(gang, message))
            self.wake_at(gang.uid, now + LACKING_SECONDS)
        return gang

    def _perform(self, gang: Gang, effects: Iterable[Effect], now: float) -> None:
        actions: list[What] = []
        for effect in effects:
            match effect:
                case WriteStatus(urgent=urgent):
                    self._write_status(gang, now, urgent=urgent)
                case PostEvent():
                    self.post(gang, effect)
                case TellSize(allocation=allocation):
                    self.tell_size(gang, allocation)
                case ReadLeases(nodes=nodes):
                    self.wake_at(gang.uid, self.store.health.ask(nodes, now, self._worker.read_lease))
                case RequestCheckpoint():
                    self._ask_to_save(gang)
                case _:
                    actions.append(effect)
        self.outbox.want(gang.meta, actions, lambda action: self._body(gang, action))

    def _body(self, gang: Gang, action: What) -> dict[str, Any] | None:
        """The body of a request; None if it cannot be made: that comes from the job's own template."""
        if isinstance(action, SetCondition):
            return unscheduled(action.uid, action.reason, action.why)
        if isinstance(action, Ungate):
            return lifted(action.gate, action.node, action.uid, action.version)
        defaults = replace(self.settings.pods, gpus=self.store.table.gpus)
        try:
            body = body_of(action, gang.job, gang.meta, gang.terms.template, defaults)  # type: ignore[arg-type]
            if isinstance(action, Create) and body is not None:
                mark = GangMark(
                    action.attempt, action.node, dict(action.counts), dict(action.amounts), gang.job.queue,
                    self._worker.fence.epoch,
                )  # fmt: skip
                body["metadata"]["annotations"] |= self.settings.marks.written(gang.meta, action.name, mark)
        except Exception as error:  # noqa: BLE001  it would come again
            self.tell(gang.uid, Unbookable(sentence("make its pods", error)))
            return None
        return body

    def _write_status(self, gang: Gang, now: float, *, urgent: bool) -> None:
        intent = shown(gang)
        try:
            said = self._says.of(gang, self.shown, now)
            show = Shown(self.shown, now, self.settings.began, said, self.foreseen)
            body = status_for(gang, intent, rows.columns_of(self.board, gang), show)
        except Exception as error:  # noqa: BLE001  it is this gang's fault, and all others go on
            self.fault(gang.uid, "write its status", error, tell=False)
            self.outbox.tell(gang.meta, {"reason": FAULT, "message": self.gangs[gang.uid].frozen.why})
            return
        token = (intent, gang.reports.progress, gang.usage, gang.expected)
        self.outbox.status(gang.meta, body, token, urgent=urgent)

    def post(self, gang: Gang, event: PostEvent) -> None:
        body = event_of(gang.meta, event.old, event.new, self.settings.began)
        self.outbox.notice(gang.meta.namespace, body)

    def tell_size(self, gang: Gang, allocation: Allocation) -> None:
        self.tell(gang.uid, SizeTold())
        cores = {one.role: dict(one.amounts)[CPU] / 1000 for one in allocation if CPU in dict(one.amounts)}
        self._server.resize(gang.job.id, {one.role: len(one.nodes) for one in allocation}, cores)

    def _ask_to_save(self, gang: Gang) -> None:
        asked = self._who_saves(gang)
        self.tell(gang.uid, SaveAsked(asked))
        self.due.pop(gang.uid, None)
        if asked:
            self._server.save(gang.job.id, self.gangs[gang.uid].saving.round.request)

    def _who_saves(self, gang: Gang) -> frozenset[ReplicaKey]:
        """The replicas to ask for a checkpoint: those that can save, once all of them are connected."""
        attempt, connected = gang.wanted.attempt, self._server.connected(gang.job.id)
        there = {(one.role, one.index) for one in connected if one.can_save and one.attempt == attempt}
        present = {(pod.role, pod.index) for pod in gang.pods.values() if pod.attempt == attempt and not pod.over}
        return to_ask(gang.saving.savers, there, present)

    def save_by_time(self) -> None:
        """Asks the gangs to save whose turn it is: of those that share a volume, one at a time in each namespace."""
        now, turns, busy = self.now(), list[SaveTurn](), set[str]()
        for gang in self.gangs.values():
            job, saving = gang.job, gang.saving
            if not saving.savers or not job.checkpoints or job.saves_itself:
                continue
            disk = gang.uid if self.settings.pods.volume is None else gang.meta.namespace
            held = gang.state in (State.MOVING, State.STOPPING) or now - saving.asked_at < self.settings.timeouts.save
            if saving.round.is_open and held:
                busy.add(disk)
            elif gang.state is State.RUNNING and not gang.frozen.why:
                turn = gang.save_turn(disk)
                turns += [turn] if turn.due <= now and self._who_saves(gang) else []
        for job_id in due_saves(turns, busy, now):
            uid = self.ids[job_id]
            self.tell(uid, SaveByTime(self._who_saves(self.gangs[uid]), now))
            self._server.save(job_id, self.gangs[uid].saving.round.request)


def _rests(gang: Gang) -> bool:
    """Whether nothing follows from the fact that its status is written: no delete can have waited for it."""
    here = sum(len(share.nodes) for share in gang.wanted.allocation or ())
    return gang.state in (State.WAITING, State.RUNNING) and len(gang.pods) == here and is_shown(gang)


def _in_turn(due: list[Gang]) -> Iterable[Gang]:
    """So many of them: what is begun first, then namespaces in turn."""
    begun = [gang for gang in due if not gang.waits]
    waiting: dict[str, list[Gang]] = {}
    for gang in due:
        if gang.waits:
            waiting.setdefault(gang.meta.namespace, []).append(gang)
    rest = chain.from_iterable(zip_longest(*waiting.values()))
    return islice(chain(begun, (gang for gang in rest if gang is not None)), MAX_STEPS)
