"""The rate at which each simulated job trains, and therefore when it ends."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.board import Board
from headway.core.placement import Placement
from headway.core.states import TRAINING
from headway.sim.agenda import Agenda
from headway.sim.gangs import Gangs
from headway.sim.sharing import Tenants
from headway.sim.speed import ALONE
from headway.sim.usage import used_cores
from headway.sim.work import Work
from headway.sim.world import World


class Rates:
    __slots__ = ("_agenda", "_board", "_gangs", "_tenants", "_work", "_world")

    def __init__(self, world: World, board: Board, work: Work, agenda: Agenda, gangs: Gangs | None) -> None:
        self._world, self._board, self._work, self._agenda, self._gangs = world, board, work, agenda, gangs
        self._tenants = Tenants(world.sharing, board) if world.sharing else None

    def put(self, row: int, placement: Placement | None, now: float) -> None:
        """Tells where the job is from now on (None: nowhere). Neighbours whose rate that changes get a new end."""
        if self._tenants is not None:
            self._notice(self._tenants.put(row, placement), now)

    def retime(self, row: int, now: float) -> bool:
        """Computes the job's present rate. Where it changed, books the work done so far and sets a new end."""
        board, world = self._board, self._world
        job, placement = board.job(row), board.placement(row)
        assert placement is not None
        effect = ALONE if self._tenants is None else self._tenants.effect(row)
        rate = world.speed(job, placement, board.nodes, effect)
        if (cores := used_cores(world.speed, job, placement, board.nodes, effect)) is not None:
            board.uses(row, cores)
        if effect.neighbours:
            rate *= 1.0 - world.sharing.neighbour_loss * effect.neighbours
        if self._gangs is not None:
            rate *= self._gangs.speed(job.id)
        work, agenda = self._work, self._agenda
        if rate == work.rate.item(row) and job.id in agenda.ends:
            return False
        if rate != 1.0:
            work.plain = False
        left = work.set_rate(row, rate, now, saves=job.checkpoints)
        if rate > 0:
            agenda.expect(now + left / rate, job.id, agenda.ends)
        else:
            agenda.ends.pop(job.id, None)
        return True

    def renumber(self, kept: list[int]) -> None:
        if self._tenants is not None:
            self._tenants.renumber(kept)

    def _notice(self, rows: Iterable[int], now: float) -> None:
        for row in sorted(rows):
            if self._board.state(row) in TRAINING and self.retime(row, now):
                self._board.touch(row)
