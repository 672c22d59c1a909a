"""One gang: reports of this attempt only, which replicas must save, results of the API server, its row, its status."""

from __future__ import annotations

import math

import pytest

from headway.core.board import Board
from headway.core.gang import Phase, to_ask
from headway.core.job import Can, Job, JobId, Role, Target
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.plan import Because, Move, Resize, Scale, Start, Stop
from headway.core.restarts import Losses
from headway.core.states import State
from headway.kube.api.errors import Conflict, Denied, Invalid, NotFound, OverQuota, Refused
from headway.kube.api.objects import Meta
from headway.kube.gangs.fault import FAULT
from headway.kube.gangs.gang import FOREIGN, Around, Gang, StartFacts, Written
from headway.kube.gangs.intent import Intent, RoleAllocation, allocation_of, as_written, begun
from headway.kube.gangs.messages import (
    Answered,
    Decided,
    Edited,
    Explained,
    Faulted,
    Heard,
    Message,
    PodGone,
    PodSeen,
    SaveAsked,
    StatusRefused,
    StatusWritten,
    Withdrawn,
)
from headway.kube.gangs.model import (
    Bind,
    Create,
    Delete,
    PostEvent,
    ResizePod,
    SetCondition,
    Touch,
    WriteStatus,
    matched,
)
from headway.kube.gangs.step import shown, step
from headway.kube.gangs.take import hears, take
from headway.kube.intake.orders import Orders
from headway.kube.pods.replica import Replica
from headway.kube.settings import KubeTimeouts
from headway.kube.values import replace
from headway.kube.views import board as rows
from headway.progress_server import Connected, Done, Reported, Saved, SaveFailed

J = JobId("j")
NODES = Nodes.of([Node(name=name, capacity=(("cpu", 4000),)) for name in ("n1", "n2", "n3")])
HERE = (RoleAllocation("ps", ("n1",), (("cpu", 500),)),)
THERE = (RoleAllocation("ps", ("n2", "n3"), (("cpu", 500),)),)
JOB = Job(id=J, roles=(Role(name="ps", request=(("cpu", 500),), max=2),), steps=100)
AROUND = Around()


def a_gang(attempt: int = 1, state: State = State.RUNNING, replicas: int = 2) -> Gang:
    target = THERE if state is State.MOVING else None
    wanted = Intent(state=state, attempt=attempt, allocation=HERE, target=target)
    pods = {f"uid-{index}": a_replica(index, attempt) for index in range(replicas)}
    return Gang(meta=Meta(name="j", uid="u"), job=JOB, wanted=wanted, pods=pods)


def a_replica(index: int, attempt: int = 1, node: str = "n1") -> Replica:
    uid = f"uid-{index}"
    return Replica(name=f"p-{index}", uid=uid, role="ps", index=index, attempt=attempt, phase=Phase.UP, node=node)


def heard(gang: Gang, *events, now: float = 10.0) -> tuple[Gang, list[bool]]:
    """And of each report whether policies have something new to see."""
    told = []
    for event in events:
        new = take(gang, Heard(event, now))
        told.append(new.reports.sample is not gang.reports.sample)
        gang = new
    return gang, told


def test_the_reports_of_one_replica_count():
    reports = Reported(J, "ps", 0, 1, 5, 0.5, None), Reported(J, "ps", 1, 1, 50, 0.1, None)
    gang, told = heard(a_gang(), *reports)
    assert told == [True, False]
    assert gang.reports.progress is not None
    assert gang.reports.sample is not None
    assert (gang.reports.progress.step, gang.reports.progress.total, gang.reports.sample.at) == (5, 100, 10.0)


def test_when_the_replica_that_reported_is_gone_another_one_is_heard():
    """A job shrinks by just that one: nothing more was heard of its progress."""
    gang, _ = heard(a_gang(), Reported(J, "ps", 0, 1, 5, 0.5, None))
    gang = take(gang, PodGone("uid-0"))
    gang, told = heard(gang, Reported(J, "ps", 1, 1, 4, 0.6, None), Reported(J, "ps", 1, 1, 6, 0.4, None))
    assert told == [False, True], "what it had reached before counts"
    assert gang.reports.progress is not None
    assert gang.reports.progress.step == 6
    gang = take(gang, PodSeen(a_replica(0)))
    assert heard(gang, Reported(J, "ps", 0, 1, 50, 0.1, None))[1] == [False], "and it stays the one that is heard"


