"""Placing by affinity: buckets, and gangs on few nodes."""

from __future__ import annotations

from headway.core.node import Nodes
from headway.core.plan import Start
from headway.policies.combined_priority import CombinedPriority
from headway.policies.placing.affinity import buckets_of, place_in_buckets
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
