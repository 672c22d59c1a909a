"""A replica's end of the wire, for tests."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable

from headway.progress_server import ProgressServer


def connect(server: ProgressServer) -> socket.socket:
    if server.address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(server.address.removeprefix("unix:"))
    else:
        host, _, port = server.address.removeprefix("tcp:").rpartition(":")
        sock = socket.create_connection((host, int(port)))
    sock.settimeout(60)
    return sock


def send(sock: socket.socket, *messages: object) -> None:
    sock.sendall(b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages))


def hello(**more: object) -> dict[str, object]:
    usual = {"hello": 1, "job": "a", "role": "worker", "index": 0, "attempt": 2, "total_steps": 10, "can_save": True}
    return usual | more


def until(server: ProgressServer, wanted: type, seconds: float = 60.0) -> list[object]:
    """The events up to the first of the wanted kind, and with it."""
    events: list[object] = []
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        events += server.poll()
        if any(isinstance(event, wanted) for event in events):
            return events
        time.sleep(0.01)
    raise AssertionError(f"no {wanted.__name__} among {events}")


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come about"
        time.sleep(0.01)
