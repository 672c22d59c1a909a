"""A user suspends, resumes and cancels a job that waits, starts, trains or is being stopped."""

from __future__ import annotations

import math

import pytest
from intents import MOVING, NOW, RUNNING, STARTING, TWO, a_pod, a_view, meant, saves
from small_cluster import HEALTHY, MemoryApi, SmallCluster

from headway.core.job import JobId
from headway.core.states import State
from headway.kube.api.objects import TrainingJob
from headway.kube.api.watch import Changed
from headway.kube.gangs.model import RequestCheckpoint
from headway.kube.gangs.step import reconcile
from headway.kube.intake.orders import Orders, read_orders
from headway.kube.values import replace
from headway.progress_server import Connected, Saved, SaveFailed

SUSPEND, CANCEL = Orders(suspend=True), Orders(cancel=True)
BOTH = (a_pod(0, "n1"), a_pod(1, "n2"))


# ── the rule ──


@pytest.mark.parametrize("orders", [SUSPEND, CANCEL])
def test_a_job_that_trains_is_asked_to_save_first(orders):
    for intent in (RUNNING, MOVING, meant(State.SCALING, allocation=TWO, target=TWO, until=NOW + 9)):
        step = reconcile(a_view(intent, *BOTH, orders=orders, can_save=True))
        assert (step.intent.state, step.intent.goal, step.intent.draining) == (
            State.STOPPING, State.CANCELLED, False,
        )  # fmt: skip
        assert step.actions == (RequestCheckpoint(),)
        assert step.intent.suspended is orders.suspend


@pytest.mark.parametrize(
    ("intent", "pods", "fields"),
    [
        (RUNNING, BOTH, {}),
        (STARTING, BOTH[:1], {"can_save": True}),
        (replace(MOVING, saved=True), BOTH, {"can_save": True}),
    ],
)
def test_what_cannot_save_or_has_not_trained_is_taken_down_at_once(intent, pods, fields):
    found = reconcile(a_view(intent, *pods, orders=SUSPEND, **fields)).intent
    assert (found.state, found.draining, found.suspended) == (State.STOPPING, True, True)
    over = reconcile(a_view(found, orders=SUSPEND)).intent
    assert (over.state, over.suspended, over.attempt) == (State.CANCELLED, True, intent.attempt + 1)


@pytest.mark.parametrize(("orders", "suspended"), [(SUSPEND, True), (CANCEL, False), (Orders(True, True), False)])
def test_a_job_that_waits_holds_nothing_and_rests_at_once(orders, suspended):
    found = reconcile(a_view(meant(State.WAITING), orders=orders)).intent
    assert (found.state, found.suspended) == (State.CANCELLED, suspended)
    assert found.reason == ("Suspended" if suspended else "Cancelled")


def test_an_order_is_carried_out_even_if_saving_fails_and_the_status_says_so():
    going = reconcile(a_view(RUNNING, *BOTH, orders=SUSPEND, can_save=True)).intent
    for view in (a_view(going, *BOTH, saves=saves(1, 0, "disk full")), a_view(going, *BOTH, now=NOW + 1e6)):
        found = reconcile(replace(view, orders=SUSPEND, can_save=True)).intent
        assert found.draining
        assert "its user suspended it; it was not saved" in found.message


def test_an_order_takes_over_a_stop_that_a_policy_began_and_may_be_taken_back():
    stopping = meant(State.STOPPING, allocation=TWO, until=NOW + 9)
    held = reconcile(a_view(stopping, *BOTH, orders=SUSPEND)).intent
    assert (held.goal, held.suspended, held.until) == (State.CANCELLED, True, stopping.until)
    back = reconcile(a_view(held, *BOTH)).intent
    assert (back.state, back.goal, back.suspended) == (State.STOPPING, State.WAITING, False)
    for state in (State.FINISHED, State.FAILED):
        over = replace(stopping, draining=True, goal=state)
        assert reconcile(a_view(over, *BOTH, orders=CANCEL)).intent.goal is state, "it has ended by itself"


def test_orders_are_read_from_a_spec_whatever_else_is_wrong_with_it():
    assert read_orders(b'{"roles": 5, "suspend": true, "ttlSecondsAfterFinished": 60}') == Orders(True, False, 60.0)
    assert read_orders(b'{"suspend": "x"}') == Orders()
    assert read_orders(b"[]") == Orders()


# ── the whole scheduler ──


def patch(small: SmallCluster, uid: str, **spec: object) -> None:
    found = small.api.jobs[uid]
    found["spec"] = {**found["spec"], **spec}
    small.api.inbox.put(Changed(TrainingJob, small.api._job(uid)))


