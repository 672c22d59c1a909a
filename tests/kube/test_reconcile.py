"""Reconciliation when jobs start and end: intent and pods in, next intent and actions out."""

from __future__ import annotations

import json

import pytest
from intents import (
    BOTH,
    NOW,
    PS_JOB,
    RUNNING,
    STARTING,
    TWO,
    a_pod,
    a_view,
    create,
    delete,
    meant,
    on,
)

from headway.core.gang import Phase
from headway.core.restarts import Losses
from headway.core.states import State
from headway.kube.gangs.model import ApiRefusal, Bind, Create, Release
from headway.kube.gangs.step import reconcile
from headway.kube.values import replace
from headway.kube.views.status import status_of
from headway.kube.views.status_read import read_status

# ── starting ──


def test_a_gang_is_created_whole():
    step = reconcile(a_view(STARTING))
    assert step.intent == STARTING
    assert step.actions == (create(0, "n1"), create(1, "n2"))
    assert step.wake == STARTING.until


def test_half_a_gang_is_completed_and_bound():
    there = a_pod(0, "n2", Phase.PENDING, bound=False)
    step = reconcile(a_view(STARTING, there))
    assert step.actions == (create(1, "n1"),), "nothing is bound before all pods are made"
    made = a_pod(1, "n1", Phase.PENDING, bound=False)
    binds = (Bind(there.name, there.uid, "n2"), Bind(made.name, made.uid, "n1"))
    assert set(reconcile(a_view(STARTING, there, made)).actions) == set(binds)


def test_it_runs_when_all_pods_run():
    assert reconcile(a_view(STARTING, BOTH[0], a_pod(1, "n2", Phase.PENDING))).intent == STARTING
    step = reconcile(a_view(replace(STARTING, refusals=2), *BOTH))
    assert step.intent.state is State.RUNNING
    assert (step.intent.allocation, step.intent.target, step.intent.refusals) == (TWO, None, 0)
    assert step.actions == ()


def test_all_pods_are_made_and_bound_at_once_and_a_later_role_waits_for_the_earlier():
    target = (on("n1", role="ps"), on("n1", "n2"))
    intent = replace(STARTING, target=target)
    told = {"counts": (("ps", 1), ("worker", 2)), "subdomain": ""}
    first = reconcile(a_view(intent, job=PS_JOB))
    assert first.actions == (
        create(0, "n1", "ps", **told), create(0, "n1", hold="-0-worker", **told),
        create(1, "n2", hold="-0-worker", **told),
    )  # fmt: skip
    made = (a_pod(0, "n1", Phase.PENDING), a_pod(1, "n2", Phase.PENDING))
    unbound = [replace(pod, bound=False) for pod in (a_pod(role="ps", phase=Phase.PENDING), *made)]
    assert {one.name for one in reconcile(a_view(intent, *unbound, job=PS_JOB)).actions} == {
        "j-0-ps-0", "j-0-worker-0", "j-0-worker-1",
    }, "all are bound, also those that wait"  # fmt: skip
    assert reconcile(a_view(intent, a_pod(role="ps", phase=Phase.PENDING), *made, job=PS_JOB)).actions == ()
    up = reconcile(a_view(intent, a_pod(role="ps"), *made, job=PS_JOB))
    owners = tuple((f"j-0-{name}", f"uid-j-0-{name}") for name in ("ps-0", "worker-0", "worker-1"))
    assert up.actions == (Release("-0-worker", owners),)
    released = a_view(intent, a_pod(role="ps"), *made, job=PS_JOB, released=frozenset({"-0-worker"}))
    assert reconcile(released).actions == ()
    assert first.actions[1].hosts == (("ps", ("ps-0:2222",)), ("worker", ("worker-0:2222", "worker-1:2222")))


def test_nothing_is_made_while_an_earlier_attempt_is_alive():
    old = a_pod(0, "n3", attempt=0)
    intent = replace(STARTING, attempt=1)
    assert reconcile(a_view(intent, old)).actions == (delete(old),)
    assert reconcile(a_view(intent, replace(old, deleting=True))).actions == ()
    ended = replace(old, phase=Phase.FAILED)
    assert delete(ended) in reconcile(a_view(intent, ended)).actions
    assert create(0, "n1", attempt=1) in reconcile(a_view(intent, ended)).actions


