"""The progress server over real sockets."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from wire import connect, hello, send, until

from headway.core.errors import UserError
from headway.core.job import Target
from headway.progress_server import (
    Connected,
    Disconnected,
    Done,
    ProgressServer,
    Reported,
    Saved,
    SaveFailed,
    ServerLimits,
)


@pytest.fixture(params=["unix", "tcp"])
def server(request, tmp_path):
    address = f"unix:{tmp_path}/p" if request.param == "unix" else "tcp:127.0.0.1:0"
    server = ProgressServer(address)
    yield server
    server.close()


def test_what_a_replica_sends_becomes_events(server):
    with connect(server) as sock:
        send(sock, hello(), {"step": 3, "loss": 0.5}, {"done": True, "step": 10})
        events = until(server, Done)
    assert events == [
        Connected("a", "worker", 0, 2, True, 10),
        Reported("a", "worker", 0, 2, 3, 0.5, 10),
        Done("a", "worker", 0, 2, 10),
    ]
    assert until(server, Disconnected) == [Disconnected("a", "worker", 0, 2)]


def test_only_replicas_that_can_save_are_asked_and_their_answers_are_received(server):
    with connect(server) as saver, connect(server) as other:
        send(saver, hello())
        send(other, hello(index=1, can_save=False))
        while len(server.connected("a")) < 2:
            time.sleep(0.01)
        server.save("another-job", 6)
        server.save("a", 7)
        assert json.loads(saver.recv(1000)) == {"save": 7}
        send(saver, {"saved": 7, "step": 4})
        assert Saved("a", "worker", 0, 2, 7, 4) in until(server, Saved)
        send(saver, {"save_failed": 8, "why": "disk full"})
        assert SaveFailed("a", "worker", 0, 2, 8, "disk full") in until(server, SaveFailed)
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(1000)


def test_each_role_receives_its_own_cpu(server):
    with connect(server) as worker, connect(server) as ps:
        send(worker, hello())
        send(ps, hello(role="ps"))
        while len(server.connected("a")) < 2:
            time.sleep(0.01)
        server.resize("a", {"worker": 3, "ps": 1}, {"worker": 1.5, "ps": 0.25})
        assert json.loads(worker.recv(1000))["resize"] == {"replicas": {"worker": 3, "ps": 1}, "cpu": 1.5}
        assert json.loads(ps.recv(1000))["resize"]["cpu"] == 0.25


INVALID = [
    b"not json\n", b"[1, 2]\n", b'{"step": -4}\n', b'{"step": 1e99}\n', b'{"step": NaN}\n', b'{"step": true}\n',
    b'{"step": "four"}\n', b'{"saved": []}\n', b"\xff\xfe\n", b"[" * 5000 + b"\n", b"\n",
]  # fmt: skip


def test_invalid_messages_are_dropped_and_the_rest_is_received(server):
    with connect(server) as sock:
        send(sock, hello(), *INVALID, {"unheard": "of"}, {"step": 5, "loss": "nan"}, {"done": True, "step": 5})
        events = until(server, Done)
    assert [type(event) for event in events] == [Connected, Reported, Done]
    assert events[1] == Reported("a", "worker", 0, 2, 5, None, 10)


@pytest.mark.parametrize("first", [b'{"step": 1}\n', b'{"hello": 1, "job": 4, "role": "w"}\n', b'{"hello":1}\n'])
def test_a_connection_without_hello_is_ignored(server, first):
    with connect(server) as sock, connect(server) as good:
        send(sock, first, {"step": 1})
        send(good, hello(), {"done": True, "step": 1})
        events = until(server, Done)
    assert {event.attempt for event in events} == {2}


def test_a_line_without_end_ends_the_connection(server):
    with connect(server) as sock:
        send(sock, hello())
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                sock.sendall(b"x" * 65536)
                time.sleep(0.005)
    assert Disconnected("a", "worker", 0, 2) in until(server, Disconnected)


def test_a_flood_is_slowed_and_other_replicas_are_received(server):
    with connect(server) as flood, connect(server) as calm:
        flood.setblocking(False)
        send(calm, hello(job="calm"))
        flood.sendall(json.dumps(hello(job="flood")).encode() + b"\n")
        line, sent, taken = b'{"step": 1, "loss": 1.0}\n' * 1000, 0, 0
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            try:
                sent += flood.send(line)
            except BlockingIOError:
                time.sleep(0.01)
            taken += sum(isinstance(event, Reported) and event.job == "flood" for event in server.poll())
        took = time.monotonic() - began
        send(calm, {"step": 9, "loss": 1.0}, {"done": True, "step": 9})
        events = until(server, Done)
    assert any(isinstance(event, Reported) and event.job == "calm" for event in events)
    assert taken <= (took + 2.5) * ServerLimits().messages_per_second
    assert sent < 16_000_000  # the sender is slowed: its socket is full


def test_named_values_are_kept_if_they_are_numbers(server):
    values = {"accuracy": 0.9, "name": "x", "bad": "nan", "yes": True}
    with connect(server) as sock:
        send(sock, hello(), {"step": 3, "loss": 0.5, "values": values}, {"done": True, "step": 10})
        events = until(server, Done)
    report = next(event for event in events if isinstance(event, Reported))
    assert report.values == {"accuracy": 0.9}
    assert report.metric(Target(metric="accuracy", value=1.0, higher=True)) == 0.9
    assert report.metric(Target(value=0.1)) == 0.5
    assert report.metric(Target(metric="bleu", value=1.0)) is report.metric(None) is None


def test_of_many_reports_the_newest_is_kept(server):
    with connect(server) as sock:
        send(sock, hello(), *[{"step": step} for step in range(50)])
        deadline = time.monotonic() + 60
        while not (reports := [e for e in server.poll() if isinstance(e, Reported)]) and time.monotonic() < deadline:
            time.sleep(0.2)
    assert len(reports) == 1


def test_an_address_that_cannot_be_used_is_an_error(tmp_path):
    with pytest.raises(UserError, match="cannot listen"):
        ProgressServer(f"unix:{tmp_path}/no/such/folder/p")
