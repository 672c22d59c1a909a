"""Jobs that stop at a target, in virtual time."""

from __future__ import annotations

import pytest

from headway.core.job import Target
from headway.core.plan import Plan
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.plain_books import OracleBook
from headway.policies.registry import POLICIES
from headway.sim.cluster import SimCluster, World
from headway.sim.speed import Speed
from make import a_job, some_nodes


def test_a_job_ends_at_its_target_where_its_model_has_a_curve():
    world = World(speed=Speed(profiles=BUILT_IN))
    curve = BUILT_IN["bert"].curve
    target = Target(value=curve(0.25))
    jobs = [
        a_job("to-target", seconds=1000.0, steps=500, model="bert", target=target),
        a_job("never", seconds=1000.0, steps=500, model="bert", target=Target(value=0.0)),
        a_job("no-curve", seconds=1000.0, steps=500, model="other", target=target),
        a_job("accuracy", seconds=1000.0, model="bert", target=Target(metric="accuracy", value=0.1, higher=True)),
    ]
    cluster = SimCluster(some_nodes(1, gpus=4), jobs, world)
    ended, samples = {}, []

    def observe(decided):
        samples.extend(decided.snapshot.samples)
        for row in range(decided.snapshot.jobs.count):
            if decided.snapshot.jobs.state_of(row) is State.FINISHED:
                ended.setdefault(decided.snapshot.jobs.job(row).id, decided.snapshot.now)

    def woken(snapshot):
        return Plan(POLICIES["fifo"]()(snapshot).decisions, snapshot.now + 50.0)

    run(cluster, woken, OracleBook(cluster.truth, cluster.speed_at), observe)
    assert ended == pytest.approx({"to-target": 250.0, "never": 1000.0, "no-curve": 1000.0, "accuracy": 1000.0})
    told = [sample for sample in samples if sample.job == "to-target"]
    assert all(sample.total_steps is None for sample in told), "it cannot know"
    assert told[-1].step == pytest.approx(100, abs=1)
    assert [sample.metric for sample in told] == [sample.loss for sample in told]
    assert told[-1].metric == pytest.approx(curve(0.2))
