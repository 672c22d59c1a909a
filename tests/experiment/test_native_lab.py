"""The same jobs under the real native scheduler, under its gangs and under the live Headway, as in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.core.quantity import CPU, GPU, MEMORY
from headway.experiment.everything_cells import world
from headway.experiment.native.contenders import CONTENDERS
from headway.experiment.native.live import How, horizon_of, perform_live
from headway.experiment.native.proof import sign_flip
from headway.experiment.native.slices import nodes_of
from headway.record.log import read
from headway.sim.world import Costs, World
from headway.workload.trace import Trace
from make import a_job

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
PREEMPTS = [(0, 1, 2000, 1), (10, 2, 900, 2), (100, 1, 300, 0), (200, 1, 100, 5), (300, 2, 200, 9), (400, 1, 50, 5)]
"""The same, with priorities: single pods and one replica of a gang are preempted."""
SIZES = [(0, 3, 400), (5, 3, 300), (10, 2, 900), (15, 4, 200), (400, 1, 50), (700, 2, 60), (701, 1, 500), (900, 4, 40)]
"""Of each job: when it comes, its replicas and its seconds. Two nodes of two GPUs: gangs of three and two half fit."""


def a_case(sizes: list[tuple[int, ...]]) -> Scenario:
    jobs = []
    for number, (at, size, seconds, *more) in enumerate(sizes):
        level = more[0] if more else 0
        job = a_job(f"j{number:05}", size, submit=float(at), steps=1000, save_every=0.0, priority=level)
        (role,) = job.roles
        amounts = ((CPU, 4000), (GPU, 1), (MEMORY, 16384))
        jobs.append((replace(job, roles=(replace(role, request=amounts),)), float(seconds)))
    trace = Trace(name="made", jobs=tuple(job for job, _ in jobs), truth={job.id: took for job, took in jobs})
    return Scenario(trace, nodes_of(2, 2), world, "progress", "made")


def without_saves(trace: Trace, seed: int) -> World:
    """A script saves on SIGTERM at once: while it takes its time, which pod is tried next is by chance."""
    return replace(world(trace, seed), costs=Costs(start=30.0, scale=30.0))


@pytest.mark.parametrize("name", ["native", "podgroup", "headway"])
def test_completion_times_are_those_of_virtual_time(name, tmp_path):
    contender = CONTENDERS[name]
    case = contender.case(a_case(SIZES))
    log = tmp_path / "run.log"
    live = perform_live(case, contender, How(log=log))
    twin = perform(case, Task(policy=contender.twin, make=contender.policy))
    assert live.finished.all(), "nothing is stuck"
    assert horizon_of(case) > live.completion.max()
    if name == "podgroup":  # of two groups that wait, the one that is being tried just then takes the room
        assert live.mean == pytest.approx(twin.completion.mean(), rel=0.05)
    else:
        np.testing.assert_allclose(live.completion, twin.completion, atol=1.0)
    assert (live.half > 0).any() == (name == "native"), "half gangs are the native scheduler's alone"
    if name == "headway":
        assert sum(1 for _ in read(log)) > len(SIZES), "its log is a run's"


def test_the_native_scheduler_preempts_as_in_virtual_time():
    contender = CONTENDERS["native"]
    case = replace(contender.case(a_case(PREEMPTS)), world=without_saves)
    live = perform_live(case, contender, How())
    twin = perform(case, Task(policy=contender.twin, make=contender.policy))
    assert live.finished.all()
    np.testing.assert_allclose(live.completion, twin.completion, atol=1.0)
    assert live.completion[4] < 260.0, "the most important one did not wait"


def test_better_in_every_slice_is_no_chance():
    assert sign_flip(np.log([0.5, 0.6, 0.7, 0.9])) == 1 / 16
    assert sign_flip(np.log([0.5, 2.0])) == 0.75
