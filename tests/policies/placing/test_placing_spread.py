"""Spreading: evenly over few nodes, the emptiest first, where fewest are."""

from __future__ import annotations

from headway.policies.placing.spread import place_emptiest, place_evenly
from make import a_job, a_role, a_snapshot, running, some_nodes


def test_even_spread_over_fewest_nodes() -> None:
    job = a_job("a", roles=[a_role("ps", 2, cpu=2), a_role("worker", 4, gpu=1)])
    snapshot = a_snapshot(job, nodes=some_nodes(3, gpus=2, cpu=8))
    placement = place_evenly(snapshot, snapshot.free, snapshot.jobs.shape_at(0), (2, 4))
    assert placement is not None
    assert placement.nodes == ((0, 1), (0, 0, 1, 1))


def test_the_emptiest_node_comes_first_then_the_next() -> None:
    nodes, other = some_nodes(3, gpus=4), running(a_job("x", gpus=3), [0, 0, 1])
    snapshot = a_snapshot(other, a_job("a", gpus=6), nodes=nodes)
    placement = place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(1))
    assert placement is not None
    assert placement.nodes == ((2, 2, 2, 2, 1, 1),)
    assert place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(1), (9,)).width() == 9  # type: ignore[union-attr]
    assert place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(1), (10,)) is None


def test_roles_do_not_get_the_same_room_twice() -> None:
    job = a_job("a", roles=[a_role("ps", 2), a_role("worker", 2)])
    snapshot = a_snapshot(job, nodes=some_nodes(2, gpus=2))
    placement = place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(0))
    assert placement is not None
    assert sorted(placement.nodes) == [(0, 0), (1, 1)]
    assert place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(0), (3, 2)) is None
