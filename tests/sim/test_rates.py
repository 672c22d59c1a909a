"""Rates of simulated jobs: when a job ends, and which jobs get a new end when a neighbour comes."""

from __future__ import annotations

import math

import pytest

from headway.core.board import Board
from headway.core.placement import Placement
from headway.core.states import State
from headway.sim.agenda import Agenda
from headway.sim.rates import Rates
from headway.sim.sharing import Sharing
from headway.sim.work import Work
from headway.sim.world import World
from make import a_job, some_nodes

HERE = Placement(((0,),))


class _Parts:
    """Two waiting jobs of 100 seconds on a node with 4 GPUs."""

    def __init__(self, **world) -> None:
        self.board, self.work, self.agenda = Board(some_nodes(1, gpus=4)), Work(), Agenda()
        self.rates = Rates(World(**world), self.board, self.work, self.agenda, None)
        for name in "ab":
            self.work.add(self.board.add(a_job(name), 0.0), 100.0, 0.0)

    def start(self, row: int, now: float) -> bool:
        self.board.begin(row, State.STARTING, HERE, now, now)
        self.board.settle(row, State.RUNNING, HERE, now)
        self.rates.put(row, HERE, now)
        return self.rates.retime(row, now)


@pytest.mark.parametrize(("speed", "end"), [(1.0, 110.0), (4.0, 35.0), (0.0, math.inf)])
def test_a_job_ends_when_its_work_is_done_at_its_rate(speed, end):
    parts = _Parts(speed=lambda *_: speed)
    assert parts.start(0, now=10.0)
    assert parts.agenda.next() == end
    assert parts.work.plain is (speed == 1.0)


def test_an_unchanged_rate_changes_nothing():
    parts = _Parts()
    parts.start(0, now=0.0)
    assert not parts.rates.retime(0, now=50.0)
    assert parts.agenda.next() == 100.0


def test_a_neighbour_moves_the_end_and_gives_it_back():
    parts = _Parts(sharing=Sharing(neighbour_loss=0.3))
    parts.start(0, now=0.0)
    parts.start(1, now=50.0)
    slower = 1.0 - 0.3 / 3
    assert parts.work.rate[0] == pytest.approx(slower)
    assert parts.agenda.next() == pytest.approx(50.0 + 50.0 / slower)
    parts.board.settle(1, State.WAITING, None, 60.0)
    parts.rates.put(1, None, 60.0)
    assert parts.work.rate[0] == 1.0
    assert parts.agenda.ends.keys() >= {"a"}


def test_without_sharing_neighbours_are_not_touched():
    parts = _Parts()
    parts.start(0, now=0.0)
    parts.board.snapshot(0.0)
    parts.start(1, now=50.0)
    assert parts.board.snapshot(50.0).changed == (1,)
