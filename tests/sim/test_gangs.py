"""Faults of simulated gangs: attempts, refusals, planned exits, losses."""

from __future__ import annotations

import math

import pytest

from headway.core.gang import GangState
from headway.core.placement import Placement
from headway.sim.faults import Faults, ReplicaExit
from headway.sim.gangs import Gangs
from make import a_job, some_nodes

JOB = a_job("a", 2)
PLACE = Placement(((0, 1),))
NODES = some_nodes(2)


def _exit(code: int, **fields) -> Faults:
    return Faults(exits=(ReplicaExit(**{"job": "a", "role": "worker", "after": 5.0, "code": code, **fields}),))


@pytest.mark.parametrize(
    ("code", "life"),
    [(0, GangState.WHOLE), (1, GangState.WAIT), (137, GangState.LOST), (139, GangState.WAIT), (143, GangState.LOST)],
)
def test_a_replica_that_ends_is_judged_by_the_gang_rule(code, life):
    gangs = Gangs(_exit(code), seed=0)
    assert gangs.start(JOB, now=10.0)
    assert gangs.next == 15.0
    assert gangs.due(14.9) == []
    assert gangs.due(15.0) == ["a"]
    verdict = gangs.verdict(JOB, PLACE, NODES, 15.0)
    assert verdict.state is life
    assert gangs.next == verdict.until, "the end of a pause is an event, too"


@pytest.mark.parametrize(("attempt", "ends_in"), [(0, [1, 2]), (1, [1]), (2, [2])])
def test_an_exit_is_of_one_attempt_or_of_all(attempt, ends_in):
    gangs = Gangs(_exit(1, attempt=attempt), seed=0)
    seen = []
    for number, now in ((1, 0.0), (2, 100.0)):
        gangs.start(JOB, now)
        if gangs.due(now + 50.0):
            seen.append(number)
    assert seen == ends_in


def test_an_exit_of_an_earlier_attempt_is_ignored():
    gangs = Gangs(_exit(1, attempt=1), seed=0)
    gangs.start(JOB, 0.0)
    gangs.start(JOB, 1.0)
    assert gangs.due(99.0) == []


def test_a_failed_node_is_a_loss_that_names_it():
    gangs = Gangs(Faults(), seed=0)
    gangs.start(JOB, 0.0)
    verdict = gangs.verdict(JOB, PLACE, NODES, 1.0, down={1})
    assert (verdict.state, verdict.why) == (GangState.LOST, "node n1 failed")
    assert gangs.verdict(JOB, PLACE, NODES, 1.0, down={7}).state is GangState.WHOLE


def test_refusals_in_a_row_are_counted():
    gangs = Gangs(Faults(refused_starts=1.0), seed=0)
    for _ in range(gangs.limits.refusals):
        assert not gangs.start(JOB, 0.0)
    assert not gangs.refused_too_often(JOB)
    gangs.start(JOB, 0.0)
    assert gangs.refused_too_often(JOB)


def test_losses_without_progress_become_too_many():
    gangs = Gangs(Faults(), seed=0)
    for done, expected in ((5.0, 1), (5.0, 2), (5.9, 3), (6.0, 1)):
        assert len(gangs.lose(JOB, 10.0, done).times) == expected, "a whole second of work is progress"


def test_a_slow_replica_slows_its_gang_until_the_job_is_forgotten():
    gangs = Gangs(Faults(stragglers=1.0, straggler_speed=0.25), seed=0)
    assert gangs.speed(JOB.id) == 1.0
    gangs.start(JOB, 0.0)
    assert gangs.speed(JOB.id) == 0.25
    gangs.forget(JOB.id)
    assert (gangs.speed(JOB.id), gangs.next) == (1.0, math.inf)
