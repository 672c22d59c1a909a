from __future__ import annotations

import pytest

from headway.core.check import check
from headway.core.job import Can, JobId
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.plan import Because, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.states import State
from make import a_job, a_node, a_role, a_snapshot, flying, running

A = JobId("a")
NODES = Nodes.of(
    [
        a_node("n0", gpus=4, cpu=8, memory=1000),
        a_node("n1", gpus=4, cpu=8, memory=1000, labels=(("zone", "east"),)),
        a_node("n2", gpus=4, cpu=8, memory=1000, taints=("reserved",)),
        a_node("n3", gpus=4, cpu=8, memory=1000, ready=False),
        a_node("n4", gpus=4, cpu=8, memory=1000, accelerator="A100"),
    ]
)
ELASTIC = a_role(replicas=2, min=2, max=4, gpu=1, cpu=1, memory=100)


def _why(decision, *jobs, gangless=False):
    snapshot = a_snapshot(*jobs, nodes=NODES)
    refusals = check(snapshot, Plan((decision,)), gangless=gangless)
    return refusals[0].why if refusals else ""


def _start(*nodes):
    return Start(A, Placement((tuple(nodes),)))


@pytest.mark.parametrize(
    ("decision", "job", "why"),
    [
        (_start(0, 0), a_job(roles=[ELASTIC]), ""),
        (_start(0, 0, 1, 1), a_job(roles=[ELASTIC]), ""),
        (_start(0), a_job(roles=[ELASTIC]), "gangs are whole"),
        (_start(0, 0, 0, 0, 1), a_job(roles=[ELASTIC]), "gangs are whole"),
        (_start(0, 0, 0), a_job(roles=[ELASTIC], can=Can.STOP), "gangs are whole"),
        (_start(0, 0, 0, 0, 0), a_job(gpus=5), "too little gpu"),
        (_start(2), a_job(), "taint reserved"),
        (_start(2), a_job(roles=[a_role(tolerates=("reserved",))]), ""),
        (_start(3), a_job(), "not ready"),
        (_start(0), a_job(roles=[a_role(selector=(("zone", "east"),))]), "lacks label zone=east"),
        (_start(1), a_job(roles=[a_role(selector=(("zone", "east"),))]), ""),
        (_start(0), a_job(roles=[a_role(accelerator="A100")]), "not A100"),
        (_start(4), a_job(roles=[a_role(accelerator="A100")]), ""),
        (_start(4), a_job(roles=[a_role(accelerator="a100")]), ""),
        (_start(9), a_job(), "no node number 9"),
        (_start(0), a_job("b"), "no such job"),
        (Start(A, Placement(((0,), (0,)))), a_job(), "number of roles"),
        (Stop(A, Because.PREEMPTED), a_job(), "waiting, not running"),
        (Reserve(A, Placement(((0, 0, 0, 0),)), 9.0), a_job(gpus=4), ""),
    ],
)
def test_of_a_waiting_job(decision, job, why):
    found = _why(decision, job)
    assert why in found if why else not found


RUNNING = running(a_job(roles=[ELASTIC]), (0, 0))
FIXED = running(a_job(roles=[ELASTIC], can=Can.NOTHING), (0, 0))


@pytest.mark.parametrize(
    ("decision", "job", "why"),
    [
        (Scale(A, "worker", (0, 0, 1)), RUNNING, ""),
        (Scale(A, "worker", (0,)), RUNNING, "2 to 4 replicas"),
        (Scale(A, "worker", (0, 0, 0, 0, 0)), RUNNING, "2 to 4 replicas"),
        (Scale(A, "ps", (0, 0)), RUNNING, "no role 'ps'"),
        (Scale(A, "worker", (0, 0, 3)), RUNNING, "not ready"),
        (Scale(A, "worker", (0, 0, 1)), FIXED, "does not allow scaling"),
        (Resize(A, "worker", 4000, 100), RUNNING, ""),
        (Resize(A, "worker", 4001, 100), RUNNING, "too little cpu"),
        (Resize(A, "worker", 0, 100), RUNNING, "above zero"),
        (Resize(A, "worker", 2000, 100), FIXED, "does not allow resizing"),
        (Move(A, Placement(((1, 1),))), RUNNING, ""),
        (Move(A, Placement(((1, 1, 1),))), RUNNING, "keeps the number"),
        (Move(A, Placement(((1, 1),))), FIXED, "does not allow moving"),
        (Stop(A, Because.PREEMPTED), RUNNING, ""),
        (Stop(A, Because.PREEMPTED), FIXED, "does not allow stopping"),
        (Stop(A, Because.CANCELLED), FIXED, ""),
        (Start(A, Placement(((0, 0),))), RUNNING, "running, not waiting"),
        (
            Stop(A, Because.PREEMPTED),
            flying(a_job(roles=[ELASTIC]), State.STOPPING, at=Placement(((0, 0),))),
            "stopping",
        ),
        (Move(A, Placement(((1, 1),))), running(a_job(roles=[ELASTIC], checkpoints=False), (0, 0)), "does not allow"),
    ],
)
def test_of_a_running_job(decision, job, why):
    found = _why(decision, job)
    assert why in found if why else not found


def test_a_move_needs_room_beside_what_it_holds():
    full = running(a_job(gpus=3), (0, 0, 0))
    assert "too little gpu" in _why(Move(A, Placement(((0, 0, 0),))), full)


def test_a_job_is_decided_about_once():
    snapshot = a_snapshot(a_job(), nodes=NODES)
    refusals = check(snapshot, Plan((_start(0), _start(1))))
    assert [refusal.why for refusal in refusals] == ["the plan decides twice about this job"]


def test_what_one_decision_takes_another_cannot():
    snapshot = a_snapshot(a_job("a", gpus=3), a_job("b", gpus=3), nodes=NODES)
    plan = Plan((_start(0, 0, 0), Start(JobId("b"), Placement(((0, 0, 0),)))))
    assert [refusal.decision.job for refusal in check(snapshot, plan)] == ["b"]
    assert not check(snapshot, Plan((_start(0, 0, 0), Start(JobId("b"), Placement(((1, 1, 1),))))))


def test_only_a_gangless_policy_may_start_part_of_a_gang():
    job = a_job(gpus=3)
    assert "gangs are whole" in _why(_start(0), job)
    assert not _why(_start(0), job, gangless=True)
