"""Decisions of a plan with nodes that the pods there allow: policies know capacity and labels, but not neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from headway.core.board import Board
from headway.core.node import IntArray
from headway.core.placement import Placement, take
from headway.core.plan import Action, Decision, Move, Scale, Start
from headway.core.states import State
from headway.kube.pod.conditions import NEIGHBOURS_REFUSE
from headway.kube.pod.neighbours import Neighbours
from headway.kube.pod.seat_pause import SeatPause
from headway.kube.pod.seating import Seat, Seating, Unseated


class Seatable(Protocol):
    """A job whose replicas may mind their neighbours."""

    board: Board
    pause: SeatPause

    @property
    def seats(self) -> Mapping[str, Seat]: ...
    @property
    def row(self) -> int: ...
    @property
    def state(self) -> State: ...
    def explain(self, reason: str, message: str, now: float) -> None: ...


def seated(
    job: Seatable, action: Action, later: Iterable[Decision], neighbours: Neighbours, now: float
) -> tuple[Action | None, float]:
    """The same decision, on other nodes where it must be; or None and when to try again. Its status then says why.

    `later` are the decisions of the plan that are not begun yet. What they take stays free for them.
    """
    if not isinstance(action, Start | Move | Scale):
        return action, now
    if job.pause.again > now:
        return None, job.pause.again
    minds = any(seat.guest.minds for seat in job.seats.values())
    if not job.seats or not (minds or neighbours.avoid):
        return action, now
    try:
        found = _elsewhere(job, action, Seating(job.board.nodes, _spare(job.board, later), neighbours))
    except Unseated as why:
        if job.state is State.WAITING:
            job.explain(NEIGHBOURS_REFUSE, str(why), now)
        job.pause.begin(job.board, job.row, now)
        return None, now
    job.pause.seated()
    return found, now


def _elsewhere(job: Seatable, action: Start | Move | Scale, seating: Seating) -> Action:
    board = job.board
    shape = board.table.shape_at(job.row)
    if not isinstance(action, Scale):
        return replace(action, placement=seating.place(action.placement, shape, job.seats))
    number, old = board.role_number(job.row, action.role), board.placement(job.row)
    assert old is not None
    kept = Counter(action.nodes) & Counter(old.nodes[number])
    added = tuple((Counter(action.nodes) - kept).elements())
    more = seating.place(_only(old, number, added), shape, job.seats)
    return replace(action, nodes=(*kept.elements(), *more.nodes[number]))


def _only(old: Placement, role: int, nodes: tuple[int, ...]) -> Placement:
    empty: tuple[tuple[int, ...], ...] = tuple(() for _ in old.nodes)
    return Placement(empty, old.requests).with_role(role, nodes)


def _spare(board: Board, later: Iterable[Decision]) -> IntArray:
    free = board.free()
    for decision in later:
        row = board.row(decision.job)
        if row is not None and isinstance(decision, Start | Move):
            take(free, decision.placement, board.table.shape_at(row))
        elif row is not None and isinstance(decision, Scale) and (old := board.placement(row)) is not None:
            number = board.role_number(row, decision.role)
            added = tuple((Counter(decision.nodes) - Counter(old.nodes[number])).elements())
            take(free, _only(old, number, added), board.table.shape_at(row))
    return free
