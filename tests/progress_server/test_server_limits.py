"""Deadlines and limits of connections; several trackers in one replica."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from wire import connect, hello, send, until, wait_for

from headway import progress
from headway.core.gang import SaveRound, to_ask
from headway.progress_server import Disconnected, Done, ProgressServer, Saved, SaveFailed, ServerLimits

SOURCE = str(Path(progress.__path__[0]).parents[1])


@pytest.fixture
def server(tmp_path, request):
    """`@pytest.mark.parametrize("server", [{"per_replica": 3}], indirect=True)` sets limits."""
    server = ProgressServer(f"unix:{tmp_path}/p", limits=ServerLimits(**getattr(request, "param", {})))
    yield server
    server.close()


def _is_ended(sock: socket.socket) -> bool:
    try:
        return bool(select.select([sock], [], [], 0)[0]) and sock.recv(100) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("server", [{"greeting_seconds": 0.3}], indirect=True)
def test_a_connection_that_does_not_say_who_it_is_is_ended(server):
    with connect(server) as known, connect(server) as silent, connect(server) as nonsense:
        send(known, hello())
        send(nonsense, b"GET / HTTP/1.1\n")
        assert silent.recv(100) == b""
        assert nonsense.recv(100) == b""
        assert not _is_ended(known)
        send(known, {"done": True, "step": 1})
        until(server, Done)


@pytest.mark.parametrize("server", [{"per_replica": 3}], indirect=True)
def test_connections_of_one_replica_are_limited_and_other_replicas_connect(server):
    socks = [connect(server) for _ in range(5)]
    for sock in socks:
        send(sock, hello())
    wait_for(lambda: sum(_is_ended(sock) for sock in socks) == 2)
    assert len(server.connected("a")) == 3
    with connect(server) as other:
        send(other, hello(index=1), {"done": True, "step": 1})
        until(server, Done)
    for sock in socks:
        sock.close()


@pytest.mark.parametrize("server", [{"in_all": 16}], indirect=True)
def test_when_all_connections_are_taken_a_silent_one_makes_room(server):
    silent = [connect(server) for _ in range(6)]
    wait_for(lambda: sum(_is_ended(sock) for sock in silent) >= 2)
    with connect(server) as good:
        send(good, hello(), {"done": True, "step": 1})
        until(server, Done)
    for sock in silent:
        sock.close()


def test_a_tracker_that_connects_again_replaces_its_old_connection(server):
    with connect(server) as old, connect(server) as other:
        send(old, hello(tracker="7-a"))
        send(other, hello(tracker="8-b"))
        wait_for(lambda: len(server.connected("a")) == 2)
        with connect(server) as new:
            send(new, hello(tracker="7-a"))
            assert old.recv(100) == b""
            wait_for(lambda: len(server.connected("a")) == 2)
        until(server, Disconnected)


FEW_DESCRIPTORS = """
import resource, socket, sys, threading, time
sys.path[:0] = [sys.argv[2], sys.argv[3]]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from headway.progress_server import Done, ProgressServer
from headway.progress_server.line_server import LineServer
from wire import connect, hello, send, until
server = ProgressServer("unix:" + sys.argv[1])
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
server_turns, turn = [0], LineServer._turn
def counted(self):
    server_turns[0] += 1
    turn(self)
LineServer._turn = counted
held = []
try:
    while True:
        held.append(open("/dev/null"))
except OSError:
    pass
held.pop().close()
late = socket.socket(socket.AF_UNIX)
late.connect(sys.argv[1])  # is in the backlog; there is no descriptor to accept it with
began, before, cpu = time.monotonic(), server_turns[0], time.process_time()
while time.monotonic() - began < 1.5:
    time.sleep(0.1)
print(server_turns[0] - before, time.process_time() - cpu)
for file in held:
    file.close()
