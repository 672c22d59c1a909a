from __future__ import annotations

import itertools

import pytest

from headway.core.board import Board, IllegalTransition
from headway.core.placement import Placement
from headway.core.states import IN_FLIGHT, OVER, TRANSITIONS, State
from make import a_job, some_nodes

HERE = Placement(((0,),))


def _board_in(state: State) -> Board:
    board = Board(some_nodes(2, gpus=4))
    row = board.add(a_job(), 0.0)
    board.restore(row, state, None if state in OVER | {State.WAITING, State.STARTING} else HERE, None)
    return board


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(State, 2)))
def test_the_board_allows_what_the_table_allows_and_nothing_else(old, new):
    board = _board_in(old)

    def enter() -> None:
        if new in IN_FLIGHT:
            board.begin(0, new, None if new is State.STOPPING else HERE, 1.0, 9.0)
        else:
            board.settle(0, new, HERE if new is State.RUNNING else None, 1.0)

    if (old, new) in TRANSITIONS:
        enter()
        assert board.state(0) is new
    else:
        with pytest.raises(IllegalTransition, match=old.name):
            enter()


def test_every_edge_says_why():
    assert all(why and why[0].islower() for why in TRANSITIONS.values())


def test_nothing_leaves_the_end():
    assert not [edge for edge in TRANSITIONS if edge[0] in OVER]


def test_every_state_is_reached_and_left():
    reached = {new for _, new in TRANSITIONS} | {State.WAITING}
    assert reached == set(State)
    assert {old for old, _ in TRANSITIONS} == set(State) - OVER
