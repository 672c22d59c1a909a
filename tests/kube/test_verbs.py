"""`headway suspend`, `resume`, `cancel`, `logs` and `why` against an API server."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from fake_api_server import a_list, serving, status

from headway.cli.cluster import why_cluster
from headway.cli.jobs import logs as logs_module
from headway.cli.jobs import orders
from headway.core.errors import UserError

BERT = {
    "metadata": {"name": "bert", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:02Z"},
    "spec": {"queue": "research"},
    "status": {
        "phase": "Waiting", "reason": "NotEnoughFree", "message": "Role 'worker' needs 8 gpu; 4 gpu is free.",
        "progress": {"left": 7200.0, "spread": 0.1, "basis": "as the user declared"},
    },
}  # fmt: skip
EARLIER = {**BERT, "metadata": {**BERT["metadata"], "name": "gpt", "creationTimestamp": "2026-01-01T00:00:01Z"}}
DONE = {**BERT, "metadata": {**BERT["metadata"], "name": "old"}, "status": {"phase": "Succeeded"}}
JOBS = {found["metadata"]["name"]: found for found in (BERT, EARLIER, DONE)}


def a_pod(attempt: int, role: str, index: int) -> dict:
    return {"metadata": {"name": f"bert-{attempt}-{role}-{index}", "namespace": "team"}}


class Server:
    """Jobs, pods and their logs; remembers patches and which log was asked for."""

    def __init__(self) -> None:
        self.patches, self.logs = [], []
        self.pods = [a_pod(0, "worker", 0), *(a_pod(1, role, n) for role in ("ps", "worker") for n in (0, 1))]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        *_, kind, name = request.path.split("/")
        if name == "log":
            self.logs.append(request.path_qs)
            return web.Response(body=b"step 1\nstep 2\n")
        if name == "pods":
            return a_list(self.pods)
        if name == "trainingjobs":
            return a_list(list(JOBS.values()))
        if kind != "trainingjobs" or name not in JOBS:
            return status(404, "not found")
        if request.method == "PATCH":
            self.patches.append((name, json.loads(await request.read())["spec"]))
        return web.json_response(JOBS[name])


def with_server(work, server: Server | None = None):
    server = server or Server()

    async def run():
        async with serving(server.answer) as client:
            return await work(client._access)

    return asyncio.run(run())


def test_an_order_is_written_to_jobs_that_are_not_over():
    server = Server()
    told = with_server(lambda access: orders.ordered(access, "team", ["bert", "old"], "suspended", {"suspend": True}),
                       server)  # fmt: skip
    assert [(row["name"], row["over"]) for row in told] == [("bert", False), ("old", True)]
    assert server.patches == [("bert", {"suspend": True})]


@pytest.mark.parametrize("verb", ["order", "logs", "why"])
def test_a_job_that_is_not_there_is_told_in_one_sentence_with_those_that_are(verb):
    work = {
        "order": lambda access: orders.ordered(access, "team", ["nobody"], "cancelled", {"cancel": True}),
        "logs": lambda access: logs_module.printed(access, ("team", "nobody", "", None), lines=None, follow=False),
        "why": lambda access: why_cluster.look(access, "team", "nobody"),
    }[verb]
    with pytest.raises(UserError, match="there is no job 'nobody' in namespace 'team'; it has gpt, bert, old"):
        with_server(work)


@pytest.mark.parametrize(
    ("role", "index", "pod"),
    [("", None, "bert-1-ps-0"), ("worker", None, "bert-1-worker-0"), ("worker", 1, "bert-1-worker-1")],
)
def test_the_log_is_that_of_the_chosen_replica_of_the_newest_start(role, index, pod, capfdbinary):
    server = Server()
    with_server(lambda access: logs_module.printed(access, ("team", "bert", role, index), lines=5, follow=True), server)
    assert server.logs == [f"/api/v1/namespaces/team/pods/{pod}/log?container=main&follow=true&tailLines=5"]
    assert capfdbinary.readouterr().out == b"step 1\nstep 2\n"


def test_a_replica_that_is_not_there_is_told():
    def logs(access):
        return logs_module.printed(access, ("team", "bert", "chief", None), lines=None, follow=False)

    with pytest.raises(UserError, match="has no such replica: it has ps 0, ps 1, worker 0, worker 1"):
        with_server(logs)
    server = Server()
    server.pods = []
    with pytest.raises(UserError, match="has no pods"):
        with_server(logs, server)


def test_why_tells_reason_place_and_estimate(capsys):
    found, ahead = with_server(lambda access: why_cluster.look(access, "team", "bert"))
    assert ahead == 1
    why_cluster.show(why_cluster.told(found, ahead), as_json=False)
    text = capsys.readouterr().out
    assert "bert (Waiting, NotEnoughFree): Role 'worker' needs 8 gpu; 4 gpu is free." in text
    assert "1 waiting job of its namespace and queue came before it" in text
    assert "2 h ±12 min: as the user declared" in text
    why_cluster.show(why_cluster.told(found, ahead), as_json=True)
    assert json.loads(capsys.readouterr().out)["reason"] == "NotEnoughFree"
    why_cluster.show(why_cluster.told({"metadata": BERT["metadata"]}, None), as_json=False)
    assert "no scheduler has looked at it yet" in capsys.readouterr().out