def test_a_replica_that_is_gone_is_not_waited_for_before_a_save():
    """A new pod of its number may be one that never connects."""
    gang, _ = heard(a_gang(), Connected(J, "ps", 0, 1, True, None), Connected(J, "ps", 1, 1, True, None))
    assert gang.saving.savers == {("ps", 0), ("ps", 1)}
    gang = take(take(gang, PodGone("uid-1")), PodSeen(a_replica(1)))
    assert gang.saving.savers == {("ps", 0)}
    assert to_ask(gang.saving.savers, {("ps", 0)}, {("ps", 0), ("ps", 1)}) == {("ps", 0)}


def test_other_attempts_and_steps_backwards_are_not_heard():
    gang = a_gang()
    assert heard(gang, Reported(J, "ps", 0, 0, 99, None, None)) == (gang, [False])
    gang, told = heard(gang, *(Reported(J, "ps", 0, 1, step, None, None) for step in (7, 6, 8)))
    assert told == [True, False, True]
    assert gang.reports.progress is not None
    assert gang.reports.progress.step == 8
    gang = gang.becomes(replace(gang.wanted, attempt=2))
    assert heard(gang, Reported(J, "ps", 3, 2, 2, 0.3, None))[1] == [False], "its pod is not there"
    gang = take(gang, PodSeen(a_replica(3, attempt=2)))
    gang, told = heard(gang, Reported(J, "ps", 3, 2, 2, 0.3, None))
    assert told == [True], "a new attempt may begin further back"
    assert gang.reports.progress is not None
    assert gang.reports.progress.step == 2


def test_the_last_word_counts_and_keeps_the_loss():
    gang, _ = heard(a_gang(), Reported(J, "ps", 0, 1, 5, 0.5, 100), Done(J, "ps", 0, 1, 100))
    assert gang.reports.progress is not None
    assert (gang.reports.progress.step, gang.reports.progress.loss) == (100, 0.5)


def test_being_done_does_not_take_the_last_report_away():
    gang = a_gang()
    gang = replace(gang, job=replace(gang.job, target=Target(metric="accuracy", value=0.9, higher=True)))
    gang, _ = heard(gang, Reported(J, "ps", 0, 1, 100, 0.5, 100, {"accuracy": 0.91}), Done(J, "ps", 0, 1, 100))
    assert gang.reports.sample is not None
    assert (gang.reports.sample.loss, gang.reports.sample.metric) == (0.5, 0.91)


def test_no_replica_is_asked_to_save_before_all_that_can_are_connected():
    shards = [Connected(J, "ps", index, 1, True, None) for index in range(2)]
    gang, _ = heard(a_gang(state=State.MOVING), *shards, Connected(J, "ps", 2, 1, False, None))
    one, two = ("ps", 0), ("ps", 1)
    assert gang.saving.savers == {one, two}
    present = {(pod.role, pod.index) for pod in gang.pods.values()}
    assert not to_ask(gang.saving.savers, set(), present)
    assert not to_ask(gang.saving.savers, {one}, present), "the other shard would be missing"
    assert to_ask(gang.saving.savers, {one, two}, present) == {one, two}
    gone = take(gang, PodGone("uid-1"))
    present = {(pod.role, pod.index) for pod in gone.pods.values()}
    assert to_ask(gone.saving.savers, {one}, present) == {one}, "a replica that is gone need not be waited for"


def test_only_answers_to_the_present_request_count():
    gang = a_gang(state=State.MOVING)
    gang = replace(gang, saving=replace(gang.saving, round=gang.saving.round.next()))
    gang = take(gang, SaveAsked(frozenset({("ps", 0), ("ps", 1)})))
    request = gang.saving.round.request
    gang, _ = heard(gang, Saved(J, "ps", 0, 1, request - 1, 5), Saved(J, "ps", 0, 1, None, 5))
    gang, _ = heard(gang, SaveFailed(J, "ps", 0, 1, request - 1, "an earlier one"))
    assert (gang.saving.round.saved, gang.saving.round.failed) == (frozenset(), "")
    gang, _ = heard(gang, Saved(J, "ps", 0, 1, request, 5), Saved(J, "ps", 0, 1, request, 5))
    assert gang.saving.round.saved == {("ps", 0)}
    gang, _ = heard(gang, SaveFailed(J, "ps", 1, 1, request, "disk full"))
    assert gang.saving.round.failed == "disk full"
    following = gang.saving.round.next()
    assert (following.saved, following.failed) == (frozenset(), "")


