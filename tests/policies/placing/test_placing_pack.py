"""Where replicas go: tables of free capacity and the placement expected."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.node import Nodes
from headway.policies.placing.pack import place
from make import a_job, a_node, a_role, a_snapshot, some_nodes

GPUS = [
    ("the tightest node that fits", [4, 2, 3], 2, [1, 1]),
    ("one node before many", [1, 1, 4, 1], 3, [2, 2, 2]),
    ("fewest nodes where one is not enough", [1, 3, 1, 3], 5, [1, 1, 1, 3, 3]),
    ("whole gangs or nothing", [1, 1], 3, None),
]


@pytest.mark.parametrize(("why", "free", "replicas", "nodes"), GPUS)
def test_one_role(why: str, free: list[int], replicas: int, nodes: list[int] | None) -> None:
    table = Nodes.of(a_node(f"n{i}", gpus=4) for i in range(len(free)))
    snapshot = a_snapshot(a_job("a", replicas), nodes=table)
    placement = place(snapshot, np.array([free], np.int32), snapshot.jobs.shape_at(0))
    assert (None if placement is None else list(placement.nodes[0])) == nodes, why


def test_a_gang_stays_in_the_smallest_rack_that_takes_it() -> None:
    table = Nodes.of(a_node(f"n{i}", gpus=2, domain="ab"[i // 3 > 0] if i < 5 else "b") for i in range(7))
    snapshot = a_snapshot(a_job("a", 5), nodes=table)
    placement = place(snapshot, snapshot.free, snapshot.jobs.shape_at(0))
    assert placement is not None
    assert {table.nodes[node].domain for node in placement.used_nodes()} == {"a"}


def test_workers_follow_their_servers() -> None:
    job = a_job("a", roles=[a_role("ps", 2, cpu=4), a_role("worker", 6, gpu=1, near=("ps",), after=("ps",))])
    snapshot = a_snapshot(job, nodes=some_nodes(5, gpus=3, cpu=4))
    placement = place(snapshot, snapshot.free, snapshot.jobs.shape_at(0))
    assert placement is not None
    servers, workers = placement.nodes
    assert len(set(servers)) == 2
    assert set(workers) == set(servers)


def test_roles_that_want_to_be_apart_are() -> None:
    job = a_job("a", roles=[a_role("ps", 3, cpu=1, apart=("ps",)), a_role("worker", 1, cpu=1)])
    snapshot = a_snapshot(job, nodes=some_nodes(3, gpus=0, cpu=8))
    placement = place(snapshot, snapshot.free, snapshot.jobs.shape_at(0))
    assert placement is not None
    assert len(set(placement.nodes[0])) == 3
