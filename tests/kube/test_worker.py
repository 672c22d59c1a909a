"""The thread that talks to the API server: writes go through the door, and come back as answers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence

import pytest
from aiohttp import web
from fake_api_server import a_list, status, stream

from headway.kube.api.access import Access
from headway.kube.api.errors import ApiError, Conflict
from headway.kube.gangs.model import Bind, Create, Delete, ResizePod
from headway.kube.inbox import WorkerEnded
from headway.kube.pods.marks import GANG
from headway.kube.writes import door
from headway.kube.writes.fence import Fence
from headway.kube.writes.lease import SchedulerLease
from headway.kube.writes.worker import ApiWorker
from headway.kube.writes.write import Rank, Stage, StatusPatch, What, Write, WriteDone, rank_of

CREATE = Create("p", "worker", 0, 0, "n1", ())
OURS = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "uid": "u1", "name": "j", "controller": True}
JOB = "/apis/headway.dev/v1alpha1/namespaces/team/trainingjobs/j"


def a_pod(**fields: object) -> dict:
    meta = {"name": "p", "uid": "pod-1", "resourceVersion": "5", "ownerReferences": [fields.pop("owner", OURS)]}
    return {"metadata": {**meta, **fields.pop("meta", {})}, **fields}


LISTED = ("/nodes", "/pods", "/trainingjobs", "/mutatingwebhookconfigurations", "/limitranges", "/runtimeclasses")
VERSIONS = ("/v1", "/v1beta1")


Asked = list[tuple[str, str, dict]]


def performed(
    answers, *writes: Write, before: Sequence[Write] = (), fence: Fence | None = None,
    then: Callable[[ApiWorker, Asked], None] = lambda _worker, _asked: None,
) -> tuple[list[WriteDone], Asked]:  # fmt: skip
    """What became of these writes, in the order in which they were answered, and the requests that it took."""
    asked: Asked = []
    ready, done, port = threading.Event(), threading.Event(), []

    async def handler(request):
        if "watch" in request.query:
            return await stream(request, then="hang")
        if request.method == "GET" and request.path.endswith(LISTED):
            return a_list([])
        if request.path.endswith(VERSIONS):
            return status(404)
        asked.append((request.method, request.path, json.loads(await request.text() or "{}")))
        answer = answers(request.method, request.path.rpartition("/")[2])
        return await answer if asyncio.iscoroutine(answer) else answer

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
    worker = ApiWorker(Access(url=f"http://127.0.0.1:{port[0]}", tls=None), lease=SchedulerLease("", fence or Fence()))
    found: list[WriteDone] = []
    try:
        worker.put([*before, *writes])
        then(worker, asked)
        while len(found) < len(writes):
            assert worker.inbox.wait(60)
            message = worker.inbox.next()
            assert not isinstance(message, WorkerEnded), message
            if isinstance(message, WriteDone) and message.write in writes:
                found.append(message)
        worker.close()
    finally:
        done.set()
        thread.join()
    return found, asked


def a_write(what: What, body: dict | None = None, namespace: str = "team", name: str = "j") -> Write:
    return Write("u1", namespace, name, what, {"a": 1} if body is None else body, uid="u1", rank=rank_of(what))


def test_creates_do_not_wait_for_a_status_and_each_write_is_answered():
    """A pod names its gang itself. What must wait for a status is not put before that is answered."""
    writes = [a_write(StatusPatch(), {"phase": "Starting"}), a_write(CREATE)]
    found, asked = performed(lambda *_: web.json_response(a_pod()), *writes)
    assert {entry[:2] for entry in asked} == {("PATCH", f"{JOB}/status"), ("POST", "/api/v1/namespaces/team/pods")}
    assert {"metadata": {"uid": "u1"}, "status": {"phase": "Starting"}} in [entry[2] for entry in asked]
    assert all(done.error is None for done in found)
    (made,) = [done for done in found if done.write.what == CREATE]
    assert made.pod is not None
    assert made.pod.metadata.uid == "pod-1"


@pytest.mark.parametrize("rank", [Rank.STATUS, Rank.EVENT])
def test_a_job_does_not_wait_for_the_requests_of_another_namespace(rank):
    """Whether those are for jobs that run or for ones that are refused."""
    crowd = [
        Write(f"a{n}", "crowd", f"a{n}", StatusPatch(), {"phase": "x"}, uid=f"a{n}", rank=rank) for n in range(300)
    ]
    writes = [a_write(StatusPatch(), {"phase": "x"}), a_write(CREATE)]
    found, asked = performed(lambda *_: web.json_response(a_pod()), *writes, before=crowd)
    assert all(done.error is None for done in found)
    places = [number for number, (_, path, _) in enumerate(asked) if "/team/" in path]
    assert len(places) == 2
    assert places[1] < 150, "it was served long before the crowd"


def test_a_status_that_cannot_be_written_is_written_until_it_is_and_holds_nothing_else_up(monkeypatch):
    monkeypatch.setattr(door, "FIRST_PAUSE_SECONDS", 0.05)
    refused = [0]

    def answers(method, _name):
        refused[0] += method == "PATCH"
        return status(503) if method == "PATCH" and refused[0] <= 3 else web.json_response(a_pod())

    found, asked = performed(answers, a_write(StatusPatch(), {}), a_write(CREATE))
    assert [type(done.write.what) for done in found] == [Create, StatusPatch]
    assert all(done.error is None for done in found), "who asked hears of the end alone"
    assert [entry[0] for entry in asked].count("PATCH") == 4


@pytest.mark.parametrize(("node", "fine"), [("n1", True), ("n2", False), ("", False)])
def test_a_binding_that_conflicts_is_looked_into(node, fine):
    def answers(method, _name):
        return status(409) if method == "POST" else web.json_response(a_pod(spec={"nodeName": node}))

    (done,), asked = performed(answers, a_write(Bind("p", "pod-1", "n1")))
    assert (done.error is None) == fine
    assert asked[0][1].endswith("/pods/p/binding")
    assert asked[0][2]["metadata"]["uid"] == "pod-1", "never another pod of the same name"


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        (lambda: status(404), True),
        (lambda: web.json_response(a_pod(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})), False),
        (lambda: web.json_response({"kind": "Status", "status": "Success"}), True),
    ],
)
def test_a_deletion_tells_whether_the_pod_is_gone(answer, gone):
    (done,), asked = performed(lambda *_: answer(), a_write(Delete("p", "pod-1", 1)))
    assert done.gone == gone
    assert done.error is None
    assert asked[0][2] == {"preconditions": {"uid": "pod-1"}, "gracePeriodSeconds": 1}


def test_a_resize_goes_to_its_own_door():
    (done,), asked = performed(lambda *_: web.json_response(a_pod()), a_write(ResizePod("p", "pod-1", (), "5")))
    assert done.error is None
    assert asked[0][:2] == ("PATCH", "/api/v1/namespaces/team/pods/p/resize")
    assert asked[0][2]["spec"] == {"containers": [{"name": "main", "resources": {"a": 1}}]}


def test_a_pod_of_another_under_the_same_name_is_told():
    def answers(method, _name):
        return status(409) if method == "POST" else web.json_response(a_pod())

    body = {"metadata": {"annotations": {GANG: "ours"}}}
    (done,), _ = performed(answers, a_write(CREATE, body))
    assert isinstance(done.error, Conflict)


def test_what_is_dropped_is_not_sent_and_the_fence_is_waited_for(monkeypatch):
    monkeypatch.setattr(door, "FENCE_SECONDS", 0.02)
    fence = Fence()
    fence.close()
    bind, dropped, create = a_write(Bind("p", "pod-1", "n1")), a_write(Delete("q", "pod-2")), a_write(CREATE)

    def then(worker: ApiWorker, asked: Asked) -> None:
        worker.put([], [dropped])
        while dropped.stage is not Stage.OVER:
            time.sleep(0.01)
        assert not any(entry[0] in ("POST", "DELETE", "PATCH") for entry in asked)
        fence.renew(time.monotonic(), 60.0)

    found, asked = performed(
        lambda *_: web.json_response(a_pod()), bind, create, before=[dropped], fence=fence, then=then
    )
    assert {type(done.write.what) for done in found} == {Bind, Create}
    assert not any(entry[0] == "DELETE" for entry in asked)
    assert dropped.stage is Stage.OVER


def test_a_worker_that_ends_waits_for_no_question_that_is_asked_later():
    """A namespace without quota left has its pods tried again every 30 seconds; each hand-over waited for that."""
    answered: list[bytes | ApiError] = []

    def then(worker: ApiWorker, _asked: Asked) -> None:
        worker.dry_run("key", "team", {}, after=30.0)
        worker.ask("/hangs", {}, answered.append)
        time.sleep(0.3)

    async def answers(method: str, name: str) -> web.StreamResponse:
        await asyncio.sleep(30 if name == "hangs" else 0)
        return web.json_response(a_pod())

    began = time.monotonic()
    performed(answers, a_write(CREATE), then=then)
    assert time.monotonic() - began < 4
    assert isinstance(answered[0], ApiError), "who asked does not wait for ever"