@pytest.mark.parametrize("who", [("ps", 7, 1), ("worker", 0, 1), ("ps", 0, 0), ("ps", 0, 2)])
def test_one_that_is_no_replica_of_the_job_is_not_heard(who):
    gang = a_gang(state=State.MOVING)
    gang = replace(gang, saving=replace(gang.saving, round=gang.saving.round.next()))
    gang = take(gang, SaveAsked(frozenset({("ps", 0), ("ps", 1), who[:2]})))
    request = gang.saving.round.request
    for event in (
        Connected(J, *who, True, None), Reported(J, *who, 90, 0.1, 100), Done(J, *who, 100),
        Saved(J, *who, request, 9), Saved(J, *who, None, 9), SaveFailed(J, *who, request, "no"),
    ):  # fmt: skip
        assert not hears(gang, event)
        assert take(gang, Heard(event, 10.0)) is gang, "nothing follows from it, not even a step"


def test_a_gang_that_is_over_hears_nothing():
    gang = replace(a_gang(), wanted=Intent(state=State.FINISHED, attempt=1))
    assert take(gang, Heard(Reported(J, "ps", 0, 1, 90, None, None), 1.0)) is gang


def test_what_an_answer_means():
    create = Create("p", "ps", 0, 1, "n", ())
    cases = [
        (create, OverQuota(403, "exceeded quota: team"), "waits"),
        (create, Conflict(409, "it exists"), "waits"),
        (create, Denied(403, "no such images"), "refused for good"),
        (create, Refused(403, "the namespace is being terminated"), "refused"),
        (create, Invalid(422, "no image"), "refused for good"),
        (Bind("p", "uid", "n"), Conflict(409, "bound elsewhere"), "refused"),
        (Bind("p", "uid", "n"), NotFound(404, "gone"), "lost"),
    ]
    for action, error, meaning in cases:
        gang = take(a_gang(replicas=0), PodSeen(Replica(name="p", uid="uid", role="ps", index=0, attempt=1)))
        gang = take(gang, Answered(action, error=error))
        refused = gang.refusal is not None and ("refused for good" if gang.refusal.permanent else "refused")
        refused = "waits" if gang.refusal is not None and gang.refusal.waits else refused
        lost = "lost" if not gang.pods else ""
        assert (refused or lost) == meaning, action


@pytest.mark.parametrize(
    "action", [Create("p", "ps", 0, 0, "n", ()), Bind("p-9", "uid-9", "n2"), ResizePod("p-9", "uid-9", ())]
)
def test_a_refusal_that_comes_late_is_not_one_of_this_attempt(action):
    """A gang that waits again would be Failed for what its last attempt was refused."""
    gang = replace(a_gang(), wanted=Intent(state=State.STARTING, attempt=1, target=HERE))
    assert take(gang, Answered(action, error=Invalid(422, "no"))).refusal is None
    waits = replace(a_gang(replicas=0), wanted=Intent(attempt=1))
    assert take(waits, Answered(replace(action, name="p"), error=Invalid(422, "no"))).refusal is None


def test_a_pod_that_is_made_late_takes_no_node_from_one_that_has_it():
    """A create of an old leader arrives in a gang that runs: that pod is surplus, whatever its number."""
    late, runs = replace(a_replica(0), bound=False, phase=Phase.PENDING), a_replica(1)
    fit, surplus, lacking = matched(RoleAllocation("ps", ("n1",), ()), [late, runs])
    assert (fit, surplus, lacking) == ([runs], [late], [])


def test_a_pod_that_is_gone_before_it_is_touched_harms_nobody():
    gang = a_gang()
    assert take(gang, Answered(Touch("p-0", "uid-0"), error=NotFound(404, "gone"))) == gang


