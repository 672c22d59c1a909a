"""All lone pods: takes them in from the watch, binds them as plans say, and says why they wait.

Like TrainingJobs they are rows of the board. Their state is in the cluster alone: a pod without a node waits, one with
a node holds its room until it ends. So nothing is written before a binding, and a restart needs no memory.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headway.core.board import Board
from headway.core.job import JobId
from headway.core.plan import Action, Start
from headway.core.states import OVER, State
from headway.core.text import clean
from headway.kube.api.errors import Forbidden, Unreachable
from headway.kube.api.objects import Pod
from headway.kube.fence import sentence
from headway.kube.lone.lone_pod import ROLE, LonePod, is_lone, lone_job
from headway.kube.pod.conditions import UNSCHEDULABLE, pod_event, unscheduled
from headway.kube.pod.constraints import BoundClaim, Unplaceable
from headway.kube.pod.neighbours import Neighbours
from headway.kube.pod.resources import OVER_PHASES, held_by
from headway.kube.reconcile.model import Bind, SetCondition
from headway.kube.settings import KubeSettings
from headway.kube.work import ApiWork, ClaimsRead, Performed, PodRequest
from headway.kube.worker import ApiWorker

log = logging.getLogger("headway.kube")
REFUSED_SECONDS = 5.0
"""A pod whose binding was refused is tried again after this."""
PASSING_SECONDS = 3.0
LONGEST_TEXT = 1000


@dataclass(slots=True)
class LonePods:
    board: Board
    worker: ApiWorker
    settings: KubeSettings
    now: Callable[[], float]
    """The cluster's clock."""
    neighbours: Neighbours
    pods: dict[str, LonePod] = field(default_factory=dict)
    """By uid."""
    by_id: dict[JobId, LonePod] = field(default_factory=dict)
    changed: bool = False
    """Policies must see what became of one of them."""
    _unread: dict[str, Pod] = field(default_factory=dict)
    """By uid: pods whose claims for volumes are being read."""
    _refused: dict[str, str] = field(default_factory=dict)
    """By uid: what a pod was told that Headway does not bind."""

    # ── what the watch tells ────────────────────────────────────────────────────────────────────────────

    def take(self, pod: Pod) -> bool:
        """Takes in a pod; returns whether the board counts it. All others are foreign."""
        uid, known, now = pod.metadata.uid, self.pods.get(pod.metadata.uid), self.now()
        try:
            if known is not None:
                self._go_on(known, pod, now)
            elif is_lone(pod, self.settings.namespace):
                self._admit(pod, now)
        except Exception as error:  # noqa: BLE001  one pod must not keep all others out
            self._drop(uid, State.FAILED, now)
            self._refuse(pod, sentence("take in this pod", error))
        return uid in self.pods

    def gone(self, uid: str) -> None:
        self._unread.pop(uid, None)
        self._refused.pop(uid, None)
        self._drop(uid, State.CANCELLED, self.now())

    def beyond(self, pod: Pod) -> tuple[str, dict[str, int]]:
        """The pod's node, and what it holds there beyond what the board has booked: it was resized, for example."""
        known = self.pods[pod.metadata.uid]
        more = {kind: amount - known.held.get(kind, 0) for kind, amount in held_by(pod).items()}
        return pod.spec.nodeName, {kind: amount for kind, amount in more.items() if amount > 0 and pod.spec.nodeName}

    def _admit(self, pod: Pod, now: float) -> None:
        uid = pod.metadata.uid
        if not pod.spec.nodeName and any(volume.persistentVolumeClaim for volume in pod.spec.volumes):
            if uid not in self._unread:
                self.worker.read_claims(pod)
            self._unread[uid] = pod
        else:
            self._enter(pod, {}, now)

    def read(self, message: ClaimsRead) -> None:
        """The claims of a pod are known."""
        pod = self._unread.pop(message.uid, None)
        if pod is not None:
            self._enter(pod, message.claims, self.now())

    def _enter(self, pod: Pod, claims: Mapping[str, BoundClaim], now: float) -> None:
        meta, node = pod.metadata, pod.spec.nodeName
        try:
            job, seat = lone_job(pod, claims, self.settings)
        except Unplaceable as error:
            self._refuse(pod, str(error))
            if error.passing:
                self._unread[meta.uid] = pod
                self.worker.read_claims(pod, PASSING_SECONDS)
            return
        if job.id in self.by_id or (node and node not in self.board.nodes.index):
            return
        known = LonePod(meta, job, self.board, {ROLE: seat}, held_by(pod))
        serials, table = self.settings.serials, self.board.table
        table.arrivals = max(table.arrivals, max(serials.values(), default=-1) + 1)
        row = self.board.add(job, now)
        self.pods[meta.uid] = self.by_id[job.id] = known
        self._refused.pop(meta.uid, None)
        self.changed = True
        known.attention.dirty = False
        if node:
            known.node, known.bound, known.seen_bound = node, True, True
            self.board.restore(row, State.RUNNING, known.on(node), None)
            self.board.table.set("since", row, now)

    def _go_on(self, known: LonePod, pod: Pod, now: float) -> None:
        node, phase, state = pod.spec.nodeName, pod.status.phase, known.state
        if phase in OVER_PHASES:
            self._drop(pod.metadata.uid, State.FINISHED if phase == "Succeeded" else State.FAILED, now)
            return
        if not node:
            if known.seen_bound:  # a pod never loses its node, but the server's data may be restored from a copy
                known.bound, known.seen_bound, known.node = False, False, ""
                self.board.restore(known.row, State.WAITING, None, None)
                self.changed = True
            return
        known.bound = known.seen_bound = True
        known.pause.end(self.board, known.row, now, early=True)
        if node != known.node:
            log.warning("pod %s was bound to %s by another scheduler", known.job.id, node)
            known.node = node
            self.board.restore(known.row, State.RUNNING, known.on(node), None)
            self.changed = True
        elif state is State.STARTING and phase == "Running":
            self.board.settle(known.row, State.RUNNING, known.on(node), now)
            self.changed = True

    def _drop(self, uid: str, state: State, now: float) -> None:
        known = self.pods.pop(uid, None)
        if known is None:
            return
        known.pause.end(self.board, self.board.row(known.job.id), now, early=True)
        del self.by_id[known.job.id]
        row, before = self.board.row(known.job.id), None
        if row is not None and (before := self.board.state(row)) not in OVER:
            if before is State.WAITING or state is State.CANCELLED:
                state = State.CANCELLED
                if before is not State.WAITING:
                    self.board.begin(row, State.STOPPING, None, now, math.inf)
            self.board.settle(row, state, None, now)
        self.changed = True

    # ── what plans say ──────────────────────────────────────────────────────────────────────────────────

    def begin(self, known: LonePod, action: Action, now: float) -> None:
        """Begins to bind it. No other decision is made for it: nothing else may be done to it."""
        assert isinstance(action, Start)
        known.node = self.board.nodes.nodes[action.placement.nodes[0][0]].name
        self.board.begin(known.row, State.STARTING, action.placement, now, math.inf)
        known.attention.dirty, known.why = True, ("", "")
        guest = replace(known.seats[ROLE].guest, near=(), spread=())  # demands of a pod that has a node are over
        self.neighbours.put(known.meta.uid, known.node, guest)  # the next decision of the plan must see it there
        log.info("pod %s: starting on %s", known.job.id, known.node)
        self.changed = True

    def advance(self, now: float) -> None:
        """Sends what is to be sent: bindings, and conditions that say why a pod waits."""
        for known in list(self.pods.values()):
            self.changed |= known.pause.end(self.board, known.row, now)
            if known.attention.due(now) and known.state is State.STARTING and not known.bound:
                known.attention.dirty = False
                self._send(known, PodRequest(Bind(known.meta.name, known.meta.uid, known.node)))
            elif known.why[1] and known.why != known.told and known.attention.free(now):
                known.told = known.why
                self._tell(known.meta.namespace, known.meta.name, known.meta.uid, *known.why)

    def answered(self, message: Performed, now: float) -> bool:
        """Takes in the result of a request; returns whether it was one about a lone pod."""
        known = self.pods.get(message.work.uid)
        if known is None:
            return False
        for result in message.results:
            error, is_binding = result.error, isinstance(result.action, Bind)
            known.attention.busy &= not is_binding
            if error is None:
                known.attention.recovered()
                known.bound |= is_binding
            elif isinstance(error, Unreachable | Forbidden):
                known.attention.put_off(error, now)
                known.told = ("", "")
            elif is_binding and not known.bound and known.state is State.STARTING:
                log.warning("pod %s: its binding to %s was refused: %s", known.job.id, known.node, error)
                known.pause.again, known.node = now + REFUSED_SECONDS, ""
                self.neighbours.drop(known.meta.uid)
                self.board.settle(known.row, State.WAITING, None, now)
                self.changed = True
        return True

    def nodes(self) -> set[str]:
        return {known.node for known in self.pods.values() if known.node}

    def next(self) -> float:
        """When to look at them again."""
        pods: Iterable[LonePod] = (known for known in self.pods.values() if known.attention.dirty)
        pauses = min((known.pause.again for known in self.pods.values() if known.pause.resting), default=math.inf)
        return min((known.attention.next() for known in pods), default=pauses)

    # ── what it says ────────────────────────────────────────────────────────────────────────────────────

    def _send(self, known: LonePod, request: PodRequest) -> None:
        known.attention.busy = True
        meta = known.meta
        self.worker.perform(ApiWork(meta.uid, meta.namespace, meta.name, None, (request,)))

    def _refuse(self, pod: Pod, why: str) -> None:
        """Says once, in an event and in its condition, why Headway does not bind the pod."""
        meta, why = pod.metadata, clean(why, LONGEST_TEXT)
        if pod.spec.nodeName or self._refused.get(meta.uid) == why:
            return
        self._refused[meta.uid] = why
        log.warning("pod %s/%s is not bound: %s", meta.namespace, meta.name, why)
        self._tell(meta.namespace, meta.name, meta.uid, UNSCHEDULABLE, why)
        self.worker.announce(meta.namespace, pod_event(meta, "FailedScheduling", why))

    def _tell(self, namespace: str, name: str, uid: str, reason: str, why: str) -> None:
        request = PodRequest(SetCondition(name, uid), unscheduled(uid, reason, why))
        self.worker.perform(ApiWork(uid, namespace, name, None, (request,), in_hand=False))
