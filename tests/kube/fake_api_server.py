"""An API server in a few lines: the handler is the test's own function, in the test's own event loop."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web

from headway.kube.api.access import Access
from headway.kube.api.client import Client, Patience


@asynccontextmanager
async def serving(handler, **patience: float):
    """A client of a server that answers every request by `await handler(request)`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    access = Access(url=f"http://127.0.0.1:{port}", tls=None)
    try:
        async with Client(access, Patience(**patience)) as client:
            yield client
    finally:
        await runner.cleanup()


def status(code: int, message: str = "no", **headers: str) -> web.Response:
    body = {"kind": "Status", "code": code, "message": message}
    return web.json_response(body, status=code, headers=headers)


def a_list(items: list, version: str = "10", token: str = "") -> web.Response:
    return web.json_response({"metadata": {"resourceVersion": version, "continue": token}, "items": items})


async def stream(request: web.Request, *lines: object, then: str = "end") -> web.StreamResponse:
    """A watch that says these lines and then ends, breaks off, or stays silent."""
    response = web.StreamResponse()
    await response.prepare(request)
    for line in lines:
        await response.write((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")
    if then == "break":
        request.transport.abort()
    elif then == "hang":
        await asyncio.sleep(60)
    return response


def a_node(name: str, version: str = "1", **fields: object) -> dict:
    return {"metadata": {"name": name, "resourceVersion": version, "uid": f"u-{name}"}, **fields}


def change(kind: str, what: dict) -> dict:
    return {"type": kind, "object": what}


def a_kubeconfig(**cluster):
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
