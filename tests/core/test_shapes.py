"""Shapes by number, and what follows from them and the nodes."""

from __future__ import annotations

import pytest

from headway.core.jobs.shapes import WIDEST, Shapes
from headway.core.node import Nodes
from headway.core.placement import shape_of
from make import a_job, a_node, a_role, some_nodes

NODES = some_nodes(2, gpus=4, cpu=8)
WIDE, NARROW = a_job("wide", 4), a_job("narrow", 1)
CASES = [
    ("none", [], None, []),
    ("one request", [WIDE, NARROW], 1, [0.5, 0.125]),
    ("elastic", [NARROW, a_job("e", 2, min=1, max=2)], None, [0.125, 0.25]),
    ("another request", [NARROW, a_job("c", roles=[a_role(cpu=4)])], None, [0.125, 0.25]),
    ("two roles", [a_job("ps", roles=[a_role("ps"), a_role("worker", 2)])], None, [0.375]),
    ("a kind that no node has", [NARROW, a_job("m", roles=[a_role(memory=5)])], None, [0.125, 1e-9]),
    ("another selector", [NARROW, a_job("s", roles=[a_role(selector=(("a", "b"),))])], None, [0.125, 0.125]),
]


@pytest.mark.parametrize(("why", "jobs", "only", "share"), CASES)
def test_shapes_made_at_once_and_one_by_one(why, jobs, only, share):
    shapes = [shape_of(job, NODES) for job in jobs]
    grown = Shapes.of((), NODES)
    for shape in shapes:
        grown = grown.and_one(shape, NODES)
    for made in (Shapes.of(shapes, NODES), grown):
        assert list(made) == shapes
        assert made.share.tolist() == pytest.approx(share), why
        assert (made.only_role is None) == (only is None), why
        assert made.only_role is None or made.only_role is shapes[0].roles[0]
        assert made.slots == (0 if only is None else 8), why


def test_a_kind_of_which_nothing_is_ready_is_widest():
    nodes = Nodes.of([a_node("gone", gpus=4, ready=False), a_node("up", gpus=0, cpu=4)])
    assert Shapes.of([shape_of(NARROW, nodes)], nodes).share.tolist() == [WIDEST]


@pytest.mark.parametrize(("role", "slots"), [(a_role(gpu=1), 8), (a_role(gpu=3), 2), (a_role(gpu=1, cpu=4), 4)])
def test_slots_of_empty_nodes(role, slots):
    shape = shape_of(a_job("a", roles=[role]), NODES).roles[0]
    assert NODES.slots(shape.asks, shape.constraint) == slots == NODES.slots(shape.asks, shape.constraint)
