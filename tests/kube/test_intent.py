"""Decisions become intents; intents name nodes as allocations do."""

from __future__ import annotations

import math
from dataclasses import replace

from intents import (
    JOB,
    NOW,
    RUNNING,
    STARTING,
    TWO,
    meant,
)

from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.placement import Placement, shape_of
from headway.core.plan import Because, Move, Resize, Scale, Start, Stop
from headway.core.states import State
from headway.kube.job.intent import RoleAllocation, adopted, allocation_of, begun, placement_of
from headway.kube.settings import KubeTimeouts

# ── changes ──


PLACE = Placement(((0, 1),))


def test_after_a_restart_a_flight_has_its_time_again():
    patience = KubeTimeouts(start=50)
    late = replace(STARTING, until=NOW - 500)
    assert adopted(late, NOW, patience).until == NOW + 50
    assert adopted(RUNNING, NOW, patience) == RUNNING
    draining = meant(State.STOPPING, draining=True)
    assert adopted(draining, NOW, patience).until == math.inf


def test_every_decision_becomes_an_intent_with_a_time_out():
    decisions = [Start(JOB.id, PLACE), Scale(JOB.id, "worker", (0,)), Resize(JOB.id, "worker", 1, 1),
                 Move(JOB.id, PLACE), Stop(JOB.id, Because.PREEMPTED)]  # fmt: skip
    states = []
    for decision in decisions:
        intent = begun(replace(RUNNING, message="old"), decision, TWO, NOW, KubeTimeouts())
        assert NOW < intent.until < math.inf
        assert intent.message == ""
        states.append(intent.state)
    assert states == [State.STARTING, State.SCALING, State.RESIZING, State.MOVING, State.STOPPING]


def test_placements_and_allocations_are_the_same_thing():
    nodes = Nodes.of([Node(name=name, capacity=(("cpu", 4000), ("memory", 100))) for name in "ab"])
    job = Job(id=JobId("j"), roles=(Role(name="w", request=(("cpu", 500),)), Role(name="ps", request=(("cpu", 1),))))
    for placement in (Placement(((0, 1), (1,))), Placement(((1,), ()), ((900, 0), None))):
        allocation = allocation_of(placement, job, shape_of(job, nodes), nodes)
        assert placement_of(allocation, job, nodes) == placement
    resized = allocation_of(Placement(((0,), ()), ((900, 1), None)), job, shape_of(job, nodes), nodes)
    assert resized[0] == RoleAllocation("w", ("a",), (("cpu", 900),)), "no memory where none was asked for"
