"""Crowds at the progress server's door: does an honest replica's report arrive as fast as on a quiet day?

    python bench/crowds.py [--idle 10000] [--members 3000] [--seconds 5]

A server with TLS and tokens in one process, one honest replica that reports fifty times a second, and beside it: many
silent connections from one address and from two hundred; a storm of connections that end at once, that show forged
tokens, and of one replica that connects again and again; thousands of honest replicas that are only connected. All over
loopback. It prints the time from a report to its event, what a connection costs, and fails if a report of the honest
replica is lost or its connection is ended.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import multiprocessing
import resource
import socket
import ssl
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection as Pipe

from headway.kube.identity.certificates import ProgressAuthority, new_authority, server_context
from headway.progress_server import (
    Answer,
    Disconnected,
    Greeting,
    KnownReplica,
    ProgressServer,
    Reported,
    raise_descriptor_limit,
)

HONEST = "honest"
EVERY_SECONDS = 0.02
MOST_TIMES_SLOWER, LEAST_SECONDS = 20.0, 0.5
"""It fails if the slowest of a hundred reports takes more than this many times that of a quiet time, and so long."""


def by_token(greeting: Greeting, answer: Answer) -> None:
    """`job/index` is a good token; anything else is forged. As fast as an answer that is kept."""
    job, _, index = greeting.token.partition("/")
    answer(KnownReplica((job, "worker", int(index), 0)) if index.isdecimal() else "forged")  # type: ignore[arg-type]


def serve(authority: ProgressAuthority, pipe: Pipe) -> None:
    """Sends its port; then for each question when it saw each step of the honest replica, and what it has used."""
    raise_descriptor_limit()
    server = ProgressServer("tcp:127.0.0.1:0", identify=by_token, tls=server_context(authority))
    pipe.send(int(server.address.rpartition(":")[2]))
    seen: dict[int, float] = {}
    lost = 0
    while True:
        for event in server.poll():
            if event.job == HONEST and isinstance(event, Reported):
                seen[event.step] = time.monotonic()
            lost += event.job == HONEST and isinstance(event, Disconnected)
        if pipe.poll(0.001):
            if pipe.recv() == "end":
                return
            used = resource.getrusage(resource.RUSAGE_SELF)
            pipe.send((seen, lost, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024))


def tls_of(authority: ProgressAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.trusted.decode())


def plain(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(source, 0))


def greet(port: int, tls: ssl.SSLContext, token: str, source: str = "127.0.0.1") -> ssl.SSLSocket:
    sock = tls.wrap_socket(plain(port, source), server_hostname="headway-progress")
    sock.sendall(json.dumps({"hello": 1, "token": token}).encode() + b"\n")
    return sock


def honest(authority: ProgressAuthority, port: int, pipe: Pipe) -> None:
    """Reports for ever; sends when each step was sent whenever it is asked."""
    sock, sent, step = greet(port, tls_of(authority), f"{HONEST}/0", "127.0.0.2"), {}, 0
    sock.settimeout(30)
    while True:
        step += 1
        sent[step] = time.monotonic()
        sock.sendall(b'{"step": %d}\n' % step)
        if pipe.poll(EVERY_SECONDS):
            pipe.recv()
            pipe.send(sent)


class Bench:
    def __init__(self, authority: ProgressAuthority) -> None:
        self.tls = tls_of(authority)
        spawn = multiprocessing.get_context("spawn")
        self.server, theirs = spawn.Pipe()
        self.processes = [spawn.Process(target=serve, args=(authority, theirs), daemon=True)]
        self.processes[0].start()
        self.port = self.server.recv()
        self.honest, theirs = spawn.Pipe()
        self.processes.append(spawn.Process(target=honest, args=(authority, self.port, theirs), daemon=True))
        self.processes[1].start()
        time.sleep(1.0)
        self.quiet = 0.0

    def usage(self) -> tuple[dict[int, float], int, float, int]:
        self.server.send("what")
        found: tuple[dict[int, float], int, float, int] = self.server.recv()
        return found

    @contextlib.contextmanager
    def watched(self, name: str) -> Iterator[list[int]]:
        """Prints what the honest replica's reports took meanwhile, and what the server used. Takes how many came."""
        first, before, began = self._steps()[-1] + 1, self.usage(), time.monotonic()
        counts: list[int] = []
        yield counts
        count = sum(counts)
        last, took = self._steps()[-1] - 1, time.monotonic() - began
        time.sleep(0.5)
        sent, after = self._sent(), self.usage()
        missing = [step for step in range(first, last) if step not in after[0]]
        late = sorted(after[0][step] - sent[step] for step in range(first, last) if step in after[0])
        usual = late[int(0.99 * len(late))]
        self.quiet = self.quiet or usual
        each = (after[2] - before[2]) / count * 1000 if count else 0.0
        print(f"{name:26}{count:7,}{1000 * statistics.median(late):7.1f}{1000 * usual:7.1f}{1000 * late[-1]:8.1f}"
              f"{each:7.2f}{after[2] - before[2]:5.1f} of{took:5.1f} s{after[3]:5} MB")  # fmt: skip
        if after[1] or len(missing) > (last - first) / 2:
            sys.exit(f"{name}: the honest replica was not heard ({after[1]} ends, {len(missing)} of {last - first})")
        if usual > max(LEAST_SECONDS, MOST_TIMES_SLOWER * self.quiet):
            sys.exit(f"{name}: of a hundred reports one took more than {usual:.2f} s")

    def _sent(self) -> dict[int, float]:
        self.honest.send("what")
        found: dict[int, float] = self.honest.recv()
        return found

    def _steps(self) -> list[int]:
        return list(self._sent())

    def close(self) -> None:
        for process in self.processes:
            process.kill()


