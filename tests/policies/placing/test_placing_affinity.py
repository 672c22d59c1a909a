"""Placing by affinity: buckets, and gangs on few nodes."""

from __future__ import annotations

import pytest

from headway.core.node import Nodes
from headway.core.plan import Start
from headway.policies.combined_priority import CombinedPriority
from headway.policies.placing.affinity import (
    buckets_of,
    place_any_by_role,
    place_any_in_buckets,
    place_in_buckets,
    place_near,
)
from make import a_job, a_node, a_role, a_snapshot, some_nodes


def a_ps_job(name="ps-job", servers=2, workers=4, **more):
    """Servers and workers of one core each, as in the design note's example."""
    ps = a_role("ps", servers, cpu=1, near=("worker",))
    worker = a_role("worker", workers, cpu=1, near=("ps",), after=("ps",))
    return a_job(name, roles=[worker, ps], **more)


def test_the_worked_example_two_servers_and_four_workers_on_2_1_and_4_cores():
    nodes = Nodes.of([a_node(f"n{number}", gpus=0, cpu=cpu) for number, cpu in enumerate((2, 1, 4))])
    plan = CombinedPriority()(a_snapshot(a_ps_job(), nodes=nodes))
    (start,) = plan.decisions
    assert isinstance(start, Start)
    worker, ps = start.placement.nodes
    assert sorted(ps) == [0, 2]
    assert sorted(worker) == [0, 2, 2, 2]


def test_buckets_are_ps_w_w_and_ps_w_w_and_servers_come_first():
    shape = a_snapshot(a_ps_job(), nodes=some_nodes(2, gpus=0, cpu=4)).jobs.shape_at(0)
    assert [bucket.roles for bucket in buckets_of(shape, shape.counts)] == [[1, 0, 0], [1, 0, 0]]


def test_a_gang_that_the_rule_cannot_place_is_placed_otherwise_or_not_at_all():
    shape = a_snapshot(a_ps_job(servers=1, workers=3), nodes=some_nodes(2, gpus=0, cpu=2)).jobs.shape_at(0)
    fits = a_snapshot(nodes=some_nodes(2, gpus=0, cpu=2))
    assert place_in_buckets(fits, fits.free, shape, shape.counts) is not None
    tight = a_snapshot(nodes=some_nodes(3, gpus=0, cpu=1))
    assert place_in_buckets(tight, tight.free, shape, shape.counts) is None


NEAR = [
    ("a gang on one node", 8, True, ((0, 0), (0, 0))),
    ("else the servers and workers in equal parts", 2, True, ((0, 1), (0, 1))),
    ("without affinity each role by itself", 2, False, ((0, 0), (1, 1))),
]


@pytest.mark.parametrize(("why", "gpus", "affinity", "nodes"), NEAR)
def test_gangs_go_on_few_nodes(why, gpus, affinity, nodes):
    roles = [a_role("ps", 2), a_role("worker", 2, near=("ps",), after=("ps",))]
    snapshot = a_snapshot(a_job("a", roles=roles), nodes=some_nodes(2, gpus=gpus))
    shape = snapshot.jobs.shape_at(0)
    found = place_near(snapshot, snapshot.free, shape, shape.counts, affinity)
    assert found is not None
    assert tuple(tuple(sorted(role)) for role in found.nodes) == nodes, why


SIZES = [("as asked for", 4, 4), ("the largest that fits", 3, 3), ("not below its min", 1, None)]


@pytest.mark.parametrize(("why", "gpus", "width"), SIZES)
@pytest.mark.parametrize("place_it", [place_any_in_buckets, place_any_by_role])
def test_any_size(why, gpus, width, place_it):
    snapshot = a_snapshot(a_job("a", 4, min=2, max=4), nodes=some_nodes(1, gpus=gpus))
    found = place_it(snapshot, snapshot.free, 0)
    assert (found and found.width()) == width, why
