from __future__ import annotations

import pytest

from headway.core.job import JobId
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.plan import Plan, Reserve, Start
from headway.core.reason import Code, explain
from headway.core.states import State
from make import a_job, a_node, a_role, a_snapshot, flying, running

NODES = Nodes.of([a_node("n0", gpus=4), a_node("n1", gpus=4, taints=("mine",))])
FULL = running(a_job("holder", gpus=3), (0, 0, 0))


NOTHING = Plan()


def _explain(*jobs, plan=NOTHING, nodes=NODES):
    return explain(a_snapshot(*jobs, nodes=nodes), plan, JobId("a"))


@pytest.mark.parametrize(
    ("job", "others", "code", "numbers"),
    [
        (a_job(roles=[a_role(gpu=5)]), [], Code.LARGER_THAN_ANY_NODE, (5, 4)),
        (a_job(gpus=5), [], Code.LARGER_THAN_CLUSTER, (5, 4)),
        (a_job(roles=[a_role(cpu=1)]), [], Code.NO_SUCH_RESOURCE, (1, 0)),
        (a_job(roles=[a_role(selector=(("zone", "west"),))]), [], Code.NO_SUITABLE_NODE, (1, 0)),
        (a_job(gpus=2), [FULL], Code.NOT_ENOUGH_FREE, (2, 1)),
    ],
)
def test_the_reason_has_code_and_numbers(job, others, code, numbers):
    reason = _explain(*others, job)
    assert reason.code is code
    assert (reason.need, reason.have) == numbers
    assert any(character.isdigit() for character in reason.sentence)
    assert reason.remedy or code is Code.NOT_ENOUGH_FREE


def test_who_holds_what_is_missing_is_named():
    assert _explain(FULL, a_job(gpus=2)).blocked_by == ("holder",)


def test_a_gang_needs_what_all_its_roles_need_together():
    nodes = Nodes.of([a_node("n0", cpu=1)])
    roles = [a_role("ps", cpu=0.3), a_role("worker", 2, cpu=0.35)]
    holder = running(a_job("holder", roles=[a_role(cpu=0.5)]), (0,))
    reason = _explain(holder, a_job(roles=roles), nodes=nodes)
    assert (reason.code, reason.need, reason.have, reason.blocked_by) == (Code.NOT_ENOUGH_FREE, 1000, 500, ("holder",))
    assert reason.brief == "needs 1 cpu; 0.5 cpu is free"
    assert reason.sentence == "The gang needs 1 cpu for 3 replicas; 0.5 cpu is free (0.5 cpu too little)."


def test_pieces_are_told_from_lack():
    nodes = Nodes.of([a_node("n0", gpus=4), a_node("n1", gpus=4)])
    two = [running(a_job("x", gpus=3), (0, 0, 0)), running(a_job("y", gpus=3), (1, 1, 1))]
    reason = _explain(*two, a_job(roles=[a_role(gpu=2)]), nodes=nodes)
    assert reason.code is Code.FRAGMENTED
    assert "0 of the 1" in reason.sentence


def test_what_the_plan_says_counts():
    job = a_job(gpus=2)
    start = Plan((Start(JobId("a"), Placement(((0, 0),))),))
    assert _explain(job, plan=start).code is Code.STARTS_NOW
    hole = Plan((Reserve(JobId("a"), Placement(((0, 0),)), 60.0),))
    assert _explain(job, plan=hole).code is Code.RESERVED
    passed = Plan((Start(JobId("b"), Placement(((0, 0, 0),))),))
    assert _explain(a_job("b", gpus=3), job, plan=passed).code is Code.NOT_ENOUGH_FREE
    assert _explain(a_job("b", gpus=9), job).code is Code.BEHIND_OTHERS


def test_of_jobs_that_do_not_wait():
    assert _explain(running(a_job(), (0,))).code is Code.RUNNING
    in_flight = flying(a_job(), State.STOPPING, at=Placement(((0,),)))
    assert _explain(in_flight).code is Code.IN_FLIGHT
