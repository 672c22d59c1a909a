"""The row of a gang on the board that policies see: made from the gang, never kept beside it.

A gang that rests is shown as one that stops and holds nothing: plans leave it out, and others get the room. A frozen
gang that runs is shown as one to which nothing may be done.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from headway.core.board import Board
from headway.core.job import Can, Job
from headway.core.placement import Placement
from headway.core.snapshot import Flight
from headway.core.states import IN_FLIGHT, OVER, TRANSITIONS, State
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.intent import Allocation, Intent, placement_of
from headway.kube.values import replace
from headway.kube.views.status import MOMENTS

COLUMNS = ("attained", "service", "saved", "stops")
"""Columns of the board that a status keeps, in addition to `MOMENTS`."""


def enter(board: Board, gang: Gang, columns: Mapping[str, float], now: float, serial: int) -> None:
    """Puts a gang on the board as it was left. It keeps the arrival number that it has in the log."""
    board.table.arrivals = max(board.table.arrivals, serial)
    row = board.add(_job(gang), now)
    intent = gang.wanted
    here = _placement(intent.allocation, gang, board)
    flight = None
    if intent.state in IN_FLIGHT:
        flight = Flight(_placement(intent.target, gang, board), intent.since, intent.until)
    board.restore(row, intent.state, here, flight)
    board.table.set("since", row, intent.since)
    for name, value in columns.items():
        if name in COLUMNS or name in MOMENTS:
            board.table.set(MOMENTS.get(name, name), row, value)
    if _rests(gang):
        board.restore(row, State.STOPPING, None, Flight(None, now, _again(gang)))


def show(board: Board, old: Gang, new: Gang, now: float, *, notes: bool = True) -> bool:
    """Brings the gang's row from the old gang to the new one; returns whether policies see a difference."""
    row = board.row(old.job.id)
    if old.is_over or row is None:
        return False
    was, intent, rests = old.wanted, new.wanted, _rests(new)
    if was is intent and old.job is new.job and _rests(old) == rests and bool(old.frozen.why) == bool(new.frozen.why):
        return False
    changed = _rests(old) != rests
    if _rests(old) and not rests:
        board.restore(row, State.WAITING, None, None)
    if (old.job is not new.job or bool(old.frozen.why) != bool(new.frozen.why)) and _job(old) != _job(new):
        row, changed = board.replace(row, _job(new), now), True
    if was != intent:
        changed |= _change(board, row, new, was, intent)
        if notes and intent.message and (was.state, was.message) != (intent.state, intent.message):
            board.note(new.job.id, intent.message)
    if rests and not _rests(old):
        board.restore(row, State.STOPPING, None, Flight(None, now, _again(new)))
    return changed


def _change(board: Board, row: int, gang: Gang, was: Intent, intent: Intent) -> bool:
    state = board.state(row)
    if intent.state in IN_FLIGHT:
        towards, flight = _placement(intent.target, gang, board), board.flight(row)
        if state is not intent.state or flight is None or flight.towards != towards:
            board.begin(row, intent.state, towards, intent.since, intent.until)
        elif (flight.since, flight.until) != (intent.since, intent.until):
            board.prolong(row, intent.since, intent.until)
            return was.since != intent.since
        else:
            return False
        return True
    placement = _placement(intent.allocation, gang, board) if intent.state is State.RUNNING else None
    changed = state is not intent.state or placement != board.placement(row)
    legal = state is intent.state or (state, intent.state) in TRANSITIONS
    if changed and not legal and (state, State.STOPPING) not in TRANSITIONS:  # another scheduler was faster
        board.restore(row, intent.state, placement, None)
        board.table.set("since", row, intent.since)
    elif changed:
        if not legal:
            board.begin(row, State.STOPPING, None, intent.since, math.inf)
        board.settle(row, intent.state, placement, intent.since)
    if intent.reason == "Interrupted" != was.reason and intent.state not in OVER:
        board.rewind(row)
    return changed


def recount(board: Board, gangs: Iterable[Gang]) -> None:
    """There are more kinds of resources than before: placements are counted in the new ones."""
    for gang in gangs:
        row = board.row(gang.job.id)
        if row is not None and not gang.is_over and not _rests(gang):
            intent = gang.wanted
            flight = board.flight(row)
            if flight is not None:
                flight = Flight(_placement(intent.target, gang, board), flight.since, flight.until)
            board.restore(row, intent.state, _placement(intent.allocation, gang, board), flight)


def columns_of(board: Board, gang: Gang) -> Mapping[str, float]:
    """The gang's columns of the board that its status keeps."""
    row = board.row(gang.job.id)
    if row is None or gang.is_over:
        return gang.history
    kept = {name: float(board.table.get(name, row)) for name in COLUMNS}
    for name, column in MOMENTS.items():
        moment = float(board.table.get(column, row))
        if math.isfinite(moment):
            kept[name] = moment
    return kept


def history_of(board: Board, old: Gang) -> Mapping[str, float]:
    """What stays of a gang that leaves the board and may come back. It goes on from its checkpoint."""
    kept = dict(columns_of(board, old))
    if old.state is not State.WAITING and kept:
        kept["stops"] += 1
        kept["attained"] = kept["attained"] if old.wanted.saved else kept["saved"]
    return kept


def booked_for(board: Board, gang: Gang, role: str, node: str) -> dict[str, int]:
    """What the board holds on this node for each replica of the role; nothing if it holds nothing there."""
    row, where = board.row(gang.job.id), board.nodes.index.get(node)
    number = next((number for number, one in enumerate(gang.job.roles) if one.name == role), None)
    if row is None or where is None or number is None or gang.is_over:
        return {}
    shape = board.table.shape_at(row)
    found = [one.vector(shape, number) for one in board.held(row) if where in one.nodes[number]]
    return dict(zip(board.nodes.kinds, np.max(found, axis=0).tolist(), strict=True)) if found else {}


def _job(gang: Gang) -> Job:
    return replace(gang.job, can=Can.NOTHING) if gang.frozen.why and not gang.waits else gang.job


def _rests(gang: Gang) -> bool:
    return gang.waits and (gang.pause.resting or bool(gang.frozen.why))


def _again(gang: Gang) -> float:
    return gang.frozen.again if gang.frozen.why else gang.pause.again


def _placement(allocation: Allocation | None, gang: Gang, board: Board) -> Placement | None:
    return None if allocation is None else placement_of(allocation, gang.job, board.nodes)
