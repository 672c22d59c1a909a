"""What a pod says of its gang, signed: nobody else can say it, and it counts beside no other pod."""

from __future__ import annotations

import json

import msgspec
import pytest

from headway.kube.api.objects import PLANNED_NODE, Meta, Pod
from headway.kube.pods.marks import GANG, OLD_MARK, GangMark, PodMarks, claims, pod_name, read_pod_name, same_mark

MARKS = PodMarks(b"the key")
JOB = Meta(name="j", namespace="team", uid="u")
NAME = "j-3-worker-0"
MARK = GangMark(3, "n1", {"ps": 1, "worker": 2}, {"cpu": 500, "memory": 64}, "research", 7)


def a_pod(notes: dict[str, str], node: str = "", name: str = NAME, owner: str = "u", namespace: str = "team") -> Pod:
    kind = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "uid": owner, "controller": True}
    meta = {"name": name, "namespace": namespace, "annotations": notes, "ownerReferences": [kind]}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}}, Pod)


def written(job: Meta = JOB, name: str = NAME, mark: GangMark = MARK) -> dict[str, str]:
    return MARKS.written(job, name, mark)


@pytest.mark.parametrize("node", ["", "n1"])
def test_a_mark_is_read_back_before_and_after_the_pod_is_bound(node):
    assert MARKS.read(a_pod(written(), node), JOB) == MARK
    assert MARK.asks == (("cpu", 500), ("memory", 64))


def edited(**changes: object) -> dict[str, str]:
    """The annotations with another text under the same sign."""
    notes = written()
    sign, _, text = notes[GANG].partition(" ")
    return notes | {GANG: f"{sign} {json.dumps({**json.loads(text), **changes})}"}


@pytest.mark.parametrize(
    "changes", [{"attempt": 4}, {"node": "n2"}, {"counts": {"worker": 9}}, {"amounts": {}}, {"queue": ""}, {"epoch": 8}]
)
def test_a_text_that_was_edited_is_refused_although_the_old_mark_is_good(changes):
    assert MARKS.read(a_pod(edited(**changes)), JOB) is None
    assert MARKS.read(a_pod(edited(**changes), "n1"), JOB) is None


@pytest.mark.parametrize("text", ["", " ", "x", "x y", "é ü", "0" * 24 + " {}", "\\ud800 x"])
def test_nonsense_is_no_mark(text):
    assert MARKS.read(a_pod({GANG: text}), JOB) is None


def test_a_pod_that_is_not_where_it_was_planned_is_refused():
    assert MARKS.read(a_pod(written(), "n2"), JOB) is None


def test_a_mark_is_good_for_one_job_one_name_and_one_key():
    again = Meta(name="j", namespace="team", uid="another")
    assert MARKS.read(a_pod(written(), owner="another"), again) is None, "a later job of the same name"
    assert MARKS.read(a_pod(written(), name="j-3-worker-1"), JOB) is None, "copied to another pod"
    assert MARKS.read(a_pod(written(), name="j-4-worker-0"), JOB) is None, "or to another attempt"
    assert PodMarks(b"another key").read(a_pod(written()), JOB) is None
    assert MARKS.read(a_pod(written(), owner="another"), JOB) is None, "it names another owner"
    assert MARKS.read(a_pod(written(), namespace="elsewhere"), JOB) is None
    wrong = written(mark=GangMark(2, "n1"))
    assert MARKS.read(a_pod(wrong), JOB) is None, "the attempt of its name is another one"


# ── marks of earlier versions ──


@pytest.mark.parametrize("node", ["", "n1"])
def test_a_mark_of_name_and_node_is_read_and_says_nothing_of_the_gang(node):
    notes = written()
    del notes[GANG]
    found = MARKS.read(a_pod(notes, node), JOB)
    assert found == GangMark(3, "n1")
    assert found is not None
    assert not found.counts
    assert MARKS.read(a_pod(notes | {PLANNED_NODE: "n2"}, node), JOB) is None
    assert MARKS.read(a_pod(notes, "n2"), JOB) is None


def test_the_first_marks_of_all_named_no_node_and_count_once_the_pod_has_one():
    first = {OLD_MARK: MARKS._signed(f"{JOB.uid}/{NAME}")}
    assert MARKS.read(a_pod(first, "n1"), JOB) == GangMark(3, "n1")
    assert MARKS.read(a_pod(first), JOB) is None, "nobody vouches for its node"


def test_a_rollback_finds_the_mark_that_it_knows():
    notes = written()
    assert notes[PLANNED_NODE] == "n1"
    assert notes[OLD_MARK] == MARKS._signed(f"{JOB.uid}/{NAME}/n1")


# ── the answer to a create was lost ──


def test_the_same_pod_is_known_by_its_mark_alone():
    body = {"metadata": {"annotations": written()}}
    assert same_mark(a_pod(written()), body)
    assert not same_mark(a_pod(written(mark=GangMark(3, "n2"))), body)
    assert not same_mark(a_pod({}), body)
    assert not same_mark(a_pod({}), {"metadata": {}}), "no mark is not the same mark"


# ── names ──


@pytest.mark.parametrize(("attempt", "role", "index"), [(0, "worker", 0), (12, "parameter-server", 99)])
def test_a_name_says_which_replica_a_pod_is(attempt, role, index):
    name = pod_name("a-b", attempt, role, index)
    assert read_pod_name(name, "a-b") == (attempt, role, index)
    assert read_pod_name(name, "other") is None


@pytest.mark.parametrize(
    "name", ["j", "j-", "j-x-worker-0", "j-03-worker-0", "j-3-worker-00", "j-3-worker", "j--3-w-0-"]
)
def test_a_name_that_we_would_not_give_is_none_of_ours(name):
    assert read_pod_name(name, "j") is None
    assert not claims(a_pod({}, name=name), JOB)
