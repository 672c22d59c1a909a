"""Running the best-ranked jobs."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.draft import Draft
from headway.policies.steps.preempt import run_best
from make import a_job, a_role, a_snapshot, decided, running, some_nodes

ALIKE = [
    ("a better job takes the place of a worse one", [9.0, 1.0], {"up": "stop"}),
    ("a tie stops none", [5.0, 5.0], {}),
    ("a worse one waits", [1.0, 9.0], {}),
]


def _plan(entries, keys, nodes, **more):
    snapshot = a_snapshot(*entries, nodes=nodes, now=10.0)
    draft, column = Draft(snapshot), np.array(keys)
    run_best(draft, lambda rows: column[rows], **more)
    return decided(draft.plan())


@pytest.mark.parametrize(("why", "keys", "plan"), ALIKE)
def test_where_replicas_are_alike(why, keys, plan):
    assert _plan((running(a_job("up"), [0]), a_job("new")), keys, some_nodes(1, gpus=1)) == plan, why


UNLIKE = [
    ("a better job takes the place of a worse one", [9.0, 1.0], 0.0, {"up": "stop"}),
    ("but not within the margin", [9.0, 8.0], 0.25, {}),
    ("a tie stops none", [5.0, 5.0], 0.0, {}),
]


@pytest.mark.parametrize(("why", "keys", "margin", "plan"), UNLIKE)
def test_where_they_are_not(why, keys, margin, plan):
    wide = a_job("new", roles=[a_role("ps", 1), a_role("worker", 1)])
    entries = (running(a_job("up", 2), [0, 0]), wide)
    assert _plan(entries, keys, some_nodes(1, gpus=2), margin=margin) == plan, why


def test_running_jobs_may_have_a_key_of_their_own():
    entries = (running(a_job("up"), [0]), a_job("new"))
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=1), now=10.0)
    draft = Draft(snapshot)
    run_best(draft, lambda _: np.array([5.0]), key_of_running=lambda _: np.array([6.0]))
    assert decided(draft.plan()) == {"up": "stop"}


def test_as_few_as_will_do_the_worst_first():
    """Of three jobs behind the new one only those on the node where it goes are stopped."""
    up = [running(a_job(name), [node]) for name, node in (("a", 0), ("b", 1), ("c", 1))]
    new = a_job("new", roles=[a_role(gpu=2)])
    assert _plan((*up, new), [9.0, 8.0, 7.0, 1.0], some_nodes(2, gpus=2)) == {"a": "stop"}
    full = [running(a_job("d"), [0])]
    assert _plan((*up, *full, new), [9.0, 8.0, 7.0, 0.5, 1.0], some_nodes(2, gpus=2)) == {"b": "stop", "c": "stop"}
