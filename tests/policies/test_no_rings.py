"""A cycle leaves no rings of objects: what it made is gone when the next one begins, without the garbage collector."""

from __future__ import annotations

import gc
import weakref

import pytest

from headway.cycle.loop import run
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.sim.cluster import SimCluster, World
from headway.sim.world import Reports
from make import a_job, a_role, some_nodes


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_snapshot_goes_with_its_cycle(policy, no_collector):
    jobs = [a_job(f"j{n}", roles=[a_role(min=1, max=4)], submit=20.0 * n, seconds=90.0, steps=1000) for n in range(20)]
    cluster, seen = SimCluster(some_nodes(1), jobs, World(reports=Reports(seconds=20.0))), list[weakref.ref]()
    run(cluster, POLICIES[policy](), ProgressBook(), lambda decided: seen.append(weakref.ref(decided.snapshot)))
    assert len(seen) > 20
    assert sum(snapshot() is not None for snapshot in seen) <= 2
