"""Reconciliation by tables: intent and pods in, next intent and actions out. No clock, no server."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from headway.core.job import Job, JobId, Role
from headway.core.placement import Placement
from headway.core.plan import Because, Move, Scale, Start, Stop
from headway.core.plan import Resize as ResizeJob
from headway.core.states import State
from headway.kube.begin import adopted, ask_again_at, begun
from headway.kube.intent import Intent, Share, pack, unpack
from headway.kube.reconcile import reconcile
from headway.kube.replica import Phase, Replica
from headway.kube.view import AskSave, Bind, Create, Delete, Patience, Refusal, Resize, Saves, View

NOW = 1000.0
SMALL = (("cpu", 500), ("memory", 64))
LARGE = (("cpu", 900), ("memory", 64))


def a_role(name: str = "worker", **fields: object) -> Role:
    return Role(**{"name": name, "request": SMALL, "most": 9, **fields})


JOB = Job(id=JobId("j"), roles=(a_role(replicas=2, least=2),))
PS_JOB = Job(id=JobId("j"), roles=(a_role("ps"), a_role("worker", replicas=2, least=2, after=("ps",))))


def on(*nodes: str, role: str = "worker", amounts=SMALL) -> Share:
    return Share(role, nodes, amounts)


def a_pod(index: int = 0, node: str = "n1", phase: Phase = Phase.RUNNING, **fields: object) -> Replica:
    role, attempt = fields.pop("role", "worker"), fields.pop("attempt", 0)
    name = f"j-{attempt}-{role}-{index}"
    made = {"name": name, "uid": f"uid-{name}", "role": role, "index": index, "attempt": attempt, "node": node}
    made |= {"phase": phase, "spec": SMALL, "given": SMALL, "address": f"10.0.0.{index}"}
    return Replica(**{**made, **fields})


def a_view(intent: Intent, *pods: Replica, **fields: object) -> View:
    return View(**{"name": "j", "job": JOB, "intent": intent, "replicas": pods, "now": NOW, **fields})


def meant(state: State, **fields: object) -> Intent:
    return Intent(**{"state": state, "since": NOW - 5, **fields})


TWO = (on("n1", "n2"),)
STARTING = meant(State.STARTING, target=TWO, until=NOW + 100)
RUNNING = meant(State.RUNNING, allocation=TWO)
BOTH = (a_pod(0, "n1"), a_pod(1, "n2"))


def create(index: int, node: str, role: str = "worker", attempt: int = 0, **fields: object) -> Create:
    made = {"name": f"j-{attempt}-{role}-{index}", "role": role, "index": index, "attempt": attempt, "node": node}
    return Create(**{**made, "amounts": SMALL, "hosts": (), "counts": (("worker", 2),), **fields})


def delete(pod: Replica, grace: int | None = None) -> Delete:
    return Delete(pod.name, pod.uid, grace)


# ── starting ──


def test_a_gang_is_created_whole():
    step = reconcile(a_view(STARTING))
    assert step.intent == STARTING
    assert step.actions == (create(0, "n1"), create(1, "n2"))
    assert step.wake == STARTING.until


def test_half_a_gang_is_completed_and_bound():
    there = a_pod(0, "n2", Phase.PENDING, bound=False)
    step = reconcile(a_view(STARTING, there))
    assert step.actions == (create(1, "n1"), Bind(there.name, there.uid, "n2"))


def test_it_runs_when_all_pods_run():
    assert reconcile(a_view(STARTING, BOTH[0], a_pod(1, "n2", Phase.PENDING))).intent == STARTING
    step = reconcile(a_view(replace(STARTING, refusals=2), *BOTH))
    assert step.intent.state is State.RUNNING
    assert (step.intent.allocation, step.intent.target, step.intent.refusals) == (TWO, None, 0)
    assert step.actions == ()


def test_a_later_role_waits_for_the_earlier_and_is_told_where_it_is():
    target = (on("n1", role="ps"), on("n1", "n2"))
    intent = replace(STARTING, target=target)
    counts = (("ps", 1), ("worker", 2))
    first = reconcile(a_view(intent, job=PS_JOB))
    assert first.actions == (create(0, "n1", "ps", counts=counts),)
    pending = reconcile(a_view(intent, a_pod(role="ps", phase=Phase.PENDING), job=PS_JOB))
    assert pending.actions == ()
    no_address = reconcile(a_view(intent, a_pod(role="ps", address=""), job=PS_JOB))
    assert no_address.actions == ()
    up = reconcile(a_view(intent, a_pod(role="ps"), job=PS_JOB))
    told = {"hosts": (("ps", ("10.0.0.0:2222",)),), "counts": counts}
    assert up.actions == (create(0, "n1", **told), create(1, "n2", **told))


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
        ((BOTH[0],), {"refusal": Refusal("quota")}),
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
    step = reconcile(a_view(replace(STARTING, refusals=10), refusal=Refusal("quota")))
    assert (step.intent.state, step.intent.reason) == (State.FAILED, "Refused")


def test_a_pod_that_can_never_be_fails_the_job():
    step = reconcile(a_view(STARTING, BOTH[0], refusal=Refusal("spec is invalid", permanent=True)))
    assert (step.intent.goal, step.intent.message) == (State.FAILED, "spec is invalid")


# ── ends ──


@pytest.mark.parametrize("intent", [RUNNING, STARTING])
def test_all_succeeded_is_finished_and_logs_are_kept(intent):
    done = (a_pod(0, "n1", Phase.SUCCEEDED), a_pod(1, "n2", Phase.SUCCEEDED))
    step = reconcile(a_view(intent, *done))
    assert step.intent.state is State.FINISHED
    assert step.actions == ()


def test_a_role_that_is_done_gives_the_others_time_and_then_ends_them():
    intent = replace(RUNNING, allocation=(on("n1", role="ps"), on("n1", "n2")))
    done = a_pod(role="ps", phase=Phase.SUCCEEDED, finished_at=NOW - 3)
    step = reconcile(a_view(intent, done, *BOTH, job=PS_JOB))
    assert step.intent == intent
    assert step.wake == NOW + 7
    late = reconcile(a_view(intent, done, *BOTH, job=PS_JOB, now=NOW + 8))
    assert (late.intent.state, late.intent.goal) == (State.STOPPING, State.FINISHED)
    assert late.actions == (delete(BOTH[0], 1), delete(BOTH[1], 1))
    assert reconcile(a_view(late.intent, done, job=PS_JOB)).intent.state is State.FINISHED


def test_an_error_after_the_work_is_done_does_not_spoil_it():
    intent = replace(RUNNING, allocation=(on("n1", role="ps"), on("n1", "n2")))
    done = a_pod(role="ps", phase=Phase.SUCCEEDED, finished_at=NOW - 1)
    late = (a_pod(0, "n1", Phase.SUCCEEDED), a_pod(1, "n2", Phase.FAILED))
    assert reconcile(a_view(intent, done, *late, job=PS_JOB)).intent.state is State.FINISHED


def test_an_exit_code_fails_the_job_and_takes_the_gang_down():
    step = reconcile(a_view(RUNNING, BOTH[0], a_pod(1, "n2", Phase.FAILED, why="exit code 3")))
    assert (step.intent.goal, step.intent.message) == (State.FAILED, "exit code 3")
    assert step.actions == (delete(BOTH[0]),)
    over = reconcile(a_view(step.intent, a_pod(1, "n2", Phase.FAILED)))
    assert (over.intent.state, over.intent.message) == (State.FAILED, "exit code 3")
    assert over.actions == (), "what it wrote can still be read"


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
    assert (step.intent.interruptions, step.intent.lost_at_step) == (1, 7)
    assert not any(isinstance(action, Create) for action in step.actions)


def test_a_node_that_is_gone_loses_its_pods_and_they_are_forgotten():
    step = reconcile(a_view(RUNNING, *BOTH, gone=frozenset({"n2"})))
    assert step.intent.goal is State.WAITING
    going = [replace(pod, deleting=True) for pod in BOTH]
    forced = reconcile(a_view(step.intent, *going, gone=frozenset({"n2"})))
    assert forced.actions == (delete(BOTH[1], 0),)


def test_losses_without_progress_are_counted():
    intent = replace(RUNNING, interruptions=3, lost_at_step=7)
    assert reconcile(a_view(intent, BOTH[0], step=8)).intent.interruptions == 1
    step = reconcile(a_view(intent, BOTH[0], step=7)).intent
    assert (step.goal, step.interruptions) == (State.FAILED, 4)


def test_pods_that_nobody_means_are_deleted():
    """A half gang with no intent never trains; nor do leftovers of a job that is over."""
    assert reconcile(a_view(meant(State.WAITING), BOTH[0])).actions == (delete(BOTH[0]),)
    assert reconcile(a_view(meant(State.FINISHED), BOTH[0])).actions == (delete(BOTH[0]),)
    stray = a_pod(5, "n9")
    assert reconcile(a_view(RUNNING, *BOTH, stray)).actions == (delete(stray),)


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


def test_replacing_makes_the_new_before_the_old_goes():
    intent = meant(State.SCALING, allocation=TWO, target=(on("n1", "n3"),), until=NOW + 9)
    assert reconcile(a_view(intent, *BOTH)).actions == (create(2, "n3"),)
    assert reconcile(a_view(intent, *BOTH, a_pod(2, "n3"))).actions == (delete(BOTH[1]),)


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        (a_pod(2, "n2", Phase.REFUSED, why="OutOfcpu"), {}),
        (a_pod(2, "n2", Phase.PENDING), {"now": NOW + 99}),
        (a_pod(2, "n2", Phase.PENDING), {"refusal": Refusal("quota")}),
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
    assert step.actions == tuple(Resize(pod.name, pod.uid, LARGE) for pod in BOTH)
    asked = [replace(pod, spec=LARGE) for pod in BOTH]
    assert reconcile(a_view(intent, *asked)) == replace(step, actions=())
    done = reconcile(a_view(intent, *(replace(pod, given=LARGE) for pod in asked))).intent
    assert (done.state, done.allocation) == (State.RUNNING, intent.target)


@pytest.mark.parametrize("fields", [{"now": NOW + 99}, {"refusal": Refusal("QoS")}])
def test_a_resize_that_fails_is_taken_back(fields):
    intent = meant(State.RESIZING, allocation=TWO, target=(on("n1", "n2", amounts=LARGE),), until=NOW + 9)
    asked = [replace(pod, spec=LARGE) for pod in BOTH]
    step = reconcile(a_view(intent, *asked, **fields))
    assert (step.intent.state, step.intent.allocation) == (State.RUNNING, TWO)
    assert step.actions == tuple(Resize(pod.name, pod.uid, SMALL) for pod in BOTH)


def test_only_what_a_pod_has_is_resized():
    """A pod without a memory request must not be given one: its class of service would change."""
    target = (on("n1", "n2", amounts=LARGE),)
    cpu_only = [replace(pod, spec=SMALL[:1], given=SMALL[:1]) for pod in BOTH]
    intent = meant(State.RESIZING, allocation=TWO, target=target, until=NOW + 9)
    assert reconcile(a_view(intent, *cpu_only)).actions[0] == Resize("j-0-worker-0", BOTH[0].uid, LARGE[:1])


MOVING = meant(State.MOVING, allocation=TWO, target=(on("n3", "n4"),), until=NOW + 9)


def test_a_move_saves_first():
    step = reconcile(a_view(MOVING, *BOTH))
    assert (step.intent, step.actions) == (MOVING, (AskSave(),))
    assert step.wake == NOW + 1, "nobody was asked: ask again soon"
    assert reconcile(a_view(MOVING, *BOTH, saves=Saves(2, 1))).actions == ()


def test_saved_it_leaves_and_starts_elsewhere_as_another_attempt():
    step = reconcile(a_view(MOVING, *BOTH, saves=Saves(2, 2)))
    assert (step.intent.state, step.intent.saved, step.intent.attempt) == (State.MOVING, True, 1)
    assert step.actions == (delete(BOTH[0], 1), delete(BOTH[1], 1))
    going = [replace(pod, deleting=True) for pod in BOTH]
    assert reconcile(a_view(step.intent, *going)).actions == ()
    made = reconcile(a_view(step.intent))
    assert made.actions == (create(0, "n3", attempt=1), create(1, "n4", attempt=1))
    up = reconcile(a_view(step.intent, a_pod(0, "n3", attempt=1), a_pod(1, "n4", attempt=1)))
    assert (up.intent.state, up.intent.allocation) == (State.RUNNING, MOVING.target)


@pytest.mark.parametrize("fields", [{"now": NOW + 99}, {"saves": Saves(2, 1, "disk full")}])
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
    assert reconcile(a_view(intent, *BOTH)).actions == (AskSave(),)
    saved = reconcile(a_view(intent, *BOTH, saves=Saves(1, 1)))
    assert saved.intent.draining
    assert saved.actions == (delete(BOTH[0], 1), delete(BOTH[1], 1))
    gone = reconcile(a_view(saved.intent)).intent
    assert (gone.state, gone.attempt, gone.reason) == (State.WAITING, 1, "Preempted")


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


def test_after_a_restart_a_flight_has_its_time_again():
    patience = Patience(start=50)
    late = replace(STARTING, until=NOW - 500)
    assert adopted(late, NOW, patience).until == NOW + 50
    assert adopted(RUNNING, NOW, patience) == RUNNING
    draining = meant(State.STOPPING, draining=True)
    assert adopted(draining, NOW, patience).until == math.inf


PLACE = Placement(((0, 1),))
PREEMPT = Stop(JOB.id, Because.PREEMPTED)
REFUSED = {
    "a stop, as it could not save": (PREEMPT, BOTH, {"saves": Saves(2, 1, "disk full")}),
    "a move, as it did not save in time": (Move(JOB.id, PLACE), BOTH, {"now": NOW + 99}),
    "a scale": (Scale(JOB.id, "worker", (0, 1, 2)), BOTH, {"refusal": Refusal("quota")}),
    "a resize": (
        ResizeJob(JOB.id, "worker", 900, 64), [replace(pod, cannot_resize="no room") for pod in BOTH], {}
    ),
}  # fmt: skip
TARGETS = {
    Stop: None,
    Move: (on("n3", "n4"),),
    Scale: (on("n1", "n2", "n3"),),
    ResizeJob: (on("n1", "n2", amounts=LARGE),),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_was_refused_is_asked_again_after_a_pause_that_grows(case):
    decision, pods, fields = REFUSED[case]
    intent, pauses = RUNNING, []
    for _ in range(7):
        asked = begun(intent, decision, TARGETS[type(decision)], NOW, Patience(save=9))
        intent = reconcile(a_view(asked, *pods, **fields)).intent
        assert (intent.state, bool(intent.message)) == (State.RUNNING, True)
        again = ask_again_at(intent, decision, intent.since)
        assert ask_again_at(intent, decision, again) <= again, "then it is asked"
        assert unpack(json.dumps(pack(intent)).encode()).intent == intent, "a restart does not forget it"
        pauses.append(again - intent.since)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_a_job_that_did_as_it_was_told_is_asked_at_once():
    refused = replace(RUNNING, declined=5, since=NOW)
    assert ask_again_at(RUNNING, PREEMPT, NOW) == NOW
    assert ask_again_at(refused, PREEMPT, NOW) == NOW + 16
    assert ask_again_at(refused, Stop(JOB.id, Because.CANCELLED), NOW) == NOW, "who cancels does not wait"
    assert ask_again_at(refused, PREEMPT, NOW - 1000) == NOW - 1000, "nor does it, where the clock was set back"
    scaled = begun(refused, Scale(JOB.id, "worker", (0,)), (on("n1"),), NOW, Patience())
    assert reconcile(a_view(scaled, BOTH[0])).intent.declined == 0
    for leaving in (replace(MOVING, declined=5), meant(State.STOPPING, allocation=TWO, until=NOW + 9, declined=5)):
        assert reconcile(a_view(leaving, *BOTH, saves=Saves(1, 1))).intent.declined == 0


def test_every_decision_becomes_an_intent_with_a_time_out():
    decisions = [Start(JOB.id, PLACE), Scale(JOB.id, "worker", (0,)), ResizeJob(JOB.id, "worker", 1, 1),
                 Move(JOB.id, PLACE), Stop(JOB.id, Because.PREEMPTED)]  # fmt: skip
    states = []
    for decision in decisions:
        intent = begun(replace(RUNNING, message="old"), decision, TWO, NOW, Patience())
        assert NOW < intent.until < math.inf
        assert intent.message == ""
        states.append(intent.state)
    assert states == [State.STARTING, State.SCALING, State.RESIZING, State.MOVING, State.STOPPING]
