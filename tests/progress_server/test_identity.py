"""Who sends is a question that the server asks: nobody can speak for another replica."""

from __future__ import annotations

import json
import threading

import pytest
from wire import connect, hello, send, until, wait_for

from headway.progress_server import (
    Connected,
    Disconnected,
    Done,
    KnownReplica,
    ProgressServer,
    Reported,
    Saved,
    ServerLimits,
)

MINE, ANOTHERS = ("a", "worker", 0, 2), ("b", "ps", 1, 0)


class Review:
    """Knows two tokens. Answers from another thread when it is told to, as an API server would."""

    def __init__(self) -> None:
        self.pods = {"mine": MINE, "anothers": ANOTHERS}
        self.asked, self.held, self.waits = [], [], False

    def __call__(self, greeting, answer) -> None:
        self.asked.append(greeting)
        if self.waits:
            self.held.append((greeting, answer))
        else:
            self.answer(greeting, answer)

    def answer(self, greeting, answer) -> None:
        token = greeting.token
        sender = self.pods.get(token)
        known = None if sender is None else KnownReplica(sender, lambda: self.pods.get(token) == sender)
        thread = threading.Thread(target=answer, args=(known or "the token is of no pod of ours",))
        thread.start()
        thread.join()


@pytest.fixture
def review():
    return Review()


@pytest.fixture
def server(tmp_path, review):
    server = ProgressServer(f"unix:{tmp_path}/p", identify=review, limits=ServerLimits(beat_seconds=0.2))
    yield server
    server.close()


def line_of(sock) -> dict:
    """The next line that is no heartbeat."""
    data = b""
    while not data.endswith(b"\n") or b"beat" in data:
        data = b"" if data.endswith(b"\n") else data
        more = sock.recv(1)
        assert more, "it ended"
        data += more
    return json.loads(data)


def test_a_claim_is_not_read_where_there_is_a_token(server):
    with connect(server) as sock:
        send(sock, hello(token="mine", job="b", role="ps", index=1, attempt=0), {"step": 3}, {"done": True, "step": 3})
        events = until(server, Done)
    assert [type(event) for event in events] == [Connected, Reported, Done]
    assert {event.sender for event in events} == {MINE}


@pytest.mark.parametrize("greeting", [hello(), hello(token="forged"), hello(token="")])
def test_who_cannot_prove_it_is_refused_and_nothing_of_it_is_heard(server, greeting):
    with connect(server) as forger, connect(server) as honest:
        send(honest, hello(token="mine"))
        until(server, Connected)
        server.save("a", 7)
        send(forger, greeting, {"saved": 7, "step": 1}, {"step": 10**9}, {"done": True, "step": 9})
        assert "of ours" in line_of(forger)["refused"]
        assert forger.recv(100) == b""
        send(honest, {"saved": 7, "step": 4}, {"done": True, "step": 4})
        events = until(server, Done)
    assert Saved(*MINE, 7, 4) in events
    assert {event.sender for event in events} == {MINE}
    assert [event.step for event in events if hasattr(event, "step")] == [4, 4]


@pytest.mark.parametrize("token", [5, None, ["mine"], {"mine": 1}, "x" * 20_000, "mine\ud800"])
def test_a_token_of_a_wrong_type_or_length_is_no_greeting(server, review, token):
    with connect(server) as sock:
        send(sock, hello(token=token), hello(token="mine"), {"done": True, "step": 1})
        until(server, Done)
    assert [greeting.token for greeting in review.asked] == ["mine"]


def test_nothing_is_read_before_it_is_known_who_sends(server, review):
    review.waits = True
    with connect(server) as sock, connect(server) as other:
        send(sock, hello(token="mine"), {"step": 3}, {"saved": 7, "step": 3}, {"done": True, "step": 3})
        send(other, hello(token="anothers"), {"step": 1})
        wait_for(lambda: len(review.held) == 2)
        assert server.connected("a") == server.connected("b") == server.poll() == []
        server.save("a", 7)
        review.answer(*review.held[1])
        until(server, Reported)
        assert server.connected("a") == [], "one answer that takes long keeps nobody else waiting"
        review.answer(*review.held[0])
        assert [type(event) for event in until(server, Done)] == [Connected, Reported, Saved, Done]


def test_an_answer_for_a_connection_that_is_gone_changes_nothing(server, review):
    review.waits = True
    with connect(server) as sock:
        send(sock, hello(token="mine"))
        wait_for(lambda: review.held)
    server._lines.soon(next(iter(server._connections.waiting)), server._lines.drop)
    wait_for(lambda: not server._connections.waiting)
    review.answer(*review.held[0])
    with connect(server) as sock:
        review.waits = False
        send(sock, hello(token="anothers"), {"done": True, "step": 1})
        assert {event.sender for event in until(server, Done)} == {ANOTHERS}


def test_a_replica_whose_pod_is_gone_is_no_longer_heard(server, review):
    with connect(server) as sock:
        send(sock, hello(token="mine"))
        until(server, Connected)
        del review.pods["mine"]
        send(sock, {"step": 4}, {"saved": 1, "step": 4})
        assert until(server, Disconnected) == [Disconnected(*MINE)]


def test_a_silent_replica_whose_pod_is_gone_is_ended_by_the_heartbeat(server, review):
    with connect(server) as sock:
        send(sock, hello(token="mine"))
        until(server, Connected)
        del review.pods["mine"]
        until(server, Disconnected)
    assert server.connected("a") == []


def test_the_new_pod_of_a_replica_takes_the_place_of_the_old_one(server, review):
    """Both have the same role, index and attempt: a node was cut off, and its process still runs."""
    with connect(server) as old, connect(server) as new:
        send(old, hello(token="mine"))
        until(server, Connected)
        del review.pods["mine"]
        review.pods["new"] = MINE
        send(new, hello(token="new"))
        until(server, Connected)
        server.save("a", 7)
        assert line_of(new) == {"save": 7}
        send(new, {"saved": 7, "step": 4})
        assert Saved(*MINE, 7, 4) in until(server, Saved)
        assert len(server.connected("a")) == 1
