"""What goes over the wire, against a real socket."""

import os
import signal
import threading
import time

import pytest

from headway import progress


def until(true, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_hello_reports_and_farewell(headway):
    with progress.track(total_steps=3, save=print) as p:
        for step in (1, 2, 3):
            p.report(step, loss=1 / step, accuracy=0.5)
    headway.wait(lambda heard: heard and "done" in heard[-1])
    hello = headway.heard[0]
    assert hello.pop("tracker").startswith(f"{os.getpid()}-")
    assert hello == {
        "hello": 1,
        "job": "night-run",
        "role": "worker",
        "index": 2,
        "attempt": 1,
        "total_steps": 3,
        "can_save": True,
        "rank": 0,
        "beats": True,
    }
    last = headway.reports()[-1]
    assert (last["step"], last["loss"], last["values"]) == (3, 1 / 3, {"accuracy": 0.5})
    assert 0 <= last["at"] < 10
    assert headway.heard[-1] == {"done": True, "step": 3}


def test_a_flood_of_reports_sends_few_and_always_the_last(headway):
    with progress.track(total_steps=100_000) as p:
        began = time.monotonic()
        for step in range(1, 100_001):
            p.report(step, loss=1.0)
        seconds = time.monotonic() - began
    headway.wait(lambda heard: heard and "done" in heard[-1])
    assert len(headway.reports()) <= 10 * seconds + 3
    assert headway.reports()[-1]["step"] == 100_000


def test_an_exception_leaves_without_saying_done_but_with_the_last_report(headway):
    def train():
        with progress.track(total_steps=9) as p:
            p.report(1, loss=1.0)
            headway.wait(lambda heard: heard)
            p.report(2, loss=1.0)
            raise KeyError

    with pytest.raises(KeyError):
        train()
    headway.wait(lambda heard: heard[-1].get("step") == 2)
    assert headway.all_with("done") == []


def test_numbers_that_json_cannot_write_and_values_that_are_none(headway):
    with progress.track() as p:
        p.report(1, loss=float("nan"), up=float("inf"), down=float("-inf"), text="no", thing=object(), big=10**400)
    headway.wait(lambda heard: heard and "done" in heard[-1])
    (report,) = headway.reports()
    assert report["loss"] == "nan"
    assert report["values"] == {"up": "inf", "down": "-inf", "text": None, "thing": None, "big": None}


def test_nonsense_steps_are_dropped_and_told_once(headway, capsys):
    with progress.track(total_steps=5) as p:
        for nonsense in (float("nan"), None, "x", [1]):
            p.report(nonsense, loss=1.0)
        p.report(4, loss=1.0)
    headway.wait(lambda heard: heard and "done" in heard[-1])
    assert [report["step"] for report in headway.reports()] == [4]
    assert capsys.readouterr().err.count("a report was dropped") == 1


def test_save_is_answered_from_the_training_thread_and_once_per_request(headway):
    saved = []
    with progress.track(total_steps=9, save=lambda step: saved.append((step, threading.get_ident()))) as p:
        p.report(5, loss=1.0)
        headway.wait(lambda heard: len(heard) >= 2)
        headway.say({"save": "first"}, {"save": 2})
        until(lambda: (p.poll(), saved)[1])
        headway.wait(lambda heard: any(m.get("saved") == 2 for m in heard))
        headway.say({"save": "first"})
        headway.wait(lambda heard: sum(m.get("saved") == "first" for m in heard) == 2)
        p.report(6, loss=1.0)
    assert set(saved) <= {(5, threading.get_ident())}
    assert len(saved) <= 2
    assert {m["step"] for m in headway.all_with("saved")} == {5}


def test_a_save_that_fails_is_told_and_training_goes_on(headway, capsys):
    def save(step):
        raise OSError("disk full")

    with progress.track(total_steps=9, save=save) as p:
        headway.wait(lambda heard: heard)
        headway.say({"save": 1})
        until(lambda: (p.poll(7), headway.all_with("save_failed"))[1])
        headway.say({"save": 2})
        until(lambda: (p.poll(8), len(headway.all_with("save_failed")) == 2)[1])
    assert headway.all_with("save_failed")[0] == {"save_failed": 1, "why": "OSError: disk full"}
    assert capsys.readouterr().err.count("training goes on") == 1


def test_without_a_save_function_the_answer_is_no(headway):
    with progress.track(total_steps=9):
        headway.wait(lambda heard: heard)
        headway.say({"save": 1})
        headway.wait(lambda heard: "save_failed" in heard[-1])
    assert headway.heard[0]["can_save"] is False


def test_resize_tells_the_newest_size_and_waits_for_a_listener(headway, capsys):
    sizes = []
    with progress.track(total_steps=9) as p:
        headway.wait(lambda heard: heard)
        headway.say({"resize": {"replicas": {"worker": 2}}}, {"resize": {"replicas": {"worker": 3}, "cpu": 1.5}})
        headway.say({"save": 1})
        headway.wait(lambda heard: "save_failed" in heard[-1])  # so what was said before has arrived
        p.report(1)
        p.on_resize(sizes.append)
        p.on_resize(lambda size: 1 / 0)
        p.report(2)
        p.report(3)
    assert sizes == [progress.Size(replicas={"worker": 3}, cpu=1.5)]
    assert capsys.readouterr().err.count("ZeroDivisionError") == 1


def test_a_save_function_may_report_and_poll(headway):
    calls = []

    def save(step):
        calls.append(step)
        p.poll()
        p.report(step)

    with progress.track(total_steps=9, save=save) as p:
        headway.wait(lambda heard: heard)
        headway.say({"save": 1})
        until(lambda: (p.report(4), calls)[1])
    headway.wait(lambda heard: heard and "done" in heard[-1])
    assert calls == [4]


def test_what_headway_says_in_an_unknown_tongue_is_passed_over(headway):
    with progress.track(total_steps=9, save=print) as p:
        headway.wait(lambda heard: heard)
        headway.say_bytes(b'\xff\xfe\n[]\n{"dance":1}\n{"save":true}\n{"save":[1]}\n{"resize":7}\nnull\n')
        headway.say({"save": 9})
        until(lambda: (p.poll(), headway.all_with("saved"))[1])
    assert len(headway.connections) == 1


def test_a_child_made_by_fork_says_nothing(headway):
    with progress.track(total_steps=9) as p:
        p.report(1)
        headway.wait(lambda heard: len(heard) == 2)
        child = os.fork()
        if child == 0:
            p.report(99)
            p.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        p.report(2)
    headway.wait(lambda heard: heard and "done" in heard[-1])
    assert [m["step"] for m in headway.reports()] == [1, 2]


def test_a_surviving_child_does_not_keep_the_connection_open(headway):
    with progress.track(total_steps=9) as p:
        p.report(1)
        headway.wait(lambda heard: len(heard) == 2)
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        until(lambda: all(connection.fileno() == -1 for connection in headway.connections))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
