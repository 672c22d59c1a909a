"""Decisions become intents; intents name nodes as allocations do."""

from __future__ import annotations

import math

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
from headway.kube.gangs.intent import RoleAllocation, adopted, allocation_of, begun, limit_of, placement_of
from headway.kube.settings import KubeTimeouts
from headway.kube.values import replace

# ── changes ──


PLACE = Placement(((0, 1),))


def test_after_a_restart_a_flight_has_its_time_again():
    patience = KubeTimeouts(start=50)
    late = replace(STARTING, until=NOW - 500)
    assert adopted(late, NOW, patience).until == math.inf, "it begins when nothing is left for us to send"
    assert limit_of(late, patience) == 50
    saving = meant(State.STOPPING, allocation=TWO, until=NOW - 500)
    assert adopted(saving, NOW, patience).until == NOW + patience.save
    assert adopted(RUNNING, NOW, patience) == RUNNING
    draining = meant(State.STOPPING, draining=True)
    assert adopted(draining, NOW, patience).until == math.inf


def test_every_decision_becomes_an_intent_with_a_time_out():
    decisions = [Start(JOB.id, PLACE), Scale(JOB.id, "worker", (0,)), Resize(JOB.id, "worker", 1, 1),
                 Move(JOB.id, PLACE), Stop(JOB.id, Because.PREEMPTED)]  # fmt: skip
    timeouts = KubeTimeouts(start=1, scale=2, resize=3, save=4)
    limits = {State.STARTING: 1, State.SCALING: 2, State.RESIZING: 3}
    states = []
    for decision in decisions:
        intent = begun(replace(RUNNING, message="old"), decision, TWO, NOW, timeouts)
        saves = intent.state in (State.MOVING, State.STOPPING)
        assert intent.until == (NOW + timeouts.save if saves else math.inf), "the clock of others begins later"
        assert limit_of(intent, timeouts) == limits.get(intent.state)
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
