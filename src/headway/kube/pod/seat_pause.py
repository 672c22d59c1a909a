"""A job for which no node is left beside its neighbours rests for a while: plans leave it out, and others get the room.

Example: three replicas must not share a node, and there are two nodes. Policies do not know that and would plan with
the room of three again and again. While the job rests, it is on the board as one that stops and holds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.board import Board
from headway.core.snapshot import Flight
from headway.core.states import State

FIRST_SECONDS = 5.0
LONGEST_SECONDS = 20.0


@dataclass(slots=True)
class SeatPause:
    again: float = -math.inf
    """When to try again."""
    resting: bool = False
    _refusals: int = 0

    def begin(self, board: Board, row: int, now: float) -> None:
        """It was refused once more: after 5, 10 and then every 20 seconds it is tried again."""
        self._refusals += 1
        self.again = now + min(FIRST_SECONDS * 2.0 ** min(self._refusals - 1, 8), LONGEST_SECONDS)
        if board.state(row) is State.WAITING:
            self.resting = True
            board.restore(row, State.STOPPING, None, Flight(None, now, self.again))

    def end(self, board: Board, row: int | None, now: float, *, early: bool = False) -> bool:
        """Whether the pause is over; then the job waits again."""
        if not self.resting or (now < self.again and not early):
            return False
        self.resting = False
        if row is not None and board.state(row) is State.STOPPING:
            board.restore(row, State.WAITING, None, None)
        return True

    def seated(self) -> None:
        self._refusals = 0
