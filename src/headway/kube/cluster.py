"""The Kubernetes cluster: makes snapshots of TrainingJobs and nodes, and carries out plans with pods.

One thread decides and keeps the state; `ApiWorker` is the thread that talks to the API server; a third one receives
progress. They meet in one queue. Each change is written to the API server before it is acted on. So this process may be
killed at any time and started again on any machine.
"""

from __future__ import annotations

import logging
import math
import time
from collections import ChainMap
from collections.abc import Iterable
from typing import Any

from headway.core.board import Board
from headway.core.gang import ask_again_at
from headway.core.job import JobId
from headway.core.node import Nodes
from headway.core.plan import Action, Decision, Plan, Reserve
from headway.core.snapshot import Snapshot
from headway.kube.actor import Actor
from headway.kube.admission import Admission
from headway.kube.adoption import Admitted
from headway.kube.answers import take_answer
from headway.kube.api.errors import KubeError
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.usage import Measured
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.demand import Demand, DemandToken
from headway.kube.fair import in_turn
from headway.kube.fence import Fence
from headway.kube.hearing import hear
from headway.kube.initial_state import collector_rests, read_initial_state, take_in_first
from headway.kube.inventory import Inventory
from headway.kube.lone.lone_pod import LonePod
from headway.kube.lone.lone_pods import LonePods
from headway.kube.metering import Meter
from headway.kube.outgoing import explain_waiting
from headway.kube.pod.neighbours import Neighbours
from headway.kube.rehearsal import Rehearsed
from headway.kube.roster import PodRoster
from headway.kube.seats import seated
from headway.kube.settings import KubeSettings
from headway.kube.tracked import Tracked
from headway.kube.work import ClaimsRead, LeaseRead, Performed, UsersRecorded, Wake, WorkerEnded
from headway.kube.worker import ApiWorker
from headway.progress_server import Connected, ProgressServer

log = logging.getLogger("headway.kube")
SAMPLE_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 5.0
IDLE_SECONDS = 10.0


