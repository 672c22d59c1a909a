"""Every policy, on generated snapshots: what must hold whatever it decides."""

from __future__ import annotations

import copy
import json
import os
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from headway.core.check import check
from headway.core.jobs.row import MUTABLE, WRITE_ONCE
from headway.core.plan import Start
from headway.core.policy import explain_with, is_gangless
from headway.core.reason import explain
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.registry import POLICIES
from strategies import snapshots

EXAMPLES = int(os.environ.get("HEADWAY_EXAMPLES", "30"))
bounded = settings(
    max_examples=EXAMPLES, deadline=None, derandomize="HEADWAY_EXAMPLES" not in os.environ, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)  # fmt: skip
every_policy = pytest.mark.parametrize("name", sorted(POLICIES))


@every_policy
@bounded
@given(snapshot=snapshots())
def test_on_any_snapshot(name: str, snapshot: Snapshot) -> None:
    _holds(name, snapshot)


@bounded
@given(snapshot=snapshots(whole=False))
def test_the_native_scheduler_with_half_gangs(snapshot: Snapshot) -> None:
    _holds("kube-default", snapshot)


def _holds(name: str, snapshot: Snapshot) -> None:
    policy = POLICIES[name]()
    before = _contents(snapshot)
    plan = policy(snapshot)
    # The plan keeps the rules: capacity, whole gangs, jobs in flight left alone, nothing that a job forbids.
    assert check(snapshot, plan, gangless=is_gangless(policy)) == ()
    # The same snapshot gives the same plan, and is as it was.
    assert POLICIES[name]()(snapshot) == plan
    assert _contents(snapshot) == before
    assert plan.until > snapshot.now
    # Every job that waits on is told why, with a number.
    started = {decision.job for decision in plan.decisions if isinstance(decision, Start)}
    for row in snapshot.jobs.waiting().tolist():
        job = snapshot.jobs.job(row)
        if job.id not in started:
            reason = explain(snapshot, plan, job.id)
            assert re.search(r"\d", reason.sentence), reason
    # What the policy explains of a job is ready for JSON and for the command line, and changes nothing.
    for row in range(snapshot.jobs.count):
        told = explain_with(policy, snapshot, row)
        assert json.loads(json.dumps(told, allow_nan=False)).keys() == told.keys()
        assert all(isinstance(value, str) or {"sentence", "total"} & value.keys() for value in told.values())
    assert _contents(snapshot) == before


@bounded
@given(snapshot=snapshots())
def test_generated_snapshots_are_possible(snapshot: Snapshot) -> None:
    """The generator itself: capacity adds up, and no gang is below its least."""
    assert (snapshot.free >= 0).all()
    for row, placement in snapshot.placements.items():
        for role, nodes in zip(snapshot.jobs.shape_at(row).roles, placement.nodes, strict=True):
            assert role.min <= len(nodes) <= role.max
        assert snapshot.jobs.state_of(row) not in (State.WAITING, State.FINISHED)


def _contents(snapshot: Snapshot) -> tuple[object, ...]:
    columns = tuple(snapshot.jobs.column(name).tobytes() for name in (*WRITE_ONCE, *MUTABLE))
    mappings = tuple(copy.copy(dict(mapping)) for mapping in (snapshot.placements, snapshot.flights, snapshot.used_cpu))
    beliefs = snapshot.estimates.beliefs
    believed = tuple(np.asarray(column).tobytes() for column in (beliefs.left, beliefs.at, beliefs.burning))
    return snapshot.free.tobytes(), columns, mappings, believed, snapshot.now, len(snapshot.jobs.jobs)
