"""Spreading: evenly over few nodes, the emptiest first, where fewest are."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.draft import Draft
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.states import State
from headway.policies.placing.spread import place_emptiest, place_evenly, replicas, spread_out
from make import a_job, a_node, a_role, a_snapshot, flying, running, some_nodes


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


OUT = [
    ("where fewest are", [3, 0, 1], 1, [1]),
    ("each further one where fewest are then", [3, 0, 1], 3, [1, 1, 2]),
    ("of equals where most is free", [0, 0, 0], 1, [1]),
    ("not all fit", [0, 0, 0], 9, None),
]


@pytest.mark.parametrize(("why", "held", "replicas", "nodes"), OUT)
def test_each_replica_goes_where_fewest_are(why, held, replicas, nodes):
    table = Nodes.of(a_node(f"n{number}", gpus=2, cpu=cpu) for number, cpu in enumerate((8, 16, 4)))
    snapshot = a_snapshot(a_job("a", replicas), nodes=table)
    found = spread_out(snapshot, snapshot.free, snapshot.jobs.shape_at(0), np.array(held, float))
    assert (found and list(found.nodes[0])) == nodes, why


def test_replicas_are_counted_where_they_are_and_where_they_go():
    up = running(a_job("up", 2), [0, 1])
    towards = flying(a_job("fly"), State.STARTING, towards=Placement(((1,),)))
    snapshot = a_snapshot(up, towards, a_job("new"), nodes=some_nodes(3))
    draft = Draft(snapshot)
    draft.start(2, Placement(((2,),)))
    assert replicas(draft).tolist() == [1.0, 2.0, 1.0]
