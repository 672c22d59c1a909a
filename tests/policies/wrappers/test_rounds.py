"""Rounds, the emptiest nodes first, and the ways in which tiresias and optimus follow other simulators."""

from __future__ import annotations

import math

import pytest

from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.baselines.fifo import fifo
from headway.policies.baselines.kube_default import KubeDefault
from headway.policies.wrappers.rounds import in_rounds
from make import a_job, a_snapshot, some_nodes
from simulated import ends_with_linear_speed as ends


def test_who_arrives_or_waits_for_an_end_waits_for_the_end_of_the_round() -> None:
    jobs = [a_job("a", submit=10.0, seconds=70.0), a_job("b", submit=60.0, seconds=30.0)]
    assert ends(jobs, some_nodes(1, gpus=1), in_rounds(fifo, 60.0)) == {"a": 130.0, "b": 210.0}


def test_in_between_nothing_is_decided_but_when_to_be_asked_again() -> None:
    snapshot = a_snapshot(a_job("a"), nodes=some_nodes(1, gpus=1), now=61.0)
    assert in_rounds(fifo, 60.0)(snapshot) == Plan((), 120.0)


@pytest.mark.parametrize("now", [119.9999999, 120.0, 120.004, 120.4])
def test_a_real_clock_that_wakes_a_little_late_is_at_the_end_of_the_round(now: float) -> None:
    """Before, no job ever started on this machine or on Kubernetes: only the very moment counted."""
    snapshot = a_snapshot(a_job("a"), nodes=some_nodes(1, gpus=1), now=now)
    plan = in_rounds(fifo, 60.0)(snapshot)
    assert [type(one).__name__ for one in plan.decisions] == ["Start"]
    assert in_rounds(fifo, 60.0)(a_snapshot(a_job("a"), nodes=some_nodes(1, gpus=1), now=now + 1.0)) == Plan((), 180.0)
    assert not in_rounds(fifo, 2.0)(a_snapshot(a_job("a"), nodes=some_nodes(1, gpus=1), now=0.2)).decisions


@pytest.mark.parametrize(("asked", "told"), [(math.inf, math.inf), (130.0, 180.0), (180.0, 180.0), (120.5, 180.0)])
def test_a_wish_to_be_asked_again_is_put_off_to_the_end_of_a_round(asked: float, told: float) -> None:
    def policy(_: Snapshot) -> Plan:
        return Plan((), asked)

    assert in_rounds(policy, 60.0)(a_snapshot(nodes=some_nodes(1), now=120.0)).until == told


def test_no_round_is_the_policy_itself_and_gangs_are_as_the_policy_has_them() -> None:
    assert in_rounds(fifo, 0.0) is fifo
    assert getattr(in_rounds(KubeDefault(), 60.0), "gangless", False)
    assert not getattr(in_rounds(fifo, 60.0), "gangless", True)
    with pytest.raises(UserError, match="a round of -1 seconds: it must be 0 or more"):
        in_rounds(fifo, -1.0)
