"""A proxy before the API server that stops a scheduler at one of its writes: before the server sees it, or after.

What is stopped before the server sees it arrives late: when another scheduler leads. That is the worst that a leader
which was frozen between its last look at the fence and the socket can do.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from headway.lab import Lab

KINDS = {
    "bind": re.compile(r"POST .*/pods/[^/]+/binding$"),
    "delete": re.compile(r"DELETE .*/pods/[^/]+$"),
    "create": re.compile(r"POST .*/pods$"),
    "status": re.compile(r"PATCH .*/trainingjobs/[^/]+/status$"),
}
WHEN = ("before", "after")
HOW = {"frozen": signal.SIGSTOP, "killed": signal.SIGKILL}
HELD_SECONDS = 120.0
TOKEN = "/api/v1/namespaces/headway-system/serviceaccounts/headway/token"


class StopPoint:
    """Armed, it stops `pid` at the next write of its kind. `go_on` lets that write, or its answer, pass."""

    def __init__(self, lab: Lab, kind: str, when: str, how: str) -> None:
        self._server, self._kind, self._when, self._how = lab.url, KINDS[kind], when, HOW[how]
        self._context = ssl.create_default_context(cafile=str(lab.ca))
        self._armed, self._released, self._ending = threading.Event(), threading.Event(), threading.Event()
        self.stopped, self.passed, self._ready = threading.Event(), threading.Event(), threading.Event()
        self.pid = 0
        self.answer = 0
        """The server's code for the write that was stopped."""
        self.port = 0

    def arm(self, pid: int) -> None:
        self.pid = pid
        self._armed.set()

    def go_on(self) -> None:
        self._released.set()

    @contextmanager
    def served(self) -> Iterator[StopPoint]:
        thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        thread.start()
        self._ready.wait(10)
        try:
            yield self
        finally:
            self._released.set()
            self._ending.set()
            thread.join()

    async def _serve(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await asyncio.to_thread(self._ending.wait)
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        here = self._armed.is_set() and self._kind.fullmatch(f"{request.method} {request.path}") is not None
        if here:
            self._armed.clear()
        if here and self._when == "before":
            await self._stop()
        headers = {name: request.headers[name] for name in ("Authorization", "Accept", "Content-Type")
                   if name in request.headers}  # fmt: skip
        url = f"{self._server}{request.raw_path}"
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            if here:
                self.answer = answer.status
            if here and self._when == "after":
                await answer.read()
                await self._stop()
            if here:
                self.passed.set()
            kept = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
            if "watch" not in request.query:
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)
            told = web.StreamResponse(status=answer.status, headers=kept)
            await told.prepare(request)
            with suppress(ConnectionError):  # whoever watched is gone
                async for chunk in answer.content.iter_any():
                    await told.write(chunk)
            return told

    async def _stop(self) -> None:
        os.kill(self.pid, self._how)
        self.stopped.set()
        await asyncio.to_thread(self._released.wait, HELD_SECONDS)


def kubeconfig(lab: Lab, port: int, folder: Path) -> Path:
    """Through the proxy, with the rights of the shipped role and no more."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    config = yaml.safe_load(lab.kubeconfig.read_bytes())
    config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
    config["users"][0]["user"] = {"token": lab.api.post(TOKEN, asked)["status"]["token"]}
    path = folder / "kubeconfig-stopped"
    path.write_text(json.dumps(config))
    return path


def over_booked(pods: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> list[str]:
    """Nodes on which pods that live hold more cpu or GPUs than there are."""
    held = Counter[tuple[str, str]]()
    for pod in pods:
        if pod["status"].get("phase") not in ("Succeeded", "Failed") and pod["spec"].get("nodeName"):
            for container in pod["spec"]["containers"]:
                for name, amount in container.get("resources", {}).get("requests", {}).items():
                    held[pod["spec"]["nodeName"], name] += _milli(amount)
    there = {}
    for node in nodes:
        for name in ("cpu", "nvidia.com/gpu"):
            there[node["metadata"]["name"], name] = _milli(node["status"]["allocatable"].get(name, "0"))
    return [f"{node}: {name}" for (node, name), amount in held.items() if amount > there.get((node, name), amount)]


def _milli(amount: str) -> int:
    if amount.endswith("m"):
        return int(amount[:-1])
    return 1000 * int(amount) if amount.isdecimal() else 0
