"""What fits on each node, now and if the cluster were empty."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.job import Role
from headway.core.node import Nodes
from headway.policies.placing.room import Rooms, empty, fits_on, room, takes_empty
from make import a_job, a_node, a_role, a_snapshot

NODES = Nodes.of([
    a_node("plain", gpus=4, cpu=8), a_node("ssd", gpus=2, cpu=64, labels=(("disk", "ssd"),)),
    a_node("tainted", gpus=8, cpu=8, taints=("reserved",)), a_node("gone", gpus=8, cpu=8, ready=False),
])  # fmt: skip
ROLES = [
    ("by the scarcest kind", a_role(gpu=1, cpu=4), [2, 2, 0, 0]),
    ("only where the label is", a_role(gpu=1, selector=(("disk", "ssd"),)), [0, 2, 0, 0]),
    ("a taint that is tolerated", a_role(gpu=2, tolerates=("reserved",)), [2, 1, 4, 0]),
    ("asks for nothing: its max anywhere", Role(name="w", replicas=1, min=1, max=3), [3, 3, 0, 0]),
    ("more than any node has", a_role(gpu=16), [0, 0, 0, 0]),
]


@pytest.mark.parametrize(("why", "role", "takes"), ROLES)
def test_how_many_replicas_each_node_takes(why, role, takes):
    snapshot = a_snapshot(a_job("a", roles=[role]), nodes=NODES)
    shape = snapshot.jobs.shape_at(0).roles[0]
    assert room(NODES, snapshot.free, shape).tolist() == takes, why
    assert fits_on(NODES, snapshot.free, shape).tolist() == [count > 0 for count in takes], why
    total = Rooms(NODES, snapshot.free).total(shape)
    assert total == sum(takes) * (1 if shape.asks else shape.max), why


@pytest.mark.parametrize(("why", "role", "takes"), ROLES)
def test_the_empty_cluster(why, role, takes):
    """However little is free now."""
    snapshot = a_snapshot(a_job("a", roles=[role]), nodes=NODES)
    shape = snapshot.jobs.shape_at(0).roles[0]
    assert (empty(NODES) == np.where(NODES.ready, NODES.capacity, 0)).all()
    assert takes_empty(NODES, shape, 0)
    assert takes_empty(NODES, shape, sum(takes)) or not sum(takes)
    if shape.asks:
        assert not takes_empty(NODES, shape, sum(takes) + 1), why


def test_nothing_is_taken_that_is_not_there():
    snapshot = a_snapshot(a_job("a"), nodes=NODES)
    below = np.full_like(snapshot.free, -3)
    assert room(NODES, below, snapshot.jobs.shape_at(0).roles[0]).tolist() == [0, 0, 0, 0]
