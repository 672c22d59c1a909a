"""The cpu that jobs really use: while they compute, up to what they can use; a gang below its min uses nothing."""

from __future__ import annotations

import pytest

from headway.core.placement import Placement
from headway.cycle.loop import run
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.profiles import Layout, Servers
from headway.estimates.plain_books import NoEstimates
from headway.policies.registry import POLICIES
from headway.sim.cluster import Costs, SimCluster, World
from headway.sim.rates import computing, used_cores
from headway.sim.speed import ALONE, SharingEffect, Speed
from make import a_job, a_role, some_nodes

NODES = some_nodes(2, gpus=0, cpu=16)
PS_JOB = a_job("a", roles=[a_role("ps", cpu=2), a_role("worker", 2, min=1, cpu=4, near=("ps",))], model="resnet-50")


def cores(speed: Speed, *nodes: tuple[int, ...], requests: object = None) -> float | None:
    return used_cores(speed, PS_JOB, Placement(nodes, requests), NODES, ALONE)  # type: ignore[arg-type]


def test_nothing_is_measured_unless_asked_for() -> None:
    assert cores(Speed(profiles=BUILT_IN), (0,), (0, 0)) is None


def test_workers_compute_and_servers_serve_the_rest_of_the_step() -> None:
    form = Servers(1.0, 0.0, 1.0, 0.0, 0.0, batch=2.0, inside=1.0)  # one second computes, two exchange
    assert computing(form, Layout(2, 1, 1, 1.0)) == pytest.approx(1 / 3)
    near, far = (cores(Speed(profiles=BUILT_IN, metered=True), (0,), where) for where in ((0, 0), (1, 1)))
    assert near is not None
    assert far is not None
    assert 0 < far < near < 10.0
    assert cores(Speed(metered=True), (0,), (0, 0)) == 8.0  # without a profile it always computes
    assert cores(Speed(metered=True), (0,), ()) == 0.0  # a half gang


def test_what_cannot_be_used_is_idle_and_cutting_it_costs_nothing() -> None:
    speed = Speed(metered=True, needs={"a": 0.25})
    assert cores(speed, (0,), (0, 0)) == 2.0
    cut, deeper = ((None, (amount,)) for amount in (1000, 500))
    assert speed(PS_JOB, Placement(((0,), (0, 0)), cut), NODES) == 1.0
    assert speed(PS_JOB, Placement(((0,), (0, 0)), deeper), NODES) == pytest.approx(1 / (0.03 + 0.97 * 2))


def test_the_log_has_what_was_used() -> None:
    job = a_job("a", roles=[a_role(cpu=4)], seconds=100.0)
    sim = SimCluster(NODES, [job], World(costs=Costs(start=1), samples=False, speed=Speed(metered=True)))
    seen = []
    run(sim, POLICIES["fifo"](), NoEstimates(), lambda decided: seen.append(dict(decided.snapshot.used_cpu)))
    assert {0: 4.0} in seen


def test_a_job_that_shares_uses_what_it_can_work_with_in_parallel() -> None:
    job = a_job("a", roles=[a_role(cpu=1, limit=(("cpu", 8000),))])
    effect = SharingEffect(cpu=(8000.0,))
    assert used_cores(Speed(parallel_cpu=1.0), job, Placement(((0,),)), NODES, effect) == 8.0
    half = used_cores(Speed(parallel_cpu=0.9), job, Placement(((0,),)), NODES, effect)
    assert half == pytest.approx(1 / (0.1 + 0.9 / 8))
    assert half == pytest.approx(Speed(parallel_cpu=0.9)(job, Placement(((0,),)), NODES, effect))
