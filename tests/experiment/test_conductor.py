"""How a conducted run ends: done, at its horizon, cut, or in a deadlock."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headway.core.job import Job, JobId
from headway.experiment.native import conductor as conducting
from headway.experiment.native.clocks import FastClock, SteppedClock
from headway.experiment.native.conductor import Conductor, Course, NoScripts
from headway.experiment.native.headway_live import HeadwayScheduler
from headway.experiment.native.stage import Stage
from headway.experiment.native.trainers import Effect, PodSeen, Trainers
from headway.kube.api.objects import LABEL_ATTEMPT, LABEL_INDEX, LABEL_JOB, LABEL_ROLE, Meta, Pod, PodSpec
from headway.kube.api.watch import Changed
from headway.sim.world import Costs, World
from make import a_job, some_nodes


class EmptyStage:
    """No pod is ever seen."""

    async def barrier(self) -> int:
        return 1

    async def each(self, works: Any) -> None:
        assert not list(works)

    async def came(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.05))

    def take(self) -> list[Any]:
        return []


class IdleScheduler:
    """Binds nothing. It wakes by itself after so many seconds, again and again."""

    sees_pods, hears_scripts = True, False

    def __init__(self, clock: SteppedClock | FastClock, every: float) -> None:
        self._clock, self._every = clock, every

    async def submit(self, stage: Stage, job: Job) -> None: ...

    async def remake(self, stage: Stage, job: Job, pod: PodSeen) -> None: ...

    def disturb(self) -> None: ...

    async def rest(self, barrier: int, unbound: object) -> bool:
        return True

    def until(self) -> float:
        return self._clock.now() + self._every


def conducted(clock: SteppedClock | FastClock, *, every: float = math.inf, horizon: float = math.inf) -> Course:
    trainers = Trainers(World(), some_nodes(1, gpus=4))
    stage, scheduler = cast("Stage", EmptyStage()), IdleScheduler(clock, every)
    jobs = [a_job("a", 1, seconds=10.0)]
    return asyncio.run(Conductor(stage, trainers, scheduler, NoScripts(), jobs, clock, horizon).run())


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conducting, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(conducting, "MAX_IDLE_STEPS", 20)
    monkeypatch.setattr(conducting, "STILL_SECONDS", 0.5)


def test_where_nothing_moves_any_more_it_is_a_deadlock():
    course = conducted(SteppedClock(0.0))
    assert (course.stuck, course.cut) == (True, False)


def test_a_run_that_reaches_its_horizon_is_no_deadlock():
    course = conducted(SteppedClock(0.0), every=60.0, horizon=100.0)
    assert (course.stuck, course.cut) == (False, False)


def test_a_run_that_goes_on_for_too_long_is_cut_and_no_deadlock():
    course = conducted(SteppedClock(0.0), every=60.0)
    assert (course.stuck, course.cut) == (False, True)


def test_where_time_flows_a_run_lasts_until_its_horizon_however_long_that_takes(monkeypatch):
    monkeypatch.setattr(conducting, "LONGEST_SECONDS", 0.05)
    course = conducted(FastClock(0.0, 5.0), horizon=1.0)
    assert (course.stuck, course.cut) == (False, False)


def test_where_time_flows_the_first_binding_is_waited_for():
    began = time.monotonic()
    course = conducted(FastClock(0.0, 5.0))
    assert (course.stuck, course.cut) == (True, False)
    assert time.monotonic() - began >= 0.5


class OnePodStage(EmptyStage):
    """Its pod has a node when it is shown."""

    def __init__(self, calls: list[str]) -> None:
        labels = {LABEL_JOB: "a", LABEL_ROLE: "worker", LABEL_INDEX: "0", LABEL_ATTEMPT: "0"}
        self._calls, self._news = calls, list[Changed[Pod]]()
        self.pod = Changed(Pod, Pod(Meta("a-0", uid="u", labels=labels), PodSpec("n0")))

    async def each(self, works: Any) -> None:
        for work in works:
            await work

    def show(self) -> None:
        self._news.append(self.pod)

    async def comes_up(self, pod: PodSeen, now: float) -> None:
        self._calls.append("up")

    async def ends(self, pod: PodSeen, now: float, *, well: bool) -> None: ...

    def take(self) -> list[Any]:
        taken, self._news = self._news, []
        return taken


class HearingScheduler(IdleScheduler):
    """The scripts report to it."""

    sees_pods, hears_scripts = False, True

    def __init__(self, clock: SteppedClock, calls: list[str]) -> None:
        super().__init__(clock, math.inf)
        self._calls = calls

    async def submit(self, stage: Stage, job: Job) -> None:
        cast("OnePodStage", stage).show()

    async def rest(self, barrier: int, unbound: object) -> bool:
        self._calls.append("rest")
        return True

    async def perform(self, effects: Sequence[Effect]) -> None:
        self._calls += [type(one).__name__ for one in effects]

    def asked(self) -> list[tuple[JobId, int]]:
        return []


def test_a_script_connects_when_the_scheduler_has_seen_its_pods_run():
    """A report that comes before would be none of a job that trains."""
    calls, clock = list[str](), SteppedClock(0.0)
    scheduler = HearingScheduler(clock, calls)
    stage, trainers = cast("Stage", OnePodStage(calls)), Trainers(World(costs=Costs(start=30.0)), some_nodes(1, gpus=4))
    conductor = Conductor(stage, trainers, scheduler, scheduler, [a_job("a", 1, seconds=10.0)], clock)
    asyncio.run(conductor.run())
    assert trainers.jobs[JobId("a")].ended == 40.0
    assert calls[calls.index("up") : calls.index("Connects")] == ["up", "rest"]


class RestingClock(SteppedClock):
    """Of a scheduler that has nothing to do."""

    @property
    def rests(self) -> int:
        self._rests += 1
        return self._rests

    @rests.setter
    def rests(self, _: int) -> None:
        self._rests = 0


def test_a_scheduler_that_has_just_asked_for_a_save_does_not_rest():
    """Else the next moment would come before anybody has begun to save."""
    headway: Any = HeadwayScheduler.__new__(HeadwayScheduler)
    headway._clock, headway._failed, headway._stored, headway._done = RestingClock(0.0), None, 0, (0, 0)
    headway._cluster = SimpleNamespace(outbox=SimpleNamespace(is_idle=True), intake=SimpleNamespace(to_come=()))
    headway._inbox = SimpleNamespace(positions={})
    headway._server = SimpleNamespace(events=0, requests=0)
    headway._scripts = SimpleNamespace(sent=0, heard=0)
    headway._worker = SimpleNamespace(writes=0, wake=lambda: None)
    assert asyncio.run(headway.rest(0, set()))
    headway._server.requests = headway._scripts.heard = 1
    assert not asyncio.run(headway.rest(0, set()))
    assert asyncio.run(headway.rest(0, set()))
