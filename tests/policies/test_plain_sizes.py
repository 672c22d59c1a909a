"""Sizes by tables and columns are decided as plain scalar code decides them, which is kept here as the reference."""

from __future__ import annotations

import numpy as np
import plain_sizes
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.core.estimates import Basis, Beliefs, Estimates
from headway.core.scaling import SizeSpan
from headway.core.snapshot import Snapshot
from headway.cycle.loop import run
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.progress import ProgressBook
from headway.estimates.speed.model import Form, Setting, SpeedFit, scaling
from headway.policies import elastic
from headway.policies.elastic import Elastic
from headway.policies.headway import Headway
from headway.policies.steps import scale
from headway.sim.cluster import Costs, SimCluster, World
from headway.sim.speed import Speed
from headway.sim.world import Reports
from make import a_job, some_nodes
from strategies import snapshots

STEPS = ("start_elastic", "shrink_for", "release_useless", "grow_into_idle")
POLICIES = {
    "elastic": Elastic(cool_down=0.0), "elastic, favour": Elastic(favour=1.0, cool_down_share=0.5, patience=10.0),
    "headway": Headway(cool_down=0.0, patience=10.0), "headway, calm": Headway(favour=0.0),
}  # fmt: skip


@pytest.fixture
def plain(monkeypatch):
    """A policy that decides with the plain steps."""

    def decide(policy, snapshot: Snapshot):
        with monkeypatch.context() as patched:
            for step in STEPS:
                for room in (elastic, scale):
                    patched.setattr(room, step, getattr(plain_sizes, step))
            return policy(snapshot)

    return decide


def believing(snapshot: Snapshot, seeds: list[int], *, rich: bool) -> Snapshot:
    """Lengths and speeds that differ by job: some scale well, some little, some make a step beyond four replicas."""
    jobs, now = snapshot.jobs, snapshot.now
    draw = [np.random.default_rng(seed) for seed in seeds]
    left = np.array([float(draw[row % len(draw)].choice([20.0, 300.0, 4000.0, 90_000.0])) for row in range(jobs.count)])

    def speed(row: int, counts: tuple[int, ...]) -> float:
        one = np.random.default_rng([seeds[row % len(seeds)], row])
        parallel, best, step = one.uniform(0.2, 1.0), one.integers(1, 12), one.choice([1.0, 0.7])
        count = min(sum(counts), int(best))
        return float(step if sum(counts) > 4 else 1.0) / ((1.0 - parallel) + parallel / max(count, 1))

    def beliefs() -> Beliefs:
        columns = (left, np.full(jobs.count, now), jobs.training())
        if not rich:
            return Beliefs(*columns)
        basis = np.full(jobs.count, int(Basis.STEPS), np.uint8)
        basis[::7] = int(Basis.SILENT)
        return Beliefs(*columns, np.full(jobs.count, 0.1), np.zeros(jobs.count, np.uint8), np.zeros(jobs.count), basis)

    return snapshot.with_estimates(Estimates(beliefs, speed))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    snapshot=snapshots(most_jobs=10, whole=False), name=st.sampled_from(sorted(POLICIES)), rich=st.booleans(),
    seeds=st.lists(st.integers(0, 999), min_size=3, max_size=3),
)  # fmt: skip
def test_any_snapshot_is_decided_as_by_plain_code(plain, snapshot, name, seeds, rich):
    policy = POLICIES[name]
    assert policy(believing(snapshot, seeds, rich=rich)) == plain(policy, believing(snapshot, seeds, rich=rich))


@pytest.mark.parametrize("policy", [Elastic(), Headway()], ids=["elastic", "headway"])
def test_a_whole_workload_is_decided_as_by_plain_code(policy, plain):
    """Forty jobs of six models on 32 GPUs, sized by what their reports teach; every plan is made twice."""
    models, differ = sorted(name for name in BUILT_IN if name in ("bert", "cifar10", "ncf", "yolov3")), 0
    jobs = [
        a_job(f"j{n}", gpus=1 + n % 3, min=1, max=16, submit=90.0 * n, steps=100_000, model=models[n % len(models)])
        for n in range(40)
    ]
    work = {job.id: 200.0 * (1 + 7 * number % 23) for number, job in enumerate(jobs)}
    world = World(
        costs=Costs(start=30.0, scale=30.0, save=10.0), speed=Speed(profiles=BUILT_IN),
        work=lambda job: work[job.id], reports=Reports(seconds=60.0, growth=0.1),
    )  # fmt: skip
    changes = 0

    def both(snapshot: Snapshot):
        nonlocal differ, changes
        fast, slow = policy(snapshot), plain(policy, snapshot)
        differ += fast != slow
        changes += len(fast.decisions)
        return fast

    run(SimCluster(some_nodes(8, gpus=4), jobs, world), both, ProgressBook(), lambda _: None)
    assert changes > 100, "otherwise nothing was compared"
    assert differ == 0


@given(
    coefficients=st.tuples(*[st.sampled_from([0.0, 0.03, 0.4, 1.7])] * 6).filter(lambda found: sum(found[:3]) > 0),
    asked=st.integers(1, 8), least=st.integers(1, 3), most=st.integers(3, 20), per_node=st.integers(0, 9),
)  # fmt: skip
def test_speeds_of_all_sizes_at_once_are_those_of_single_sizes(coefficients, asked, least, most, per_node):
    job = a_job("a", gpus=max(asked, least), min=least, max=max(most, asked, least))
    fitted, at_asked = SpeedFit(Form.GANG, coefficients), Setting.sized(job, (job.roles[0].replicas,), per_node)
    found = scaling(Form.GANG, coefficients, job, SizeSpan(least, most, per_node))
    one_by_one = [fitted.relative(Setting.sized(job, (count,), per_node), at_asked) for count in range(least, most + 1)]
    assert list(found.speeds) == [0.0] * least + one_by_one
    assert 0.0 < found.apart <= 1.0
