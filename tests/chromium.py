"""A real browser that a test looks at a live page with, by Chromium's own protocol."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: `make browser` installs it")


class Browser:
    """One page. `complaints` has all that the console said, and every exception."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._number = 0
        self._folder = Path(tempfile.mkdtemp())
        assert BROWSER is not None
        self._process = subprocess.Popen(
            [
                BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-dev-shm-usage", f"--user-data-dir={self._folder}", "--remote-debugging-port=0",
                "--host-resolver-rules=MAP hostile.example 127.0.0.1", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._do(self._connect())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._session.close())
        self._loop.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def open(self, address: str, *, width: int = 1200, dark: bool = False) -> None:
        self.look(width, dark=dark)
        self.call("Page.navigate", url=address)

    def look(self, width: int, *, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, expression: str) -> Any:
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def until(self, expression: str, seconds: float = 20.0) -> Any:
        give_up = time.monotonic() + seconds
        while not (found := self.value(expression)):
            assert time.monotonic() < give_up, f"{expression}: {self.value('document.body.innerText')}"
            time.sleep(0.1)
        return found

    def picture(self, path: Path) -> None:
        shown = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shown["data"]))

    def call(self, method: str, **words: Any) -> Any:
        return self._do(self._call(method, words))

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(what, 30))

    async def _connect(self) -> None:
        port = self._folder / "DevToolsActivePort"
        while not port.exists() or not port.read_text():
            assert self._process.poll() is None
            await asyncio.sleep(0.05)
        self._session = aiohttp.ClientSession(f"http://127.0.0.1:{port.read_text().splitlines()[0]}")
        async with self._session.get("/json/list") as answer:
            page = next(one for one in await answer.json() if one["type"] == "page")
        self._socket = await self._session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0)
        for domain in ("Page", "Runtime", "Log"):
            await self._call(f"{domain}.enable", {})

    async def _call(self, method: str, words: dict[str, Any]) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": words})
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message)
                return message["result"]
            if message.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                self.complaints.append(str(message["params"]))
