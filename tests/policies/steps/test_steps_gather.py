"""Gathering gangs that are apart."""

from __future__ import annotations

import pytest

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.plan import Move, Scale
from headway.policies.elastic import Elastic
from headway.policies.headway import Headway
from headway.policies.steps.gather import WORTHWHILE, gather
from headway.policies.value.terms import Terms
from headway.policies.value.worth import Worth
from make import a_job, a_snapshot, decided, running, some_nodes

TERMS = Terms(cool_down=60.0, restart=30.0)
ENOUGH = WORTHWHILE * 30.0 / 0.4
"""Seconds left of a job that loses two fifths of its speed by being apart."""


def apart_costs(share):
    """Speed in proportion to replicas; beyond a node of four, times this share."""
    return lambda _job, counts: counts[0] * (share if counts[0] > 4 else 1.0)


def four(name="a", **more):
    return a_job(name, 4, min=1, max=8, checkpoints=True, **more)


def gathered(snapshot, terms=TERMS):
    draft = Draft(snapshot)
    rows = gather(draft, Worth(snapshot, terms))
    return rows, draft.plan()


def scattered(*others, nodes=5, left=9000.0, share=0.6, where=(0, 1, 2, 3), touched=0.0, job=None):
    entry = running(job or four(), where, touched=touched)
    return a_snapshot(entry, *others, nodes=some_nodes(nodes, gpus=4), now=1000.0,
                      left={"a": left, "b": 9000.0}, speed=apart_costs(share))  # fmt: skip


def test_a_gang_goes_to_the_node_that_has_some_of_it_and_those_train_on():
    rows, plan = gathered(scattered(where=(0, 1, 1, 2)))
    assert rows == [0]
    assert plan.decisions == (Scale("a", "worker", (1, 1, 1, 1)),)


def test_it_moves_whole_where_no_node_with_some_of_it_has_room():
    """Nodes 0 to 3 hold one replica each of it, and two of another job."""
    other = running(a_job("b", 8, can=Can.STOP), (0, 0, 1, 1, 2, 2, 3, 3))
    rows, plan = gathered(scattered(other))
    assert rows == [0]
    [decision] = plan.decisions
    assert isinstance(decision, Move)
    assert decision.placement.nodes == ((4, 4, 4, 4),)
    fixed = four(can=Can.everything() & ~Can.MOVE)
    assert gathered(scattered(other, job=fixed)) == ([], Draft(scattered(other, job=fixed)).plan())


def test_it_gathers_as_soon_as_it_saves_enough():
    assert gathered(scattered(left=1.01 * ENOUGH))[0] == [0]


STAYS = [
    ("nothing is lost by being apart", {"share": 1.0}),
    ("it saves less than several changes cost", {"left": 0.99 * ENOUGH}),
    ("no node takes it", {"nodes": 4, "others": [running(a_job("b", 8, can=Can.STOP), (0, 0, 1, 1, 2, 2, 3, 3))]}),
    ("it is on one node", {"where": (2, 2, 2, 2)}),
    ("it was changed just now", {"touched": 990.0}),
]


@pytest.mark.parametrize(("why", "given"), STAYS, ids=[why for why, _ in STAYS])
def test_who_stays(why, given):
    others = given.pop("others", [])
    rows, plan = gathered(scattered(*others, **given))
    assert (rows, plan.decisions) == ([], ())
    assert plan.until == (1050.0 if "just now" in why else float("inf"))


def test_whoever_saves_most_comes_first_and_nothing_is_given_twice():
    """Node 4 has room for one of them only."""
    full = running(a_job("c", 8, can=Can.STOP), (0, 0, 1, 1, 2, 2, 3, 3))
    one, other = running(four("a"), (0, 1, 2, 3), touched=0.0), running(four("b"), (0, 1, 2, 3), touched=0.0)
    snapshot = a_snapshot(one, other, full, nodes=some_nodes(5, gpus=4), now=1000.0,
                          left={"a": 5000.0, "b": 9000.0}, speed=apart_costs(0.6))  # fmt: skip
    rows, plan = gathered(snapshot)
    assert decided(plan) == {"b": "move"}
    assert rows == [1]


def test_headway_and_elastic_gather_when_nobody_needs_the_room():
    for policy in (Headway(), Elastic()):
        apart = scattered(where=(0, 1, 1, 2), job=a_job("a", 4, min=4, max=4 + 1, checkpoints=True))
        kinds = decided(policy(apart))
        assert kinds == {"a": "scale"}, policy
        [decision] = policy(apart).decisions
        assert set(decision.nodes) == {1}, policy
