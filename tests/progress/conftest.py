"""A Headway to report to: a real socket that keeps what it hears and says what the test tells it to."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


class Listener:
    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.heard: list[dict[str, object]] = []  # over all connections
        self.connections: list[socket.socket] = []
        self._lock = threading.Condition()
        self._socket: socket.socket | None = None
        self._port = 0
        self.open()

    @property
    def address(self) -> str:
        return f"unix:{self.path}" if self.path else f"tcp:127.0.0.1:{self._port}"

    def open(self) -> None:
        if self.path:
            self.path.unlink(missing_ok=True)
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(str(self.path))
            self._socket.listen()
        else:
            self._socket = socket.create_server(("127.0.0.1", self._port))
            self._port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._socket,), daemon=True).start()

    def die(self) -> None:
        """As a kill -9 would leave it: nothing listens and every connection is gone."""
        assert self._socket is not None
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):  # it may have left by itself
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def say(self, *messages: object) -> None:
        self.say_bytes(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def say_bytes(self, data: bytes) -> None:
        self.connections[-1].sendall(data)

    def wait(self, found: Callable[[list[dict[str, object]]], object], seconds: float = 60.0) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: found(self.heard), seconds), self.heard[-20:]

    def all_with(self, key: str) -> list[dict[str, object]]:
        with self._lock:
            return [message for message in self.heard if key in message]

    def reports(self) -> list[dict[str, object]]:
        return self.all_with("loss")

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                for text in lines:
                    with self._lock:
                        self.heard.append(json.loads(text, parse_constant=not_json))
                        self._lock.notify_all()
        except OSError:
            return


def not_json(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.fixture(params=["unix", "tcp"])
def headway(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    listener = Listener(tmp_path / "progress.sock" if request.param == "unix" else None)
    monkeypatch.setenv("HEADWAY_PROGRESS", listener.address)
    monkeypatch.setenv("HEADWAY_JOB", "night-run")
    monkeypatch.setenv("HEADWAY_ROLE", "worker")
    monkeypatch.setenv("HEADWAY_INDEX", "2")
    monkeypatch.setenv("HEADWAY_ATTEMPT", "1")
    yield listener
    listener.die()
