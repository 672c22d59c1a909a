"""Taking in TrainingJobs: valid, invalid, deleted, of the same name, and after a restart."""

from __future__ import annotations

import json

import msgspec
import pytest

from headway.core.board import Board
from headway.core.node import Node, Nodes
from headway.core.states import State
from headway.kube.admission import Admission
from headway.kube.adoption import in_order
from headway.kube.api.errors import Forbidden, KubeError, NotFound, Unreachable
from headway.kube.api.objects import Meta, NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed, WatchFailed
from headway.kube.inbox import Inbox
from headway.kube.initial_state import read_initial_state
from headway.kube.job.intent import Intent, RoleAllocation
from headway.kube.job.pod_marks import MARK, PodMarks
from headway.kube.job.status import status_of
from headway.kube.settings import KubeSettings
from headway.kube.work import Wake

BEGAN = 1000.0
MARKS = PodMarks(b"key")
RUNNING = Intent(state=State.RUNNING, allocation=(RoleAllocation("w", ("n1",), (("cpu", 500),)),), attempt=3)


class FakeWorker:
    def __init__(self) -> None:
        self.done, self.events = [], []

    def perform(self, work) -> None:
        self.done.append(work)

    def announce(self, namespace, event) -> None:
        self.events.append((namespace, event["reason"]))


def an_object(name="j", uid="u", spec=None, intent=None, created=1100, **meta) -> TrainingJob:
    status = {} if intent is None else status_of(intent, {"stops": 2.0}, (), BEGAN)
    stamp = f"1970-01-01T00:{created // 60:02}:{created % 60:02}Z"
    found = {
        "metadata": {"name": name, "namespace": "team", "uid": uid, "creationTimestamp": stamp, **meta},
        "spec": {"roles": {"w": {"cpu": "500m"}}} if spec is None else spec, "status": status,
    }  # fmt: skip
    return msgspec.json.decode(json.dumps(found), type=TrainingJob)


def an_admission(**settings) -> Admission:
    board = Board(Nodes.of([Node(name="n1", capacity=(("cpu", 4000),))]))
    return Admission(board, FakeWorker(), KubeSettings(began=BEGAN, **settings))


def names(admitted) -> list[str]:
    return [entry.tracked.job.id for entry in admitted]


def changed(found: TrainingJob) -> Changed:
    return Changed(TrainingJob, found)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (an_object(), ["team/j"]),
        (an_object(intent=RUNNING), ["team/j"]),
        (an_object(intent=Intent(state=State.FAILED)), []),
        (an_object(deletionTimestamp="1970-01-01T00:00:00Z"), []),
        (an_object(spec={"roles": {}}), []),
    ],
)
def test_which_new_jobs_are_taken_in(found, expected):
    admission = an_admission()
    assert names(admission.news(changed(found))) == expected
    assert names(admission.news(changed(found))) == [], "a second message about the same job is not a new job"


def test_an_invalid_spec_is_reported_once_in_the_jobs_own_status():
    admission = an_admission()
    for _ in range(2):
        admission.news(changed(an_object(spec={"roles": {"w": {"cpu": "lots"}}})))
    (work,) = admission.worker.done
    assert (work.uid, work.status["phase"], work.status["reason"]) == ("u", "Failed", "InvalidSpec")
    assert "spec.roles.w.cpu" in work.status["message"]
    assert admission.worker.events == [("team", "InvalidSpec")]


def test_at_the_start_jobs_keep_their_numbers_and_new_ones_follow_by_age():
    admission = an_admission(serials={"team/old": 7})
    new, newer = an_object("new", "1", created=1200), an_object("newer", "2", created=1300)
    old = an_object("old", "3", created=1400)
    admitted = in_order([*admission.first([newer, old, new]), *admission.some()], admission.settings.serials)
    assert names(admitted) == ["team/old", "team/new", "team/newer"]
    assert [admission.enrol(entry, 0.0) for entry in admitted] == [True] * 3
    table = admission.board.table
    assert [table.get("serial", row) for row in range(3)] == [7, 8, 9]


def its_pod() -> Pod:
    owner = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "uid": "u", "controller": True}
    meta = {"name": "j-3-w-0", "namespace": "team", "uid": "p", "ownerReferences": [owner]}
    meta["annotations"] = {MARK: MARKS.of(Meta(uid="u"), "j-3-w-0")}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, Pod)


