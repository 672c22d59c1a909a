"""Sentences that new users stumbled over, as they are said now."""

from __future__ import annotations

import re

import pytest

from headway.cli.screen.live_table import where
from headway.compare.report_text import _best
from headway.core.placement import Placement
from headway.core.plan import Plan
from headway.core.quantity import CPU, MEMORY, show
from headway.core.reason import explain
from headway.core.states import STATES, State
from make import a_job, a_snapshot, flying, over, running, some_nodes

ONE = Placement(((0,),))


def _why(entry, **more) -> str:
    snapshot = a_snapshot(entry, nodes=some_nodes(1, gpus=2), **more)
    return explain(snapshot, Plan(()), snapshot.jobs.job(0).id).sentence


def _ratio(ratio: float) -> str:
    figures = {"policy": "srtf", "jct": {"mean": 60.0, "p50": 50.0}, "ratio": {"baseline": ratio}, "ci": {}}
    return _best(figures, "fifo", several=True)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (lambda: _why(over(a_job("a"), State.FAILED)), "It failed."),
        (lambda: _why(over(a_job("a"), State.CANCELLED)), "It was cancelled."),
        (lambda: _why(over(a_job("a"))), "It has finished."),
        (lambda: show(MEMORY, 23_591), "23 GiB"),
        (lambda: show(MEMORY, 1_536), "1.5 GiB"),
        (lambda: show(CPU, 500), "0.5 cpu"),
        (lambda: where(a_snapshot(running(a_job("a"), [0]), nodes=some_nodes(1)), 0), "1 worker"),
        (lambda: _ratio(0.297), "srtf has the lowest mean completion time: 60.0 s, 70.3 % less than fifo's."),
    ],
)
def test_what_is_said(said, expected):
    assert said() == expected


@pytest.mark.parametrize("state", [state for state in STATES if state is not State.WAITING], ids=lambda one: one.name)
def test_no_state_is_told_as_a_word_of_the_program(state):
    entry = over(a_job("a"), state) if state >= State.FINISHED else flying(a_job("a"), state, at=ONE, towards=ONE)
    entry = running(a_job("a"), [0]) if state is State.RUNNING else entry
    sentence = _why(entry)
    assert re.fullmatch(r"It (is|was|has|waits|failed)\b.*\.", sentence), sentence
    assert not re.search(r"waiting to \w+ing|is failed|\b1 \w+s\b(?! of)", sentence), sentence


def test_one_replica_is_not_replicas():
    snapshot = a_snapshot(a_job("a"), running(a_job("b", 2), [0, 0]), nodes=some_nodes(1, gpus=2))
    sentence = explain(snapshot, Plan(()), snapshot.jobs.job(0).id).sentence
    assert "1 replica" in sentence
    assert "1 replicas" not in sentence
