"""A bare asynchronous client with a pod watch: what the benchmark creates, binds and sees, and when."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

import aiohttp

from headway.lab import Lab

CONNECTIONS = 32
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TELL_SECONDS = 15.0


def say(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)


class Refused(Exception):  # noqa: N818 - it reads as what it is
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


class Client:
    """Requests over a few kept connections, and the moment at which each pod was first seen bound."""

    def __init__(self, lab: Lab) -> None:
        self._url, self._context = lab.url, lab.ssl_context()
        self.gang_version = lab.gang_version
        """The newest version of PodGroup that is served; empty if none is."""
        self.bound_at: dict[str, float] = {}
        self.live: set[str] = set()
        self.last_bind = 0.0

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._context, limit=CONNECTIONS + 2)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None))
        self._watching = asyncio.Event()
        self._watcher = asyncio.create_task(self._watch())
        await self._watching.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watcher.cancel()
        await asyncio.gather(self._watcher, return_exceptions=True)
        await self._session.close()

    async def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        headers = {"Content-Type": content_type}
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
            answer = await response.json()
            if response.status >= 400:
                raise Refused(response.status, f"{method} {path}: {answer.get('message')}")
            return answer

    async def each(self, do: Callable[[Any], Awaitable[Any]], items: Iterable[Any]) -> None:
        """Do it for all items, so many at a time as there are connections."""
        queue = iter(list(items))

        async def work() -> None:
            for item in queue:
                await do(item)

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))

    async def create_pods(self, pods: Iterable[dict[str, Any]]) -> None:
        await self.each(lambda pod: self.request("POST", PODS, pod), pods)

    async def bind(self, name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.request("POST", f"{PODS}/{name}/binding", body)

    async def delete_pods(self, names: Iterable[str]) -> None:
        options = {"gracePeriodSeconds": 0}

        async def delete(name: str) -> None:
            try:
                await self.request("DELETE", f"{PODS}/{name}", options)
            except Refused as error:
                if error.status != 404:
                    raise

        wanted = set(names)
        await self.each(delete, wanted)
        while wanted & self.live:  # noqa: ASYNC110 - emptied by the watch, a few times a second is enough
            await asyncio.sleep(0.1)

    async def delete_all(self) -> None:
        """Every pod of the namespace, which nobody else holds on to. One request is cut off after a minute: go on."""
        while self.live:
            with contextlib.suppress(Refused, aiohttp.ClientError):
                await self.request("DELETE", PODS, {"gracePeriodSeconds": 0})
            await asyncio.sleep(0.1)

    async def settle(self, quiet: float, done: Callable[[], bool], at_most: float = math.inf) -> None:
        """Until it is done, or no pod was bound for `quiet` seconds, or `at_most` seconds have passed."""
        began = told = time.monotonic()
        while not done() and time.monotonic() - began < at_most:
            if self._watcher.done():
                self._watcher.result()
            if time.monotonic() - max(self.last_bind, began) > quiet:
                return
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                say(f"  {len(self.bound_at)} bound after {told - began:.0f} s")
            await asyncio.sleep(0.05)

    async def _watch(self) -> None:
        """The API server ends the watch of whoever reads too slowly; it goes on from the last version seen."""
        version = (await self.request("GET", f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
        while True:
            url = f"{self._url}{PODS}?watch=1&resourceVersion={version}"
            async with self._session.get(url, read_bufsize=2**22) as response:
                response.raise_for_status()
                self._watching.set()
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"the watch failed: {event['object'].get('message')}")
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._see(event["type"], event["object"])

    def _see(self, kind: str, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            self.live.discard(name)
            self.bound_at.pop(name, None)
            return
        self.live.add(name)
        if pod["spec"].get("nodeName") and name not in self.bound_at:
            self.bound_at[name] = self.last_bind = time.monotonic()
