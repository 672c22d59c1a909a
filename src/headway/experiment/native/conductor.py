"""Conducts a run: virtual time stands until the scheduler is quiet, then jumps to the next thing that happens.

Time cannot simply be compressed: the native scheduler's back-off, and the time that a binding takes, do not shrink with
it. So decisions take no virtual time here; how long they really took is told apart.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from headway.core.job import Job, JobId
from headway.experiment.native.clocks import FastClock, SteppedClock
from headway.experiment.native.stage import Stage, pod_seen
from headway.experiment.native.trainers import (
    ComesUp,
    Connects,
    Effect,
    Ends,
    GivesUp,
    HangsUp,
    Leaves,
    PodSeen,
    Reports,
    Saved,
    Trainers,
)
from headway.kube.api.objects import Pod
from headway.kube.api.watch import Deleted

QUIET_SECONDS = 0.05
"""Between two looks at a scheduler that must both find nothing to do."""
SETTLE_SECONDS = 60.0
"""A scheduler that does not come to rest within this time ends the run: a busy machine takes seconds."""
STILL_SECONDS = 15.0
"""Where time flows: without a binding for so long, none will come."""
LONGEST_SECONDS = 3600.0
"""A run whose time stands now and then is cut if it takes longer, really. It takes minutes on free cores, and a busy
machine changes no figure.
"""
MAX_IDLE_STEPS = 2000
"""Steps in a row in which nothing but the scheduler's own clock went on."""


class Scheduler(Protocol):
    sees_pods: bool
    """Whether it knows pods and no jobs: then each end of a pod is one more chance for the pods that wait."""
    hears_scripts: bool
    """Whether scripts report to it. Where time stands, they connect when it has seen their pods run: a script takes
    longer to start than that, and a report of a job that starts yet would be no progress to it."""

    async def submit(self, stage: Stage, job: Job) -> None: ...

    async def remake(self, stage: Stage, job: Job, pod: PodSeen) -> None:
        """Somebody has deleted a pod of a job that is not done: its owner makes another."""

    def disturb(self) -> None:
        """Something has happened: it is not at rest before it has looked at that."""

    async def rest(self, barrier: int, unbound: AbstractSet[str]) -> bool:
        """Whether it has seen all up to the barrier and has nothing left to do."""

    def until(self) -> float:
        """When it next does something by itself, in virtual time."""


class Scripts(Protocol):
    """The training scripts' side of the progress protocol."""

    async def perform(self, effects: Sequence[Effect]) -> None: ...

    def asked(self) -> list[tuple[JobId, int]]:
        """Requests to save that have come since the last call."""


@dataclass(slots=True)
class Course:
    """What came of one run."""

    steps: int = 0
    real_seconds: float = 0.0
    """How long the run really took."""
    decided: list[float] = field(default_factory=list)
    """Of each step in which a pod was bound: real seconds until the last of them was."""
    stuck: bool = False
    """Nothing moved any more, and there were jobs that were not done: a deadlock."""
    cut: bool = False
    """It took too long, and was ended before its horizon."""


class NoScripts:
    """Nobody hears what the scripts report: the native scheduler does not."""

    async def perform(self, effects: Sequence[Effect]) -> None: ...

    def asked(self) -> list[tuple[JobId, int]]:
        return []


