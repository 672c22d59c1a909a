"""The API server over HTTP: requests with typed errors, lists in pages, watches. Decodes only what it needs."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec

from headway.core.text import writable
from headway.kube.api.access import Access
from headway.kube.api.errors import ApiError, Expired, Faulty, KubeError, Unreachable, error_for
from headway.kube.api.objects import ObjectList, StatusObject, WatchLine, cut

T = TypeVar("T")
Heard = Callable[[str, int, float], None]
"""Hears of each answer: what it was to, its code (0: nobody answered), and how many seconds it took."""
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PAGE_ITEMS = 2000
CONNECTIONS = 64
"""More than requests are under way at once: a watch never waits for one."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000}
"""A peer whose machine or route is gone is noticed after 30 s: idle, then probes in seconds; unanswered data in ms."""

GOODBYE_SECONDS = 1.0
"""How long the end of a client waits until its connections are closed."""
TOO_NEW = "ResourceVersionTooLarge"
"""The cause of a refusal: the server does not have that version yet. After etcd was restored it may never come."""

_list_decoder = msgspec.json.Decoder(ObjectList)
_watch_decoder = msgspec.json.Decoder(WatchLine)
_status_decoder = msgspec.json.Decoder(StatusObject)
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds after which a server that says nothing counts as gone.

    A server ends each watch after `watch` seconds, whether or not it had anything to say. So a watch that is silent for
    `watch + late` seconds has no server behind it, even where a proxy still answers for it.
    """

    request: float = 30.0
    watch: float = 60.0
    late: float = 15.0


def not_heard(_kind: str, _code: int, _seconds: float) -> None:
    """Nobody is interested."""


class Client:
    """Use as an async context manager, in one event loop."""

    def __init__(self, access: Access, patience: Patience = Patience(), heard: Heard = not_heard) -> None:
        self._access = access
        self._patience = patience
        self._heard = heard
        self._session: aiohttp.ClientSession | None = None
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS, ssl=self._access.tls or False, socket_factory=self._connecting
        )
        timeout = aiohttp.ClientTimeout(total=self._patience.request)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=2**20)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
        # A watch that was ended says goodbye to the server meanwhile; a loop that ends before it is through complains.
        for _ in range(round(GOODBYE_SECONDS / 0.01)):
            if all(one.fileno() < 0 for one in self._sockets):
                break
            await asyncio.sleep(0.01)

    def _connecting(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = _watchful_socket(address)
        self._sockets.add(made)
        return made

    async def get(self, path: str) -> bytes:
        return await self.send("GET", path)

    async def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        return await self.send("POST", path, body)

    async def patch(self, path: str, body: Any, kind: str = MERGE_PATCH) -> bytes:
        return await self.send("PATCH", path, body, kind)

    async def delete(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        return await self.send("DELETE", path, body)

    async def send(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> bytes:
        """The body of the answer. Raises ApiError if the server refuses or cannot be reached."""
        with self._timed(method.lower()):
            return await self._send(method, path, body, kind)

    async def _send(self, method: str, path: str, body: Any, kind: str) -> bytes:
        assert self._session is not None
        data = None if body is None else _encoded(method, path, body)
        more = {} if data is None else {"Content-Type": kind}
        url = self._access.url + path
        try:
            async with asyncio.timeout(self._patience.request):  # what waits for credentials must not leave late
                headers = await self._headers() | more
                async with self._session.request(method, url, data=data, headers=headers) as response:
                    content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _unreachable(method, path, error) from error
        if response.status >= 400:
            raise _refusal(response.status, content, response.headers.get("Retry-After", ""))
        return content

    async def list_pages(self, path: str, query: str = "") -> AsyncIterator[ObjectList]:
        """A consistent list, page by page. Raises Expired if reading it took too long."""
        token = ""
        while True:
            more = f"&continue={token}" if token else ""
            page = await self._page(path, f"limit={PAGE_ITEMS}{more}{query}")
            yield page
            token = page.metadata.continue_
            if not token:
                return

    async def version(self, path: str) -> str:
        """The server's newest version, by a list of one."""
        return (await self._page(path, "limit=1")).metadata.resourceVersion

    async def _page(self, path: str, query: str) -> ObjectList:
        try:
            with self._timed("list"):
                found = await self._send("GET", f"{path}?{query}", None, "")
            return _decoded(_list_decoder, found)
        except msgspec.DecodeError as error:
            raise Unreachable(0, f"{path}: the server did not answer with a list: {error}") from error

    async def watch(self, path: str, version: str) -> AsyncIterator[WatchLine]:
        """Changes since a version, until the server ends the watch. Raises Expired if the server lacks that version."""
        assert self._session is not None
        patience, seconds = self._patience, math.ceil(self._patience.watch)
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=patience.watch + patience.late)
        url = f"{self._access.url}{path}?{query}"
        try:
            with self._timed("watch"):
                response = await self._session.get(url, headers=await self._headers(), timeout=timeout)
                if response.status >= 400:
                    raise _refusal(response.status, await response.read(), response.headers.get("Retry-After", ""))
            async with response:
                async for line in _lines(response):
                    yield _watch_line(path, line)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _unreachable("watch", path, error) from error

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """The body of an answer as it comes, until the server ends it; such as the log of a pod."""
        assert self._session is not None
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        try:
            headers = await self._headers()
            async with self._session.get(self._access.url + path, headers=headers, timeout=timeout) as response:
                if response.status >= 400:
                    raise _refusal(response.status, await response.read(), response.headers.get("Retry-After", ""))
                async for chunk in response.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _unreachable("GET", path, error) from error

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            self._heard(kind, error.status if isinstance(error, ApiError) else 0, time.monotonic() - began)
            raise
        self._heard(kind, 200, time.monotonic() - began)

    async def _headers(self) -> dict[str, str]:
        """A program that gives credentials may take long, and may fail for a while: that is trouble that passes."""
        access = self._access
        try:
            at_once = access.is_at_hand()
            authorization = access.authorization() if at_once else await asyncio.to_thread(access.authorization)
        except KubeError as error:
            raise Unreachable(0, str(error)) from error
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Unreachable(0, f"the token file {self._access.token_file} cannot be read: {why}") from error
        return {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})