@pytest.mark.parametrize(
    ("pods", "fields"),
    [
        ((BOTH[0], a_pod(1, "n2", Phase.REFUSED, why="OutOfcpu")), {}),
        ((BOTH[0],), {"refusal": ApiRefusal("quota")}),
        ((BOTH[0], a_pod(1, "n2", Phase.PENDING)), {"now": STARTING.until}),
    ],
)
def test_a_refused_start_is_released_whole_and_tried_later(pods, fields):
    step = reconcile(a_view(STARTING, *pods, **fields))
    assert (step.intent.state, step.intent.goal, step.intent.draining) == (State.STOPPING, State.WAITING, True)
    assert step.intent.refusals == 1
    assert set(step.actions) == {delete(pod) for pod in pods if not pod.over}
    now = fields.get("now", NOW)
    early = reconcile(a_view(step.intent, now=now + 0.5))
    assert early.intent == step.intent, "it backs off"
    late = reconcile(a_view(step.intent, now=now + 1.5)).intent
    assert (late.state, late.attempt, late.refusals) == (State.WAITING, 1, 1)


def test_refused_without_end_it_fails():
    step = reconcile(a_view(replace(STARTING, refusals=10), refusal=ApiRefusal("quota")))
    assert (step.intent.state, step.intent.reason) == (State.FAILED, "Refused")


def test_a_pod_that_can_never_be_fails_the_job():
    step = reconcile(a_view(STARTING, BOTH[0], refusal=ApiRefusal("spec is invalid", permanent=True)))
    assert (step.intent.goal, step.intent.message) == (State.FAILED, "spec is invalid")


# ── ends ──


@pytest.mark.parametrize("intent", [RUNNING, STARTING])
def test_all_succeeded_is_finished_and_logs_are_kept(intent):
    done = (a_pod(0, "n1", Phase.DONE), a_pod(1, "n2", Phase.DONE))
    step = reconcile(a_view(intent, *done))
    assert step.intent.state is State.FINISHED
    assert step.actions == ()


def test_workers_that_are_done_give_their_server_time_and_then_end_it():
    intent = replace(RUNNING, allocation=(on("n1", role="ps"), on("n1", "n2")))
    done = (a_pod(0, "n1", Phase.DONE, finished_at=NOW - 9), a_pod(1, "n2", Phase.DONE, finished_at=NOW - 3))
    server = a_pod(role="ps")
    step = reconcile(a_view(intent, server, *done, job=PS_JOB))
    assert step.intent == intent
    assert step.wake == NOW + 7
    late = reconcile(a_view(intent, server, *done, job=PS_JOB, now=NOW + 8))
    assert (late.intent.state, late.intent.goal) == (State.STOPPING, State.FINISHED)
    assert late.actions == (delete(server, 1),)
    assert reconcile(a_view(late.intent, *done, job=PS_JOB)).intent.state is State.FINISHED


def test_an_error_after_the_work_is_done_does_not_spoil_it():
    intent = replace(RUNNING, allocation=(on("n1", role="ps"), on("n1", "n2")))
    done = (a_pod(0, "n1", Phase.DONE), a_pod(1, "n2", Phase.DONE))
    server = a_pod(role="ps", phase=Phase.FAILED)
    assert reconcile(a_view(intent, server, *done, job=PS_JOB)).intent.state is State.FINISHED


def test_an_exit_code_fails_the_job_and_takes_the_gang_down():
    failed = a_pod(1, "n2", Phase.FAILED, why="exit code 3", finished_at=NOW - 60)
    step = reconcile(a_view(RUNNING, BOTH[0], failed))
    assert (step.intent.goal, step.intent.message) == (State.FAILED, "exit code 3")
    assert step.actions == (delete(BOTH[0]),)
    over = reconcile(a_view(step.intent, a_pod(1, "n2", Phase.FAILED)))
    assert (over.intent.state, over.intent.message) == (State.FAILED, "exit code 3")
    assert over.actions == (), "what it wrote can still be read"


def test_a_peer_that_exits_while_a_node_is_being_lost_is_a_loss():
    """The node of worker 0 is powered off; worker 1 exits with code 1 long before the API server notices."""
    failed = a_pod(1, "n2", Phase.FAILED, why="exit code 1", finished_at=NOW)
    waits = reconcile(a_view(RUNNING, BOTH[0], failed, now=NOW + 10))
    assert (waits.intent, waits.actions, waits.wake) == (RUNNING, (), NOW + 55.0)
    silent = reconcile(a_view(RUNNING, BOTH[0], failed, now=NOW + 56, doubtful=frozenset({"n1"})))
    assert (silent.intent, silent.wake) == (RUNNING, NOW + 115.0), "the node is not ready: until it counts as gone"
    lost = reconcile(a_view(RUNNING, BOTH[0], failed, now=NOW + 110, gone=frozenset({"n1"})))
    assert (lost.intent.goal, lost.intent.reason) == (State.WAITING, "Interrupted")
    ready = reconcile(a_view(RUNNING, BOTH[0], failed, now=NOW + 56))
    assert ready.intent.goal is State.FAILED, "the node lives: it was the script"
    beside = reconcile(a_view(replace(RUNNING, allocation=(on("n2", "n2"),)), a_pod(0, "n2"), failed, now=NOW + 3))
    assert beside.intent.goal is State.FAILED, "on the same node there is nothing to wait for"
    both = reconcile(a_view(RUNNING, a_pod(0, "n1", Phase.FAILED), failed, now=NOW))
    assert both.intent.state is State.FAILED, "all have ended: their kubelets live"


