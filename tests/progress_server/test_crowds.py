"""Many connections, many greetings, silence: the places and the time of others stay theirs."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from dataclasses import dataclass

from wire import connect, hello, send, until, wait_for

from headway.core.job import JobId
from headway.progress_server import Connected, Disconnected, Done, ProgressServer, RateLimit, ServerLimits
from headway.progress_server.connections import Connections
from headway.progress_server.rates import MOST_KEYS


@dataclass(eq=False)
class Visitor:
    """As much of a connection as the table of connections looks at."""

    peer: str = ""
    replica: Connected | None = None


def of(job: str, index: int = 0) -> Connected:
    return Connected(JobId(job), "worker", index, 0, True, None)


def enter(table: Connections, visitor: Visitor) -> Visitor | None:
    """Returns who had to go."""
    leaving = table.too_many_waiting(visitor.peer)
    if leaving is not None:
        table.remove(leaving)
    table.add(visitor)
    return leaving


def become(table: Connections, replica: Connected, peer: str = "p") -> Visitor | None:
    visitor = Visitor(peer)
    enter(table, visitor)
    leaving = table.too_many_known(visitor, replica)
    if leaving is not None:
        table.remove(leaving)
    if leaving is not visitor:
        visitor.replica = replica
        table.knows(visitor)
    return leaving


def test_one_peer_cannot_take_the_places_of_others_that_are_not_known_yet():
    table = Connections(ServerLimits(in_all=400, waiting_per_peer=10))
    honest = [Visitor(f"honest-{number}") for number in range(20)]
    assert [enter(table, visitor) for visitor in honest] == [None] * 20
    gone = [enter(table, Visitor("one")) for _ in range(1000)]
    assert {visitor.peer for visitor in gone if visitor} == {"one"}
    assert len(table.waiting) == 30
    assert all(visitor in table.waiting for visitor in honest)


def test_of_many_peers_the_one_with_the_most_makes_room():
    table = Connections(ServerLimits(in_all=400, waiting_per_peer=10))
    honest = [Visitor(f"honest-{number}") for number in range(20)]
    for visitor in honest:
        enter(table, visitor)
    for number in range(1000):
        enter(table, Visitor(f"bad-{number % 30}"))
    assert len(table.waiting) == 100, "a quarter of all places"
    assert all(visitor in table.waiting for visitor in honest)


def test_when_all_places_are_taken_the_job_with_the_most_connections_gives_one_up():
    table = Connections(ServerLimits(in_all=40, per_replica=64))
    gone = [become(table, of("greedy", number)) for number in range(50)]
    assert len(table.known) == 30
    assert sum(visitor is not None for visitor in gone) == 20, "among its own it takes nobody's place"
    others = [become(table, of(f"other-{number}")) for number in range(10)]
    assert {visitor.replica.job for visitor in others} == {"greedy"}
    assert len(table.known) == 30
    assert len(table.of_job(JobId("other-3"))) == 1


def test_connections_of_one_replica_and_of_one_job_are_limited():
    table = Connections(ServerLimits(per_replica=3, per_job=5))
    for _ in range(5):
        become(table, of("a"))
    assert len(table.of_job(JobId("a"))) == 3
    for number in range(5):
        become(table, of("a", number + 1))
    assert len(table.of_job(JobId("a"))) == 5
    assert become(table, of("b")) is None


def test_a_table_that_is_left_by_all_is_empty():
    table = Connections(ServerLimits())
    for number in range(9):
        become(table, of(f"j{number % 2}", number % 3), f"peer-{number % 4}")
    for visitor in table.all():
        table.remove(visitor)
        table.remove(visitor)
    assert len(table) == 0
    assert not table._by_peer
    assert not table._by_job
    assert not table._by_replica


def test_a_rate_allows_a_burst_and_then_so_many_a_second():
    rate = RateLimit(burst=3, per_second=2)
    assert [rate.allows("a", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert rate.allows("b", 0.0), "each has its own"
    assert [rate.allows("a", 0.6) for _ in range(2)] == [True, False]
    assert [rate.allows("a", 60.0) for _ in range(4)] == [True, True, True, False]


def test_a_rate_remembers_a_bounded_number_of_keys():
    rate = RateLimit(burst=3, per_second=2)
    for number in range(MOST_KEYS + 500):
        rate.allows(number, 0.0)
    assert len(rate._spent) == MOST_KEYS


# ── over sockets ──


@contextlib.contextmanager
def a_server(address: str, **limits):
    server = ProgressServer(address, limits=ServerLimits(**limits))
    try:
        yield server
    finally:
        server.close()


def ended(sock: socket.socket) -> bool:
    try:
        while select.select([sock], [], [], 0)[0]:
            if sock.recv(4096) == b"":
                return True
    except ConnectionError:
        return True
    return False


def test_silent_connections_of_one_address_are_few(tmp_path):
    with a_server("tcp:127.0.0.1:0", waiting_per_peer=4) as server:
        silent = [connect(server) for _ in range(20)]
        wait_for(lambda: sum(map(ended, silent)) == 16)
        with connect(server) as good:
            send(good, hello(), {"done": True, "step": 1})
            until(server, Done)
        for sock in silent:
            sock.close()


def test_an_address_that_connects_too_often_is_not_taken_and_who_is_there_stays(tmp_path):
    with a_server("tcp:127.0.0.1:0", peer_burst=5, peer_per_second=0.01) as server, connect(server) as good:
        send(good, hello())
        until(server, Connected)
        storm = [connect(server) for _ in range(10)]
        wait_for(lambda: sum(map(ended, storm)) == 6)
        send(good, {"done": True, "step": 1})
        until(server, Done)
        for sock in storm:
            sock.close()


def test_a_replica_that_connects_too_often_is_refused_with_a_reason(tmp_path, caplog):
    with a_server(f"unix:{tmp_path}/p", replica_burst=3, replica_per_second=0.01) as server:
        for _ in range(3):
            with connect(server) as sock:
                send(sock, hello(tracker="t"))
                until(server, Connected)
        for _ in range(5):
            with connect(server) as sock:
                send(sock, hello(tracker="t"))
                assert "too often" in json.loads(sock.recv(1000))["refused"]
        assert caplog.text.count("refused") == 1, "one line a minute"
        with connect(server) as other:
            send(other, hello(index=1), {"done": True, "step": 1})
            until(server, Done)


def test_a_replica_that_answers_heartbeats_and_falls_silent_is_gone(tmp_path):
    with (
        a_server(f"unix:{tmp_path}/p", beat_seconds=0.1, silent_seconds=0.5) as server,
        connect(server) as silent, connect(server) as old, connect(server) as alive,
    ):  # fmt: skip
        send(silent, hello(job="silent", beats=True))
        send(old, hello(job="old"))
        send(alive, hello(job="alive", beats=True))
        began, gone = time.monotonic(), []
        while not gone and time.monotonic() - began < 60:
            send(alive, {"beat": 1})
            gone = [event.job for event in server.poll() if isinstance(event, Disconnected)]
            time.sleep(0.02)
        assert gone == ["silent"]
        assert json.loads(old.recv(1000).splitlines()[0]) == {"beat": 1, "every": 0.1}
        assert server.connected("old"), "one that knows no heartbeat is not judged by it"
        assert server.connected("alive")


def test_known_replicas_do_not_wait_for_many_others_that_begin(tmp_path, monkeypatch):
    """Of those that are not known few have their turn, and the one that has waited longest comes first."""
    from headway.progress_server import line_server
    from headway.progress_server.connection import Connection

    monkeypatch.setattr(line_server, "STRANGERS_PER_TURN", 2)
    read, served = Connection.read, []

    def slow(self: Connection, most: int) -> bytes:
        if self.replica is None:
            served.append(self)
            time.sleep(0.02)
        return read(self, most)

    with a_server(f"unix:{tmp_path}/p") as server, connect(server) as known:
        send(known, hello())
        until(server, Connected)
        monkeypatch.setattr(Connection, "read", slow)
        all_there = threading.Event()
        server._lines.soon(next(iter(server._connections.known)), lambda _: all_there.wait(60))
        crowd = [connect(server) for _ in range(60)]
        for sock in crowd:
            sock.sendall(b"x\n" * 50)
        all_there.set()
        wait_for(lambda: served)
        began = time.monotonic()
        send(known, {"done": True, "step": 1})
        until(server, Done)
        took = time.monotonic() - began
        wait_for(lambda: len(set(served)) == 60)
        for sock in crowd:
            sock.close()
    assert took < 0.6, "reading all sixty takes 1.2 seconds"


def test_messages_are_counted_over_all_connections_of_a_replica(tmp_path):
    with a_server(f"unix:{tmp_path}/p", messages_per_second=20) as server:
        socks = [connect(server) for _ in range(4)]
        for sock in socks:
            send(sock, hello(), *[{"saved": None, "step": 1}] * 200)
        began, count = time.monotonic(), 0
        while time.monotonic() - began < 1.2:
            count += len(server.poll())
            time.sleep(0.02)
        took = time.monotonic() - began
        assert 20 <= count <= 20 * (took + 2) + 4 * 20
        for sock in socks:
            sock.close()
