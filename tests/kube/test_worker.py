"""Requests about one job: the status first, then the actions; what each answer means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from aiohttp import web
from fake_api_server import a_list, status, stream

from headway.kube.api.access import Access
from headway.kube.api.errors import Unreachable
from headway.kube.reconcile.model import Bind, Create, Delete, ResizePod
from headway.kube.work import ApiWork, Performed, PodRequest
from headway.kube.worker import ApiWorker

CREATE = Create("p", "worker", 0, 0, "n1", ())
OURS = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "uid": "u1", "name": "j", "controller": True}


def a_pod(**fields: object) -> dict:
    meta = {"name": "p", "uid": "pod-1", "resourceVersion": "5", "ownerReferences": [fields.pop("owner", OURS)]}
    return {"metadata": {**meta, **fields.pop("meta", {})}, **fields}


LISTED = ("/nodes", "/pods", "/trainingjobs", "/mutatingwebhookconfigurations", "/limitranges", "/runtimeclasses")
VERSIONS = ("/v1", "/v1beta1")


def performed(answers, work: ApiWork, before: Sequence[ApiWork] = ()) -> tuple[Performed, list[tuple[str, str, dict]]]:
    """The result of one piece of work, and the requests that it took."""
    import threading

    asked: list[tuple[str, str, dict]] = []
    ready, done, port = threading.Event(), threading.Event(), []

    async def handler(request):
        if "watch" in request.query:
            return await stream(request, then="hang")
        if request.method == "GET" and request.path.endswith(LISTED):
            return a_list([])
        if request.path.endswith(VERSIONS):
            return status(404)
        asked.append((request.method, request.path, json.loads(await request.text() or "{}")))
        return answers(request.method, request.path.rpartition("/")[2])

    async def main():
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port.append(site._server.sockets[0].getsockname()[1])
        ready.set()
        while not done.is_set():  # noqa: ASYNC110  it is set by another thread
            await asyncio.sleep(0.02)
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    ready.wait()
    remote = ApiWorker(Access(url=f"http://127.0.0.1:{port[0]}", tls=None))
    for one in (*before, work):
        remote.perform(one)
    result = None
    while result is None:
        assert remote.inbox.wait(60)
        message = remote.inbox.next()
        result = message if isinstance(message, Performed) and message.work is work else None
    remote.close()
    done.set()
    thread.join()
    return result, asked


def work(*actions, status_body=None) -> ApiWork:
    return ApiWork("u1", "team", "j", status_body, tuple(PodRequest(action, {"a": 1}) for action in actions))


def test_the_status_is_written_before_anything_is_done():
    result, asked = performed(lambda *_: web.json_response(a_pod()), work(CREATE, status_body={"phase": "Starting"}))
    assert [entry[:2] for entry in asked] == [
        ("PATCH", "/apis/headway.dev/v1alpha1/namespaces/team/trainingjobs/j/status"),
        ("POST", "/api/v1/namespaces/team/pods"),
    ]
    assert asked[0][2] == {"metadata": {"uid": "u1"}, "status": {"phase": "Starting"}}
    assert result.error is None
    assert result.results[0].pod.metadata.uid == "pod-1"


@pytest.mark.parametrize("in_hand", [True, False])
def test_a_job_does_not_wait_for_the_requests_of_another_namespace(in_hand):
    """Whether those are for jobs that run or for ones that are refused."""
    crowd = [ApiWork(f"a{n}", "crowd", f"a{n}", {"phase": "x"}, in_hand=in_hand) for n in range(300)]
    result, asked = performed(lambda *_: web.json_response(a_pod()), work(CREATE, status_body={"phase": "x"}), crowd)
    assert result.error is None
    places = [number for number, (_, path, _) in enumerate(asked) if "/team/" in path]
    assert len(places) == 2
    assert places[1] < 150, "its pod was made long before the crowd was served"


def test_a_status_that_cannot_be_written_stops_everything():
    result, asked = performed(lambda *_: status(503), work(CREATE, status_body={}))
    assert isinstance(result.error, Unreachable)
    assert len(asked) == 1


@pytest.mark.parametrize(("node", "fine"), [("n1", True), ("n2", False), ("", False)])
def test_a_binding_that_conflicts_is_looked_into(node, fine):
    def answers(method, _name):
        return status(409) if method == "POST" else web.json_response(a_pod(spec={"nodeName": node}))

    result, asked = performed(answers, work(Bind("p", "pod-1", "n1")))
    assert (result.results[0].error is None) == fine
    assert asked[0][1].endswith("/pods/p/binding")
    assert asked[0][2]["metadata"]["uid"] == "pod-1", "never another pod of the same name"


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        (lambda: status(404), True),
        (lambda: status(409), True),
        (lambda: web.json_response(a_pod(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})), False),
        (lambda: web.json_response({"kind": "Status", "status": "Success"}), True),
    ],
)
def test_a_deletion_tells_whether_the_pod_is_gone(answer, gone):
    result, asked = performed(lambda *_: answer(), work(Delete("p", "pod-1", 1)))
    assert result.results[0].gone == gone
    assert result.results[0].error is None
    assert asked[0][2] == {"preconditions": {"uid": "pod-1"}, "gracePeriodSeconds": 1}


def test_a_resize_goes_to_its_own_door():
    result, asked = performed(lambda *_: web.json_response(a_pod()), work(ResizePod("p", "pod-1", ())))
    assert result.results[0].error is None
    assert asked[0][:2] == ("PATCH", "/api/v1/namespaces/team/pods/p/resize")
    assert asked[0][2] == {"spec": {"containers": [{"name": "main", "resources": {"a": 1}}]}}
