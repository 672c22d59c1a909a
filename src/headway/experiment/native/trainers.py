"""The trainer double: what kubelets and training scripts would do with the pods of simulated jobs. Pure.

A pod that has a node comes up after the time that a start costs. A job trains while its gang is whole, as fast as the
simulator says for where its replicas are. A half gang does no work. When its work is done, its pods succeed. Asked to
save, it trains no more until it has saved; work that was not saved is lost with its pods. The last pod of a job that is
deleted saves before it goes, if it is given the time: that is what a stop costs in virtual time, too.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.estimates.models.profiles import Curve
from headway.sim.speed import ALONE
from headway.sim.world import World

_PLAIN = Curve()


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod of a simulated job, as the API server shows it."""

    name: str
    uid: str
    job: JobId
    role: str
    index: int
    attempt: int
    node: str
    leaving: bool
    """Somebody deletes it."""
    grace: float = 0.0
    """So many seconds are left to one that leaves."""
    over: bool = False
    """It has succeeded or failed."""


# ── what is to be done ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ComesUp:
    pod: PodSeen


@dataclass(frozen=True, slots=True)
class Ends:
    pod: PodSeen
    well: bool


@dataclass(frozen=True, slots=True)
class Leaves:
    """Its kubelet has ended it: the object may go."""

    pod: PodSeen


@dataclass(frozen=True, slots=True)
class Connects:
    pod: PodSeen
    steps: int


@dataclass(frozen=True, slots=True)
class Reports:
    """By the first of its replicas that are connected: Headway counts the reports of one."""

    job: JobId
    step: int
    loss: float


@dataclass(frozen=True, slots=True)
class Saved:
    """All its replicas that are connected say so."""

    job: JobId
    request: int
    step: int
    seconds: float


@dataclass(frozen=True, slots=True)
class HangsUp:
    pod: PodSeen


@dataclass(frozen=True, slots=True)
class GivesUp:
    """Its replicas have waited in vain for the rest of the gang: they have failed, and their owner makes them anew."""

    job: JobId


Effect = ComesUp | Ends | Leaves | Connects | Reports | Saved | HangsUp | GivesUp


@dataclass(slots=True)
class SimulatedJob:
    job: Job
    total: float
    """Its work, in seconds at the requested size."""
    left: float
    saved: float
    """Work left at its last checkpoint."""
    pods: dict[str, PodSeen] = field(default_factory=dict)
    """By uid."""
    up: set[str] = field(default_factory=set)
    """Of these: those that run."""
    rate: float = 0.0
    at: float = 0.0
    """The time up to which work is booked."""
    began: float | None = None
    """When it first trained."""
    ended: float | None = None
    trained: float = 0.0
    """Seconds trained so far, for the pace of its reports."""
    reported: float = -math.inf
    connected: dict[str, PodSeen] = field(default_factory=dict)
    """By uid: pods whose script is connected. Each runs the same script."""
    saves: dict[int, int] = field(default_factory=dict)
    """Requests under way, by the number of the event at which each is answered."""
    saved_at: float = 0.0
    """When the last of these is done."""
    parting: str = ""
    """The pod, by uid, that saves before it leaves."""
    half_since: float = math.inf
    """Since when some of its pods run, and not all."""
    end_number: int = 0
    """Of the event at which it ends; another number is out of date."""
    half_seconds: float = 0.0
    """How long it was a half gang, in all."""
    gave_up: set[str] = field(default_factory=set)
    """By uid: pods that failed as part of one. What is heard of them late does not start them again."""

    def half_until(self, now: float) -> float:
        return self.half_seconds + max(0.0, now - self.half_since if math.isfinite(self.half_since) else 0.0)