def test_answers_that_say_what_a_pod_is_count_at_once():
    gang = take(a_gang(replicas=0), PodSeen(replace(a_replica(0), bound=False, node="n1", phase=Phase.PENDING)))
    bound = take(gang, Answered(Bind("p-0", "uid-0", "n2")))
    assert (bound.pods["uid-0"].bound, bound.pods["uid-0"].node) == (True, "n2")
    assert take(gang, Answered(Bind("p-9", "uid-9", "n2"))) == gang, "of a pod that it does not know"
    assert not take(gang, Answered(Delete("p-0", "uid-0"), gone=True)).pods
    assert take(gang, Answered(Delete("p-0", "uid-0"))).pods, "it ends, and is there"


# ── its status ──


def test_a_start_that_takes_less_than_a_second_is_not_told_and_deletes_wait_for_their_status():
    waiting = replace(a_gang(replicas=0), wanted=Intent(attempt=1), written=Written(Intent(attempt=1)))
    waiting = replace(waiting, start=StartFacts(published=1))
    started = take(waiting, Decided(Start(J, Placement(((0,),))), HERE, 100.0, AROUND.timeouts))
    gang, effects = step(started, AROUND, 100.0)
    assert [type(one) for one in effects] == [Create], "no status before the creates"
    assert (gang.wake, gang.wanted.until) == (110.0, math.inf), "its time begins when nothing is left to send"
    assert step(gang, AROUND, 110.0)[1][-1] == WriteStatus(), "long in our own queue"
    name = "j-1-ps-0"
    made = Replica(name=name, uid="made", role="ps", index=0, attempt=1, node="n1", bound=False)
    gang = take(gang, PodSeen(made))
    assert step(gang, AROUND, 100.5)[1] == (Bind(name, "made", "n1"),)
    gang, effects = step(take(gang, Answered(Bind(name, "made", "n1"))), AROUND, 100.6)
    assert (gang.wanted.until, effects) == (100.6 + AROUND.timeouts.start, ())
    assert gang.wake == pytest.approx(101.6), "told a second after its last bind"
    assert step(gang, AROUND, 101.7)[1] == (WriteStatus(),)
    gang, effects = step(take(gang, PodSeen(replace(made, bound=True, phase=Phase.UP))), AROUND, 100.7)
    assert gang.state is State.RUNNING
    assert WriteStatus() in effects
    assert [(one.old.state, one.new.state) for one in effects if isinstance(one, PostEvent)] == [
        (State.STARTING, State.RUNNING)
    ]
    gone, effects = step(take(gang, Withdrawn()), AROUND, 101.0)
    assert Delete(name, "made") in effects, "nobody reads the status of an object that is gone"
    cancelled = take(gang, Edited(Orders(cancel=True), b"{}"))
    gone, effects = step(cancelled, AROUND, 101.0)
    assert not any(isinstance(one, Delete) for one in effects)
    assert WriteStatus(urgent=True) in effects
    gone = take(gone, StatusWritten(shown(gone), None, None))
    assert step(gone, AROUND, 101.1)[1] == (Delete(name, "made"),)


def test_a_status_that_is_refused_is_written_again_later_and_no_pod_is_deleted_meanwhile():
    gang = replace(a_gang(), wanted=Intent(state=State.STOPPING, attempt=1, allocation=HERE, draining=True))
    gang, effects = step(gang, AROUND, 100.0)
    assert effects == (WriteStatus(urgent=True),)
    gang = take(gang, StatusRefused(Invalid(422, "too long"), 100.0))
    gang, effects = step(gang, AROUND, 101.0)
    assert (effects, gang.wake) == ((), 115.0)
    assert step(gang, AROUND, 115.0)[1] == (WriteStatus(urgent=True),)
    told = take(gang, StatusWritten(shown(gang), None, None))
    assert {type(one) for one in step(told, AROUND, 116.0)[1]} == {Delete}


# ── a fault freezes ──


def test_a_fault_freezes_for_pauses_that_grow_and_never_fails_the_job():
    gang, pauses = replace(a_gang(replicas=1), written=Written(as_written(a_gang().wanted))), []
    for _ in range(9):
        gang = take(gang, Faulted("it raised", 100.0))
        pauses.append(gang.frozen.again - 100.0)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.25, 15.0)
    gang, effects = step(gang, AROUND, 101.0)
    assert effects == (WriteStatus(),), "it is told, and nothing else is done"
    assert (shown(gang).state, shown(gang).reason, shown(gang).message) == (State.RUNNING, FAULT, "it raised")
    assert gang.wake == 115.0
    gang = take(gang, StatusWritten(shown(gang), None, None))
    assert step(gang, AROUND, 102.0)[1] == ()
    thawed, effects = step(gang, AROUND, 115.0)
    assert (thawed.frozen.why, thawed.frozen.faults, effects) == ("", 0, (WriteStatus(),))
    assert shown(thawed).reason == ""


