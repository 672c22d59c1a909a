"""The Kubernetes cluster: makes snapshots of gangs and nodes, and carries out plans with pods.

One thread decides and keeps the state; `ApiWorker` is the thread that talks to the API server; a third one receives
progress. They meet in one queue. Each gang is a value: what happens is given to it by `take`, what is to be done comes
from `step`. What a restart must know is in the API server before it is needed. So this process may be killed at any
time and started again on any machine.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from headway.core.gang import StepsSeen, ask_again_at
from headway.core.plan import Action, Plan, Reserve, Scale, Start
from headway.core.queue_rules import QueueRule
from headway.core.snapshot import Snapshot
from headway.core.states import IN_FLIGHT, State
from headway.kube.api.errors import KubeError
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.usage import Measured
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.following import Following
from headway.kube.gangs.foreign import places
from headway.kube.gangs.gang import Around, Gang
from headway.kube.gangs.intent import allocation_of
from headway.kube.gangs.messages import (
    Answered,
    Decided,
    Heard,
    NoPlace,
    Placed,
    Sampled,
    StatusRefused,
    StatusWritten,
    UsageSeen,
)
from headway.kube.gangs.model import (
    PostEvent,
)
from headway.kube.gangs.take import hears
from headway.kube.identity.tokens import PodRoster
from headway.kube.inbox import ClaimsRead, LeaseRead, UsersRecorded, Wake, WorkerEnded
from headway.kube.intake.dry_runs import DryRunDone
from headway.kube.intake.foreign import is_for_us
from headway.kube.intake.groups import GroupRead
from headway.kube.intake.table import Intake
from headway.kube.pods.conditions import NEIGHBOURS_REFUSE, touched
from headway.kube.pods.placing import NoNodeLeft, PlanRoom
from headway.kube.settings import KubeSettings
from headway.kube.start import collector_rests, first_gangs, read_initial_state
from headway.kube.state import NAME as STATE
from headway.kube.state import ClusterState
from headway.kube.store.held import OwnPod
from headway.kube.store.usage import Meter
from headway.kube.telemetry.figures import NOBODY, Watcher, figures
from headway.kube.values import replace
from headway.kube.views import board as rows
from headway.kube.views.demand import PREFIX, Demand
from headway.kube.views.explain import Explaining
from headway.kube.views.foreseen import Foreseen
from headway.kube.views.status import delete_refused, event_on_lease
from headway.kube.writes.outbox import Outbox
from headway.kube.writes.worker import ApiWorker
from headway.kube.writes.write import AT_REST, Rank, WriteDone
from headway.progress_server import Connected, ProgressServer, Reported, Saved

log = logging.getLogger("headway.kube")
SAMPLE_SECONDS = 1.0
IDLE_SECONDS = 10.0
MESSAGE_SECONDS = 0.05
"""Messages are read for at most this long before gangs go on."""
MAX_UNBOUND = 1024
"""Pods that are being made and bound at once. Further starts wait: the room is theirs in the next cycle."""
ROOM_SECONDS = 0.1
"""Where only pods of others changed, policies are asked at most this often."""
FORGET_SECONDS = 5.0
COUNT_SECONDS = 5.0
"""Where somebody watches, gangs are counted this often."""


class KubeCluster:
    def __init__(
        self, worker: ApiWorker, server: ProgressServer, settings: KubeSettings, roster: PodRoster | None = None,
        watcher: Watcher = NOBODY,
    ) -> None:  # fmt: skip
        """`roster` is kept up to date with the pods of all gangs. `watcher` hears what happens."""
        self.settings = settings
        self._worker, self._server = worker, server
        self.watcher = watcher
        self.turned_at = time.monotonic()
        """When it last took in what has happened, by the monotonic clock."""
        self.following = Following(worker, server, settings, self.now, {} if roster is None else roster, watcher)
        self.gangs, self.outbox, self.store = self.following.gangs, self.following.outbox, self.following.store
        self.board = self.following.board
        self.intake = Intake(
            settings, worker, _Telling(self.outbox), self.gangs, self.following.ids, self.following.tell, self.now,
            self.store.own_pods, self.store.adopt, epoch=int(time.time() * 1000), leader=self.outbox.epoch,
        )  # fmt: skip
        self._demand = Demand(self.outbox, settings)
        self.store.health.lost_after = settings.timeouts.lost_node
        self.store.foreign_came = self.intake.see_pod
        self.store.stand_in_seen, self.store.stand_in_gone = self._demand.see, self._demand.gone
        self.following.forgotten = self.intake.forgotten
        self._plan_room = PlanRoom(self.board, self.store.neighbours)
        self._explaining, self.meter = Explaining(settings), Meter(settings.measure)
        self._wake, self._idle_since, self._sampled, self._cycled = math.inf, math.inf, -math.inf, -math.inf
        self._forget_at, self._save_at, self._count_at = -math.inf, -math.inf, -math.inf
        self._cycle_began = time.monotonic()
        self._room_changed = self._closing = self._anew = False
        self._look_at = math.inf
        with collector_rests():
            self._load_initial_state()

    @property
    def leads(self) -> bool:
        """Whether it may write now. From any thread."""
        return self._worker.fence.is_open()

    @property
    def listened_at(self) -> float:
        """When the thread that receives progress last went on, by the monotonic clock."""
        return self._server.turned_at

    def now(self) -> float:
        """Seconds since `began`, by the clock of the settings."""
        return self.settings.clock.now() - self.settings.began

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        while True:
            self.turn()
            now = self.now()
            if self._closing or self._idle():
                return None
            if (
                self.following.happened
                or self._anew
                or now >= self._wake
                or (self.following.heard and now - self._sampled >= SAMPLE_SECONDS)
            ):
                return self.snapshot(now)
            if self._room_changed and self.following.waiting and now - self._cycled >= ROOM_SECONDS:
                return self.snapshot(now)
            self._wait(now)

    def apply(self, plan: Plan) -> None:
        self.board.compact()
        self._wake = min(plan.until, self._look_at)
        self._plan_room.begin(plan.decisions)
        for number, decision in enumerate(plan.decisions):
            gang = self.gangs.get(self.following.ids.get(decision.job, ""))
            if isinstance(decision, Reserve) or gang is None:
                continue
            try:
                self._try(gang, number, decision)
            except Exception as error:  # noqa: BLE001  it is this gang's fault, and all others go on
                self.following.fault(gang.uid, "begin a change of this job", error)
        if self.following.shown is not None:
            shown, foreseen = self.following.shown, self.following.foreseen
            for uid, message in self._explaining.explain(self.following.of, shown, plan, self.now(), foreseen):
                self.following.tell(uid, message)
            self._wake = min(self._wake, self._explaining.again)
            self._demand.follow(self.following.shown, self.following.of, self.now())
        self.outbox.flush()
        self.watcher.cycle(time.monotonic() - self._cycle_began)

    def show(self, snapshot: Snapshot) -> None:
        """Takes the snapshot with estimates, once it is in the log: statuses show these estimates."""
        self.following.shown = snapshot

    def foresee(self, found: Foreseen, again: float) -> None:
        """From now on statuses of jobs that wait tell when they start and are done by this. The next snapshot comes at
        `again` at the latest.
        """
        self.following.foreseen, self._look_at = found, again

    def foreseen_anew(self) -> None:
        """The next snapshot comes at once. May be called from any thread."""
        self._anew = True
        self._worker.wake()

    def keep(self, state: ClusterState, *, now: bool = False) -> None:
        """Writes what the next leader goes on with, where it has changed."""
        if (body := state.changed(now=now)) is not None:
            self.outbox.keep(state.system, STATE, body, state)

    def obey(self, queues: tuple[QueueRule, ...]) -> None:
        """From now on what comes, and what changes, is held to these rules."""
        self.settings.claims.queues = queues

    def tell_administrators(self, namespace: str, reason: str, message: str) -> None:
        """An event on the scheduler's own Lease."""
        self.outbox.notice(namespace, event_on_lease(namespace, reason, message, self.settings.clock.now()))

    def stop(self) -> None:
        """Ends the loop; may be called from a signal handler. Pods go on, and the next start takes over."""
        self._closing = True
        self._worker.wake()

    def close(self) -> None:
        """Waits until all writes were sent. Pods go on."""
        give_up = time.monotonic() + 10
        while not self.outbox.is_tried and time.monotonic() < give_up and self._worker.fence.is_open():
            self.outbox.flush()
            self._worker.inbox.wait(0.1)
            self._read_messages()
        self._worker.close()
        self._server.close()

    def turn(self) -> None:
        """Takes in what has happened and goes on with all gangs; decides nothing."""
        self._read_messages()
        self._check_nodes()
        self.following.step_due()
        if self.now() >= self._save_at:
            self._save_at = self.now() + SAMPLE_SECONDS
            self.following.save_by_time()
        self.meter.ask(self.gangs.values(), self.now(), self._worker.measure)
        for meta in self.intake.expiry.due(self.now()):
            self.outbox.remove(meta)
        self.outbox.flush()
        self.turned_at = time.monotonic()
        if self.watcher is not NOBODY and self.now() >= self._count_at:
            self._count()

    def _count(self) -> None:
        self._count_at = self.now() + COUNT_SECONDS
        self.watcher.count(figures(self.gangs.values(), self.now(), self.board.nodes))
        if (shown := self.following.shown) is not None:
            rows = shown.jobs.running()
            left = shown.estimates.left_of(rows, shown.now)
            for row, seconds in zip(rows.tolist(), left.tolist(), strict=True):
                if math.isfinite(seconds):
                    self.watcher.predicted(
                        self.following.ids.get(shown.jobs.job(row).id, ""), shown.now, shown.now + seconds
                    )

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────

    def _load_initial_state(self) -> None:
        """Nodes first, then jobs, then pods: each step needs the one before."""
        look = read_initial_state(self._worker.inbox)
        assert look.nodes is not None and look.jobs is not None and look.pods is not None  # noqa: PT018  it is whole
        self.store.see_nodes(look.nodes, self.now())
        found = first_gangs(self.intake, self._worker.inbox, look.jobs.objects, look.pods.objects)
        self._set_nodes([name for one in found for name in one.gang.wanted.nodes()])
        for one in found:
            self.following.enrol(one)
            self._touch(one.gang)
        self.store.see_pods(look.pods)
        self._touch_others(look.pods.objects)
        self._worker.inbox.put_back(look.later)
        self.outbox.flush()

    def _touch(self, gang: Gang) -> None:
        """What an earlier scheduler sent about pods of a change under way may still arrive: it is to come too late."""
        epoch = self._worker.fence.epoch
        for pod in gang.pods.values():
            if epoch and not pod.over and (not pod.bound or gang.state in IN_FLIGHT):
                self.outbox.touch(gang.meta.namespace, pod.name, touched(pod.uid, epoch))

    def _touch_others(self, pods: Iterable[Pod]) -> None:
        """Likewise pods of others without a node: a late binding would fill a node that is promised to others."""
        epoch = self._worker.fence.epoch
        for pod in pods:
            if epoch > 1 and not pod.spec.nodeName and is_for_us(pod, self.settings):  # the first has none before it
                meta = pod.metadata
                self.outbox.touch(meta.namespace, meta.name, touched(meta.uid, epoch), Rank.EVENT)

    def _read_messages(self) -> None:
        self.intake.new_turn()
        until = time.monotonic() + MESSAGE_SECONDS
        while (message := self._worker.inbox.next()) is not None:
            self._take(message)
            if time.monotonic() >= until:
                break
        self._come()
        for event in self._server.poll():
            self._hear(event)

    def _take(self, message: Any) -> None:  # noqa: C901  one line a message
        match message:
            case Wake():
                self._worker.wake_taken()
            case UsersRecorded(since=since) if since != self.settings.claims.users_since:
                log.warning("from now on the cluster %s who submits", "records" if since else "no longer records")
                self.settings.claims.users_since = since
            case WriteDone(again=True):
                self._refused(message)
            case WriteDone():
                self._answered(message)
            case LeaseRead():
                self.store.health.take(message)
                self.following.due.update(dict.fromkeys(self.store.on([message.node])))
            case WorkerEnded(why=why):
                raise KubeError(f"the thread that talks to the API server has ended: {why}")
            case Measured():
                self._measured(message)
            case _ if getattr(message, "kind", None) is Pod:
                self.store.see_pods(message)
            case _ if getattr(message, "kind", None) is NodeObject:
                self.store.see_nodes(message, self.now())
            case Listed() | Changed() | Deleted() | DryRunDone() | ClaimsRead() | GroupRead():
                self.intake.hear(message)

    def _measured(self, message: Measured) -> None:
        for gang, usage in self.meter.take(message, list(self.gangs.values()), self.now()):
            self.following.tell(gang.uid, UsageSeen(usage))
            if (row := self.board.row(gang.job.id)) is not None:
                self.board.uses(row, usage.cores)
            self.following.heard = True

    def _note(self, old: Gang, new: Gang, event: Any) -> None:
        """What its user should know: where it goes on, and that it could not save."""
        before = old.reports.progress
        if isinstance(event, Reported) and before is not None and new.reports.attempt != old.reports.attempt:
            seen = StepsSeen().reported(before.step, before.at).stopped()
            self.board.note(new.job.id, seen.sentence(event.step if event.first is None else event.first))
        if new.saving.round.failed and not old.saving.round.failed and new.state is State.RUNNING:
            self.board.note(new.job.id, f"it could not save and trains on: {new.saving.round.failed}")

    def _hear(self, event: Any) -> None:
        uid = self.following.ids.get(event.job, "")
        gang = self.gangs.get(uid)
        if gang is None:
            return
        row = self.board.row(gang.job.id)
        if isinstance(event, Saved) and row is not None and hears(gang, event):
            self.board.saved(row, self.board.trained_seconds(row, self.now()))
        self.following.tell(uid, Heard(event, self.now()))
        new = self.gangs[uid]
        self._note(gang, new, event)
        if new.reports.sample is not gang.reports.sample:
            self.following.heard = True
            self.following.reported.add(uid)
        if isinstance(event, Connected):
            if new.saving.size_changed and hears(new, event):
                self.following.tell_size(new, new.wanted.allocation or ())
            if new.state in (State.MOVING, State.STOPPING):
                self.following.due[uid] = None

    def _answered(self, done: WriteDone) -> None:
        write, gang = done.write, self.gangs.get(done.write.key)
        waited_for = self.outbox.answered(write)
        if done.pod is not None:
            self.store.see_pod(done.pod)
        if write.key.startswith(PREFIX):
            self._demand.answered(done, self.now())
        if isinstance(write.token, ClusterState) and done.error is not None:
            write.token.refused(done.error)
        if gang is None or write.token == AT_REST:
            return
        if write.token is None:
            what: Any = write.what
            if waited_for or done.error is None:  # what nobody wants any more may have been refused
                self.following.tell(gang.uid, Answered(what, done.pod is not None, done.gone, done.error))
            self.following.due[gang.uid] = None
        elif done.error is None:
            if waited_for:
                self.following.tell(gang.uid, StatusWritten(*write.token))
        elif waited_for:
            job, words = gang.job.id, "job %s: its status is refused, it is written again later: %s"
            log.warning(words, job, done.error, extra={"job": job})
            self.following.tell(gang.uid, StatusRefused(done.error, self.now()))

    def _refused(self, done: WriteDone) -> None:
        """A delete that the door asks for again."""
        gang = self.gangs.get(done.write.key)
        if gang is not None and done.error is not None:
            body = delete_refused(gang, done.write.name, done.error, self.settings.clock.now())
            self.outbox.notice(gang.meta.namespace, body)

    # ── gangs come and go ───────────────────────────────────────────────────────────────────────────────

    def _come(self) -> None:
        for found in self.intake.some():
            self._set_nodes(found.gang.wanted.nodes())
            self.following.enrol(found)

    # ── nodes ───────────────────────────────────────────────────────────────────────────────────────────

    def _check_nodes(self) -> None:
        store, now = self.store, self.now()
        if store.health.absent_since and now >= self._forget_at:
            self._forget_at = now + FORGET_SECONDS
            store.forget_unnamed({name for gang in self.gangs.values() for name in gang.nodes()})
        self._set_nodes(())
        health, around = store.health, self.following.around
        gone, doubtful = health.gone(now), health.doubtful(now)
        if gone != around.gone or doubtful != around.doubtful or health.alive_after is not around.alive_after:
            self.following.around = Around(
                gone, doubtful, health.alive_after, around.timeouts, around.limits, around.progress_seconds
            )
            self.following.due.update(dict.fromkeys(store.on((gone | doubtful) - (around.gone & gone))))

    def _set_nodes(self, named: Iterable[str]) -> None:
        self.store.settle(self._booked)
        found = self.store.take_table(named, self.now())
        if found is None:
            return
        nodes, changed = found
        known = self.board.nodes
        if changed is not None:
            self.board.adjust(nodes, changed)
            self._room_changed = True
        elif nodes.nodes != known.nodes or nodes.kinds != known.kinds:
            self.board.set_nodes(nodes)
            if known.kinds and nodes.kinds != known.kinds:
                rows.recount(self.board, self.gangs.values())
            self.following.happened = True

    def _booked(self, uid: str, pod: OwnPod) -> Mapping[str, int]:
        gang = self.gangs.get(uid)
        return {} if gang is None else rows.booked_for(self.board, gang, pod.role, pod.node)

    # ── what is decided ─────────────────────────────────────────────────────────────────────────────────

    def _try(self, gang: Gang, number: int, action: Action) -> None:
        """Begins a decision. What a gang or its neighbours have just refused is tried again only after a pause."""
        now = self.now()
        then = max(ask_again_at(action, gang.wanted.declined, gang.wanted.since, now), gang.pause.again)
        if then > now or gang.frozen.why:
            self._wake = min(self._wake, then if then > now else math.inf)
            return
        if isinstance(action, Start) and self.outbox.unbound >= MAX_UNBOUND:
            self._wake = min(self._wake, now + ROOM_SECONDS)
            return
        try:
            action = self._plan_room.place(number, gang.rules)
        except NoNodeLeft as why:
            self.following.tell(gang.uid, NoPlace(NEIGHBOURS_REFUSE, str(why), now))
            self._wake = min(self._wake, self.gangs[gang.uid].pause.again)
            return
        if gang.pause.refusals:
            self.following.tell(gang.uid, Placed())
        self._begin(self.gangs[gang.uid], action, now)

    def _begin(self, gang: Gang, action: Action, now: float) -> None:
        row = self.board.row(gang.job.id)
        assert row is not None
        _, placement = self.board.aim(row, action)
        shape = self.board.table.shape_at(row)
        target = None if placement is None else allocation_of(placement, gang.job, shape, self.board.nodes)
        self.following.tell(gang.uid, Decided(action, target, now, self.settings.timeouts))
        new = self.gangs[gang.uid]
        log.info("job %s: %s", new.job.id, new.state.name.lower(), extra={"job": new.job.id})
        if gang.is_foreign and target is not None:
            for pod, node in places(new):  # the plan's next decision must see it there; its own demands are over
                facts = replace(gang.rules[pod.role].facts, near=(), spread=())
                self.store.neighbours.put(pod.uid, node, facts)
        elif not isinstance(action, Start):
            self.following.post(new, PostEvent(gang.wanted, new.wanted))
        if isinstance(action, Scale) and target is not None and not gang.job.saves_itself:
            self.following.tell_size(new, target)

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self, now: float) -> Snapshot:
        for uid in self.following.reported:
            gang = self.gangs.get(uid)
            if gang is not None and gang.reports.sample is not None:
                self.board.sampled(gang.reports.sample)
                self.following.tell(uid, Sampled())
        self.following.reported.clear()
        if now >= self._wake:
            self._wake = math.inf
        self.following.happened = self.following.heard = self._room_changed = self._anew = False
        self._sampled = self._cycled = now
        self._cycle_began = time.monotonic()
        return self.board.snapshot(now)

    def _idle(self) -> bool:
        if not self.settings.until_idle:
            return False
        busy = self.gangs or self.intake.to_come or not self.following.seen_any
        self._idle_since = math.inf if busy else min(self._idle_since, self.now())
        return self.now() - self._idle_since >= IDLE_SECONDS

    def _wait(self, now: float) -> None:
        moments = [self._wake, self.following.wakes[0][0] if self.following.wakes else math.inf]
        moments += [self.intake.expiry.next()]
        moments += [self._sampled + SAMPLE_SECONDS if self.following.heard else math.inf, self.store.health.next(now)]
        moments += [now if self.intake.waiting or self.following.due else math.inf]
        moments += [self._cycled + ROOM_SECONDS if self._room_changed and self.following.waiting else math.inf]
        moments += [self._count_at if self.watcher is not NOBODY else math.inf]
        self.settings.clock.wait(self._worker.inbox, min(moments) + self.settings.began)


class _Telling:
    """How the intake writes about objects that are no gang."""

    def __init__(self, outbox: Outbox) -> None:
        self.status, self.condition = outbox.rests, outbox.condition
        self.event, self.forget = outbox.notice, outbox.forget
