"""One TrainingJob as this process follows it: what is meant, what is there, what was said. Mutable, in one thread."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headway.core.gang import ReplicaKey, SaveRound, to_ask
from headway.core.job import Job
from headway.core.snapshot import Sample
from headway.kube.api.errors import ApiError, Forbidden, Invalid, NotFound, Unreachable
from headway.kube.api.objects import Meta, Pod
from headway.kube.job.intent import Intent
from headway.kube.job.replica import PodReplica, replica_of
from headway.kube.job.status import Progress
from headway.kube.reconcile.model import ApiRefusal, Bind, Create, Delete, KubeTimeouts, ResizePod, View
from headway.kube.worker import ActionResult
from headway.progress_server import Connected

log = logging.getLogger("headway.kube")
SHORTEST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 15.0


@dataclass(slots=True, eq=False)
class Tracked:
    meta: Meta
    job: Job
    template: Mapping[str, Any]
    intent: Intent
    written: Intent | None
    """As the API server has it."""
    replicas: dict[str, PodReplica] = field(default_factory=dict)
    """By the pod's uid."""
    on_board: bool = True
    withdrawn: bool = False
    busy: bool = False
    """ApiWork is under way; until it is done nothing more is asked for."""
    dirty: bool = True
    wake: float = math.inf
    """When to look again, in seconds since 1970."""
    not_before: float = 0.0
    """The API server could not be reached; not before this it is tried again."""
    pause: float = SHORTEST_PAUSE_SECONDS
    troubled: bool = False
    """It was said once; until it works again nothing more is said."""
    refusal: ApiRefusal | None = None
    progress: Progress | None = None
    progress_written: Progress | None = None
    progress_written_at: float = 0.0
    explained_at: float = -math.inf
    """When it was last told why it waits."""
    speaker: tuple[str, int] | None = None
    """The replica whose word counts as the job's progress: the first that spoke in this attempt."""
    size_changed: bool = False
    """Since this attempt began: a replica that connects late must be told."""
    heard_attempt: int = -1
    """The attempt that last reported."""
    sample: Sample | None = None
    """Not yet in a snapshot."""
    savers: set[ReplicaKey] = field(default_factory=set)
    """Replicas that said in this attempt that they can save: without one of them a checkpoint is not whole."""
    saves: SaveRound = SaveRound()

    @property
    def step(self) -> int:
        return 0 if self.progress is None else self.progress.step

    def view(self, now: float, gone: frozenset[str], patience: KubeTimeouts) -> View:
        return View(
            name=self.meta.name, job=self.job, intent=self.intent,
            replicas=tuple(sorted(self.replicas.values(), key=lambda r: (r.role, r.index, r.attempt))),
            now=now, step=self.step, gone=gone,
            saves=self.saves, refusal=self.refusal, withdrawn=self.withdrawn, patience=patience,
        )  # fmt: skip

    def see(self, pod: Pod) -> None:
        replica = replica_of(pod)
        if replica is not None and self.replicas.get(pod.metadata.uid) != replica:
            self.replicas[pod.metadata.uid] = replica
            self.dirty = True

    def lose(self, uid: str) -> None:
        if self.replicas.pop(uid, None) is not None:
            self.dirty = True

    def begin_save(self) -> None:
        """A new round: earlier answers no longer count."""
        self.saves = self.saves.next()

    def ask_to_save(self, connected: Iterable[Connected]) -> bool:
        """Whether there is somebody to ask now; who it is stands in `saves`."""
        attempt = self.intent.attempt
        there = {(who.role, who.index) for who in connected if who.can_save and who.attempt == attempt}
        present = {(r.role, r.index) for r in self.replicas.values() if r.attempt == attempt and not r.over}
        self.saves = replace(self.saves, asked=to_ask(self.savers, there, present))
        return bool(self.saves.asked)

    def turn(self, intent: Intent) -> None:
        """To another intent; what was refused and who spoke belongs to the one before."""
        if intent.attempt != self.intent.attempt:
            self.speaker, self.size_changed, self.savers = None, False, set()
        self.intent, self.refusal = intent, None

    def trouble(self, error: ApiError, now: float) -> None:
        """Nobody knows whether it happened: look again after a while that grows."""
        if not self.troubled:
            log.warning("job %s: trying again: %s", self.job.id, error)
        self.troubled = True
        self.not_before = now + max(self.pause, error.retry_after_seconds)
        self.pause = min(2 * self.pause, LONGEST_PAUSE_SECONDS)
        self.dirty = True

    def well(self) -> None:
        self.pause, self.troubled = SHORTEST_PAUSE_SECONDS, False

    def learn(self, outcome: ActionResult, now: float) -> None:
        """What came of an action, beside what the pods themselves will tell."""
        action, error = outcome.action, outcome.error
        if isinstance(action, Delete) and outcome.gone:
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
            told = f"{type(action).__name__.lower()} of pod {action.name} was refused: {error.message}"
            self.refusal = ApiRefusal(told[:500], permanent)

    def settled(self) -> bool:
        """Nothing more will ever be done about it."""
        done = self.withdrawn or self.written == self.intent
        return not self.busy and done and all(replica.over for replica in self.replicas.values())