@pytest.mark.parametrize(
    "message", [Withdrawn(), Edited(Orders(cancel=True), b""), Edited(Orders(), b"{}")], ids=["gone", "order", "edit"]
)
def test_a_frozen_gang_goes_on_when_its_user_does_something(message: Message):
    frozen = a_gang().freezes("nobody knows", 100.0, again=math.inf)
    assert frozen.is_frozen(1e9)
    assert not take(frozen, message).is_frozen(101.0)


def test_a_gang_with_pods_that_prove_nothing_does_nothing_until_they_are_gone():
    gang = replace(a_gang(), unproven=frozenset({"other"}), written=Written(a_gang().wanted))
    gang = gang.freezes("not ours", 100.0, again=math.inf)
    gang = replace(gang, wanted=Intent(state=State.STOPPING, attempt=1, allocation=HERE, draining=True))
    _, effects = step(gang, AROUND, 101.0)
    assert not any(isinstance(one, Delete) for one in effects)
    assert not take(gang, PodGone("other")).unproven


# ── its row on the board ──


DECISIONS = {
    "started": (Intent(), Start(J, Placement(((0,),)))),
    "scaled": (Intent(state=State.RUNNING, allocation=HERE), Scale(J, "ps", (0, 1))),
    "resized": (Intent(state=State.RUNNING, allocation=HERE), Resize(J, "ps", 900, 0)),
    "moved": (Intent(state=State.RUNNING, allocation=HERE), Move(J, Placement(((2,),)))),
    "stopped": (Intent(state=State.RUNNING, allocation=HERE), Stop(J, Because.PREEMPTED)),
}


def entered(intent: Intent, columns: dict[str, float] | None = None) -> tuple[Board, Gang]:
    board, gang = Board(NODES), replace(a_gang(replicas=0), wanted=intent)
    rows.enter(board, gang, columns or {}, 0.0, 0)
    return board, gang


def row_of(board: Board) -> int:
    row = board.row(J)
    assert row is not None
    return row


@pytest.mark.parametrize("what", DECISIONS)
def test_the_row_shows_what_was_begun(what):
    old, action = DECISIONS[what]
    board, gang = entered(replace(old, since=3.0))
    _, placement = board.aim(row_of(board), action)
    shape = board.table.shape_at(row_of(board))
    target = None if placement is None else allocation_of(placement, gang.job, shape, NODES)
    new = take(gang, Decided(action, target, 7.0, KubeTimeouts()))
    assert new.wanted == begun(gang.wanted, action, target, 7.0, KubeTimeouts())
    assert rows.show(board, gang, new, 7.0)
    flight = board.flight(row_of(board))
    assert flight is not None
    assert (board.state(row_of(board)), flight.towards) == (new.state, placement)
    assert (flight.since, flight.until) == (new.wanted.since, new.wanted.until)
    assert not rows.show(board, new, new, 8.0), "nothing new"


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
def test_the_row_shows_what_reconciliation_found(what):
    old, new = TURNS[what]
    board, gang = entered(old)
    assert board.state(row_of(board)) is old.state
    row = row_of(board)
    assert rows.show(board, gang, replace(gang, wanted=new), 5.0)
    assert board.state(row) is new.state
    held = {"n1"} if new.allocation == HERE else {"n2", "n3"} if new.allocation == THERE else set()
    towards = {"n2", "n3"} if new.target == THERE else set()
    free = board.snapshot(9.0).free[0]
    assert {node.name for node, left in zip(NODES.nodes, free, strict=True) if left < 4000} == held | towards
    flight = board.flight(row)
    if flight is not None and new.state in (State.MOVING, State.STOPPING):
        assert (flight.since, flight.until) == (new.since, new.until)


