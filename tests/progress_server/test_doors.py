"""The listener survives whatever is sent, and what it hands on is clean."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire import connect, hello, send, until

from headway.core.text import is_clean
from headway.progress_server import Connected, Done, ListenError, ProgressServer, Reported, SaveFailed
from headway.progress_server.line_server import LineServer
from headway.progress_server.messages import LONGEST_NAME, LONGEST_TEXT, MessageError, event_of, greeting_of, parse


@pytest.fixture
def server(tmp_path):
    server = ProgressServer(f"unix:{tmp_path}/p")
    yield server
    server.close()


HUGE = b"1" + b"0" * 400


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": ' + HUGE + b"}\n", b'{"step": -' + HUGE + b"}\n", b'{"saved": ' + HUGE + b"}\n",
        b'{"save_failed": ' + HUGE + b"}\n", b'{"done": true, "step": ' + HUGE + b"}\n",
        b'{"step": 1' + b"0" * 6000 + b"}\n",
    ],
)  # fmt: skip
def test_a_number_of_400_digits_is_ignored_and_the_listener_goes_on(server, line):
    with connect(server) as bad, connect(server) as good:
        send(bad, hello(job="bad"), line)
        send(bad, {"done": True, "step": 1})
        until(server, Done)
        send(good, hello(), {"done": True, "step": 1})
        assert [event.job for event in until(server, Done)] == ["a", "a"]


def test_an_unexpected_error_in_one_connection_ends_that_connection_only(server, monkeypatch):
    from headway.progress_server import server as module

    def broken(message, replica):
        if replica.job == "bad":
            raise RuntimeError("a bug")
        return event_of(message, replica)

    monkeypatch.setattr(module, "event_of", broken)
    with connect(server) as bad, connect(server) as good:
        send(good, hello())
        send(bad, hello(job="bad"), {"step": 1})
        assert bad.recv(100) == b""
        send(good, {"done": True, "step": 1})
        until(server, Done)


def test_an_error_of_wake_ends_nothing(tmp_path):
    def wake() -> None:
        raise RuntimeError("a bug")

    server = ProgressServer(f"unix:{tmp_path}/p", wake)
    with connect(server) as sock:
        send(sock, hello(), {"done": True, "step": 1})
        until(server, Done)
    server.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_listener_that_ends_again_and_again_is_started_again_ten_times_and_then_told(tmp_path, monkeypatch):
    def ends(self: LineServer) -> None:
        raise SystemExit

    monkeypatch.setattr(LineServer, "_turn", ends)
    server = ProgressServer(f"unix:{tmp_path}/p")
    threads = set()
    for _ in range(11):
        server._lines._thread.join(60)
        threads.add(server._lines._thread)
        if len(threads) < 11:
            assert server.poll() == []
    with pytest.raises(ListenError, match="no longer receives progress"):
        server.poll()
    assert len(threads) == 11
    server.close()


def test_an_error_outside_any_connection_does_not_end_the_listener(tmp_path, monkeypatch, caplog):
    turn, failures = LineServer._turn, [1, 2]

    def fails_twice(self: LineServer) -> None:
        if failures:
            raise RuntimeError(f"bug {failures.pop()}")
        turn(self)

    monkeypatch.setattr(LineServer, "_turn", fails_twice)
    server = ProgressServer(f"unix:{tmp_path}/p")
    with connect(server) as sock:
        send(sock, hello(), {"done": True, "step": 1})
        until(server, Done)
    server.close()
    assert "bug 2" in caplog.text


def test_texts_of_a_replica_are_clean_and_short(server):
    values = {"acc\ud800\x1b[31m": 1.0, "n" * 5000: 2.0}
    with connect(server) as sock:
        send(sock, hello(), {"step": 1, "values": values})
        send(sock, {"save_failed": 1, "why": "cannot\nwrite \x1b[2J\ud800 [/x] " + "y" * 5000})
        events = until(server, SaveFailed)
    why = next(event.why for event in events if isinstance(event, SaveFailed))
    assert why.startswith("cannot write �[2J� [/x] yyy")
    assert len(why) == LONGEST_TEXT
    names = next(event.values for event in events if isinstance(event, Reported))
    assert set(names) == {"acc��[31m", "n" * LONGEST_NAME}


@pytest.mark.parametrize("fields", [{"job": "a\ud800"}, {"role": "w\x1b"}, {"job": "j" * 5000}, {"job": ""}])
def test_a_hello_with_a_name_that_no_job_can_have_is_invalid(fields):
    with pytest.raises(MessageError):
        greeting_of(hello(**fields))


def test_generated_connections_leave_the_listener_and_others_unharmed(server):
    """A few hundred of the cases of bench/doors.py; that runs ten thousand."""
    spec = importlib.util.spec_from_file_location("doors", Path(__file__).parents[2] / "bench/doors.py")
    doors = importlib.util.module_from_spec(spec)
    sys.modules["doors"] = doors  # dataclasses look their module up
    spec.loader.exec_module(doors)
    attack = doors.Attack(server, seed=7)
    attack.run(300, every=20)
    assert attack.events["Connected"] > 100
    assert attack.events["Reported"] >= 15


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=5,
)
fields = st.dictionaries(
    st.sampled_from(["hello", "job", "role", "index", "attempt", "total_steps", "can_save", "rank", "step", "loss",
                     "values", "saved", "save_failed", "why", "done"]), anything,
)  # fmt: skip


def _texts(event: object) -> list[str]:
    found = [] if event is None else [getattr(event, name, "") for name in ("job", "role", "why", "tracker")]
    return [*found, *getattr(event, "values", {})]


@settings(max_examples=300, deadline=None)
@given(fields)
def test_any_message_becomes_clean_events_or_is_invalid(message):
    try:
        greeting = greeting_of(parse(json.dumps(hello() | message).encode()))
        replica = greeting.connected(greeting.claimed)
    except MessageError:
        replica = Connected("a", "worker", 0, 0, True, None)
    try:
        event = event_of(parse(json.dumps(message).encode()), replica)
    except MessageError:
        return
    for one in (replica, event):
        assert repr(one).encode()
        assert len(repr(one)) < 100_000
        for text in _texts(one):
            assert is_clean(text)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_invalid(line):
    with contextlib.suppress(MessageError):
        assert isinstance(parse(line), dict)
