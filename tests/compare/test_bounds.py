"""The floor under all policies: worked by hand, and below every policy on generated workloads without costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headway.compare.bounds import Need, floor, needs_of, one_machine, ratio
from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario, described_world
from headway.core.job import Job
from headway.core.node import Nodes
from headway.policies.registry import POLICIES
from headway.workload.trace import Trace
from make import a_job, a_role, some_nodes
from strategies import workloads


def scenario(jobs: list[Job], nodes: Nodes) -> Scenario:
    trace = Trace(name="t", jobs=tuple(sorted(jobs, key=lambda job: job.submit)))
    return Scenario(trace, nodes.nodes, partial(described_world, "t"))


def test_alone_every_job_takes_its_own_time() -> None:
    found = floor([Need(0.0, 10.0, (10.0,)), Need(100.0, 20.0, (20.0,))], some_nodes(1, gpus=4))
    assert (found.completion, found.makespan) == (15.0, 120.0)


def test_the_makespan_of_a_slice_counts_from_its_first_job() -> None:
    needs = [Need(1000.0, 10.0, (10.0,)), Need(1100.0, 20.0, (20.0,))]
    assert floor(needs, some_nodes(1, gpus=4)).makespan == 120.0
    jobs = [a_job("a", submit=1000.0, seconds=10.0), a_job("b", submit=1100.0, seconds=20.0)]
    found = perform(scenario(jobs, some_nodes(1, gpus=1)), Task(policy="fifo", make=POLICIES["fifo"]))
    assert found.result["makespan"] == 120.0


def test_one_machine_shortest_first_is_reached_exactly() -> None:
    """Four jobs of 10 s on one GPU, all at once: 10, 20, 30, 40."""
    found = floor([Need(0.0, 10.0, (10.0,))] * 4, some_nodes(1, gpus=1))
    assert (found.completion, found.makespan) == (25.0, 40.0)


def test_mean_busy_times_see_that_a_gang_cannot_be_squeezed() -> None:
    """Eight one-GPU jobs of 10 s on two GPUs end at 10, 20, 30, 40 in pairs: 25 s; one machine alone would say 22.5."""
    needs = [Need(0.0, 10.0, (10.0,))] * 8
    flow, busy = one_machine(np.zeros(8), np.full(8, 5.0), remaining=True)
    assert flow == 22.5
    assert busy == 20.0
    assert floor(needs, some_nodes(1, gpus=2)).completion == 25.0


def test_preemption_and_release() -> None:
    """A long job is overtaken by a short one that comes later: flows 4 + 1."""
    flow, _ = one_machine(np.array([0.0, 1.0]), np.array([3.0, 1.0]), remaining=True)
    assert flow == 2.5


def test_no_jobs_no_floor() -> None:
    assert floor([], some_nodes(1)).completion == 0.0
    assert ratio(1.0, 0.0) is None
    assert ratio(3.0, 2.0) == 1.5


def test_an_elastic_job_needs_the_area_of_its_smallest_and_the_time_of_its_largest_size() -> None:
    job = a_job("a", 2, min=1, max=4, seconds=100.0)
    (need,) = needs_of(scenario([job], some_nodes(1, gpus=4)))
    assert need.fastest == pytest.approx(100.0 * (0.1 + 0.9 * 2 / 4))
    assert need.areas == (pytest.approx(100.0 * (0.1 + 0.9 * 2)),)


def test_a_job_with_more_sizes_than_can_be_tried_keeps_a_floor_below_all() -> None:
    roles = [a_role("ps", 1, min=1, max=100), a_role("worker", 1, min=1, max=100)]
    one = needs_of(scenario([a_job("a", roles=roles, seconds=100.0)], some_nodes(1)))[0]
    few = [a_role("ps", 1, min=1, max=10), a_role("worker", 1, min=1, max=100)]
    other = needs_of(scenario([a_job("a", roles=few, seconds=100.0)], some_nodes(1)))[0]
    assert one.fastest <= other.fastest
    assert 0 < one.areas[0] <= other.areas[0]


@settings(max_examples=120, deadline=None)
@given(workloads(), st.sampled_from(sorted(POLICIES)), st.sampled_from(["oracle", "declared"]))
def test_no_policy_is_below_the_floor(jobs: list[Job], policy: str, estimates: str) -> None:
    world = scenario(jobs, some_nodes(3, gpus=2))
    task = Task(policy=policy, make=POLICIES[policy], estimates=estimates)
    found: Any = perform(world, task)
    done = found.finished
    assume(done.any())
    needs = [need for need, ended in zip(needs_of(world), done, strict=True) if ended]
    lowest = floor(needs, some_nodes(3, gpus=2))
    assert float(np.nanmean(found.completion)) >= lowest.completion - 1e-6
    if done.all():
        assert found.result["makespan"] >= lowest.makespan - 1e-6
