"""Keeps the board in step with intents. The board is what policies see; intents are what is true."""

from __future__ import annotations

import math

from headway.core.board import Board
from headway.core.snapshot import Flight
from headway.core.states import IN_FLIGHT, OVER, TRANSITIONS, State
from headway.kube.job.intent import Intent
from headway.kube.places import placement_of
from headway.kube.tracked import Tracked

HISTORY = ("attained", "service", "saved", "stops")
MOMENTS = {"firstStart": "first_start", "touched": "touched"}


def mirror(board: Board, row: int, old: Intent, new: Intent, began: float) -> None:
    """What was seen: a flight that ended, a job that was lost. What is decided, the cluster begins itself."""
    job, now = board.job(row), new.since - began
    if new.state in IN_FLIGHT:
        if old.state is not new.state:
            until = new.until - began if math.isfinite(new.until) else math.inf
            board.begin(row, new.state, None, now, until)
    else:
        if board.state(row) is not new.state and (board.state(row), new.state) not in TRANSITIONS:
            board.begin(row, State.STOPPING, None, now, math.inf)
        up = new.state is State.RUNNING and new.allocation is not None
        placement = placement_of(new.allocation, job, board.nodes) if up and new.allocation else None
        board.settle(row, new.state, placement, now)
    if new.reason == "Interrupted" and old.reason != "Interrupted":
        board.rewind(row)


def history(board: Board, row: int, began: float) -> dict[str, float]:
    """The board's columns of one job, in a form that another process can go on from."""
    kept = {name: float(board.table.get(name, row)) for name in HISTORY}
    for name, column in MOMENTS.items():
        moment = float(board.table.get(column, row))
        if math.isfinite(moment):
            kept[name] = moment + began
    return kept


def restore(board: Board, row: int, record: Tracked, kept: dict[str, float], began: float) -> None:
    """Puts a job where its status says it was."""
    intent = record.intent
    here = None if intent.allocation is None else placement_of(intent.allocation, record.job, board.nodes)
    flight = None
    if intent.state in IN_FLIGHT:
        towards = None if intent.target is None else placement_of(intent.target, record.job, board.nodes)
        until = intent.until - began if math.isfinite(intent.until) else math.inf
        flight = Flight(towards, intent.since - began, until)
    board.restore(row, intent.state, here if intent.state not in OVER else None, flight)
    board.table.set("since", row, intent.since - began)
    for name in HISTORY:
        if name in kept:
            board.table.set(name, row, kept[name])
    for name, column in MOMENTS.items():
        if name in kept:
            board.table.set(column, row, kept[name] - began)
