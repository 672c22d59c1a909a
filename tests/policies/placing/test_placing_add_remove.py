"""Which nodes gain or lose a replica."""

from __future__ import annotations

import pytest

from headway.core.draft import Draft
from headway.core.node import Nodes
from headway.core.plan import Scale
from headway.policies.elastic import Elastic
from headway.policies.placing.add_remove import (
    grown,
    leaving_order,
    next_nodes,
    room_for_more,
    scale_towards,
    shrunk,
    without,
)
from make import a_job, a_node, a_role, a_snapshot, running, some_nodes, waiting


def test_the_lonely_worker_goes_first():
    """Its server and two workers are on node 0, a third is alone on node 1: that one makes room for the newcomer."""
    job = a_job("a", roles=[a_role("ps", cpu=1), a_role("worker", 3, min=1, max=3, gpu=1, near=("ps",))])
    snapshot = a_snapshot(
        running(job, [0], [0, 1, 0]), running(a_job("b", 2), [0, 0]), running(a_job("c", 3), [1] * 3),
        waiting(a_job("new"), since=0.0),
        nodes=some_nodes(2, gpus=4, cpu=8), now=1000.0, left={"a": 9000, "b": 9000, "c": 9000, "new": 60},
        speed=lambda job, counts: counts[-1] / job.roles[-1].replicas,
    )  # fmt: skip
    assert leaving_order(snapshot.placements[0], 1) == (1, 0, 0)
    assert Elastic()(snapshot).decisions == (Scale("a", "worker", (0, 0)),)


GROWN = [
    ("its own node first", [[0]], 3, (0, 0, 0)),
    ("then its own rack", [[0]], 5, (0, 0, 0, 0, 1)),
    ("no further than its max", [[0]], 99, (0, 0, 0, 0, 1, 1)),
    ("never fewer than now", [[0, 0, 0]], 1, (0, 0, 0)),
]


@pytest.mark.parametrize(("why", "nodes", "count", "after"), GROWN)
def test_where_replicas_are_added(why, nodes, count, after):
    """Two racks of two nodes with four GPUs each; other jobs hold two of the second node."""
    table = Nodes.of(a_node(f"n{number}", gpus=4, domain=f"rack{number // 2}") for number in range(4))
    job = a_job("a", len(nodes[0]), min=1, max=6)
    snapshot = a_snapshot(running(job, *nodes), running(a_job("other", 2), [1, 1]), nodes=table)
    assert grown(snapshot, snapshot.free, 0, 0, count) == after, why


SHRUNK = [
    ("the loneliest goes", (0, 0, 1), 2, (0, 0)),
    ("of equals the last node", (0, 1), 1, (0,)),
    ("a server keeps its workers", (1, 1, 2), 2, (2, 1)),
]


@pytest.mark.parametrize(("why", "workers", "count", "after"), SHRUNK)
def test_which_replicas_stay(why, workers, count, after):
    roles = [a_role("ps", 1), a_role("worker", len(workers), min=1, max=4)]
    snapshot = a_snapshot(running(a_job("a", roles=roles), [2], workers), nodes=some_nodes(3))
    assert shrunk(snapshot, 0, 1, count) == after, why
    order = leaving_order(snapshot.placements[0], 1)
    kept = without(snapshot.placements[0], 1, order[: len(workers) - count])
    assert sorted(kept.nodes[1]) == sorted(after), why


@pytest.mark.parametrize(
    ("wanted", "up", "after"), [((4,), True, 4), ((1,), False, 1), ((1,), True, None), ((4,), False, None)]
)
def test_scaling_goes_one_way(wanted, up, after):
    snapshot = a_snapshot(running(a_job("a", 2, min=1, max=4), [0, 0]), nodes=some_nodes(1, gpus=4))
    draft = Draft(snapshot)
    assert scale_towards(draft, 0, wanted, up=up) is (after is not None)
    assert [len(one.nodes) for one in draft.plan().decisions] == ([] if after is None else [after])


def test_where_further_replicas_would_go():
    roles = [a_role("ps", 1), a_role("worker", 1, min=1, max=9)]
    entry = running(a_job("a", roles=roles), [1], [0])
    snapshot = a_snapshot(entry, nodes=some_nodes(3, gpus=3))
    now = snapshot.placements[0]
    takes = room_for_more(snapshot, snapshot.free, 0, 1)
    assert next_nodes(snapshot, takes, 1, now, affinity=True)[:5] == (1, 1, 0, 0, 2), "beside the server"
    assert next_nodes(snapshot, takes, 1, now, affinity=False)[:3] == (2, 2, 2), "where there is most room"