send(late, hello(), {"done": True, "step": 1})
until(server, Done)
print("received")
"""


def test_without_descriptors_the_listener_waits_and_does_not_spin(tmp_path):
    words = [sys.executable, "-c", FEW_DESCRIPTORS, f"{tmp_path}/p", SOURCE, str(Path(__file__).parent)]
    ended = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    turns, received = ended.stdout.splitlines()
    assert int(turns.split()[0]) < 40, "it spins"
    assert received == "received"


def test_the_limit_in_all_leaves_descriptors_for_the_process():
    code = (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "from headway.progress_server.address import most_connections\nprint(most_connections(10_000))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )
    assert ended.stdout == "32\n"


# ── several trackers in one replica ─────────────────────────────────────────────────────────────────────────


def test_of_several_ranks_in_one_replica_the_lowest_is_asked(server):
    with connect(server) as first, connect(server) as second, connect(server) as elsewhere:
        send(second, hello(rank=1))
        send(first, hello(rank=0))
        send(elsewhere, hello(index=1, rank=3))
        wait_for(lambda: len(server.connected("a")) == 3)
        server.save("a", 7)
        assert json.loads(first.recv(1000)) == json.loads(elsewhere.recv(1000)) == {"save": 7}
        assert not select.select([second], [], [], 0.2)[0]
        send(first, {"saved": 7, "step": 4})
        assert until(server, Saved)[-1] == Saved("a", "worker", 0, 2, 7, 4)


def test_of_equal_ranks_all_are_asked_and_the_last_answer_counts(server):
    with connect(server) as one, connect(server) as other:
        send(one, hello())
        send(other, hello())
        wait_for(lambda: len(server.connected("a")) == 2)
        server.save("a", 7)
        assert json.loads(one.recv(1000)) == json.loads(other.recv(1000)) == {"save": 7}
        send(one, {"saved": 7, "step": 4}, {"done": True, "step": 4})
        assert not [event for event in until(server, Done) if isinstance(event, Saved)]
        send(other, {"saved": 7, "step": 5})
        assert until(server, Saved)[-1] == Saved("a", "worker", 0, 2, 7, 5)


def test_an_answer_does_not_wait_for_a_tracker_that_is_gone(server):
    with connect(server) as one:
        with connect(server) as other:
            send(one, hello())
            send(other, hello())
            wait_for(lambda: len(server.connected("a")) == 2)
            server.save("a", 7)
            send(one, {"saved": 7, "step": 4}, {"done": True, "step": 4})
            until(server, Done)
        assert Saved("a", "worker", 0, 2, 7, 4) in until(server, Saved)


def test_a_failure_of_one_tracker_is_told_at_once(server):
    with connect(server) as one, connect(server) as other:
        send(one, hello())
        send(other, hello())
        wait_for(lambda: len(server.connected("a")) == 2)
        server.save("a", 7)
        send(one, {"save_failed": 7, "why": "disk full"})
        assert until(server, SaveFailed)[-1] == SaveFailed("a", "worker", 0, 2, 7, "disk full")


@pytest.mark.parametrize("ranks", [("0", "1"), ("0", "0")], ids=["torchrun", "no ranks"])
def test_two_trackers_in_one_replica_save_in_one_round(server, monkeypatch, ranks):
    """The script's end, the real server and the rule that counts the answers."""
    for name, value in {"PROGRESS": server.address, "JOB": "a", "ROLE": "worker", "INDEX": "0", "ATTEMPT": "0"}.items():
        monkeypatch.setenv(f"HEADWAY_{name}", value)
    saved, ended, trackers = [], threading.Event(), []
    for number, rank in enumerate(ranks):
        monkeypatch.setenv("LOCAL_RANK", rank)
        trackers.append(progress.track(10, save=lambda step, number=number: saved.append(number)).__enter__())

    def train(tracker: progress.Tracker) -> None:
        step = 0
        while not ended.is_set():
            step += 1
            tracker.report(step)
            time.sleep(0.01)

    threads = [threading.Thread(target=train, args=(tracker,)) for tracker in trackers]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: len(server.connected("a")) == 2)
        can = {(one.role, one.index) for one in server.connected("a") if one.can_save}
        round_ = SaveRound(1, to_ask(can, can, can))
        server.save("a", round_.request)
        while not round_.is_complete:
            for event in until(server, Saved):
                if isinstance(event, Saved):
                    round_ = round_.answered((event.role, event.index), event.request)
    finally:
        ended.set()
        for thread, tracker in zip(threads, trackers, strict=True):
            thread.join()
            tracker.__exit__(None, None, None)
    assert sorted(saved) == ([0] if ranks == ("0", "1") else [0, 1])
