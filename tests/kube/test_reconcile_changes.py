"""Reconciliation of a running job that is scaled, resized, moved or stopped, or that refuses."""

from __future__ import annotations

import json

import pytest
from intents import (
    BOTH,
    JOB,
    LARGE,
    MOVING,
    NOW,
    RUNNING,
    SMALL,
    STARTING,
    TWO,
    a_pod,
    a_view,
    create,
    delete,
    meant,
    on,
    saves,
)

from headway.core.gang import Phase, ask_again_at
from headway.core.placement import Placement
from headway.core.plan import Because, Move, Resize, Scale, Stop
from headway.core.states import State
from headway.kube.gangs.intent import begun
from headway.kube.gangs.model import ApiRefusal, RequestCheckpoint, ResizePod
from headway.kube.gangs.step import reconcile
from headway.kube.settings import KubeTimeouts
from headway.kube.values import replace
from headway.kube.views.status import status_of
from headway.kube.views.status_read import read_status, without_nodes

# ── changes ──


def test_growing_makes_the_new_ones_and_leaves_the_old():
    intent = meant(State.SCALING, allocation=TWO, target=(on("n1", "n2", "n2"),), until=NOW + 9)
    step = reconcile(a_view(intent, *BOTH))
    assert step.actions == (create(2, "n2", counts=(("worker", 3),)),)
    up = reconcile(a_view(intent, *BOTH, a_pod(2, "n2")))
    assert (up.intent.state, up.intent.allocation) == (State.RUNNING, intent.target)


def test_shrinking_takes_the_highest_and_waits_until_it_is_gone():
    three = (on("n1", "n2", "n2"),)
    intent = meant(State.SCALING, allocation=three, target=TWO, until=NOW + 9)
    last = a_pod(2, "n2")
    assert reconcile(a_view(intent, *BOTH, last)).actions == (delete(last),)
    going = reconcile(a_view(intent, *BOTH, replace(last, deleting=True)))
    assert (going.intent.state, going.actions) == (State.SCALING, ())
    assert reconcile(a_view(intent, *BOTH)).intent.state is State.RUNNING


def test_a_job_whose_pod_is_evicted_saves_first_and_then_starts_elsewhere():
    leaving = a_pod(1, "n2", deleting=True, grace=30, ends_at=NOW + 30)
    step = reconcile(a_view(RUNNING, BOTH[0], leaving, can_save=True, saves=saves(2, 2)))
    assert (step.intent.state, step.intent.goal, step.intent.reason) == (State.STOPPING, State.WAITING, "PodEvicted")
    assert (step.intent.until, step.actions) == (NOW + 28, (RequestCheckpoint(),)), "nothing is deleted or made yet"
    asked = reconcile(a_view(step.intent, BOTH[0], leaving, can_save=True, saves=saves(2, 1)))
    assert (asked.intent, asked.actions) == (step.intent, ())
    saved = reconcile(a_view(step.intent, BOTH[0], leaving, can_save=True, saves=saves(2, 2)))
    assert (saved.intent.saved, saved.actions) == (True, (delete(BOTH[0], 1), delete(leaving, 1)))
    soon = replace(leaving, grace=1, ends_at=NOW + 1)
    assert reconcile(a_view(saved.intent, soon)).actions == (), "it is asked once"
    ahead = replace(soon, ends_at=NOW + 3600)
    assert reconcile(a_view(saved.intent, ahead)).actions == (), "also where the server's clock is ahead of ours"
    assert reconcile(a_view(saved.intent)).intent.state is State.WAITING
    for late in ({"saves": saves(2, 1, "disk full")}, {"now": NOW + 28}):
        lost = reconcile(a_view(step.intent, BOTH[0], leaving, can_save=True, **late)).intent
        assert (lost.goal, lost.reason, len(lost.losses.times)) == (State.WAITING, "Interrupted", 1)
    killed = reconcile(a_view(step.intent, BOTH[0], replace(leaving, phase=Phase.LOST, why="SIGTERM"), can_save=True))
    assert killed.intent.reason == "Interrupted", "it did not live that long"


def test_an_eviction_that_leaves_no_time_or_nobody_who_saves_is_a_loss():
    leaving = a_pod(1, "n2", deleting=True, ends_at=NOW + 1)
    assert reconcile(a_view(RUNNING, BOTH[0], leaving, can_save=True)).intent.reason == "Interrupted"
    later = replace(leaving, ends_at=NOW + 30)
    assert reconcile(a_view(RUNNING, BOTH[0], later)).intent.reason == "Interrupted"
    dead = a_view(RUNNING, BOTH[0], later, can_save=True, gone=frozenset({"n2"}))
    assert reconcile(dead).intent.reason == "Interrupted"


