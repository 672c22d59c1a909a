"""After a restart the status says how many replicas there are, and the pods say where."""

from __future__ import annotations

from dataclasses import replace

import pytest
from intents import LARGE, MOVING, RUNNING, STARTING, TWO, a_pod, a_view, meant, on

from headway.core.gang import Phase
from headway.core.restarts import Losses
from headway.core.states import State
from headway.kube.job.kept_status import without_nodes
from headway.kube.reconcile.locate import locate

BOTH = (a_pod(0, "n1"), a_pod(1, "n2"))
PENDING = a_pod(1, "n2", Phase.PENDING)
UNBOUND = a_pod(1, "n2", Phase.PENDING, bound=False)
GROWING = meant(State.SCALING, allocation=TWO, target=(on("n1", "n2", "n3"),), until=9e9)
SHRINKING = meant(State.SCALING, allocation=(on("n1", "n2", "n3"),), target=TWO, until=9e9)
RESIZING = meant(State.RESIZING, allocation=TWO, target=(on("n1", "n2", amounts=LARGE),), until=9e9)
STOPPING = meant(State.STOPPING, allocation=TWO, until=9e9)
THIRD = a_pod(2, "n3")


def located(intent, *pods, **fields):
    return locate(a_view(without_nodes(intent), *pods, **fields))


@pytest.mark.parametrize(
    ("intent", "pods"),
    [
        (RUNNING, BOTH),
        (RUNNING, (BOTH[0], replace(BOTH[1], phase=Phase.FAILED))),
        (RUNNING, (*BOTH, a_pod(0, "n9", attempt=7), replace(THIRD, deleting=True))),
        (STARTING, (BOTH[0], PENDING)),
        (GROWING, (*BOTH, replace(THIRD, bound=False))),
        (RESIZING, BOTH),
        (STOPPING, BOTH),
        (GROWING, (*BOTH, THIRD)),
        (SHRINKING, (*BOTH, THIRD)),
    ],
)
def test_what_is_whole_goes_on_as_it_was_meant(intent, pods):
    assert located(intent, *pods) == intent


def test_of_a_gang_that_shrinks_the_replicas_that_stay_are_its_target():
    found = located(SHRINKING, BOTH[0], BOTH[1], replace(THIRD, deleting=True))
    assert (found.state, found.target) == (State.SCALING, TWO)
    assert located(SHRINKING, *BOTH).target == TWO, "the one that went is not missed"
    assert located(SHRINKING, BOTH[0]).reason == "Interrupted"


@pytest.mark.parametrize("pods", [(BOTH[0],), (BOTH[0], a_pod(1, "n2", attempt=3))])
def test_a_gang_that_was_half_made_goes_on_with_what_is_there(pods):
    assert located(STARTING, *pods) == replace(STARTING, target=(on("n1"),))
    assert located(STARTING, BOTH[0], UNBOUND) == STARTING, "its mark vouches for the node of an unbound pod"


def test_a_gang_of_which_no_pod_was_made_waits_and_that_costs_no_attempt():
    found = located(STARTING)
    assert (found.state, found.reason, found.attempt, found.losses) == (State.WAITING, "Released", 0, Losses())
    found = located(replace(STARTING, attempt=1), replace(BOTH[0], deleting=True))
    assert (found.state, found.goal, found.attempt) == (State.STOPPING, State.WAITING, 0), "the next one is 1"


def test_a_gang_that_lost_a_replica_meanwhile_is_interrupted_and_that_counts():
    found = located(RUNNING, BOTH[0], step=5)
    assert (found.state, found.goal, found.reason) == (State.STOPPING, State.WAITING, "Interrupted")
    assert len(found.losses.times) == 1


def test_changes_whose_aim_is_not_known_any_more_are_given_up_and_training_goes_on():
    for intent, pods in ((MOVING, BOTH), (GROWING, BOTH)):
        found = located(intent, *pods)
        assert (found.state, found.allocation, found.target) == (State.RUNNING, TWO, None)
        assert "given up" in found.message


def test_a_move_that_has_saved_goes_on_with_its_new_pods_that_are_there():
    saved = replace(MOVING, saved=True, attempt=1)
    there = (a_pod(0, "n3", attempt=1), a_pod(1, "n4", attempt=1))
    assert located(saved, *BOTH, *there) == saved
    assert located(saved, replace(BOTH[0], deleting=True), *there).allocation == (on("n1"),), "what is left there"
    assert located(saved, there[0]).target == (on("n3"),)
    found = located(saved, *BOTH)
    assert (found.state, found.reason, found.attempt) == (State.STOPPING, "Released", 0), "its next attempt is 1"


def test_a_job_that_is_taken_down_holds_what_its_pods_hold():
    going = replace(STOPPING, draining=True)
    assert located(going, replace(BOTH[1], deleting=True)).allocation == (on("n2"),)
    assert located(going).allocation == (on(),)