class KubeCluster:
    def __init__(
        self, worker: ApiWorker, server: ProgressServer, settings: KubeSettings, roster: PodRoster | None = None
    ) -> None:
        """`roster` is kept up to date with the pods of all jobs."""
        self.settings = settings
        self.board = Board(Nodes.of(()))
        self._worker, self._server = worker, server
        self._offset = time.time() - settings.began - time.monotonic()
        self._lone = LonePods(self.board, worker, settings, self.now, neighbours := Neighbours())
        self._demand = Demand(worker, settings)
        self._inventory = Inventory(settings.began, neighbours=neighbours, lone=self._lone, demand=self._demand)
        self._admission = Admission(self.board, worker, settings, {} if roster is None else roster)
        self._actor = Actor(self.board, worker, server, settings, self._inventory)
        self._fence = Fence(worker, self.now, self._drop)
        self._meter = Meter(worker, settings.measure)
        self._by_id: dict[JobId, Tracked] = {}
        self._wake, self._idle_since, self._sampled = math.inf, math.inf, -math.inf
        self._happened = self._heard = True
        self._seen_any = self._closing = False
        with collector_rests():
            self._load_initial_state()

    def now(self) -> float:
        """Seconds on the cluster's clock. It never goes back, even if the wall clock does."""
        return time.monotonic() + self._offset

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        while True:
            self._read_messages()
            self._check_nodes()
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
        for number, decision in enumerate(plan.decisions):
            if isinstance(decision, Reserve):
                continue
            if (lone := self._lone.by_id.get(decision.job)) is not None:
                self._bind(lone, decision, plan.decisions[number + 1 :])
            else:
                with self._fence.of(self._by_id[decision.job], "begin a change of this job"):
                    self._try(decision, plan.decisions[number + 1 :])
        if self._actor.shown is not None:
            by_id: ChainMap[JobId, Any] = ChainMap(self._by_id, self._lone.by_id)
            explain_waiting(by_id, self._actor.shown, plan, self.now(), self.settings)
            self._demand.follow(self._actor.shown, self._by_id, self.now())

    def show(self, snapshot: Snapshot) -> None:
        """Takes the snapshot with estimates, once it is in the log: statuses show these estimates."""
        self._actor.shown = snapshot

    def stop(self) -> None:
        """Ends the loop; may be called from a signal handler. Pods go on, and the next start takes over."""
        self._closing = True
        self._worker.wake()

    def close(self) -> None:
        """Waits for writes that are under way. Pods go on."""
        give_up = time.monotonic() + 10
        while any(job.attention.busy for job in self._jobs()) and time.monotonic() < give_up:
            self._wait(self.now(), longest=0.1)
            self._read_messages()
        self._worker.close()
        self._server.close()

    # ── observing ───────────────────────────────────────────────────────────────────────────────────────

    def _jobs(self) -> Iterable[Tracked]:
        return self._admission.jobs.values()

    def _load_initial_state(self) -> None:
        """Nodes first, then jobs, then pods: each step needs the one before."""
        look = read_initial_state(self._worker.inbox)
        assert look.nodes is not None and look.jobs is not None and look.pods is not None  # noqa: PT018  it is whole
        self._inventory.see_nodes(look.nodes, self.now())
        admitted = take_in_first(self._admission, self._worker.inbox, look.jobs.objects, look.pods.objects)
        self._set_nodes([name for entry in admitted for name in entry.nodes()])
        for entry in admitted:
            self._enrol(entry)
        self._inventory.see_pods(look.pods, self._admission.jobs)
        self._worker.inbox.put_back(look.later)

    def _read_messages(self) -> None:
        self._admission.newcomers.new_turn()
        while (message := self._worker.inbox.next()) is not None:
            match message:
                case Wake():
                    self._worker.wake_taken()
                case UsersRecorded(since=since) if since != self._admission.settings.claims.users_since:
                    log.warning("from now on the cluster %s who submits", "records" if since else "no longer records")
                    self._admission.trust_users(since)
                case Performed():
                    self._performed(message)
                case ClaimsRead():
                    self._lone.read(message)
                case LeaseRead():
                    self._actor.heartbeats.take(message)
                case WorkerEnded(why=why):
                    raise KubeError(f"the thread that talks to the API server has ended: {why}")
                case Measured():
                    self._heard |= self._meter.take(message, list(self._jobs()), self._fence, self.now())
                case Listed() | Changed() | Deleted() | Rehearsed():
                    self._news(message)
        self._come(self._admission.some())
        self._hear()

    def _performed(self, message: Performed) -> None:
        job = self._admission.jobs.get(message.work.uid)
        if isinstance(message.work.token, DemandToken):
            self._demand.answered(message, self.now())
        elif job is not None:
            take_answer(job, message, self._inventory, self._fence)
        else:
            self._lone.answered(message, self.now())

    def _hear(self) -> None:
        for event in self._server.poll():
            if (job := self._by_id.get(event.job)) is None:
                continue
            with self._fence.of(job, "take in a report", counts=False):
                self._heard |= hear(job, event, self.now())
                if isinstance(event, Connected) and job.size_changed:
                    self._actor.tell_size(job, job.intent.allocation or ())

    def _news(self, message: Any) -> None:
        kind = getattr(message, "kind", None)
        if kind is Pod:
            self._inventory.see_pods(message, self._admission.jobs)
        elif kind is NodeObject:
            self._inventory.see_nodes(message, self.now())
        else:
            self._come(self._admission.news(message))

    def _come(self, admitted: Iterable[Admitted]) -> None:
        for entry in admitted:
            self._set_nodes(entry.nodes())
            self._enrol(entry)

    def _enrol(self, entry: Admitted) -> None:
        if self._admission.enrol(entry, self.now()):
            self._by_id[entry.tracked.job.id] = entry.tracked
            self._happened = self._seen_any = True
        if entry.tracked.meta.uid in self._admission.jobs:
            self._inventory.adopt(entry.tracked)

    def _check_nodes(self) -> None:
        if self._inventory.absent:
            named = {name for job in self._jobs() for name in job.nodes()}
            self._inventory.forget_unnamed(named | self._lone.nodes())
        self._set_nodes(())
        gone = self._gone()
        for job in self._jobs() if gone else ():
            job.attention.dirty |= any(r.node in gone and not r.over for r in job.replicas.values())

    def _gone(self) -> frozenset[str]:
        return self._inventory.gone(self.now(), self.settings.timeouts.lost_node)

    def _set_nodes(self, named: Iterable[str]) -> None:
        nodes = self._inventory.take_table(named, self._admission.jobs)
        known = self.board.nodes
        if nodes is not None and (nodes.nodes != known.nodes or nodes.kinds != known.kinds):
            self.board.set_nodes(nodes)
            self._happened = True

    # ── acting ──────────────────────────────────────────────────────────────────────────────────────────

    def _try(self, action: Action, later: Iterable[Decision]) -> None:
        """Begins a decision. What a job or its neighbours have just refused is tried again only after a pause."""
        now, job = self.now(), self._by_id[action.job]
        then = ask_again_at(action, job.memory.declined, job.since, now)
        found, then = (None, then) if then > now else seated(job, action, later, self._inventory.neighbours, now)
        self._wake = min(self._wake, math.inf if found else then)
        if found is not None:
            self._actor.begin(job, found, now)

    def _bind(self, lone: LonePod, action: Action, later: Iterable[Decision]) -> None:
        """Begins to bind a pod that somebody else made."""
        now = self.now()
        found, then = seated(lone, action, later, self._inventory.neighbours, now)
        self._wake = min(self._wake, math.inf if found else then)
        if found is not None:
            self._lone.begin(lone, found, now)

    def _reconcile(self) -> None:
        self._lone.advance(self.now())
        self._meter.ask(self._jobs(), self.now())
        now, gone = self.now(), self._gone()
        for job in in_turn([job for job in self._jobs() if self._due(job, now)]):
            job.attention.taken = now
            with self._fence.of(job, "go on with this job"):
                self._actor.advance(job, now, gone)
                if job.ended is not None and job.settled():
                    self._forget(job)
        for expired in self._admission.expiry.due(now):
            self._worker.remove(expired)
        self._happened |= self._actor.changed or self._lone.changed
        self._actor.changed = self._lone.changed = False

    def _due(self, job: Tracked, now: float) -> bool:
        return job.attention.due(now) or (job.attention.free(now) and self._actor.progress_due(job, now))

    def _drop(self, job: Tracked) -> None:
        self._admission.refusals.refused.add(job.meta.uid)  # it is not taken in again
        self._forget(job)

    def _forget(self, job: Tracked) -> None:
        if self._by_id.get(job.job.id) is job:
            del self._by_id[job.job.id]
        self._come(self._admission.forget(job))

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────

    def _snapshot(self, now: float) -> Snapshot:
        for job in self._jobs():
            if job.reports.sample is not None:
                self.board.sampled(job.reports.sample)
                job.reports.sample = None
        if now >= self._wake:
            self._wake = math.inf
        self._happened = self._heard = False
        self._sampled = now
        return self.board.snapshot(now)

    def _idle(self) -> bool:
        busy = self._admission.jobs or self._admission.to_come or self._lone.pods or not self._seen_any
        self._idle_since = math.inf if busy else min(self._idle_since, self.now())
        return self.settings.until_idle and self.now() - self._idle_since >= IDLE_SECONDS

    def _wait(self, now: float, longest: float = LONGEST_WAIT_SECONDS) -> None:
        moments = [self._wake, self._lone.next(), self._admission.expiry.next()]
        moments += [self._sampled + SAMPLE_SECONDS if self._heard else math.inf]
        moments += [now if self._admission.newcomers.waiting else math.inf]
        moments += [job.attention.next() for job in self._jobs()]
        self._worker.inbox.wait(min(longest, max(0.0, min(moments) - now)))
