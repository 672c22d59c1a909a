"""The progress server over real sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest

from headway.core.errors import UserError
from headway.core.job import Target
from headway.progress_server import Connected, Disconnected, Done, ProgressServer, Reported, Saved, SaveFailed
from headway.progress_server.server import MESSAGES_PER_SECOND


@pytest.fixture(params=["unix", "tcp"])
def server(request, tmp_path):
    address = f"unix:{tmp_path}/p" if request.param == "unix" else "tcp:127.0.0.1:0"
    server = ProgressServer(address)
    yield server
    server.close()


def _connect(server: ProgressServer) -> socket.socket:
    if server.address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(server.address.removeprefix("unix:"))
    else:
        host, _, port = server.address.removeprefix("tcp:").rpartition(":")
        sock = socket.create_connection((host, int(port)))
    sock.settimeout(60)
    return sock


def _send(sock: socket.socket, *messages: object) -> None:
    sock.sendall(b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages))


def _hello(**more: object) -> dict[str, object]:
    usual = {"hello": 1, "job": "a", "role": "worker", "index": 0, "attempt": 2, "total_steps": 10, "can_save": True}
    return usual | more


def _until(server: ProgressServer, wanted: type, seconds: float = 60.0) -> list[object]:
    """The events up to the first of the wanted kind, and with it."""
    events: list[object] = []
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        events += server.poll()
        if any(isinstance(event, wanted) for event in events):
            return events
        time.sleep(0.01)
    raise AssertionError(f"no {wanted.__name__} among {events}")


def test_what_a_replica_sends_becomes_events(server):
    with _connect(server) as sock:
        _send(sock, _hello(), {"step": 3, "loss": 0.5}, {"done": True, "step": 10})
        events = _until(server, Done)
    assert events == [
        Connected("a", "worker", 0, 2, True, 10),
        Reported("a", "worker", 0, 2, 3, 0.5, 10),
        Done("a", "worker", 0, 2, 10),
    ]
    assert _until(server, Disconnected) == [Disconnected("a", "worker", 0, 2)]


def test_only_replicas_that_can_save_are_asked_and_their_answers_are_received(server):
    with _connect(server) as saver, _connect(server) as other:
        _send(saver, _hello())
        _send(other, _hello(index=1, can_save=False))
        while len(server.connected("a")) < 2:
            time.sleep(0.01)
        server.save("another-job", 6)
        server.save("a", 7)
        assert json.loads(saver.recv(1000)) == {"save": 7}
        _send(saver, {"saved": 7, "step": 4})
        assert Saved("a", "worker", 0, 2, 7, 4) in _until(server, Saved)
        _send(saver, {"save_failed": 8, "why": "disk full"})
        assert SaveFailed("a", "worker", 0, 2, 8, "disk full") in _until(server, SaveFailed)
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(1000)


def test_each_role_receives_its_own_cpu(server):
    with _connect(server) as worker, _connect(server) as ps:
        _send(worker, _hello())
        _send(ps, _hello(role="ps"))
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
    with _connect(server) as sock:
        _send(sock, _hello(), *INVALID, {"unheard": "of"}, {"step": 5, "loss": "nan"}, {"done": True, "step": 5})
        events = _until(server, Done)
    assert [type(event) for event in events] == [Connected, Reported, Done]
    assert events[1] == Reported("a", "worker", 0, 2, 5, None, 10)


@pytest.mark.parametrize("hello", [b'{"step": 1}\n', b'{"hello": 1, "job": 4, "role": "w"}\n', b'{"hello":1}\n'])
def test_a_connection_without_hello_is_ignored(server, hello):
    with _connect(server) as sock, _connect(server) as good:
        _send(sock, hello, {"step": 1})
        _send(good, _hello(), {"done": True, "step": 1})
        events = _until(server, Done)
    assert {event.attempt for event in events} == {2}


def test_a_line_without_end_ends_the_connection(server):
    with _connect(server) as sock:
        _send(sock, _hello())
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                sock.sendall(b"x" * 65536)
                time.sleep(0.005)
    assert Disconnected("a", "worker", 0, 2) in _until(server, Disconnected)


def test_a_flood_is_slowed_and_other_replicas_are_received(server):
    with _connect(server) as flood, _connect(server) as calm:
        flood.setblocking(False)
        _send(calm, _hello(job="calm"))
        flood.sendall(json.dumps(_hello(job="flood")).encode() + b"\n")
        line, sent, taken = b'{"step": 1, "loss": 1.0}\n' * 1000, 0, 0
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            try:
                sent += flood.send(line)
            except BlockingIOError:
                time.sleep(0.01)
            taken += sum(isinstance(event, Reported) and event.job == "flood" for event in server.poll())
        took = time.monotonic() - began
        _send(calm, {"step": 9, "loss": 1.0}, {"done": True, "step": 9})
        events = _until(server, Done)
    assert any(isinstance(event, Reported) and event.job == "calm" for event in events)
    assert taken <= (took + 2.5) * MESSAGES_PER_SECOND
    assert sent < 16_000_000  # the sender is slowed: its socket is full


def test_named_values_are_kept_if_they_are_numbers(server):
    values = {"accuracy": 0.9, "name": "x", "bad": "nan", "yes": True}
    with _connect(server) as sock:
        _send(sock, _hello(), {"step": 3, "loss": 0.5, "values": values}, {"done": True, "step": 10})
        events = _until(server, Done)
    report = next(event for event in events if isinstance(event, Reported))
    assert report.values == {"accuracy": 0.9}
    assert report.metric(Target(metric="accuracy", value=1.0, higher=True)) == 0.9
    assert report.metric(Target(value=0.1)) == 0.5
    assert report.metric(Target(metric="bleu", value=1.0)) is report.metric(None) is None


def test_of_many_reports_the_newest_is_kept(server):
    with _connect(server) as sock:
        _send(sock, _hello(), *[{"step": step} for step in range(50)])
        deadline = time.monotonic() + 60
        while not (reports := [e for e in server.poll() if isinstance(e, Reported)]) and time.monotonic() < deadline:
            time.sleep(0.2)
    assert len(reports) == 1


def test_an_address_that_cannot_be_used_is_an_error(tmp_path):
    with pytest.raises(UserError, match="cannot listen"):
        ProgressServer(f"unix:{tmp_path}/no/such/folder/p")
