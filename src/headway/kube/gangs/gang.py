"""One gang as a value: what its user asks for, what is wanted, what was seen of it, and what was told. Frozen.

`take` gives it facts, `step` says what to do next. Board and status show it; they keep nothing of it. Two kinds of
gangs differ in what may be done with them: that of a TrainingJob, and a pod of others, which Headway only binds.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headway.core.gang import ReplicaKey, SaveRound, SaveTurn
from headway.core.job import Job
from headway.core.restarts import RestartLimits
from headway.core.snapshot import Sample
from headway.core.states import OVER, State
from headway.kube.api.objects import Meta
from headway.kube.api.usage import PodUsage
from headway.kube.gangs.intent import EVICTED, Intent, as_written
from headway.kube.gangs.model import ApiRefusal, View
from headway.kube.intake.dry_runs import SamplePod
from headway.kube.intake.orders import NO_ORDERS, Orders
from headway.kube.intake.spec import JobSpec
from headway.kube.pods.hosts import subdomain_of
from headway.kube.pods.placing import PodRules
from headway.kube.pods.replica import Replica
from headway.kube.settings import KubeTimeouts
from headway.kube.values import replace

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 20.0
FIRST_FREEZE_SECONDS, LONGEST_FREEZE_SECONDS = 0.25, 15.0


Moments = tuple[float, float, float]
"""When something is expected, on the cluster's clock: early, in the middle and late. Infinite where it may never be."""
Expected = tuple[Moments | None, Moments]
"""When a job starts and when it is done."""


class Capability(enum.Flag):
    """What may be done with the pods of a gang."""

    BIND = enum.auto()
    CREATE = enum.auto()
    DELETE = enum.auto()
    RESIZE = enum.auto()
    SAVE = enum.auto()
    UNGATE = enum.auto()
    """The native scheduler binds them where they are let run."""


OWN = Capability.BIND | Capability.CREATE | Capability.DELETE | Capability.RESIZE | Capability.SAVE
FOREIGN = Capability.BIND
"""Pods that others made: they are bound, and nothing else."""
GATED = Capability.UNGATE
"""Pods that others made for the native scheduler: their gate is lifted. One that it cannot bind is made anew."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a step must know beside the gang: its nodes, and the settings that count for it."""

    gone: frozenset[str] = frozenset()
    """Nodes whose pods count as lost."""
    doubtful: frozenset[str] = frozenset()
    """Nodes that are not ready, and do not count as gone yet."""
    alive_after: Mapping[str, float] = field(default_factory=dict)
    """By node: a time after which it gave a sign of life."""
    timeouts: KubeTimeouts = field(default_factory=KubeTimeouts)
    limits: RestartLimits = field(default_factory=RestartLimits)
    progress_seconds: float = 60.0


class TrainingProgress(msgspec.Struct, frozen=True):
    """How far training is, by its last report."""

    step: int = 0
    total: int | None = None
    loss: float | None = None
    at: float = 0.0
    """On the cluster's clock."""
    attempt: int = 0


class Terms(msgspec.Struct, frozen=True):
    """What its user asks for."""

    spec: JobSpec | None = None
    """Its spec as it was accepted."""
    raw: bytes = b""
    """Its spec as it was last seen."""
    template: Mapping[str, Any] = msgspec.field(default_factory=dict)
    orders: Orders = NO_ORDERS
    pending: Job | None = None
    """The job under new terms, until they are taken over."""
    stays: bool = False
    """It was to be stopped for its new size; if it still runs, it could not save."""
    refused: str = ""
    """Why its user's last change does not count."""
    withdrawn: bool = False
    """The object was deleted."""