@dataclass(slots=True)
class Conductor:
    stage: Stage
    trainers: Trainers
    scheduler: Scheduler
    scripts: Scripts
    jobs: Sequence[Job]
    clock: SteppedClock | FastClock
    horizon: float = math.inf
    tell: Callable[[float], None] = lambda _: None
    course: Course = field(default_factory=Course)
    _unbound: set[str] = field(default_factory=set)
    """Names of pods without a node."""
    _bound_at: float = 0.0
    """The machine's time at which a binding was last seen."""

    async def run(self) -> Course:
        started = time.monotonic()
        self._bound_at = started
        arrivals = deque(sorted(self.jobs, key=lambda job: job.submit))
        if isinstance(self.clock, SteppedClock):
            await self._steps(self.clock, arrivals)
        else:
            await self._flows(self.clock, arrivals)
        self.course.real_seconds = time.monotonic() - started
        return self.course

    @property
    def _over(self) -> bool:
        jobs = self.trainers.jobs
        return len(jobs) == len(self.jobs) and all(mine.ended is not None for mine in jobs.values())

    @property
    def _scripts_wait(self) -> bool:
        return self.scheduler.hears_scripts and isinstance(self.clock, SteppedClock)

    def _share(self) -> float:
        ended = sum(mine.ended is not None for mine in self.trainers.jobs.values())
        return ended / max(1, len(self.jobs))

    # ── time that stands until it is set ──

    async def _steps(self, clock: SteppedClock, arrivals: deque[Job]) -> None:
        idle, began = 0, time.monotonic()
        await self._settle(0.0)
        while not self._over:
            arrival, own = arrivals[0].submit if arrivals else math.inf, self.scheduler.until()
            now = min(arrival, self.trainers.next(), own)
            if math.isinf(now):
                self.course.stuck = True
                return
            if now > self.horizon:
                return
            idle = idle + 1 if own < min(arrival, self.trainers.next()) else 0
            if idle > MAX_IDLE_STEPS or time.monotonic() - began > LONGEST_SECONDS:
                self.course.cut = True
                return
            clock.set(self.clock.began + now)
            await self._happen(now, arrivals)
            await self._settle(now)
            self.course.steps += 1
            self.tell(self._share())

    async def _happen(self, now: float, arrivals: deque[Job]) -> None:
        effects = list(self.trainers.advance(now))
        await self._perform([one for one in effects if not isinstance(one, Ends)], now)
        await self._end([one for one in effects if isinstance(one, Ends)], now)
        while arrivals and arrivals[0].submit <= now:
            job = arrivals.popleft()
            self.trainers.arrive(job)
            await self.scheduler.submit(self.stage, job)

    async def _end(self, ends: Sequence[Ends], now: float) -> None:
        """Where time stands, the pods of a job end one after another, and the scheduler comes to rest after each. Which
        pod gets which room then follows from its queue, and not from accidents within milliseconds.
        """
        if not (self.scheduler.sees_pods and isinstance(self.clock, SteppedClock)):
            await self._perform(ends, now)
            return
        for end in ends:
            await self._perform([end], now)
            if self._unbound:
                await self._settle(now)

    async def _settle(self, now: float) -> None:
        """Until the scheduler has nothing left to do, and nothing has come of what it did."""
        began, quiet = time.monotonic(), 0
        self._bound_at = began
        self.scheduler.disturb()
        while quiet < 2:
            barrier = await self.stage.barrier()
            if acted := await self._take(now):
                self.scheduler.disturb()
            rests = await self.scheduler.rest(barrier, self._unbound)
            quiet = quiet + 1 if rests and not acted else 0
            if quiet:
                await asyncio.sleep(QUIET_SECONDS)
            if time.monotonic() - began > SETTLE_SECONDS:
                raise TimeoutError(f"the scheduler did not come to rest at second {now:g}")
        if self._bound_at > began:
            self.course.decided.append(self._bound_at - began)

    # ── time that flows ──

    async def _flows(self, clock: FastClock, arrivals: deque[Job]) -> None:
        while not self._over:
            now = clock.now() - self.clock.began
            if now > self.horizon:
                return
            await self._happen(now, arrivals)
            await self._take(clock.now() - self.clock.began)
            self.course.steps += 1
            self.tell(self._share())
            moment = min(arrivals[0].submit if arrivals else math.inf, self.trainers.next())
            if math.isinf(moment) and self._nothing_moves():
                self.course.stuck = True
                return
            await self.stage.came(min(1.0, clock.real(moment - (clock.now() - self.clock.began))))

    def _nothing_moves(self) -> bool:
        return time.monotonic() - self._bound_at > STILL_SECONDS

    # ── what happens ──

    async def _take(self, now: float) -> bool:
        """What the watch has shown and scripts were asked for goes to the double. Whether anything came of it."""
        effects: list[Effect] = []
        acted = False
        for job, request in self.scripts.asked():
            self.trainers.asked_to_save(job, request, now)
            acted = True
        for news in self.stage.take():
            pod = news.object
            if isinstance(news, Deleted):
                self._unbound.discard(pod.metadata.name)
                effects += self.trainers.gone(pod_seen(pod).job, pod.metadata.uid, now)
                mine = self.trainers.jobs[pod_seen(pod).job]
                if mine.ended is None and pod.status.phase != "Failed":
                    await self.scheduler.remake(self.stage, mine.job, pod_seen(pod))
                    acted = True
            else:
                acted |= self._note(pod)
                effects += self.trainers.see(pod_seen(pod), now)
        await self._perform(effects, now)
        return acted or bool(effects)

    def _note(self, pod: Pod) -> bool:
        """Whether it has a node for the first time."""
        name, had = pod.metadata.name, pod.metadata.name in self._unbound
        over = pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletionTimestamp is not None
        if not pod.spec.nodeName and not over:
            self._unbound.add(name)
            return False
        self._unbound.discard(name)
        if had and pod.spec.nodeName:
            self._bound_at = time.monotonic()
        return had

    async def _perform(self, effects: Iterable[Effect], now: float) -> None:
        effects = list(effects)
        works = []
        for effect in effects:
            match effect:
                case ComesUp(pod=pod):
                    works.append(self.stage.comes_up(pod, now))
                case Ends(pod=pod, well=well):
                    works.append(self.stage.ends(pod, now, well=well))
                case Leaves(pod=pod):
                    works.append(self.stage.leaves(pod))
        await self.stage.each(works)
        said = [one for one in effects if isinstance(one, Connects | Reports | Saved | HangsUp)]
        if any(isinstance(one, Connects) for one in said) and self._scripts_wait:
            await self.scheduler.rest(await self.stage.barrier(), self._unbound)
        await self.scripts.perform(said)
        for effect in effects:
            if isinstance(effect, GivesUp):
                await self.scheduler.submit(self.stage, self.trainers.jobs[effect.job].job)