def test_a_job_goes_on_from_its_status_and_its_pods():
    admission = an_admission(marks=MARKS)
    (entry,) = admission.first([an_object(intent=RUNNING)], [its_pod()])
    assert entry.nodes() == ["n1"]
    assert admission.enrol(entry, 50.0)
    assert (entry.tracked.state, entry.tracked.memory.attempt) == (State.RUNNING, 3)
    assert admission.board.table.get("stops", entry.tracked.row) == 2


def test_a_job_whose_pods_went_meanwhile_starts_again_from_its_checkpoint():
    admission = an_admission()
    (entry,) = admission.first([an_object(intent=RUNNING)], [its_pod()])  # its mark is not ours
    assert entry.nodes() == []
    assert admission.enrol(entry, 50.0)
    assert (entry.tracked.state, entry.tracked.memory.reason) == (State.WAITING, "Interrupted")
    assert admission.board.table.get("stops", entry.tracked.row) == 3


def test_a_job_that_is_over_is_followed_while_it_has_pods_but_not_on_the_board():
    admission = an_admission()
    gone = an_object("gone", "v", intent=Intent(state=State.FINISHED))
    (entry,) = admission.first([an_object(intent=Intent(state=State.FINISHED)), gone], [its_pod()])
    assert admission.some() == [], "of the other no pod is left"
    assert not admission.enrol(entry, 0.0)
    assert (admission.board.table.count, list(admission.jobs)) == (0, ["u"])


@pytest.mark.parametrize(
    "message",
    [
        Listed(TrainingJob, ()),
        Deleted(TrainingJob, an_object()),
        changed(an_object(deletionTimestamp="1970-01-01T00:00:00Z")),
    ],
)
def test_a_deleted_job_is_withdrawn(message):
    admission = an_admission()
    (entry,) = admission.news(changed(an_object()))
    entry.tracked.attention.dirty = False
    admission.news(message)
    assert (entry.tracked.withdrawn, entry.tracked.attention.dirty) == (True, True)


@pytest.mark.parametrize(("deleted", "expected"), [(False, ["team/j"]), (True, [])])
def test_a_second_job_of_the_same_name_waits_for_the_first(deleted, expected):
    admission = an_admission()
    (entry,) = admission.news(changed(an_object()))
    again = an_object(uid="u2")
    assert admission.news(changed(again)) == []
    if deleted:
        admission.news(Deleted(TrainingJob, again))
    assert names(admission.forget(entry.tracked)) == expected


# ── the state at the start ──


def an_inbox(*messages) -> Inbox:
    inbox = Inbox()
    for message in messages:
        inbox.put(message)
    return inbox


LISTS = [Listed(kind, ()) for kind in (TrainingJob, Pod, NodeObject)]


def test_the_start_waits_for_all_three_lists_and_keeps_the_rest():
    later = changed(an_object())
    state = read_initial_state(an_inbox(WatchFailed(Unreachable(0, "slow")), LISTS[0], later, Wake(), *LISTS[1:]))
    assert (state.jobs, state.pods, state.nodes) == tuple(LISTS)
    assert state.later == [later, Wake()]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([WatchFailed(NotFound(404, "no"))], "headway schedule --install"),
        ([WatchFailed(Forbidden(403, "may not list"))], "refuses access: may not list"),
        ([WatchFailed(Unreachable(503, "restarting")), *LISTS[:2]], "restarting"),
        ([], "no answer"),
    ],
)
def test_a_start_that_fails_says_what_to_do(messages, words):
    with pytest.raises(KubeError, match=words):
        read_initial_state(an_inbox(*messages), seconds=0.01)


def test_what_was_refused_is_forgotten_when_it_is_deleted():
    admission = an_admission()
    for number in range(3):
        admission.news(changed(an_object(f"j{number}", uid=f"u{number}", spec={"roles": {}})))
    assert len(admission.refusals.refused) == 3
    admission.news(Deleted(TrainingJob, an_object("j0", uid="u0", spec={"roles": {}})))
    admission.news(Listed(TrainingJob, (an_object("j1", uid="u1", spec={"roles": {}}),)))
    assert admission.refusals.refused == {"u1"}


def test_a_job_that_is_forgotten_leaves_the_roster_of_pods():
    admission = an_admission()
    (entry,) = admission.news(changed(an_object()))
    entry.tracked.see(msgspec.convert({"metadata": {"name": "j-0-w-0", "uid": "p"}}, Pod), BEGAN)
    assert admission.roster == {"p": ("team/j", "w", 0, 0)}
    admission.forget(entry.tracked)
    assert admission.roster == {}
