"""Headway goes away, comes back, or was never there: the training does not notice."""

import contextlib
import json
import threading
import time

import pytest

from headway import progress
from headway.progress._mailbox import LONGEST_LINE_BYTES, MOST_KEPT, Mailbox


def _save(headway, p, number):
    """Asks for a save; the training polls until it was answered."""
    headway.say({"save": number})
    deadline = time.monotonic() + 60
    while not headway.all_with("saved") and time.monotonic() < deadline:
        p.poll()
        time.sleep(0.005)


def test_silent_when_nobody_listens(monkeypatch, capsys):
    monkeypatch.delenv("HEADWAY_PROGRESS", raising=False)
    threads = threading.active_count()
    with progress.track(total_steps=2, save=print) as p:
        p.on_resize(print)
        p.report(1, loss=0.5)
        p.report("nonsense")
        p.poll()
        assert threading.active_count() == threads
    assert capsys.readouterr() == ("", "")
    assert progress.checkpoint_dir() is None


@pytest.mark.parametrize("address", ["nonsense", "tcp:host", "tcp:host:99999", "unix:", "http://x"])
def test_a_bad_address_is_told_and_then_silent(monkeypatch, capsys, address):
    monkeypatch.setenv("HEADWAY_PROGRESS", address)
    with progress.track(total_steps=2) as p:
        p.report(1, loss=0.5)
    assert "HEADWAY_PROGRESS" in capsys.readouterr().err


def test_nobody_there_at_all_delays_leaving_by_a_second_only(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWAY_PROGRESS", f"unix:{tmp_path}/nobody")
    with progress.track(total_steps=2) as p:
        p.report(1, loss=0.5)
        began = time.monotonic()
    assert time.monotonic() - began < 6.0


def test_headway_dies_and_comes_back(headway):
    with progress.track(total_steps=9, save=print) as p:
        p.report(1, loss=0.5)
        headway.wait(lambda heard: len(heard) == 2)
        headway.die()
        for _ in range(3):
            p.report(2, loss=0.4)
            time.sleep(0.05)
        headway.open()
        headway.wait(lambda heard: sum("hello" in m for m in heard) == 2 and heard[-1].get("step") == 2)
        _save(headway, p, 5)
    headway.wait(lambda heard: heard and "done" in heard[-1])
    assert [(one["saved"], one["step"]) for one in headway.all_with("saved")] == [(5, 2)]


def test_the_last_report_is_repeated_when_training_has_nothing_new(headway):
    with progress.track(total_steps=9) as p:
        p.report(7, loss=0.5)
        headway.wait(lambda heard: len(heard) == 2)
        headway.die()
        headway.open()
        headway.wait(lambda heard: sum(m.get("step") == 7 for m in heard) == 2)
    headway.wait(lambda heard: heard and "done" in heard[-1])


def test_a_save_asked_for_before_the_connection_was_lost_is_answered_after(headway):
    saving, go_on = threading.Event(), threading.Event()

    def save(step):
        saving.set()
        go_on.wait(60)

    def train():
        with progress.track(total_steps=9, save=save) as p:
            while not headway.all_with("saved"):
                p.report(3, loss=0.5)
                time.sleep(0.005)

    thread = threading.Thread(target=train)
    thread.start()
    headway.wait(lambda heard: heard)
    headway.say({"save": 1})
    assert saving.wait(60)
    headway.die()
    headway.open()
    go_on.set()
    headway.wait(lambda heard: any(m.get("saved") == 1 for m in heard))
    thread.join(60)


def test_an_answer_goes_out_again_if_the_connection_was_lost_while_it_was_sent(headway, monkeypatch):
    taken = Mailbox.take_answers

    def lost_while_taken(mailbox):
        answers = taken(mailbox)
        if answers and not lost.is_set():
            lost.set()
            headway.die()
            headway.open()
        return answers

    lost = threading.Event()
    monkeypatch.setattr(Mailbox, "take_answers", lost_while_taken)
    with progress.track(total_steps=9, save=print) as p:
        p.report(3, loss=0.5)
        headway.wait(lambda heard: heard)
        _save(headway, p, 1)
    headway.wait(lambda heard: heard and "done" in heard[-1])
    assert lost.is_set()
    assert [(one["saved"], one["step"]) for one in headway.all_with("saved")] == [(1, 3)]


def test_a_line_without_end_costs_the_connection_not_the_training(headway):
    with progress.track(total_steps=9) as p:
        p.report(1, loss=0.5)
        headway.wait(lambda heard: heard)
        with contextlib.suppress(OSError):  # it may hang up before it has heard all
            headway.say_bytes(b"x" * (3 * LONGEST_LINE_BYTES))
        headway.wait(lambda heard: sum("hello" in m for m in heard) >= 2)
        p.report(2, loss=0.5)
    headway.wait(lambda heard: heard and heard[-1] == {"done": True, "step": 2})


def test_the_mailbox_stays_small_whatever_is_asked():
    mailbox = Mailbox(can_save=True)
    for number in range(10 * MOST_KEPT):
        mailbox.take_message({"save": number})
    saves, _ = mailbox.take_requests(resizes=False)
    assert len(saves) == MOST_KEPT
    for number in range(10 * MOST_KEPT):
        mailbox.answer_saved(number, 1, 0.1)
    assert len(mailbox.take_answers().splitlines()) == MOST_KEPT


def test_the_environment_is_read_and_nonsense_reads_as_unset(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWAY_CHECKPOINT", str(tmp_path))
    monkeypatch.setenv("HEADWAY_PORT", "7000")
    monkeypatch.setenv("HEADWAY_HOSTS", json.dumps({"ps": ["a:1", "b:2"], "odd": 3}))
    monkeypatch.setenv("HEADWAY_REPLICAS", json.dumps({"ps": 2, "worker": "many"}))
    assert progress.checkpoint_dir() == tmp_path
    assert progress.port() == 7000
    assert progress.hosts() == {"ps": ["a:1", "b:2"]}
    assert progress.replicas() == {"ps": 2}
    monkeypatch.setenv("HEADWAY_PORT", "x")
    monkeypatch.setenv("HEADWAY_INDEX", "-3")
    monkeypatch.setenv("HEADWAY_HOSTS", "{")
    monkeypatch.setenv("HEADWAY_REPLICAS", "[]")
    assert progress.port() is None
    assert progress.hosts() == progress.replicas() == {}
    assert progress.identity() == progress.Identity()