def test_replacing_makes_the_new_before_the_old_goes():
    intent = meant(State.SCALING, allocation=TWO, target=(on("n1", "n3"),), until=NOW + 9)
    hosts = (("worker", ("worker-0:2222", "worker-2:2222")),)
    assert reconcile(a_view(intent, *BOTH)).actions == (create(2, "n3", hosts=hosts),)
    assert reconcile(a_view(intent, *BOTH, a_pod(2, "n3"))).actions == (delete(BOTH[1]),)


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        (a_pod(2, "n2", Phase.REFUSED, why="OutOfcpu"), {}),
        (a_pod(2, "n2", Phase.PENDING), {"now": NOW + 99}),
        (a_pod(2, "n2", Phase.PENDING), {"refusal": ApiRefusal("quota")}),
    ],
)
def test_growth_that_fails_is_given_up_and_the_job_trains_on(extra, fields):
    intent = meant(State.SCALING, allocation=TWO, target=(on("n1", "n2", "n2"),), until=NOW + 9)
    step = reconcile(a_view(intent, *BOTH, extra, **fields))
    assert (step.intent.state, step.intent.allocation) == (State.RUNNING, TWO)
    assert step.actions == (delete(extra),)
    again = reconcile(a_view(step.intent, *BOTH, extra))
    assert again.intent.state is State.RUNNING, "what was refused beyond the gang does not take it down"


def test_resizing_asks_and_waits_for_the_kubelet():
    intent = meant(State.RESIZING, allocation=TWO, target=(on("n1", "n2", amounts=LARGE),), until=NOW + 9)
    step = reconcile(a_view(intent, *BOTH))
    assert step.actions == tuple(ResizePod(pod.name, pod.uid, LARGE) for pod in BOTH)
    asked = [replace(pod, spec=LARGE) for pod in BOTH]
    assert reconcile(a_view(intent, *asked)) == replace(step, actions=())
    done = reconcile(a_view(intent, *(replace(pod, given=LARGE) for pod in asked))).intent
    assert (done.state, done.allocation) == (State.RUNNING, intent.target)


@pytest.mark.parametrize("fields", [{"now": NOW + 99}, {"refusal": ApiRefusal("QoS")}])
def test_a_resize_that_fails_is_taken_back(fields):
    intent = meant(State.RESIZING, allocation=TWO, target=(on("n1", "n2", amounts=LARGE),), until=NOW + 9)
    asked = [replace(pod, spec=LARGE) for pod in BOTH]
    step = reconcile(a_view(intent, *asked, **fields))
    assert (step.intent.state, step.intent.allocation) == (State.RUNNING, TWO)
    assert step.actions == tuple(ResizePod(pod.name, pod.uid, SMALL) for pod in BOTH)


def test_only_what_a_pod_has_is_resized():
    """A pod without a memory request must not be given one: its class of service would change."""
    target = (on("n1", "n2", amounts=LARGE),)
    cpu_only = [replace(pod, spec=SMALL[:1], given=SMALL[:1]) for pod in BOTH]
    intent = meant(State.RESIZING, allocation=TWO, target=target, until=NOW + 9)
    assert reconcile(a_view(intent, *cpu_only)).actions[0] == ResizePod("j-0-worker-0", BOTH[0].uid, LARGE[:1])


def test_a_move_saves_first():
    step = reconcile(a_view(MOVING, *BOTH))
    assert (step.intent, step.actions) == (MOVING, (RequestCheckpoint(),))
    assert step.wake == NOW + 1, "no replica was asked: ask again soon"
    assert reconcile(a_view(MOVING, *BOTH, saves=saves(2, 1))).actions == ()


def test_saved_it_leaves_and_starts_elsewhere_as_another_attempt():
    step = reconcile(a_view(MOVING, *BOTH, saves=saves(2, 2)))
    assert (step.intent.state, step.intent.saved, step.intent.attempt) == (State.MOVING, True, 1)
    assert step.actions == (delete(BOTH[0], 1), delete(BOTH[1], 1))
    going = [replace(pod, deleting=True) for pod in BOTH]
    assert reconcile(a_view(step.intent, *going)).actions == ()
    made = reconcile(a_view(step.intent))
    assert made.actions == (create(0, "n3", attempt=1), create(1, "n4", attempt=1))
    up = reconcile(a_view(step.intent, a_pod(0, "n3", attempt=1), a_pod(1, "n4", attempt=1)))
    assert (up.intent.state, up.intent.allocation) == (State.RUNNING, MOVING.target)


@pytest.mark.parametrize("fields", [{"now": NOW + 99}, {"saves": saves(2, 1, "disk full")}])
def test_without_an_acknowledged_checkpoint_it_stays(fields):
    stopping = meant(State.STOPPING, allocation=TWO, until=NOW + 9)
    for intent in (MOVING, stopping):
        step = reconcile(a_view(intent, *BOTH, **fields))
        assert (step.intent.state, step.intent.allocation, step.actions) == (State.RUNNING, TWO, ())
        assert step.intent.message


def test_moved_but_refused_there_it_waits():
    intent = replace(MOVING, saved=True, attempt=1)
    step = reconcile(a_view(intent, now=NOW + 99))
    assert (step.intent.state, step.intent.goal) == (State.STOPPING, State.WAITING)


