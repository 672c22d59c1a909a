"""One followed job: reports of this attempt only, which replicas must save, results of the API server, its state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.board import Board
from headway.core.gang import Phase
from headway.core.job import Job, JobId, Role, Target
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.plan import Because, Move, Resize, Scale, Start, Stop
from headway.core.restarts import Losses
from headway.core.states import State
from headway.kube.answers import learn, trouble
from headway.kube.api.errors import Conflict, Denied, Forbidden, Invalid, NotFound, OverQuota, Refused, Unreachable
from headway.kube.api.objects import Meta
from headway.kube.hearing import ask_to_save, hear
from headway.kube.job.intent import Intent, RoleAllocation, allocation_of, begun
from headway.kube.job.replica import PodReplica
from headway.kube.reconcile.model import Bind, Create, Delete
from headway.kube.settings import KubeTimeouts
from headway.kube.tracked import Tracked
from headway.kube.work import ActionResult
from headway.progress_server import Connected, Done, Reported, Saved, SaveFailed

J = JobId("j")


NODES = Nodes.of([Node(name=name, capacity=(("cpu", 4000),)) for name in ("n1", "n2", "n3")])
HERE = (RoleAllocation("ps", ("n1",), (("cpu", 500),)),)
THERE = (RoleAllocation("ps", ("n2", "n3"), (("cpu", 500),)),)


def a_job(attempt: int = 1, state: State = State.RUNNING, replicas: int = 2) -> Tracked:
    job = Job(id=J, roles=(Role(name="ps", request=(("cpu", 500),), most=2),), steps=100)
    tracked = Tracked(Meta(name="j", uid="u"), job, {}, Board(NODES))
    tracked.board.add(job, 0.0)
    target = THERE if state is State.MOVING else None
    tracked.restore(Intent(state=state, attempt=attempt, allocation=HERE, target=target), {})
    tracked.attention.dirty = False
    tracked.replicas = {f"uid-{index}": a_replica(index, attempt) for index in range(replicas)}
    return tracked


def a_replica(index: int, attempt: int = 1) -> PodReplica:
    return PodReplica(name=f"p-{index}", role="ps", index=index, attempt=attempt, phase=Phase.UP)


def heard(tracked: Tracked, *events, now: float = 10.0) -> list[bool]:
    return [hear(tracked, event, now) for event in events]


def test_the_reports_of_one_replica_count():
    tracked = a_job()
    told = heard(tracked, Reported(J, "ps", 0, 1, 5, 0.5, None), Reported(J, "ps", 1, 1, 50, 0.1, None))
    assert told == [True, False]
    assert (tracked.reports.progress.step, tracked.reports.progress.total, tracked.reports.sample.at) == (5, 100, 10.0)


def test_other_attempts_and_steps_backwards_are_not_heard():
    tracked = a_job()
    assert heard(tracked, Reported(J, "ps", 0, 0, 99, None, None)) == [False]
    assert heard(tracked, *(Reported(J, "ps", 0, 1, step, None, None) for step in (7, 6, 8))) == [True, False, True]
    assert tracked.reports.progress.step == 8
    tracked.set_intent(replace(tracked.intent, attempt=2))
    assert heard(tracked, Reported(J, "ps", 3, 2, 2, 0.3, None)) == [False], "its pod is not there"
    tracked.replicas["next"] = a_replica(3, attempt=2)
    assert heard(tracked, Reported(J, "ps", 3, 2, 2, 0.3, None)) == [True], "a new attempt may begin further back"
    assert tracked.reports.progress.step == 2


def test_the_last_word_counts_and_keeps_the_loss():
    tracked = a_job()
    heard(tracked, Reported(J, "ps", 0, 1, 5, 0.5, 100), Done(J, "ps", 0, 1, 100))
    assert (tracked.reports.progress.step, tracked.reports.progress.loss) == (100, 0.5)


def test_being_done_does_not_take_the_last_report_away():
    tracked = a_job()
    tracked.job = replace(tracked.job, target=Target(metric="accuracy", value=0.9, higher=True))
    heard(tracked, Reported(J, "ps", 0, 1, 100, 0.5, 100, {"accuracy": 0.91}), Done(J, "ps", 0, 1, 100))
    assert (tracked.reports.sample.loss, tracked.reports.sample.metric) == (0.5, 0.91)


def test_no_replica_is_asked_to_save_before_all_that_can_are_connected():
    tracked = a_job(state=State.MOVING)
    shards = [Connected(J, "ps", index, 1, True, None) for index in range(2)]
    deaf = Connected(J, "worker", 0, 1, False, None)
    heard(tracked, *shards, deaf)
    assert not ask_to_save(tracked, [])
    assert not ask_to_save(tracked, [shards[0], deaf]), "the other shard would be missing"
    assert ask_to_save(tracked, [*shards, shards[0], deaf])
    assert tracked.saves.asked == {("ps", 0), ("ps", 1)}, "each once, however many connections it has"
    earlier = Connected(J, "ps", 1, 0, True, None)
    assert not ask_to_save(tracked, [shards[0], earlier])
    del tracked.replicas["uid-1"]
    assert ask_to_save(tracked, [shards[0]]), "a replica that is gone need not be waited for"


def test_only_answers_to_the_present_request_count():
    tracked = a_job(state=State.MOVING)
    tracked.saves = tracked.saves.next()
    request = tracked.saves.request
    tracked.saves = replace(tracked.saves, asked=frozenset({("ps", 0), ("ps", 1)}))
    heard(tracked, Saved(J, "ps", 0, 1, request - 1, 5), Saved(J, "ps", 0, 1, None, 5))
    heard(tracked, SaveFailed(J, "ps", 0, 1, request - 1, "an earlier one"))
    assert (tracked.saves.saved, tracked.saves.failed) == (frozenset(), "")
    heard(tracked, Saved(J, "ps", 0, 1, request, 5), Saved(J, "ps", 0, 1, request, 5))
    assert tracked.saves.saved == {("ps", 0)}
    heard(tracked, SaveFailed(J, "ps", 1, 1, request, "disk full"))
    assert tracked.saves.failed == "disk full"
    tracked.saves = tracked.saves.next()
    assert (tracked.saves.saved, tracked.saves.failed) == (frozenset(), "")


@pytest.mark.parametrize("who", [("ps", 7, 1), ("worker", 0, 1), ("ps", 0, 0), ("ps", 0, 2)])
def test_one_that_is_no_replica_of_the_job_is_not_heard(who):
    tracked = a_job(state=State.MOVING)
    tracked.saves = replace(tracked.saves.next(), asked=frozenset({("ps", 0), ("ps", 1), who[:2]}))
    request = tracked.saves.request
    told = heard(
        tracked, Connected(J, *who, True, None), Reported(J, *who, 90, 0.1, 100), Done(J, *who, 100),
        Saved(J, *who, request, 9), Saved(J, *who, None, 9), SaveFailed(J, *who, request, "no"),
    )  # fmt: skip
    assert told == [False] * 6
    assert not tracked.savers, "a saver that is no replica could never be stopped"
    assert tracked.reports.progress is None
    assert (tracked.saves.saved, tracked.saves.failed) == (frozenset(), "")
    assert tracked.columns()["saved"] == 0.0
    assert not tracked.attention.dirty


def test_what_an_answer_means():
    create, delete = Create("p", "ps", 0, 1, "n", ()), Delete("p", "uid")
    cases = [
        (create, OverQuota(403, "exceeded quota: team"), "waits"),
        (create, Denied(403, "no such images"), "refused for good"),
        (create, Refused(403, "the namespace is being terminated"), "refused"),
        (create, Invalid(422, "no image"), "refused for good"),
        (create, Unreachable(0, "time-out"), "tried again"),
        (create, Forbidden(403, "cannot"), "tried again"),
        (delete, Invalid(422, "what?"), "tried again"),
        (Bind("p", "uid", "n"), Conflict(409, "bound elsewhere"), "refused"),
        (Bind("p", "uid", "n"), NotFound(404, "gone"), "lost"),
    ]
    for action, error, meaning in cases:
        tracked = a_job(replicas=0)
        tracked.replicas["uid"] = PodReplica(name="p", role="ps", index=0)
        learn(tracked, ActionResult(action, error=error), now=100.0)
        refused = tracked.refusal is not None and ("refused for good" if tracked.refusal.permanent else "refused")
        refused = "waits" if tracked.refusal is not None and tracked.refusal.waits else refused
        lost = "lost" if not tracked.replicas else ""
        again = "tried again" if tracked.attention.not_before > 100.0 else ""
        assert (refused or lost or again) == meaning, action


def test_trouble_is_said_once_and_pauses_grow(caplog):
    tracked = a_job()
    pauses = []
    for _ in range(9):
        trouble(tracked, Unreachable(0, "no answer"), 100.0)
        pauses.append(tracked.attention.not_before - 100.0)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.25, 15.0)
    assert len(caplog.records) == 1
    tracked.attention.recovered()
    trouble(tracked, Unreachable(429, "slow down", 40.0), 100.0)
    assert tracked.attention.not_before == 140.0


# ── its state is kept once: on the board ──


DECISIONS = {
    "started": (Intent(), Start(J, Placement(((0,),)))),
    "scaled": (Intent(state=State.RUNNING, allocation=HERE), Scale(J, "ps", (0, 1))),
    "resized": (Intent(state=State.RUNNING, allocation=HERE), Resize(J, "ps", 900, 0)),
    "moved": (Intent(state=State.RUNNING, allocation=HERE), Move(J, Placement(((2,),)))),
    "stopped": (Intent(state=State.RUNNING, allocation=HERE), Stop(J, Because.PREEMPTED)),
}


@pytest.mark.parametrize("what", DECISIONS)
def test_what_was_begun_is_read_back_from_the_board(what):
    old, action = DECISIONS[what]
    tracked = a_job()
    tracked.restore(replace(old, since=3.0), {})
    _, placement = tracked.board.aim(tracked.row, action)
    shape = tracked.board.table.shape_at(tracked.row)
    target = None if placement is None else allocation_of(placement, tracked.job, shape, NODES)
    new = begun(tracked.intent, action, target, 7.0, KubeTimeouts())
    tracked.begin(new, placement)
    assert tracked.intent == new
    assert tracked.state is new.state


TURNS = {
    "up": (Intent(state=State.STARTING, target=HERE, until=9.0),
           Intent(state=State.RUNNING, allocation=HERE, since=5.0, reason="Running")),
    "scaled": (Intent(state=State.SCALING, allocation=HERE, target=THERE, until=9.0),
               Intent(state=State.RUNNING, allocation=THERE, since=5.0)),
    "stays": (Intent(state=State.MOVING, allocation=HERE, target=THERE, until=9.0),
              Intent(state=State.RUNNING, allocation=HERE, since=5.0, declined=1, message="it could not save")),
    "saved, on its way": (Intent(state=State.MOVING, allocation=HERE, target=THERE, until=9.0),
                          Intent(state=State.MOVING, allocation=HERE, target=THERE, since=5.0, until=99.0, saved=True,
                                 attempt=1)),
    "lost": (Intent(state=State.RUNNING, allocation=HERE),
             Intent(state=State.STOPPING, allocation=HERE, since=5.0, draining=True, reason="Interrupted",
                    losses=Losses((5.0,), 7))),
    "drained": (Intent(state=State.STOPPING, allocation=HERE, draining=True),
                Intent(state=State.WAITING, since=5.0, attempt=1, losses=Losses((5.0,), 7))),
    "refused, backing off": (Intent(state=State.STARTING, target=HERE, until=9.0),
                             Intent(state=State.STOPPING, since=5.0, until=6.0, draining=True, refusals=1)),
    "finished": (Intent(state=State.RUNNING, allocation=HERE), Intent(state=State.FINISHED, since=5.0)),
    "withdrawn while it waits": (Intent(), Intent(state=State.CANCELLED, since=5.0)),
}  # fmt: skip


@pytest.mark.parametrize("what", TURNS)
def test_what_reconciliation_found_is_read_back_from_the_board(what):
    old, new = TURNS[what]
    tracked = a_job()
    tracked.restore(old, {})
    assert tracked.intent == old
    tracked.set_intent(new)
    assert tracked.intent == new
    assert tracked.board.state(tracked.row) is new.state
    held = {"n1"} if new.allocation == HERE else {"n2", "n3"} if new.allocation == THERE else set()
    towards = {"n2", "n3"} if new.target == THERE else set()
    free = tracked.board.snapshot(9.0).free[0]
    assert {node.name for node, left in zip(NODES.nodes, free, strict=True) if left < 4000} == held | towards


def test_columns_go_into_the_status_and_come_back():
    tracked = a_job()
    tracked.restore(tracked.intent, {"attained": 12.0, "stops": 2.0, "touched": 4.0})
    assert tracked.columns() == {"attained": 12.0, "service": 0.0, "saved": 0.0, "stops": 2.0, "touched": 4.0}