class StartFacts(msgspec.Struct, frozen=True):
    """What was done for the present start. A decision begins it anew."""

    published: int = -1
    """The attempt whose host names are known."""
    released: frozenset[str] = frozenset()
    """What its pods waited for, as far as it was made since the last decision."""
    excused: frozenset[str] = frozenset()
    """Pods, by uid, that were turned away and are made elsewhere."""
    avoided: frozenset[str] = frozenset()
    """Nodes that turned a pod of this start away."""
    lacking: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By role: replicas of a start that an earlier process left without a pod. They have no node yet."""


class Saving(msgspec.Struct, frozen=True):
    savers: frozenset[ReplicaKey] = frozenset()
    """Replicas that can save, as they said in this attempt. A checkpoint is complete when all have saved."""
    round: SaveRound = SaveRound()
    asked_at: float = -math.inf
    """When it was last asked to save by time, or answered that."""
    began: float | None = None
    """When this attempt first ran; None as long as it has not."""
    seconds: tuple[float, ...] = ()
    """How long its last saves took, three at most."""
    size_changed: bool = False
    """The size changed in this attempt: a replica that connects late must be told."""


class Reports(msgspec.Struct, frozen=True):
    """The last report, and the replica whose reports count: the first one that reported in this attempt."""

    progress: TrainingProgress | None = None
    attempt: int = -1
    """The attempt that last reported."""
    reporter: ReplicaKey | None = None
    sample: Sample | None = None
    """The last report, until it is in a snapshot."""


class Written(msgspec.Struct, frozen=True):
    """What the API server has of it."""

    intent: Intent | None = None
    progress: TrainingProgress | None = None
    usage: PodUsage | None = None
    expected: Expected | None = None
    """As it was told of a gang that waits."""
    at: float = -math.inf
    """When progress was last written."""
    rest_until: float = -math.inf
    """The server refused its status: it is written again after this."""
    condition: tuple[str, str] = ("", "")
    """Of a foreign pod, by uid: what could not be written to its status."""


class Pause(msgspec.Struct, frozen=True):
    """It rests: plans leave it out, and others get the room.

    Example: three replicas must not share a node, and there are two nodes. Policies do not know that and would plan
    with the room of three again and again.
    """

    again: float = -math.inf
    resting: bool = False
    refusals: int = 0

    def another(self, now: float, *, resting: bool) -> Pause:
        """It was refused once more: after 5, 10 and then every 20 seconds it is tried again."""
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self.refusals, 8), LONGEST_PAUSE_SECONDS)
        return Pause(now + pause, resting, self.refusals + 1)


class Frozen(msgspec.Struct, frozen=True):
    """Something is wrong with it that Headway cannot judge: its pods stay, nothing is decided, and it is told why."""

    why: str = ""
    again: float = math.inf
    """When the next step is tried; infinite: only an order, an edit or a restart helps."""
    faults: int = 0
    """Steps in a row that raised."""


THAWED = Frozen()


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    meta: Meta
    job: Job
    """As it is booked."""
    can: Capability = OWN
    terms: Terms = Terms()
    rules: Mapping[str, PodRules] = msgspec.field(default_factory=dict)
    """By role: what its pods demand of the pods around them."""
    samples: tuple[SamplePod, ...] = ()
    """Its pods as Headway would send them."""
    wanted: Intent = Intent()
    history: Mapping[str, float] = msgspec.field(default_factory=dict)
    """What the board knew of it when it left the board: it is suspended."""
    pods: Mapping[str, Replica] = msgspec.field(default_factory=dict)
    """By uid."""
    unproven: frozenset[str] = frozenset()
    """Pods that say they are of this job, hold a node, and have no good mark; as an earlier process left them."""
    start: StartFacts = StartFacts()
    saving: Saving = Saving()
    reports: Reports = Reports()
    usage: PodUsage | None = None
    """What all its replicas together really use, as last measured."""
    refusal: ApiRefusal | None = None
    """The last request of it that the API server refused."""
    pause: Pause = Pause()
    frozen: Frozen = THAWED
    written: Written = Written()
    helps: tuple[str, ...] = ()
    """Who holds the room that it waits for, and what would help; as it was told with the reason."""
    expected: Expected | None = None
    """When it starts and is done, as it was last told while it waits."""
    explained_at: float = -math.inf
    """When it was last told why it waits."""
    looked_at: float = -math.inf
    """When that was last asked."""
    unmarked: bool = False
    """Its pods were made by an earlier version, without marks."""
    wake: float = math.inf
    """When to step again even if nothing happens."""

    # ── what others ask ──

    @property
    def uid(self) -> str:
        return self.meta.uid

    @property
    def state(self) -> State:
        return self.wanted.state

    @property
    def is_over(self) -> bool:
        return self.wanted.state in OVER

    @property
    def waits(self) -> bool:
        return self.wanted.state is State.WAITING

    @property
    def is_foreign(self) -> bool:
        return Capability.CREATE not in self.can

    def is_frozen(self, now: float) -> bool:
        return bool(self.frozen.why) and now < self.frozen.again

    def nodes(self) -> set[str]:
        """The nodes that it or one of its pods names."""
        return {*self.wanted.nodes(), *(pod.node for pod in self.pods.values() if pod.node and not pod.over)}

    def is_settled(self) -> bool:
        """Whether nothing is left to do for a gang that is over."""
        told = self.is_foreign or self.terms.withdrawn or self.written.intent == as_written(self.wanted)
        return told and all(pod.over for pod in self.pods.values())

    def save_turn(self, disk: str) -> SaveTurn:
        began = self.wanted.since if self.saving.began is None else self.saving.began
        since = max(self.saving.asked_at, began)
        return SaveTurn(self.job.id, disk, self.job.save_every, since, self.saving.seconds)

    def progress_at(self, every: float) -> float:
        """When its status should next show what it reported or uses; infinite if it shows that already.

        The first report of an attempt at once, others at most once per `every` seconds.
        """
        told, progress = self.written, self.reports.progress
        reported = progress is not None and progress != told.progress
        if progress is not None and reported and (told.progress is None or told.progress.attempt != progress.attempt):
            return -math.inf
        return told.at + every if reported or self.usage != told.usage else math.inf

    def view(self, around: Around, now: float) -> View:
        """What reconciliation sees."""
        intent, progress = self.wanted, self.reports.progress
        return View(
            name=self.meta.name, job=self.job, intent=intent,
            replicas=tuple(sorted(self.pods.values(), key=lambda pod: (pod.role, pod.index, pod.attempt))),
            subdomain=subdomain_of(self.meta, self.job), published=self.start.published == intent.attempt,
            released=self.start.released, excused=self.start.excused,
            doubtful=around.doubtful, gone=around.gone, alive_after=around.alive_after, now=now,
            step=0 if progress is None else progress.step, saves=self.saving.round, refusal=self.refusal,
            withdrawn=self.terms.withdrawn, orders=self.terms.orders, can_save=bool(self.saving.savers),
            timeouts=around.timeouts, limits=around.limits.of(self.job.restarts),
        )  # fmt: skip

    # ── how it changes; only this room calls these ──

    def becomes(self, new: Intent) -> Gang:
        """With another intent. Another attempt has other replicas: what was known of the old ones counts no more."""
        old, saving, reports = self.wanted, self.saving, self.reports
        evicted = new.reason == EVICTED and old.reason != EVICTED
        if evicted or (new.state is State.STOPPING is not old.state and not new.draining):
            saving = replace(saving, round=saving.round.next())
        unmarked = self.unmarked
        if new.attempt != old.attempt:
            saving = Saving(round=saving.round, seconds=saving.seconds)
            reports, unmarked = replace(reports, reporter=None), False
        ran = next((one for one in (old, new) if one.state is State.RUNNING and one.attempt == new.attempt), None)
        if saving.began is None and ran is not None:
            saving = replace(saving, began=ran.since)
        expected = self.expected if new.state is old.state else None
        return replace(
            self, wanted=new, saving=saving, reports=reports, unmarked=unmarked, refusal=None, expected=expected
        )  # fmt: skip

    def told_again(self) -> Gang:
        """Its status is written anew."""
        return replace(self, written=replace(self.written, intent=None))

    def freezes(self, why: str, now: float, *, again: float | None = None) -> Gang:
        """It stays as it is. A step that raised is tried again after a pause that doubles."""
        faults = self.frozen.faults + 1
        if again is None:
            again = now + min(FIRST_FREEZE_SECONDS * 2.0 ** min(faults - 1, 16), LONGEST_FREEZE_SECONDS)
        return replace(self, frozen=Frozen(why, again, faults), wake=min(self.wake, again))
