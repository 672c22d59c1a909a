"""A job that was changed while it waited keeps its place in the queue."""

from __future__ import annotations

import pytest

from headway.core.board import Board
from headway.core.plan import Start
from headway.policies.baselines.backfill import backfill
from headway.policies.baselines.fifo import fifo, first_fit
from make import a_job, some_nodes


@pytest.mark.parametrize("policy", [fifo, first_fit, backfill])
def test_a_changed_job_keeps_its_place(policy):
    board = Board(some_nodes(1))
    first = board.add(a_job("first", submit=1.0), 1.0)
    board.add(a_job("second", submit=2.0), 2.0)
    board.replace(first, a_job("first", submit=1.0, priority=5), 3.0)
    starts = [decision for decision in policy(board.snapshot(4.0)).decisions if isinstance(decision, Start)]
    assert [start.job for start in starts][:1] == ["first"]
