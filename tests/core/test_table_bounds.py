"""A table through which thousands of jobs go is as large as the jobs that are left, whoever they were of."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.board import Board
from headway.core.jobs.table import MOST_UNUSED
from headway.core.jobs.view import Jobs
from headway.core.states import State
from make import a_job, a_role, some_nodes


def a_job_of_its_own(number: int):
    return a_job(f"j{number}", roles=[a_role(gpu=1, cpu=1 + number)], user=f"u{number}", queue=f"q{number}")


def told(jobs: Jobs) -> dict[str, tuple[str, str, int]]:
    """By job: user, queue and cpu as the columns have them."""
    users, queues = list(jobs.users), list(jobs.queues)
    return {
        jobs.job(row).id: (
            users[jobs.user[row]],
            queues[jobs.queue[row]],
            int(jobs.shapes[jobs.shape[row]].roles[0].vector.max()) // 1000,
        )
        for row in range(jobs.count)
    }


def test_users_queues_and_shapes_of_jobs_that_are_gone_leave_with_them():
    board = Board(some_nodes(1, gpus=4, cpu=8))
    for number in range(1500):
        row = board.add(a_job_of_its_own(number), float(number))
        if number % 100:
            board.settle(row, State.CANCELLED, None, float(number))
        board.snapshot(float(number))
        board.compact()
    table = board.table
    assert table.count < 200
    for kept in (table.users, table.queues, table.shapes, table._shape_of, table._shape_jobs):
        assert len(kept) < 30 + 3 * MOST_UNUSED + 64
    alive = {f"j{number}": (f"u{number}", f"q{number}", 1 + number) for number in range(0, 1500, 100)}
    found = told(board.snapshot(1500.0).jobs)
    assert {job: found[job] for job in alive} == alive


@settings(max_examples=8)
@given(st.lists(st.booleans(), min_size=150, max_size=200))
def test_a_view_keeps_its_numbers_when_the_table_takes_others(ends):
    board = Board(some_nodes(1, gpus=4, cpu=8))
    for number, over in enumerate(ends):
        row = board.add(a_job_of_its_own(number), 0.0)
        if over or number % 10:
            board.settle(row, State.CANCELLED, None, 0.0)
    before = board.snapshot(1.0).jobs
    users = dict(before.users)
    board.compact()
    assert board.table.generation == 1
    after = board.snapshot(2.0).jobs
    own = {f"j{number}": (f"u{number}", f"q{number}", 1 + number) for number in range(len(ends))}
    assert told(before) == own
    assert before.users == users
    assert told(after) == {job: own[job] for job in after.row_of}
    assert len(after.users) < len(users)
    assert list(after.users) == [user for user in users if user in after.users], "in their old order"