def test_a_full_quota_means_waiting_however_often_it_is_tried():
    full = ApiRefusal("create of pod j-0-worker-1 was refused: exceeded quota: team", waits="QuotaFull")
    intent, made = replace(STARTING, refusals=10), replace(BOTH[0], phase=Phase.PENDING, bound=False)
    step = reconcile(a_view(intent, made, refusal=full))
    assert (step.intent.goal, step.intent.reason, step.intent.until) == (State.WAITING, "QuotaFull", NOW + 20)
    assert step.actions == (delete(made),), "no half gang holds room meanwhile"
    none = reconcile(a_view(intent, refusal=full)).intent
    assert (none.state, none.goal, none.refusals) == (State.STOPPING, State.WAITING, 10)
    again = reconcile(a_view(replace(none, since=NOW), now=NOW + 21)).intent
    assert (again.state, again.reason, "exceeded quota" in again.message) == (State.WAITING, "QuotaFull", True)


def test_users_see_such_a_job_wait_and_a_new_process_goes_on_with_it():
    full = ApiRefusal("exceeded quota: team", waits="QuotaFull")
    pausing = reconcile(a_view(STARTING, refusal=full)).intent
    status = status_of(pausing, {}, (), 0.0)
    assert (status["phase"], status["reason"]) == ("Waiting", "QuotaFull")
    assert read_status(json.dumps(status).encode(), 0.0).intent == pausing


LOSSES = {
    "killed": (BOTH[0], a_pod(1, "n2", Phase.LOST, why="killed by signal 9")),
    "gone": (BOTH[0],),
    "being deleted by another": (BOTH[0], a_pod(1, "n2", deleting=True)),
    "killed, and another failed for it": (a_pod(0, "n1", Phase.FAILED), a_pod(1, "n2", Phase.LOST)),
}


@pytest.mark.parametrize("state", [State.RUNNING, State.RESIZING, State.SCALING, State.MOVING, State.STOPPING])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_replica_takes_the_gang_down_and_it_starts_again(state, loss):
    target = {State.SCALING: (on("n1", "n2", "n3"),), State.STOPPING: None}.get(state, TWO)
    intent = meant(state, allocation=TWO, target=target if state is not State.RUNNING else None, until=NOW + 9)
    step = reconcile(a_view(intent, *LOSSES[loss], step=7))
    if any(not pod.over for pod in LOSSES[loss]):
        assert (step.intent.state, step.intent.draining) == (State.STOPPING, True)
        assert step.intent.goal is State.WAITING
    else:
        assert step.intent.state is State.WAITING
    assert step.intent.losses == Losses((NOW,), 7)
    assert not any(isinstance(action, Create) for action in step.actions)


def test_a_node_that_is_gone_loses_its_pods_and_they_are_forgotten():
    step = reconcile(a_view(RUNNING, *BOTH, gone=frozenset({"n2"})))
    assert step.intent.goal is State.WAITING
    going = [replace(pod, deleting=True) for pod in BOTH]
    forced = reconcile(a_view(step.intent, *going, gone=frozenset({"n2"})))
    assert forced.actions == (delete(BOTH[1], 0),)


def test_losses_without_progress_are_counted():
    intent = replace(RUNNING, losses=Losses((NOW - 3, NOW - 2, NOW - 1), 7))
    assert reconcile(a_view(intent, BOTH[0], step=8)).intent.losses == Losses((NOW,), 8)
    step = reconcile(a_view(intent, BOTH[0], step=7)).intent
    assert (step.goal, len(step.losses.times)) == (State.FAILED, 4)


def test_pods_that_are_not_in_the_intent_are_deleted():
    """A half gang with no intent never trains; nor do leftovers of a job that is over."""
    assert reconcile(a_view(meant(State.WAITING), BOTH[0])).actions == (delete(BOTH[0]),)
    assert reconcile(a_view(meant(State.FINISHED), BOTH[0])).actions == (delete(BOTH[0]),)
    stray = a_pod(5, "n9")
    assert reconcile(a_view(RUNNING, *BOTH, stray)).actions == (delete(stray),)
