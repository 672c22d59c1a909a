"""Serves the page at a loopback address, from a thread of its own. It reads views and never asks the run for anything.

The address has a token as its first part: who does not know it sees nothing. No cookie is set, so no other page and no
other server on this machine can use what a browser knows. A view is drawn once for all pages, once a second at most;
a browser that is slow gets the newest view when it is ready, and none in between.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from aiohttp import web

from headway.page.render import curves, live, page
from headway.page.view import RunView

STATIC = Path(__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
DRAW_SECONDS = 1.0
AGAIN_SECONDS = 5.0
"""A view is drawn again after so long where no newer one comes: the times on it go on."""
BEAT_SECONDS = 15.0
"""A stream on which nothing is said so long gets an empty line: so a page that is gone is noticed."""
MOST_PAGES = 32
"""Open at a time. More are refused."""
STALLED_SECONDS = 60.0
"""A page that takes nothing for so long is let go; its browser connects again when it is awake."""
CLOSE_SECONDS = 3.0
OUR_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip


class PageServer:
    """From `start` to `close`. `publish` is called by the run, all else happens in the thread of the page."""

    def __init__(self, view: RunView) -> None:
        self._view = view
        self._token = secrets.token_urlsafe(24)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="page", daemon=True)
        self._ready = threading.Event()
        self._error: OSError | None = None
        self._port = 0
        self._over = False
        self._pages: set[asyncio.Transport] = set()
        """Those that follow the stream."""

    def start(self) -> str:
        """The address. Raises OSError where none can be had."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return f"http://127.0.0.1:{self._port}/{self._token}/"

    def publish(self, view: RunView) -> None:
        """Shows this view from now on. It takes no time: a name is bound anew."""
        self._view = view

    def close(self) -> None:
        """Tells all pages that the run is over, and ends."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(CLOSE_SECONDS)

    # ── in the thread of the page ───────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._until_closed())
        finally:
            self._ready.set()
            self._loop.close()

    async def _until_closed(self) -> None:
        self._end = asyncio.Event()
        self._next = asyncio.Event()  # is set when something was drawn; then another takes its place
        self._drawn = _drawn(self._view, 0)
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/{token}/", self._page)
        app.router.add_get("/{token}/events", self._events)
        app.router.add_get("/{token}/{file}", self._file)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self._port = runner.addresses[0][1]
        except OSError as error:
            self._error = error
            await runner.cleanup()
            return
        self._ready.set()
        while not self._end.is_set():
            self._draw()
            await _wait(self._end.wait(), DRAW_SECONDS)
        self._draw()
        self._over = True
        self._tell_all()
        if self._pages:
            await asyncio.sleep(0.2)  # they are told that it is over
        for line in [*self._pages]:  # those that do not listen
            line.abort()
        await runner.cleanup()

    def _draw(self) -> None:
        """Draws the newest view, if somebody looks."""
        view = self._view
        old = self._drawn.at + AGAIN_SECONDS < time.time()
        if self._pages and (self._drawn.view is not view or old):
            self._drawn = _drawn(view, self._drawn.number + 1)
            self._tell_all()

    def _tell_all(self) -> None:
        news, self._next = self._next, asyncio.Event()
        news.set()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuses a name that is not of this machine, as a page of another site would use it, and a wrong token."""
        try:
            name = urlsplit(f"//{request.headers.get('Host', '')}").hostname
        except ValueError:
            name = None
        token = request.path.split("/")[1]
        if name not in OUR_NAMES:
            answer: web.StreamResponse = web.Response(status=421, text="the page is at 127.0.0.1\n")
        elif not hmac.compare_digest(token.encode(errors="replace"), self._token.encode()):
            answer = web.Response(status=403, text="the address needs the token that Headway printed\n")
        else:
            try:
                answer = await handler(request)
            except web.HTTPException as error:
                answer = web.Response(status=error.status, text=f"{error.reason}\n")
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _page(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text=page(self._view, time.time()), content_type="text/html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = STATIC / Path(request.match_info["file"]).name
        if path.suffix not in TYPES or not path.is_file():
            raise web.HTTPNotFound
        return web.Response(body=path.read_bytes(), content_type=TYPES[path.suffix])

    async def _events(self, request: web.Request) -> web.StreamResponse:
        line = request.transport
        if line is None or len(self._pages) >= MOST_PAGES:
            return web.Response(status=503, text=f"{MOST_PAGES} pages are open\n")
        stream = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        self._pages.add(line)
        try:
            await stream.prepare(request)
            async with asyncio.timeout(None) as limit:
                await self._tell(stream, limit)
        except (ConnectionError, TimeoutError):
            line.abort()
        finally:
            self._pages.discard(line)
        return stream

    async def _tell(self, stream: web.StreamResponse, limit: asyncio.Timeout) -> None:
        seen = _drawn(self._view, self._drawn.number)
        parts = [_event("", seen.live), _event("curves", seen.curves)]
        while not self._over:
            limit.reschedule(self._loop.time() + STALLED_SECONDS)
            await stream.write("".join(parts or [":\n\n"]).encode())
            limit.reschedule(None)
            if seen.number == self._drawn.number and not self._over:
                await _wait(self._next.wait(), BEAT_SECONDS)
            before, seen = seen, self._drawn
            parts = [_event("", seen.live)] if seen.number != before.number else []
            parts += [_event("curves", seen.curves)] if parts and seen.curves != before.curves else []
        await stream.write("".join([*parts, _event("over", "the run is over")]).encode())


class _Drawn(NamedTuple):
    """A view with the texts that were made of it, for all pages."""

    view: RunView
    at: float
    live: str
    curves: str
    number: int


def _drawn(view: RunView, number: int) -> _Drawn:
    now = time.time()
    return _Drawn(view, now, live(view, now), curves(view), number)


def _event(name: str, data: str) -> str:
    head = f"event: {name}\n" if name else ""
    return head + "".join(f"data: {line}\n" for line in data.splitlines()) + "\n"


async def _wait(what: Awaitable[object], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await what
    except TimeoutError:
        pass