def running(**spec: object) -> tuple[SmallCluster, str]:
    small = SmallCluster()
    uid = small.api.submit("good", {**HEALTHY, **spec})
    small.turn(5)
    assert small.phase(uid) == "Running"
    return small, uid


def saving(small: SmallCluster, answer) -> None:
    """Its first worker can save, and answers each request so."""
    job = JobId("team/good")
    one = Connected(job, "worker", 0, 0, True, None)
    small.reports.connected = lambda _: [one]
    small.reports.events.append(one)
    small.reports.save = lambda _, request: small.reports.events.append(answer(job, request))
    small.turn()


def test_suspended_it_saves_its_pods_go_and_it_goes_on_from_there():
    small, uid = running()
    saving(small, lambda job, request: Saved(job, "worker", 0, 0, request, 7))
    patch(small, uid, suspend=True)
    small.turn(6)
    status = small.api.status(uid)
    assert (status["phase"], status["reason"], status["replicas"]) == ("Suspended", "Suspended", 0)
    assert (status["history"]["stops"], status["attempt"]) == (1, 1)
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Running": "False", "Suspended": "True", "Finished": "False",
    }  # fmt: skip
    assert small.api.pods == {}
    assert small.cluster.board.unfinished == 0, "it holds nothing"
    other = small.api.submit("other", HEALTHY)
    small.turn(5)
    assert (small.phase(uid), small.phase(other)) == ("Suspended", "Running")
    small.start()
    small.turn(3)
    assert small.phase(uid) == "Suspended", "also after a restart"
    patch(small, uid, suspend=False)
    small.turn(5)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 1)
    assert small.api.status(uid)["history"]["stops"] == 1


def test_a_save_that_fails_does_not_keep_a_job_from_being_cancelled():
    small, uid = running()
    saving(small, lambda job, request: SaveFailed(job, "worker", 0, 0, request, "disk full"))
    patch(small, uid, cancel=True)
    small.turn(6)
    status = small.api.status(uid)
    assert (status["phase"], status["reason"]) == ("Cancelled", "Cancelled")
    assert "disk full" in status["message"]
    assert uid in small.api.jobs, "the object stays"
    assert small.api.pods == {}


def test_created_suspended_it_waits_for_its_user_and_may_be_cancelled_there():
    small = SmallCluster()
    first = small.api.submit("first", {**HEALTHY, "suspend": True})
    second = small.api.submit("second", {**HEALTHY, "suspend": True})
    small.turn(4)
    assert (small.phase(first), small.api.pods) == ("Suspended", {})
    patch(small, first, suspend=False)
    patch(small, second, cancel=True)
    small.turn(5)
    assert (small.phase(first), small.phase(second)) == ("Running", "Cancelled")


def test_resumed_while_it_stops_it_starts_again():
    small, uid = running()
    patch(small, uid, suspend=True)
    small.turn(1)
    patch(small, uid, suspend=False)
    small.turn(6)
    small.turn(5)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 1)


def test_a_restart_in_the_middle_goes_on_with_the_order():
    small, uid = running()
    small.api.jobs[uid]["spec"]["suspend"] = True
    small.start()
    small.turn(5)
    assert (small.phase(uid), small.api.pods) == ("Suspended", {})


def test_a_waiting_job_is_suspended_and_cancelled_before_it_started():
    api = MemoryApi(nodes=1)
    small = SmallCluster(api)
    huge = {"roles": {"worker": {"cpu": "64"}}}
    first, second = api.submit("first", huge), api.submit("second", huge)
    small.turn(3)
    patch(small, first, suspend=True)
    patch(small, second, cancel=True)
    small.turn(3)
    assert (small.phase(first), small.phase(second)) == ("Suspended", "Cancelled")
    assert api.status(first)["message"] == "its user suspended it", "not what it would wait for"


# ── its end ──


def test_a_job_that_is_over_is_removed_after_its_time_and_others_stay():
    small = SmallCluster()
    uids = {}
    for name, ttl in (("brief", 0), ("long", 3600), ("kept", None)):
        spec = HEALTHY if ttl is None else {**HEALTHY, "ttlSecondsAfterFinished": ttl}
        uids[name] = small.api.submit(name, {**spec, "cancel": True})
    small.api.submit("running", {**HEALTHY, "ttlSecondsAfterFinished": 0})
    uid = uids["brief"]
    small.turn(7)
    assert small.api.removed == ["brief"], "one that is not over has no end yet"
    small.start()
    small.turn()
    assert small.api.removed == ["brief", "brief"], "another process goes on with it"
    patch(small, uid, ttlSecondsAfterFinished=None)
    small.turn()
    assert math.isfinite(small.cluster.intake.expiry.next()), "that of the long one"
    assert small.cluster.intake.expiry.next() > small.cluster.now() + 3000