def test_a_resting_or_frozen_gang_that_waits_is_left_out_of_plans_and_comes_back():
    board, gang = entered(Intent(since=1.0))
    row = row_of(board)
    frozen = gang.freezes("a fault", 5.0)
    assert rows.show(board, gang, frozen, 5.0)
    assert (board.state(row), board.snapshot(5.0).free.sum()) == (State.STOPPING, NODES.capacity.sum())
    assert rows.show(board, frozen, gang, 6.0)
    assert board.state(row) is State.WAITING


def test_to_a_frozen_gang_that_runs_nothing_may_be_done():
    board, gang = entered(Intent(state=State.RUNNING, allocation=HERE))
    frozen = gang.freezes("a fault", 5.0)
    assert rows.show(board, gang, frozen, 5.0)
    assert board.job(row_of(board)).can is Can.NOTHING
    assert board.placement(row_of(board)) == Placement(((0,),))
    assert rows.show(board, frozen, gang, 6.0)
    assert board.job(row_of(board)).can == JOB.can


def test_columns_go_into_the_status_and_come_back():
    board, gang = entered(a_gang().wanted, {"attained": 12.0, "stops": 2.0, "touched": 4.0})
    kept = {"attained": 12.0, "service": 0.0, "saved": 0.0, "stops": 2.0, "touched": 4.0}
    assert rows.columns_of(board, gang) == kept
    suspended = rows.history_of(board, gang)
    assert suspended == {**kept, "stops": 3.0, "attained": 0.0}, "it goes on from its checkpoint"
    saved = replace(gang, wanted=replace(gang.wanted, saved=True))
    assert rows.history_of(board, saved) == {**kept, "stops": 3.0}


def test_what_a_waiting_gang_is_told_is_no_news_to_policies():
    board, gang = entered(Intent(since=1.0))
    told = take(gang, Explained("NoRoom", "there is none", 5.0))
    assert (told.wanted.reason, told.explained_at) == ("NoRoom", 5.0)
    assert not rows.show(board, gang, told, 5.0)
    assert take(a_gang(), Explained("NoRoom", "there is none", 5.0)) == a_gang(), "it runs"


def test_when_it_is_expected_is_written_though_an_earlier_status_is_written_only_then():
    _, gang = entered(Intent(since=1.0))
    gang, wrote = step(take(gang, Explained("NoRoom", "there is none", 5.0)), AROUND, 5.0)
    assert any(isinstance(one, WriteStatus) for one in wrote)
    expected = ((6.0, 7.0, 8.0), (9.0, 10.0, 11.0))
    later = take(gang, Explained("NoRoom", "there is none", 6.0, expected=expected))
    later = take(later, StatusWritten(shown(gang), None, None))
    assert WriteStatus() in step(later, AROUND, 6.0)[1]
    told = take(later, StatusWritten(shown(gang), None, None, expected))
    assert step(told, AROUND, 7.0)[1] == ()


# ── a pod of others ──


def test_why_a_pod_of_others_has_no_node_is_said_until_it_is_written():
    """Each step says all that is left to do: what a step leaves out is dropped, if it is not under way."""
    pod = Replica(name="p", uid="uid", role="pod", index=0, bound=False)
    job = Job(id=J, roles=(Role(name="pod", request=(("cpu", 500),)),))
    gang = Gang(meta=Meta(name="p", uid="uid"), job=job, can=FOREIGN, pods={"uid": pod})
    assert step(gang, AROUND, 1.0)[1] == ()
    gang = take(gang, Explained("NoRoom", "there is none", 1.0))
    (said,) = step(gang, AROUND, 1.0)[1]
    assert isinstance(said, SetCondition)
    assert said.why == "there is none"
    assert step(step(gang, AROUND, 1.0)[0], AROUND, 2.0)[1] == (said,)
    later = take(gang, Explained("NoRoom", "none at all", 2.0))
    told = take(later, Answered(said))
    (again,) = step(told, AROUND, 3.0)[1]
    assert isinstance(again, SetCondition)
    assert again.why == "none at all", "another reason came meanwhile"
    seen = take(told, PodSeen(replace(pod, told="none at all")))
    assert step(seen, AROUND, 4.0)[1] == (), "its own status says it"
    refused = take(told, Answered(again, error=Invalid(422, "no")))
    assert step(refused, AROUND, 4.0)[1] == (), "what the server does not take is not said again and again"
