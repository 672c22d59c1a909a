"""Which jobs share which node's cpu."""

from __future__ import annotations

import pytest

from headway.core.draft import Draft
from headway.core.estimates import Basis
from headway.policies.value.neighbours import LEAST_SECONDS, tenancy
from make import a_job, a_snapshot, some_nodes
from shared_cpu import FAST, NOW, seen, shared, up


def found_on(snapshot, node=0):
    found = tenancy(Draft(snapshot), 1.0)
    assert found is not None
    return found.on.get(node, [])


def test_jobs_on_a_node_with_what_each_has_left():
    """Eight cores, two jobs: each gets four, so that its work is its seconds times four cores."""
    on = found_on(seen(up("a", 0), up("b", 0), up("c", 1), left={"a": 100.0, "b": 50.0}, growth={"b": FAST}))
    assert [one.row for one in on] == [0, 1]
    assert [one.fast for one in on] == [False, True]
    assert on[0].tenant.work / on[1].tenant.work == pytest.approx(2.0)
    assert all(one.believed and one.whole for one in on)


@pytest.mark.parametrize("basis", [Basis.NOTHING, Basis.ERRATIC])
def test_a_job_that_is_not_believed_has_as_long_left_as_it_trained_and_counts_as_fast(basis):
    on = found_on(seen(up("a", 0, since=NOW - 500.0), left={"a": 9.0}, basis={"a": basis}))
    new = found_on(seen(up("a", 0, since=NOW - 1.0), left={"a": 9.0}, basis={"a": basis}))
    assert not on[0].believed
    assert on[0].fast
    assert on[0].tenant.work / new[0].tenant.work == pytest.approx(500.0 / LEAST_SECONDS)


def test_what_this_plan_starts_and_stops_counts():
    snapshot = seen(up("a", 0), shared("new"), left={"a": 100.0})
    draft = Draft(snapshot)
    draft.stop(0)
    draft.start(1, snapshot.placements[0])
    found = tenancy(draft, 1.0)
    assert found is not None
    assert [one.row for one in found.on[0]] == [1]


def test_without_cpu_there_are_no_neighbours():
    assert tenancy(Draft(a_snapshot(a_job("a"), nodes=some_nodes(1))), 1.0) is None
