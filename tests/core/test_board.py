from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headway.core.board import Board
from headway.core.placement import Placement
from headway.core.plan import Move, Resize, Scale
from headway.core.states import State
from make import a_job, a_role, some_nodes


def _started(board: Board, name: str, placement: Placement, **job: object) -> int:
    row = board.add(a_job(name, **job), 0.0)
    board.begin(row, State.STARTING, placement, 0.0, 60.0)
    board.settle(row, State.RUNNING, placement, 0.0)
    return row


def test_a_snapshot_never_changes_after_it_was_handed_out():
    board = Board(some_nodes(2, gpus=4))
    row = _started(board, "a", Placement(((0, 0),)), gpus=2)
    before = board.snapshot(1.0)
    state, free, placements = before.jobs.state.copy(), before.free.copy(), dict(before.placements)
    board.settle(row, State.FINISHED, None, 2.0)
    board.add(a_job("b"), 2.0)
    assert (before.jobs.state == state).all()
    assert len(before.jobs.state) == 1
    assert (before.free == free).all()
    assert dict(before.placements) == placements
    after = board.snapshot(2.0)
    assert after.jobs.state_of(row) is State.FINISHED
    assert (after.free == after.nodes.capacity).all()


def test_columns_of_a_snapshot_cannot_be_written():
    snapshot = Board(some_nodes()).snapshot(0.0)
    for column in (snapshot.jobs.state, snapshot.jobs.submit, snapshot.free, snapshot.nodes.capacity):
        assert not column.flags.writeable


def test_both_ends_of_a_move_are_held():
    board = Board(some_nodes(2, gpus=4))
    row = _started(board, "a", Placement(((0, 0),)), gpus=2)
    target = Placement(((1, 1),))
    state, towards = board.aim(row, Move(board.job(row).id, target))
    board.begin(row, state, towards, 1.0, 60.0)
    assert board.snapshot(1.0).free.tolist() == [[2, 2]]
    board.settle(row, State.RUNNING, target, 5.0)
    assert board.snapshot(5.0).free.tolist() == [[4, 2]]


def test_a_change_of_size_holds_the_larger_end():
    board = Board(some_nodes(2, gpus=4))
    row = _started(board, "a", Placement(((0, 0),)), roles=[a_role(replicas=2, min=1, max=4)])
    state, towards = board.aim(row, Scale(board.job(row).id, "worker", (0, 1, 1)))
    board.begin(row, state, towards, 1.0, 60.0)
    assert board.snapshot(1.0).free.tolist() == [[2, 2]]
    board.settle(row, State.RUNNING, towards, 2.0)
    assert board.snapshot(2.0).free.tolist() == [[3, 2]]


def test_a_resize_holds_the_larger_amount_until_it_is_done():
    board = Board(some_nodes(1, gpus=0, cpu=4, memory=1000))
    row = _started(board, "a", Placement(((0,),)), roles=[a_role(cpu=1, memory=100)])
    state, towards = board.aim(row, Resize(board.job(row).id, "worker", 3000, 100))
    board.begin(row, state, towards, 1.0, 60.0)
    assert board.snapshot(1.0).free[:, 0].tolist() == [1000, 900]
    board.settle(row, State.RUNNING, towards, 2.0)
    state, back = board.aim(row, Resize(board.job(row).id, "worker", 500, 100))
    board.begin(row, state, back, 3.0, 60.0)
    assert board.snapshot(3.0).free[:, 0].tolist() == [1000, 900]
    board.settle(row, State.RUNNING, back, 4.0)
    assert board.snapshot(4.0).free[:, 0].tolist() == [3500, 900]


def test_trained_seconds_count_training_only():
    board = Board(some_nodes(1, gpus=4))
    row = board.add(a_job(), 0.0)
    place = Placement(((0,),))
    board.begin(row, State.STARTING, place, 10.0, 60.0)
    board.settle(row, State.RUNNING, place, 15.0)
    assert board.trained_seconds(row, 20.0) == 5.0
    board.begin(row, State.STOPPING, None, 25.0, 60.0)
    board.settle(row, State.WAITING, None, 30.0)
    assert board.trained_seconds(row, 99.0) == 10.0
    board.saved(row, 7.0)
    board.rewind(row)
    assert board.trained_seconds(row, 99.0) == 7.0
    assert board.snapshot(99.0).jobs.stops[row] == 1


@given(st.lists(st.booleans(), min_size=200, max_size=600))
def test_compaction_loses_nobody_alive(ends):
    """Jobs come; some end at once. Whatever is compacted when, the living stay in order and where they are."""
    board = Board(some_nodes(4, gpus=4))
    alive: list[str] = []
    for number, over in enumerate(ends):
        name = f"j{number}"
        row = board.add(a_job(name), float(number))
        if over or len(alive) >= 15:
            board.settle(row, State.CANCELLED, None, float(number))
        else:
            place = Placement(((len(alive) % 4,),))
            board.begin(row, State.STARTING, place, float(number), 1e9)
            board.settle(row, State.RUNNING, place, float(number))
            alive.append(name)
        board.snapshot(float(number))
        board.compact()
    snapshot = board.snapshot(1e6)
    found = [snapshot.jobs.job(int(row)).id for row in snapshot.jobs.running()]
    assert found == alive
    assert sorted(snapshot.placements) == [int(row) for row in snapshot.jobs.running()]
    held = np.zeros(4, int)
    for placement in snapshot.placements.values():
        held[placement.nodes[0][0]] += 1
    assert (snapshot.free[0] == 4 - held).all()
    if len(ends) - len(alive) > 150:
        assert snapshot.jobs.count < len(ends)


def test_lost_nodes_keep_their_number_and_offer_nothing():
    board = Board(some_nodes(2, gpus=4))
    row = _started(board, "a", Placement(((1,),)))
    from headway.core.node import Nodes
    from make import a_node

    board.set_nodes(Nodes.of([a_node("n0"), a_node("n1", ready=False), a_node("n2", gpus=8)]))
    snapshot = board.snapshot(1.0)
    assert snapshot.free[0].tolist() == [4, -1, 8]
    board.settle(row, State.WAITING, None, 2.0)
    assert board.snapshot(2.0).free[0].tolist() == [4, 0, 8]