def _watchful_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices by itself when nobody is there any more."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Whole lines of any length; aiohttp's own reader refuses long ones."""
    rest = b""
    async for chunk in response.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line


def _encoded(method: str, path: str, body: Any) -> bytes:
    try:
        try:
            return _encoder.encode(body)
        except UnicodeEncodeError:  # a lone surrogate in a text
            return _encoder.encode(writable(body))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise Faulty(0, f"{method} {path}: cannot be written as JSON: {error}") from error


def _decoded(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    """Decodes; what is nested too deep for a decoder is cut out."""
    try:
        return decoder.decode(raw)
    except RecursionError:
        return decoder.decode(cut(raw))


def _watch_line(path: str, line: bytes) -> WatchLine:
    try:
        read = _decoded(_watch_decoder, line)
        status = _status_decoder.decode(read.object) if read.type == "ERROR" else None
    except msgspec.DecodeError as error:
        raise Unreachable(0, f"{path}: the watch did not send JSON: {error}") from error
    if status is not None:
        raise _said(status, status.code, 0.0)
    return read


def _refusal(status: int, content: bytes, retry_after: str) -> ApiError:
    try:
        answer = _status_decoder.decode(content)
    except (msgspec.DecodeError, RecursionError):
        answer = StatusObject(message=content[:200].decode(errors="replace"))
    return _said(answer, status, float(retry_after) if retry_after.isdigit() else 0.0)


def _said(answer: StatusObject, status: int, retry_after: float) -> ApiError:
    """The error for an answer. A version from the future is as useless as one that is too old."""
    message, details = answer.message or answer.reason or f"HTTP {status}", answer.details
    if any(cause.reason == TOO_NEW for cause in (details.causes if details is not None else ())):
        return Expired(status, message)
    after = max(retry_after, details.retryAfterSeconds if details is not None else 0.0)
    return error_for(status, message, after)


def _unreachable(what: str, path: str, error: Exception) -> Unreachable:
    return Unreachable(0, f"{what} {path}: {error or type(error).__name__}")


def loads(raw: bytes) -> Any:
    """A whole object as plain data."""
    return json.loads(raw)
