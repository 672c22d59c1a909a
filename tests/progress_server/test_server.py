"""The server end of progress, over real sockets."""

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


def _call(server: ProgressServer) -> socket.socket:
    if server.address.startswith("unix:"):
        link = socket.socket(socket.AF_UNIX)
        link.connect(server.address.removeprefix("unix:"))
    else:
        host, _, port = server.address.removeprefix("tcp:").rpartition(":")
        link = socket.create_connection((host, int(port)))
    link.settimeout(60)
    return link


def _say(link: socket.socket, *messages: object) -> None:
    link.sendall(b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages))


def _hello(**more: object) -> dict[str, object]:
    usual = {"hello": 1, "job": "a", "role": "worker", "index": 0, "attempt": 2, "total_steps": 10, "can_save": True}
    return usual | more


def _until(server: ProgressServer, wanted: type, seconds: float = 60.0) -> list[object]:
    """Events up to and with the first of the wanted kind."""
    heard: list[object] = []
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        heard += server.poll()
        if any(isinstance(event, wanted) for event in heard):
            return heard
        time.sleep(0.01)
    raise AssertionError(f"no {wanted.__name__} among {heard}")


def test_what_is_said_is_heard(server):
    with _call(server) as link:
        _say(link, _hello(), {"step": 3, "loss": 0.5}, {"done": True, "step": 10})
        heard = _until(server, Done)
    assert heard == [
        Connected("a", "worker", 0, 2, True, 10),
        Reported("a", "worker", 0, 2, 3, 0.5, 10),
        Done("a", "worker", 0, 2, 10),
    ]
    assert _until(server, Disconnected) == [Disconnected("a", "worker", 0, 2)]


def test_only_who_can_save_is_asked_and_answers_are_heard(server):
    with _call(server) as saver, _call(server) as other:
        _say(saver, _hello())
        _say(other, _hello(index=1, can_save=False))
        while len(server.connected("a")) < 2:
            time.sleep(0.01)
        assert server.save("a", 7) == 1
        assert server.save("somebody-else", 8) == 0
        assert json.loads(saver.recv(1000)) == {"save": 7}
        _say(saver, {"saved": 7, "step": 4})
        assert Saved("a", "worker", 0, 2, 7, 4) in _until(server, Saved)
        _say(saver, {"save_failed": 8, "why": "disk full"})
        assert SaveFailed("a", "worker", 0, 2, 8, "disk full") in _until(server, SaveFailed)


def test_each_role_hears_its_own_cpu(server):
    with _call(server) as worker, _call(server) as ps:
        _say(worker, _hello())
        _say(ps, _hello(role="ps"))
        while len(server.connected("a")) < 2:
            time.sleep(0.01)
        server.resize("a", {"worker": 3, "ps": 1}, {"worker": 1.5, "ps": 0.25})
        assert json.loads(worker.recv(1000))["resize"] == {"replicas": {"worker": 3, "ps": 1}, "cpu": 1.5}
        assert json.loads(ps.recv(1000))["resize"]["cpu"] == 0.25


NONSENSE = [
    b"not json\n", b"[1, 2]\n", b'{"step": -4}\n', b'{"step": 1e99}\n', b'{"step": NaN}\n', b'{"step": true}\n',
    b'{"step": "four"}\n', b'{"saved": []}\n', b"\xff\xfe\n", b"[" * 5000 + b"\n", b"\n",
]  # fmt: skip


def test_nonsense_is_dropped_and_the_rest_is_heard(server):
    with _call(server) as link:
        _say(link, _hello(), *NONSENSE, {"unheard": "of"}, {"step": 5, "loss": "nan"}, {"done": True, "step": 5})
        heard = _until(server, Done)
    assert [type(event) for event in heard] == [Connected, Reported, Done]
    assert heard[1] == Reported("a", "worker", 0, 2, 5, None, 10)


@pytest.mark.parametrize("greeting", [b'{"step": 1}\n', b'{"hello": 1, "job": 4, "role": "w"}\n', b'{"hello":1}\n'])
def test_who_does_not_greet_is_not_heard(server, greeting):
    with _call(server) as link, _call(server) as good:
        _say(link, greeting, {"step": 1})
        _say(good, _hello(), {"done": True, "step": 1})
        heard = _until(server, Done)
    assert {event.attempt for event in heard} == {2}


def test_a_line_without_end_ends_the_connection(server):
    with _call(server) as link:
        _say(link, _hello())
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                link.sendall(b"x" * 65536)
                time.sleep(0.005)
    assert Disconnected("a", "worker", 0, 2) in _until(server, Disconnected)


def test_a_flood_is_slowed_and_others_are_heard(server):
    with _call(server) as flood, _call(server) as calm:
        flood.setblocking(False)
        _say(calm, _hello(job="calm"))
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
        _say(calm, {"step": 9, "loss": 1.0}, {"done": True, "step": 9})
        heard = _until(server, Done)
    assert any(isinstance(event, Reported) and event.job == "calm" for event in heard)
    assert taken <= (took + 2.5) * MESSAGES_PER_SECOND
    assert sent < 16_000_000  # the sender felt it: its socket filled up


def test_named_values_are_heard_where_they_are_numbers(server):
    values = {"accuracy": 0.9, "name": "x", "bad": "nan", "yes": True}
    with _call(server) as link:
        _say(link, _hello(), {"step": 3, "loss": 0.5, "values": values}, {"done": True, "step": 10})
        heard = _until(server, Done)
    report = next(event for event in heard if isinstance(event, Reported))
    assert report.values == {"accuracy": 0.9}
    assert report.metric(Target(metric="accuracy", value=1.0, higher=True)) == 0.9
    assert report.metric(Target(value=0.1)) == 0.5
    assert report.metric(Target(metric="bleu", value=1.0)) is report.metric(None) is None


def test_of_many_reports_the_newest_is_kept(server):
    with _call(server) as link:
        _say(link, _hello(), *[{"step": step} for step in range(50)])
        deadline = time.monotonic() + 60
        while not (reports := [e for e in server.poll() if isinstance(e, Reported)]) and time.monotonic() < deadline:
            time.sleep(0.2)
    assert len(reports) == 1


def test_an_address_that_cannot_be_had_is_told_in_a_sentence(tmp_path):
    with pytest.raises(UserError, match="cannot listen"):
        ProgressServer(f"unix:{tmp_path}/no/such/folder/p")
