"""Who waits, kept up to date row by row: always what the states say, and what was handed out stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.board import Board
from headway.core.jobs.row import JobRow
from headway.core.jobs.waiting import StateColumn, training
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.states import STATES, TRAINING, State
from make import a_job

HERE = Placement(((0,),))


def rows_in(*states: State) -> list[JobRow]:
    return [JobRow(int(state), 0.0) for state in states]


@given(st.lists(st.tuples(st.integers(0, 11), st.sampled_from([State.WAITING, State.RUNNING, State.FINISHED]))))
def test_the_waiting_rows_are_those_whose_state_says_so(steps: list[tuple[int, State]]) -> None:
    written = rows_in(State.WAITING, State.RUNNING)
    column = StateColumn(written)
    handed_out = []
    for step, state in steps:
        row = min(step, len(written))
        if row == len(written):
            written.append(*rows_in(state))
        else:
            (written[row],) = rows_in(state)
        column.follow([row], written)
        rows = column.waiting()
        assert rows.tolist() == [row for row, job in enumerate(written) if job.state == State.WAITING]
        assert column.column().tolist() == [job.state for job in written]
        handed_out.append((rows, rows.tolist()))
    for rows, as_it_was in handed_out:
        assert rows.tolist() == as_it_was
        with pytest.raises(ValueError, match="read-only"):
            rows[:] = 0


def test_a_line_that_is_served_in_order_is_not_drawn_up_anew() -> None:
    written = rows_in(*[State.WAITING] * 3)
    column = StateColumn(written)
    before = column.waiting()
    (written[0],) = rows_in(State.RUNNING)
    column.follow([0], written)
    assert np.shares_memory(before, column.waiting())


def test_an_older_snapshot_sees_who_waited_then_whatever_came_since() -> None:
    board = Board(Nodes.of([Node(name="a", capacity=(("gpu", 8),))]))
    for number in range(3):
        board.add(a_job(str(number)), now=0.0)
    before = board.snapshot(0.0)
    board.add(a_job("later"), now=1.0)
    assert before.jobs.waiting().tolist() == [0, 1, 2], "who came later is not among them"
    board.begin(0, State.STARTING, HERE, 1.0, 2.0)
    now = board.snapshot(1.0)
    assert now.jobs.waiting().tolist() == [1, 2, 3]
    assert before.jobs.waiting().tolist() == [0, 1, 2]
    tried = now.jobs.with_state(np.array([0, 7, 7, 7], np.uint8))
    assert tried.waiting().tolist() == [0], "what is only tried tells of itself"


def test_training_is_looked_up() -> None:
    every = np.array([int(state) for state in STATES], np.uint8)
    assert training(every).tolist() == [state in TRAINING for state in STATES]