def test_a_stop_saves_then_drains_then_waits():
    intent = meant(State.STOPPING, allocation=TWO, until=NOW + 9, reason="Preempted")
    assert reconcile(a_view(intent, *BOTH)).actions == (RequestCheckpoint(),)
    saved = reconcile(a_view(intent, *BOTH, saves=saves(1, 1)))
    assert saved.intent.draining
    assert saved.actions == (delete(BOTH[0], 1), delete(BOTH[1], 1))
    gone = reconcile(a_view(saved.intent)).intent
    assert (gone.state, gone.attempt, gone.reason) == (State.WAITING, 1, "Preempted")


@pytest.mark.parametrize("fields", [{"now": NOW + 10}, {"saves": saves(2, 1, "disk full")}], ids=["late", "failed"])
def test_what_a_queue_reclaims_goes_even_if_it_cannot_save_and_that_is_no_loss(fields):
    asked = begun(RUNNING, Stop(JOB.id, Because.RECLAIMED), None, NOW, KubeTimeouts(save=9))
    assert reconcile(a_view(asked, *BOTH)).actions == (RequestCheckpoint(),)
    step = reconcile(a_view(asked, *BOTH, **fields))
    assert step.intent.draining
    assert set(step.actions) == {delete(pod) for pod in BOTH}
    gone = reconcile(a_view(step.intent)).intent
    assert (gone.state, gone.attempt, gone.reason) == (State.WAITING, 1, "Interrupted"), "as after a loss, it goes back"
    assert gone.losses == RUNNING.losses
    assert gone.message.startswith("another queue reclaimed what it borrowed: ")


def test_a_cancelled_job_goes_even_if_it_cannot_save():
    intent = meant(State.STOPPING, allocation=TWO, until=NOW + 9, goal=State.CANCELLED)
    step = reconcile(a_view(intent, *BOTH, now=NOW + 10))
    assert step.intent.draining
    assert reconcile(a_view(step.intent)).intent.state is State.CANCELLED


@pytest.mark.parametrize("intent", [RUNNING, STARTING, MOVING, meant(State.WAITING)])
def test_a_withdrawn_job_goes_whatever_it_was_doing(intent):
    step = reconcile(a_view(intent, *BOTH, withdrawn=True))
    assert State.CANCELLED in (step.intent.state, step.intent.goal)
    assert set(step.actions) == {delete(pod) for pod in BOTH}
    assert reconcile(a_view(step.intent, withdrawn=True)).intent.state is State.CANCELLED


def test_what_is_over_stays_over():
    for state in (State.FINISHED, State.FAILED, State.CANCELLED):
        assert reconcile(a_view(meant(state), withdrawn=True)).intent == meant(state)


PLACE = Placement(((0, 1),))
PREEMPT = Stop(JOB.id, Because.PREEMPTED)
REFUSED = {
    "a stop, as it could not save": (PREEMPT, BOTH, {"saves": saves(2, 1, "disk full")}),
    "a move, as it did not save in time": (Move(JOB.id, PLACE), BOTH, {"now": NOW + 99}),
    "a scale": (Scale(JOB.id, "worker", (0, 1, 2)), BOTH, {"refusal": ApiRefusal("quota")}),
    "a resize": (
        Resize(JOB.id, "worker", 900, 64), [replace(pod, cannot_resize="no room") for pod in BOTH], {}
    ),
}  # fmt: skip
TARGETS = {
    Stop: None,
    Move: (on("n3", "n4"),),
    Scale: (on("n1", "n2", "n3"),),
    Resize: (on("n1", "n2", amounts=LARGE),),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_was_refused_is_asked_again_after_a_pause_that_grows(case):
    decision, pods, fields = REFUSED[case]
    intent, pauses = RUNNING, []
    for _ in range(7):
        asked = begun(intent, decision, TARGETS[type(decision)], NOW, KubeTimeouts(save=9))
        intent = reconcile(a_view(asked, *pods, **fields)).intent
        assert (intent.state, bool(intent.message)) == (State.RUNNING, True)
        again = ask_again_at(decision, intent.declined, intent.since, intent.since)
        assert ask_again_at(decision, intent.declined, intent.since, again) <= again, "then it is asked"
        status = json.dumps(status_of(intent, {}, (), 0.0)).encode()
        assert read_status(status, 0.0).intent == without_nodes(intent), "a restart does not forget it"
        pauses.append(again - intent.since)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_a_change_that_succeeds_resets_the_count_of_refusals():
    refused = replace(RUNNING, declined=5, since=NOW)
    scaled = begun(refused, Scale(JOB.id, "worker", (0,)), (on("n1"),), NOW, KubeTimeouts())
    assert reconcile(a_view(scaled, BOTH[0])).intent.declined == 0
    for leaving in (replace(MOVING, declined=5), meant(State.STOPPING, allocation=TWO, until=NOW + 9, declined=5)):
        assert reconcile(a_view(leaving, *BOTH, saves=saves(1, 1))).intent.declined == 0
