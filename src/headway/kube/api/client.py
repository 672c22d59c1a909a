"""The API server over HTTP: requests with typed errors, lists in pages, watches. Decodes only what it needs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec

from headway.core.text import writable
from headway.kube.api.access import Access
from headway.kube.api.errors import ApiError, Expired, Faulty, Unreachable, error_for
from headway.kube.api.nesting import cut
from headway.kube.api.objects import ObjectList, StatusObject, WatchLine

T = TypeVar("T")
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PAGE_ITEMS = 2000
CONNECTIONS = 32
REQUEST_SECONDS = 30.0
WATCH_SECONDS = 300
SILENT_SECONDS = 330.0
"""A watch that is silent for longer than `WATCH_SECONDS` is a dead connection."""

_list_decoder = msgspec.json.Decoder(ObjectList)
_watch_decoder = msgspec.json.Decoder(WatchLine)
_status_decoder = msgspec.json.Decoder(StatusObject)
_encoder = msgspec.json.Encoder()


class Client:
    """Use as an async context manager, in one event loop."""

    def __init__(self, access: Access, request_seconds: float = REQUEST_SECONDS) -> None:
        self._access = access
        self._seconds = request_seconds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS + 8, ssl=self._access.tls or False)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=self._seconds), read_bufsize=2**20
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

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
        assert self._session is not None
        data = None if body is None else _encoded(method, path, body)
        headers = self._headers() | ({} if data is None else {"Content-Type": kind})
        url = self._access.url + path
        try:
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
            raw = await self.get(f"{path}?limit={PAGE_ITEMS}{more}{query}")
            try:
                page = _decoded(_list_decoder, raw)
            except msgspec.DecodeError as error:
                raise Unreachable(0, f"{path}: the server did not answer with a list: {error}") from error
            yield page
            token = page.metadata.continue_
            if not token:
                return

    async def watch(self, path: str, version: str) -> AsyncIterator[WatchLine]:
        """Changes since a version, until the server ends the watch. Raises Expired if the version is too old."""
        assert self._session is not None
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENT_SECONDS)
        url = f"{self._access.url}{path}?{query}"
        try:
            async with self._session.get(url, headers=self._headers(), timeout=timeout) as response:
                if response.status >= 400:
                    raise _refusal(response.status, await response.read(), "")
                async for line in _lines(response):
                    yield _watch_line(path, line)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _unreachable("watch", path, error) from error

    def _headers(self) -> dict[str, str]:
        try:
            authorization = self._access.authorization()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Unreachable(0, f"the token file {self._access.token_file} cannot be read: {why}") from error
        return {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})


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
        raise (Expired if status.code == 410 else Unreachable)(status.code, status.message)
    return read


def _refusal(status: int, content: bytes, retry_after: str) -> ApiError:
    try:
        answer = _status_decoder.decode(content)
        message = answer.message or answer.reason
    except (msgspec.DecodeError, RecursionError):
        message = content[:200].decode(errors="replace")
    seconds = float(retry_after) if retry_after.isdigit() else 0.0
    return error_for(status, message or f"HTTP {status}", seconds)


def _unreachable(what: str, path: str, error: Exception) -> Unreachable:
    return Unreachable(0, f"{what} {path}: {error or type(error).__name__}")


def loads(raw: bytes) -> Any:
    """A whole object as plain data."""
    return json.loads(raw)