def silent(bench: Bench, count: int, addresses: int, seconds: float) -> None:
    held = []
    for number in range(count):
        with contextlib.suppress(OSError):
            held.append(plain(bench.port, f"127.0.{1 + number % addresses // 200}.{1 + number % addresses % 200}"))
    time.sleep(seconds)
    for sock in held:
        sock.close()


def storm(authority: ProgressAuthority, port: int, token: str, seconds: float) -> int:
    """Connects as often as it can; returns how often."""
    tls, number, until = tls_of(authority), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        source = f"127.0.9.{1 + number % 200}"
        with contextlib.suppress(OSError):
            (greet(port, tls, token, source) if token else plain(port, source)).close()
    return number


def hellos(bench: Bench, count: int, seconds: float) -> None:
    """All begin TLS at the same moment, and say no more: each costs the server its part of the handshake."""
    held = []
    for number in range(count):
        outgoing = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            bench.tls.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="headway-progress").do_handshake()
        with contextlib.suppress(OSError):
            held.append((plain(bench.port, f"127.0.30.{1 + number % 200}"), outgoing.read()))
    for sock, hello in held:
        with contextlib.suppress(OSError):
            sock.send(hello)
    time.sleep(seconds)
    for sock, _ in held:
        sock.close()


def members(bench: Bench, count: int, seconds: float) -> None:
    held = []
    for number in range(count):
        with contextlib.suppress(OSError):
            held.append(greet(bench.port, bench.tls, f"job-{number % 50}/{number}", f"127.0.20.{1 + number % 200}"))
    time.sleep(seconds)
    for sock in held:
        sock.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=3_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    raise_descriptor_limit()
    authority = new_authority(dt.datetime.now(dt.UTC))
    bench = Bench(authority)
    pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
    print(f"{'':33}   ms from report to event  server: ms of cpu")
    print(f"{'':26}{'count':>7}{'median':>7}{'99 %':>7}{'slowest':>8}{'each':>7}{'in all':>14}{'memory':>8}")
    try:
        with bench.watched("quiet"):
            time.sleep(options.seconds)
        for addresses in (1, 200):
            with bench.watched(f"silent, {addresses} address{'es' * (addresses > 1)}") as counts:
                counts.append(options.idle)
                silent(bench, options.idle, addresses, options.seconds)
        for name, token in (("connect and leave", ""), ("forged tokens", "forged"), ("one replica, again", "bad/0")):
            with bench.watched(name) as counts:
                begun = [pool.submit(storm, authority, bench.port, token, options.seconds) for _ in range(2)]
                counts.extend(one.result() for one in begun)
        with bench.watched("begin TLS at once") as counts:
            counts.append(2000)
            hellos(bench, 2000, options.seconds)
        with bench.watched("honest replicas that stay") as counts:
            counts.append(options.members)
            members(bench, options.members, options.seconds)
    finally:
        bench.close()
        pool.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    main()
