"""How each write is sent, and what its answer means: nothing is done to a pod that is another one, or has changed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from fake_api_server import serving, status

from headway.kube.api.errors import Conflict, Faulty, Invalid, NotFound, Unreachable
from headway.kube.gangs.model import Bind, Create, Delete, Publish, Release, ResizePod, SetCondition, Ungate
from headway.kube.pods.gate import Gate
from headway.kube.pods.marks import GANG
from headway.kube.writes.requests import Requests
from headway.kube.writes.write import Notice, Removal, StatusPatch, What, Write, WriteDone

CREATE = Create("p", "worker", 0, 0, "n1", ())
BIND = Bind("p", "pod-1", "n1", version="5")
MARKED = {"metadata": {"name": "p", "annotations": {GANG: "signed"}}}
JOB = "/apis/headway.dev/v1alpha1/namespaces/team/trainingjobs/j"
PODS = "/api/v1/namespaces/team/pods"


def a_pod(version: str = "5", uid: str = "pod-1", node: str = "", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": uid, "resourceVersion": version, **meta}, "spec": {"nodeName": node}}


def sent(what: What, answers, body: dict[str, Any] | None = None) -> tuple[WriteDone, list[tuple[str, str, dict]]]:
    """What became of one write, and the requests that it took. `answers` are by method, or one for all."""
    asked: list[tuple[str, str, dict]] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append((request.method, request.path, json.loads(await request.text() or "{}")))
        by_method = isinstance(answers, dict) and "metadata" not in answers
        answer = answers.get(request.method) if by_method else answers
        if isinstance(answer, int):
            return status(answer, "no")
        return answer if isinstance(answer, web.Response) else web.json_response(answer)

    async def main() -> WriteDone:
        async with serving(handler) as client:
            write = Write("gang", "team", "j", what, {"a": 1} if body is None else body, uid="u1")
            return await Requests(client).send(write)

    return asyncio.run(main()), asked


@pytest.mark.parametrize(
    ("what", "method", "path", "body"),
    [
        (StatusPatch(), "PATCH", f"{JOB}/status", {"metadata": {"uid": "u1"}, "status": {"a": 1}}),
        (Notice(), "POST", "/api/v1/namespaces/team/events", {"a": 1}),
        (Removal(), "DELETE", JOB, {"preconditions": {"uid": "u1"}, "propagationPolicy": "Background"}),
        (CREATE, "POST", PODS, {"a": 1}),
        (Publish("s"), "POST", "/api/v1/namespaces/team/services", {"a": 1}),
        (Release("h", ()), "POST", "/api/v1/namespaces/team/configmaps", {"a": 1}),
        (SetCondition("p", "pod-1"), "PATCH", f"{PODS}/p/status", {"a": 1}),
        (BIND, "POST", f"{PODS}/p/binding", {
            "apiVersion": "v1", "kind": "Binding", "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
            "metadata": {"name": "p", "uid": "pod-1", "resourceVersion": "5"},
        }),
        (Delete("p", "pod-1", 1, "5"), "DELETE", f"{PODS}/p", {
            "preconditions": {"uid": "pod-1", "resourceVersion": "5"}, "gracePeriodSeconds": 1,
        }),
        (Delete("p", "pod-1"), "DELETE", f"{PODS}/p", {"preconditions": {"uid": "pod-1"}}),
        (ResizePod("p", "pod-1", (), "5"), "PATCH", f"{PODS}/p/resize", {
            "metadata": {"uid": "pod-1", "resourceVersion": "5"},
            "spec": {"containers": [{"name": "main", "resources": {"a": 1}}]},
        }),
    ],
)  # fmt: skip
def test_each_write_is_one_request_about_one_object(what, method, path, body):
    done, asked = sent(what, a_pod(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert asked == [(method, path, body)]
    assert (done.error, done.write.what) == (None, what)


def test_answers_bring_the_pod_as_it_is_now():
    for what in (CREATE, ResizePod("p", "pod-1", (), "5")):
        done, _ = sent(what, a_pod("9"))
        assert done.pod is not None
        assert done.pod.metadata.resourceVersion == "9"


# ── conflicts ──


@pytest.mark.parametrize(
    ("there", "fine"),
    [
        (a_pod("6", node="n1"), True),  # it is bound: the answer was lost
        (a_pod("6"), True),  # it has changed and has no node: it is decided on again
        (a_pod("6", node="n2"), False),
        (a_pod("5"), False),
        (a_pod("6", uid="pod-2"), False),
        (a_pod("6", uid="pod-2", node="n1"), False),
    ],
)
def test_a_binding_that_conflicts_is_looked_into(there, fine):
    done, asked = sent(BIND, {"POST": 409, "GET": there})
    assert [one[:2] for one in asked] == [("POST", f"{PODS}/p/binding"), ("GET", f"{PODS}/p")], "it is not bound twice"
    assert isinstance(done.error, Conflict) is not fine
    assert (done.pod is not None) is fine, "the store hears of it"


def test_a_binding_of_a_pod_that_is_gone_says_so():
    assert isinstance(sent(BIND, {"POST": 404})[0].error, NotFound)
    assert isinstance(sent(BIND, {"POST": 409, "GET": 404})[0].error, NotFound)


@pytest.mark.parametrize(
    ("answers", "gone"),
    [
        ({"DELETE": 404}, True),
        ({"DELETE": 409, "GET": 404}, True),
        ({"DELETE": 409, "GET": a_pod("7", uid="another")}, True),
        ({"DELETE": 409, "GET": a_pod("7", node="n1")}, False),
        ({"DELETE": a_pod("7", deletionTimestamp="2026-01-01T00:00:00Z")}, False),
        ({"DELETE": a_pod("7", uid="another", deletionTimestamp="2026-01-01T00:00:00Z")}, True),
        ({"DELETE": a_pod("7")}, True),
        ({"DELETE": {"kind": "Status", "status": "Success"}}, True),
    ],
)
def test_a_deletion_tells_whether_the_pod_is_gone(answers, gone):
    done, asked = sent(Delete("p", "pod-1", 1, "5"), answers)
    assert (done.gone, done.error) == (gone, None)
    assert (done.pod is None) is gone
    assert [one[0] for one in asked].count("DELETE") == 1, "a pod that has changed is decided on again"


@pytest.mark.parametrize("what", [ResizePod("p", "pod-1", (), "5"), Ungate("p", "pod-1", "n1", Gate(), "5")])
def test_a_pod_that_has_changed_is_neither_resized_nor_let_run_but_decided_on_again(what):
    done, asked = sent(what, {"PATCH": 409, "GET": a_pod("7")})
    assert [one[0] for one in asked] == ["PATCH", "GET"]
    assert (done.gone, done.error) == (False, None)
    assert done.pod is not None
    assert sent(what, {"PATCH": 409, "GET": a_pod("7", uid="another")})[0].gone


@pytest.mark.parametrize("what", [Delete("p", "pod-1", 1, "5"), ResizePod("p", "pod-1", (), "5")])
def test_a_conflict_about_a_pod_that_has_not_changed_is_a_refusal(what):
    """A rule of the cluster may answer so: to decide again at once would be without end."""
    done, _ = sent(what, {"DELETE": 409, "PATCH": 409, "GET": a_pod("5")})
    assert isinstance(done.error, Conflict)


def test_a_pod_that_was_bound_meanwhile_is_never_deleted_without_grace():
    """Grace 0 only removes the object: its kubelet would train on. The version says that it is not that pod."""
    bound = a_pod("7", node="n1")
    done, asked = sent(Delete("p", "pod-1", 0, "5"), {"DELETE": 409, "GET": bound})
    assert [one[0] for one in asked] == ["DELETE", "GET"]
    assert asked[0][2]["preconditions"] == {"uid": "pod-1", "resourceVersion": "5"}
    assert (done.gone, done.error) == (False, None)
    assert done.pod is not None
    assert done.pod.spec.nodeName == "n1"


def test_a_pod_that_is_there_already_is_ours_if_its_mark_is_the_one_that_we_wrote():
    there = a_pod("6", annotations={GANG: "signed"})
    done, _ = sent(CREATE, {"POST": 409, "GET": there}, MARKED)
    assert done.error is None
    assert done.pod is not None
    assert done.pod.metadata.uid == "pod-1"


@pytest.mark.parametrize("annotations", [{}, {GANG: "signed otherwise"}, {"headway.dev/mark": "signed"}])
@pytest.mark.parametrize("body", [MARKED, {}])
def test_a_create_that_meets_the_pod_of_another_is_refused(annotations, body):
    done, asked = sent(CREATE, {"POST": 409, "GET": a_pod("6", annotations=annotations)}, body)
    assert isinstance(done.error, Conflict)
    assert done.pod is None
    assert [one[0] for one in asked] == ["POST", "GET"]


@pytest.mark.parametrize("what", [Publish("s"), Release("h", ()), Removal()])
def test_what_is_there_or_gone_already_is_done(what):
    assert sent(what, 409)[0].error is None
    if isinstance(what, Removal):
        assert sent(what, 404)[0].error is None


# ── errors ──


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(503, Unreachable), (429, Unreachable), (422, Invalid), (404, NotFound)],
)
def test_whatever_happens_there_is_an_answer(answer, kind):
    done, _ = sent(StatusPatch(), answer)
    assert isinstance(done.error, kind)


def test_an_answer_that_is_no_object_counts_as_none():
    nonsense = web.Response(text="<html>", content_type="text/html")
    assert isinstance(sent(CREATE, nonsense)[0].error, Unreachable)


def test_a_fault_of_our_own_is_told_and_not_tried_again():
    done, asked = sent(CREATE, a_pod(), {"not": object()})
    assert isinstance(done.error, Faulty)
    assert not isinstance(done.error, Unreachable)
    assert asked == []