class Trainers:
    def __init__(self, world: World, nodes: Nodes, *, rendezvous: float = math.inf) -> None:
        """`rendezvous`: seconds after which the replicas of a half gang give up."""
        self.jobs: dict[JobId, SimulatedJob] = {}
        self._world, self._nodes, self._rendezvous = world, nodes, rendezvous
        self._heap: list[tuple[float, int, str, JobId, str]] = []
        """When, a number that breaks ties, what, of which job, and the pod or the request."""
        self._numbers = itertools.count(1)

    # ── what happens ──

    def arrive(self, job: Job) -> None:
        work = self._world.work(job)
        assert work is not None
        self.jobs[job.id] = SimulatedJob(job, work, work, work)

    def see(self, pod: PodSeen, now: float) -> Iterator[Effect]:
        """A pod is there, or has changed."""
        mine = self.jobs[pod.job]
        old = mine.pods.get(pod.uid)
        ended = mine.ended is not None or pod.over or pod.uid in mine.gave_up
        if old is None and ended and not pod.leaving:
            return
        mine.pods[pod.uid] = pod
        if pod.leaving:
            if old is None or not old.leaving:
                yield from self._leave(mine, pod, now)
        elif pod.node and (old is None or not old.node):
            cost = self._world.costs.scale if mine.rate > 0 else self._world.costs.start
            self._expect(now + cost, "up", pod.job, pod.uid)

    def gone(self, job: JobId, uid: str, now: float) -> Iterator[Effect]:
        """The object is gone."""
        mine = self.jobs[job]
        if mine.pods.pop(uid, None) is None:
            return
        mine.up.discard(uid)
        if mine.parting == uid:
            mine.parting = ""
        yield from self._retime(mine, now)

    def asked_to_save(self, job: JobId, request: int, now: float) -> None:
        """All its replicas are asked, and save together. One save after another: none answers two requests."""
        mine = self.jobs[job]
        if mine.ended is None and mine.up and request not in mine.saves.values():
            self._book(mine, now)
            mine.rate, mine.end_number = 0.0, -1
            mine.saved_at = (max(now, mine.saved_at) if mine.saves else now) + self._world.costs.save
            mine.saves[self._expect(mine.saved_at, "saved", job)] = request

    # ── time ──

    def next(self) -> float:
        """When the next thing happens by itself; infinite if nothing does."""
        while self._heap and self._is_stale(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def advance(self, now: float) -> Iterator[Effect]:
        """All that happens until now, and the reports that are due."""
        while self.next() <= now:
            at, number, what, job, which = heapq.heappop(self._heap)
            mine = self.jobs[job]
            match what:
                case "up":
                    mine.up.add(which)
                    yield ComesUp(mine.pods[which])
                    yield from self._retime(mine, at)
                case "saved":
                    mine.saved = mine.left
                    yield Saved(job, mine.saves.pop(number), self._step(mine), self._world.costs.save)
                    yield from self._retime(mine, at)
                case "parted":
                    mine.saved, mine.parting = mine.left, ""
                    yield Leaves(mine.pods[which])
                case "end":
                    yield from self._end(mine, at)
                case "alone" if mine.half_since + self._rendezvous <= at:
                    yield from self._give_up(mine, at)
        yield from self._reports(now)

    def _is_stale(self, entry: tuple[float, int, str, JobId, str]) -> bool:
        _, number, what, job, which = entry
        mine = self.jobs[job]
        match what:
            case "up":
                return which not in mine.pods or mine.pods[which].leaving or mine.ended is not None
            case "saved":
                return number not in mine.saves
            case "parted":
                return which != mine.parting
            case "end":
                return number != mine.end_number
            case "alone":
                return math.isinf(mine.half_since)
        return False

    # ── inside ──

    def _expect(self, at: float, what: str, job: JobId, which: str = "") -> int:
        number = next(self._numbers)
        heapq.heappush(self._heap, (at, number, what, job, which))
        return number

    def _book(self, mine: SimulatedJob, now: float) -> None:
        if mine.rate > 0:
            mine.left = max(0.0, mine.left - mine.rate * (now - mine.at))
            mine.trained += now - mine.at
        mine.at = now

    def _leave(self, mine: SimulatedJob, pod: PodSeen, now: float) -> Iterator[Effect]:
        self._book(mine, now)
        mine.up.discard(pod.uid)
        cost = self._world.costs.save
        if not mine.up and not mine.saves and mine.ended is None and mine.left < mine.saved and cost <= pod.grace:
            mine.parting = pod.uid
            self._expect(now + cost, "parted", mine.job.id, pod.uid)
        yield from self._retime(mine, now)
        if mine.parting != pod.uid:
            yield Leaves(pod)

    def _retime(self, mine: SimulatedJob, now: float) -> Iterator[Effect]:
        """Its replicas have changed: another rate, and another end."""
        if mine.ended is not None:
            return
        self._book(mine, now)
        here = [pod for uid, pod in mine.pods.items() if uid in mine.up]
        mine.rate = 0.0 if mine.saves else self._rate(mine.job, here)
        if not here:
            mine.saves.clear()
            mine.left, mine.trained = mine.left if mine.parting else mine.saved, 0.0
        yield from self._hang_up(mine, mine.connected.keys() - mine.up)
        self._watch_half(mine, now, half=bool(here) and mine.rate == 0.0 and not mine.saves)
        mine.end_number = -1
        if mine.rate > 0:
            mine.began = now if mine.began is None else mine.began
            mine.end_number = self._expect(now + mine.left / mine.rate, "end", mine.job.id)
            if fresh := [pod for pod in here if pod.uid not in mine.connected]:
                mine.reported = mine.reported if mine.connected else -math.inf
                mine.connected |= {pod.uid: pod for pod in fresh}
                yield from (Connects(pod, self._steps(mine)) for pod in sorted(fresh, key=_place))

    def _watch_half(self, mine: SimulatedJob, now: float, *, half: bool) -> None:
        was = math.isfinite(mine.half_since)
        if half and not was:
            mine.half_since = now
            if math.isfinite(self._rendezvous):
                self._expect(now + self._rendezvous, "alone", mine.job.id)
        elif was and not half:
            mine.half_seconds += now - mine.half_since
            mine.half_since = math.inf

    def _rate(self, job: Job, here: list[PodSeen]) -> float:
        at = [tuple(sorted(self._nodes.index[pod.node] for pod in here if pod.role == role.name)) for role in job.roles]
        return self._world.speed(job, Placement(tuple(at)), self._nodes, ALONE) if here else 0.0

    def _end(self, mine: SimulatedJob, now: float) -> Iterator[Effect]:
        self._book(mine, now)
        mine.ended, mine.rate, mine.left = now, 0.0, 0.0
        yield from (Ends(pod, well=True) for pod in mine.pods.values() if not pod.leaving)
        yield from self._hang_up(mine, mine.connected)

    def _hang_up(self, mine: SimulatedJob, uids: Iterable[str]) -> Iterator[Effect]:
        yield from (HangsUp(pod) for pod in sorted((mine.connected.pop(uid) for uid in list(uids)), key=_place))

    def _give_up(self, mine: SimulatedJob, now: float) -> Iterator[Effect]:
        self._watch_half(mine, now, half=False)
        yield from (Ends(pod, well=False) for pod in mine.pods.values())
        mine.gave_up |= mine.pods.keys()
        mine.pods.clear()
        mine.up.clear()
        yield GivesUp(mine.job.id)

    def _reports(self, now: float) -> Iterator[Effect]:
        """As the simulator has it: after so many seconds, and not before its training time has grown by a share."""
        rules = self._world.reports
        for mine in self.jobs.values():
            if mine.rate <= 0 or not mine.connected:
                continue
            since = now - mine.reported
            if since >= rules.seconds and since >= rules.growth * (mine.trained + now - mine.at):
                self._book(mine, now)
                mine.reported = now
                curve = self._world.curve(mine.job) or _PLAIN
                share = 1.0 - mine.left / mine.total if mine.total > 0 else 1.0
                yield Reports(mine.job.id, self._step(mine), curve(share))

    def _steps(self, mine: SimulatedJob) -> int:
        return self._world.steps(mine.job) or 1

    def _step(self, mine: SimulatedJob) -> int:
        return int(self._steps(mine) * (1.0 - mine.left / mine.total)) if mine.total > 0 else self._steps(mine)


def _place(pod: PodSeen) -> tuple[str, int]:
    return pod.role, pod.index
