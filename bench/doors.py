"""Generated connections and lines against a real progress server: does it survive, and is what it hands on clean?

    python bench/doors.py [--cases 10000] [--seed 1]

Each case is one connection with a few lines of one kind: valid, invalid, hostile, torn or silent. A healthy replica
reports meanwhile. It prints the cases a second and the slowest answer to the healthy replica, and fails if the
listener ended, if a text is not clean, or if the healthy replica was not served.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import random
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headway.core.text import is_clean
from headway.progress_server import Event, ProgressServer, Reported, SaveFailed, ServerLimits

FIELDS = ("hello", "job", "role", "index", "attempt", "total_steps", "can_save", "rank", "tracker", "step", "loss",
          "values", "saved", "save_failed", "why", "done")  # fmt: skip
TEXTS = (
    "",
    "a",
    "worker",
    "\x1b[2J",
    "[/x]",
    "[bold]",
    "\ud800",
    "\udcff",
    "\u202e",
    "\x00",
    "x" * 5000,
    "ä\n\t\r",
    "1e400",
)
NUMBERS = (0, 1, -1, 2**31, 2**63, 10**15, 10**16, 10**400, -(10**400), 1.5, 1e308, -0.0, float("nan"), float("inf"))
KINDS = ("valid", "fields", "bytes", "torn", "long", "silent", "reset", "many", "deep", "twice")
MOST_OPEN = 200
OPEN = ServerLimits(peer_burst=1e9, waiting_per_peer=MOST_OPEN)
"""What is sent is the matter here; bench/crowds.py has the limits."""


def anything(random_: random.Random, depth: int = 0) -> Any:
    pick = random_.random()
    if pick < 0.35:
        return random_.choice(NUMBERS)
    if pick < 0.7:
        return random_.choice(TEXTS) + chr(random_.randrange(0x3000)) * random_.randrange(3)
    if pick < 0.85 or depth > 3:
        return random_.choice((None, True, False))
    if pick < 0.93:
        return [anything(random_, depth + 1) for _ in range(random_.randrange(4))]
    return {random_.choice(TEXTS): anything(random_, depth + 1) for _ in range(random_.randrange(4))}


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def hello(random_: random.Random) -> dict[str, Any]:
    return {"hello": 1, "job": f"j{random_.randrange(50)}", "role": "worker", "index": random_.randrange(4),
            "attempt": 0, "can_save": random_.random() < 0.5, "rank": random_.randrange(3)}  # fmt: skip


def case(kind: str, random_: random.Random) -> bytes:
    """What one connection sends."""
    first = line(hello(random_))
    some = [{name: anything(random_) for name in random_.sample(FIELDS, random_.randrange(1, 6))} for _ in range(5)]
    whole = first + b"".join(map(line, some))
    sent: dict[str, Callable[[], bytes]] = {
        "valid": lambda: first + line({"step": random_.randrange(100), "loss": random_.random()}),
        "fields": lambda: whole[0 if random_.random() < 0.7 else len(first) :],
        "bytes": lambda: first + random_.randbytes(random_.randrange(2000)) + b"\n",
        "torn": lambda: whole[: random_.randrange(len(whole))],
        "long": lambda: first + b'{"why": "' + b"x" * random_.choice((65_000, 66_000, 200_000)),
        "silent": lambda: b"",
        "reset": lambda: first + line(some[0]),
        "many": lambda: first + line({"step": 1}) * random_.randrange(50, 300),
        "deep": lambda: first + b'{"step":' + b"[" * random_.choice((100, 1000, 30_000)) + b"\n",
        "twice": lambda: first + line(hello(random_) | some[0]) + b"\n\n\r\n" + line(some[1]),
    }
    return sent[kind]()


@dataclass
class Attack:
    """Runs cases against a server, and watches a healthy replica beside them."""

    server: ProgressServer
    seed: int
    open_: list[socket.socket] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    """Seconds from a report of the healthy replica to its event."""

    def run(self, cases: int, every: int = 100) -> None:
        random_ = random.Random(self.seed)
        with connect(self.server) as healthy:
            healthy.sendall(line({"hello": 1, "job": "healthy", "role": "worker", "index": 0, "attempt": 0}))
            for number in range(cases):
                self.one(random_.choice(KINDS), random_)
                if number % every == 0 or number == cases - 1:
                    self.check(healthy, number)
        for sock in self.open_:
            sock.close()

    def one(self, kind: str, random_: random.Random) -> None:
        with contextlib.suppress(OSError):  # the server may end a connection at any time
            sock = connect(self.server)
            self.open_.append(sock)
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.send(case(kind, random_))
            if kind == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
        if random_.random() < 0.1:
            self.server.save(f"j{random_.randrange(50)}", random_.randrange(5))
        if len(self.open_) > MOST_OPEN:
            self.open_.pop(random_.randrange(len(self.open_))).close()

    def check(self, healthy: socket.socket, step: int) -> None:
        began = time.monotonic()
        healthy.sendall(line({"step": step}))
        while time.monotonic() - began < 60:
            found = self.server.poll()  # raises if the listener has ended
            for event in found:
                self.events[type(event).__name__] += 1
                check_clean(event)
            if any(isinstance(event, Reported) and event.job == "healthy" and event.step == step for event in found):
                self.slowest = max(self.slowest, time.monotonic() - began)
                return
            time.sleep(0.002)
        raise AssertionError(f"the healthy replica was not heard after case {step}")


def check_clean(event: Event) -> None:
    texts = [event.job, event.role, event.why if isinstance(event, SaveFailed) else ""]
    texts += event.values if isinstance(event, Reported) else ()
    assert all(is_clean(text) and len(text) <= 500 for text in texts), f"not clean: {event!r}"


def connect(server: ProgressServer) -> socket.socket:
    if server.address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(server.address.removeprefix("unix:"))  # waits while the backlog is full
        sock.settimeout(10)
        return sock
    host, _, port = server.address.removeprefix("tcp:").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        for address in (f"unix:{folder}/progress", "tcp:127.0.0.1:0"):
            server, began = ProgressServer(address, limits=OPEN), time.monotonic()
            attack = Attack(server, options.seed)
            try:
                attack.run(options.cases)
            finally:
                server.close()
            speed = options.cases / (time.monotonic() - began)
            print(f"{address.split(':')[0]:5} {options.cases:,} connections, {speed:,.0f} a second, "
                  f"slowest answer {attack.slowest:.3f} s, events {dict(attack.events)}")  # fmt: skip
    sys.exit(0)


if __name__ == "__main__":
    main()
