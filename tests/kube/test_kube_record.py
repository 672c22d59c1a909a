"""What goes on a job's record: progress of this attempt only, who must have saved, what the API server answered."""

from __future__ import annotations

from dataclasses import replace

from headway.core.board import Board
from headway.core.gang import Phase
from headway.core.job import Job, JobId, Role, Target
from headway.core.node import Nodes
from headway.core.states import State
from headway.kube.api.errors import Conflict, Denied, Forbidden, Invalid, NotFound, Unreachable
from headway.kube.api.objects import Meta
from headway.kube.hearing import hear
from headway.kube.job.intent import Intent
from headway.kube.job.replica import PodReplica
from headway.kube.reconcile.model import Bind, Create, Delete
from headway.kube.tracked import Tracked
from headway.kube.worker import ActionResult
from headway.progress_server import Connected, Done, Reported, Saved, SaveFailed

J = JobId("j")


def a_record(attempt: int = 1, state: State = State.RUNNING) -> Tracked:
    job = Job(id=J, roles=(Role(name="ps"),), steps=100)
    intent = Intent(state=state, attempt=attempt)
    return Tracked(Meta(name="j", uid="u"), job, {}, intent, intent, dirty=False)


def a_replica(index: int) -> PodReplica:
    return PodReplica(name=f"p-{index}", role="ps", index=index, attempt=1, phase=Phase.UP)


def heard(record: Tracked, *events, now: float = 10.0) -> list[bool]:
    return [hear(record, event, Board(Nodes.of(())), now, began=1000.0) for event in events]


def test_one_replica_speaks_for_the_job():
    record = a_record()
    told = heard(record, Reported(J, "ps", 0, 1, 5, 0.5, None), Reported(J, "ps", 1, 1, 50, 0.1, None))
    assert told == [True, False]
    assert (record.step, record.progress.total, record.sample.at) == (5, 100, 10.0)


def test_other_attempts_and_steps_backwards_are_not_heard():
    record = a_record()
    assert heard(record, Reported(J, "ps", 0, 0, 99, None, None)) == [False]
    assert heard(record, *(Reported(J, "ps", 0, 1, step, None, None) for step in (7, 6, 8))) == [True, False, True]
    assert record.step == 8
    record.turn(Intent(state=State.RUNNING, attempt=2))
    assert heard(record, Reported(J, "ps", 3, 2, 2, 0.3, None)) == [True], "a new attempt may begin further back"
    assert (record.step, record.progress.first_step) == (2, 2)


def test_the_last_word_counts_and_keeps_the_loss():
    record = a_record()
    heard(record, Reported(J, "ps", 0, 1, 5, 0.5, 100), Done(J, "ps", 0, 1, 100))
    assert (record.step, record.progress.loss) == (100, 0.5)


def test_being_done_does_not_take_the_last_report_away():
    record = a_record()
    record.job = replace(record.job, target=Target(metric="accuracy", value=0.9, higher=True))
    heard(record, Reported(J, "ps", 0, 1, 100, 0.5, 100, {"accuracy": 0.91}), Done(J, "ps", 0, 1, 100))
    assert (record.sample.loss, record.sample.metric) == (0.5, 0.91)


def test_nobody_is_asked_to_save_before_all_that_can_are_there():
    record = a_record(state=State.MOVING)
    shards = [Connected(J, "ps", index, 1, True, None) for index in range(2)]
    deaf = Connected(J, "worker", 0, 1, False, None)
    for index in range(2):
        record.replicas[f"uid-{index}"] = a_replica(index)
    heard(record, *shards, deaf)
    assert not record.ask_to_save([])
    assert not record.ask_to_save([shards[0], deaf]), "the other shard would be missing"
    assert record.ask_to_save([*shards, shards[0], deaf])
    assert record.saves.asked == {("ps", 0), ("ps", 1)}, "each once, however many connections it has"
    earlier = Connected(J, "ps", 1, 0, True, None)
    assert not record.ask_to_save([shards[0], earlier])
    del record.replicas["uid-1"]
    assert record.ask_to_save([shards[0]]), "a replica that is gone need not be waited for"


def test_only_answers_to_the_present_request_count():
    record = a_record(state=State.MOVING)
    record.begin_save()
    request = record.saves.request
    record.saves = replace(record.saves, asked=frozenset({("ps", 0), ("ps", 1)}))
    heard(record, Saved(J, "ps", 0, 1, request - 1, 5), Saved(J, "ps", 0, 1, None, 5))
    heard(record, SaveFailed(J, "ps", 0, 1, request - 1, "an earlier one"))
    assert (record.saves.saved, record.saves.failed) == (frozenset(), "")
    heard(record, Saved(J, "ps", 0, 1, request, 5), Saved(J, "ps", 0, 1, request, 5))
    assert record.saves.saved == {("ps", 0)}
    heard(record, SaveFailed(J, "ps", 1, 1, request, "disk full"))
    assert record.saves.failed == "disk full"
    record.begin_save()
    assert (record.saves.saved, record.saves.failed) == (frozenset(), "")


def test_what_an_answer_means():
    create, delete = Create("p", "ps", 0, 1, "n", ()), Delete("p", "uid")
    cases = [
        (create, Denied(403, "quota"), "refused"),
        (create, Invalid(422, "no image"), "refused for good"),
        (create, Unreachable(0, "time-out"), "tried again"),
        (create, Forbidden(403, "cannot"), "tried again"),
        (delete, Invalid(422, "what?"), "tried again"),
        (Bind("p", "uid", "n"), Conflict(409, "bound elsewhere"), "refused"),
        (Bind("p", "uid", "n"), NotFound(404, "gone"), "lost"),
    ]
    for action, error, meaning in cases:
        record = a_record()
        record.replicas["uid"] = PodReplica(name="p", role="ps", index=0)
        record.learn(ActionResult(action, error=error), now=100.0)
        refused = record.refusal is not None and ("refused for good" if record.refusal.permanent else "refused")
        lost = "lost" if not record.replicas else ""
        again = "tried again" if record.not_before > 100.0 else ""
        assert (refused or lost or again) == meaning, action


def test_trouble_is_said_once_and_pauses_grow(caplog):
    record = a_record()
    pauses = []
    for _ in range(9):
        record.trouble(Unreachable(0, "no answer"), 100.0)
        pauses.append(record.not_before - 100.0)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.25, 15.0)
    assert len(caplog.records) == 1
    record.well()
    record.trouble(Unreachable(429, "slow down", 40.0), 100.0)
    assert record.not_before == 140.0
