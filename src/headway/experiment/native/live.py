"""One live run: a contender on some jobs, in a lab of its own, in virtual time."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.compare.kept_runs import source
from headway.compare.scenario import Scenario
from headway.core.node import FloatArray, Nodes
from headway.core.quantity import CPU, GPU, MEMORY
from headway.experiment.native.clocks import FastClock, SteppedClock
from headway.experiment.native.conductor import Conductor, Course, NoScripts, Scheduler, Scripts
from headway.experiment.native.contenders import BACK_OFF, GROUPS, HEADWAY, KUEUE, Contender
from headway.experiment.native.headway_live import HeadwayScheduler
from headway.experiment.native.native_queue import KueueScheduler, NativeScheduler
from headway.experiment.native.slices import work_of
from headway.experiment.native.stage import NAMESPACE, Stage
from headway.experiment.native.trainers import Trainers
from headway.kube.api.access import load_access
from headway.lab import RELEASE, Lab
from headway.lab.node_shapes import NodeGroup
from headway.sim.world import World

LAB = "proof"
BEGAN = 0.0
"""The Unix time at which virtual time begins: then no digit of it is lost where Unix times are kept."""
SLACK = 3.0


@dataclass(frozen=True, slots=True)
class How:
    times: float = 0.0
    """So many times as fast as the machine's clock; 0: time stands while the scheduler works."""
    release: str = RELEASE
    log: Path | None = None
    """Headway's own log of the run."""


@dataclass(frozen=True, slots=True)
class LiveResult:
    """Of all jobs in order, in virtual seconds; a job that is not done by the horizon has taken until then."""

    completion: FloatArray
    finished: FloatArray
    half: FloatArray
    """How long each held nodes as half a gang."""
    horizon: float
    stuck: bool
    cut: bool
    """It took too long, and was ended before its horizon."""
    steps: int
    real_seconds: float
    decided: tuple[float, float]
    """Real seconds of a decision, from what happened to the last binding: mean, and 99 of 100."""
    source: str
    """A digest of the version that made it."""

    @property
    def mean(self) -> float:
        return float(self.completion.mean())


def horizon_of(case: Scenario) -> float:
    """Fixed beforehand, by the jobs and the nodes alone: thrice what a full cluster would need, and the longest job."""
    gpus = sum(dict(node.capacity).get(GPU, 0) for node in case.nodes)
    work = [work_of(case, job) for job in case.trace.jobs]
    area = sum(
        seconds * sum(role.replicas * role.amount(GPU) for role in job.roles)
        for seconds, job in zip(work, case.trace.jobs, strict=True)
    )
    return max(job.submit for job in case.trace.jobs) + SLACK * area / max(1, gpus) + max(work)


def perform_live(
    case: Scenario, contender: Contender, how: How, tell: Callable[[float], None] = lambda _: None
) -> LiveResult:
    """The case as the contender gets it, in a lab of its own."""
    capacity = dict(case.nodes[0].capacity)
    nodes = NodeGroup(len(case.nodes), capacity[GPU], "", capacity[CPU] // 1000, f"{capacity[MEMORY]}Mi")
    lab = Lab.up(
        f"{LAB}-{os.getpid()}", simulated=[nodes], bench=True, gangs=True, owned=True, kubernetes=how.release,
        operators=["kueue"] if contender.kind == KUEUE else [],
        scheduler={**({} if how.times else BACK_OFF), **contender.scheduler},
    )  # fmt: skip
    try:
        lab.create_namespace(NAMESPACE)
        if contender.kind == HEADWAY:
            lab.kill("kube-scheduler")
        return asyncio.run(_perform(case, contender, lab, how, tell))
    finally:
        lab.down()


async def _perform(
    case: Scenario, contender: Contender, lab: Lab, how: How, tell: Callable[[float], None]
) -> LiveResult:  # fmt: skip
    clock: SteppedClock | FastClock = FastClock(BEGAN, how.times) if how.times else SteppedClock(BEGAN)
    world = case.world(case.trace, 1)
    assert isinstance(world, World)
    trainers = Trainers(world, Nodes.of(case.nodes), rendezvous=contender.rendezvous)
    scripts: Scripts = NoScripts()
    async with AsyncExitStack() as open_:
        if contender.kind == HEADWAY:
            headway = HeadwayScheduler(lab, clock, contender.policy(), case.beliefs, how.log)
            scheduler: Scheduler = await open_.enter_async_context(headway)
            scripts = headway
        elif contender.kind == KUEUE:
            kueue = KueueScheduler(lab, sum(dict(node.capacity)[GPU] for node in case.nodes))
            await asyncio.to_thread(kueue.make_queue)
            scheduler = await open_.enter_async_context(kueue)
        else:
            scheduler = await open_.enter_async_context(NativeScheduler(lab, groups=contender.kind == GROUPS))
        stage = await open_.enter_async_context(Stage(load_access(lab.kubeconfig), BEGAN))
        horizon = horizon_of(case)
        conductor = Conductor(stage, trainers, scheduler, scripts, case.trace.jobs, clock, horizon, tell)
        await conductor.run()
    return _result(case, trainers, conductor.course, horizon)


def _result(case: Scenario, trainers: Trainers, course: Course, horizon: float) -> LiveResult:
    jobs = [trainers.jobs.get(job.id) for job in case.trace.jobs]
    ends = [math.inf if mine is None or mine.ended is None else mine.ended for mine in jobs]
    half = [0.0 if mine is None else mine.half_until(horizon) for mine in jobs]
    completion = [min(end, horizon) - job.submit for end, job in zip(ends, case.trace.jobs, strict=True)]
    times = np.array(course.decided or [0.0])
    return LiveResult(
        np.array(completion), np.isfinite(ends).astype(np.float64), np.array(half), horizon, course.stuck,
        course.cut, course.steps, course.real_seconds, (float(times.mean()), float(np.percentile(times, 99))), source(),
    )  # fmt: skip
