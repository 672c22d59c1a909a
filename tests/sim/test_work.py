"""True work: rates, checkpoints, losses, and rows that are renumbered."""

from __future__ import annotations

import numpy as np
import pytest

from headway.sim.work import Work
from make import a_job, a_snapshot, running


@pytest.mark.parametrize(
    ("rate", "until", "left"), [(1.0, 4.0, 6.0), (2.0, 4.0, 2.0), (0.5, 4.0, 8.0), (3.0, 9.0, 0.0), (0.0, 9.0, 10.0)]
)
def test_work_goes_down_at_the_rate(rate, until, left):
    work = Work()
    work.add(0, 10.0, now=0.0)
    work.set_rate(0, rate, now=0.0)
    assert work.left_at(0, until) == left
    assert work.set_rate(0, 0.0, now=until) == left
    assert work.left_at(0, until + 99.0) == left, "a job with rate 0 makes no progress"


@pytest.mark.parametrize(
    ("every", "trained", "lost", "left"), [(0.0, 7.0, 7.0, 10.0), (2.0, 7.0, 1.0, 4.0), (10.0, 7.0, 7.0, 10.0)]
)
def test_a_loss_goes_back_to_the_last_checkpoint(every, trained, lost, left):
    work = Work()
    work.add(0, 10.0, now=0.0, every=every)
    work.set_rate(0, 1.0, now=0.0)
    work.set_rate(0, 0.0, now=trained)
    assert work.lose(0) == lost
    assert work.left[0] == left


@pytest.mark.parametrize(("again", "lost"), [(3.0, 3.0), (5.0, 1.0), (9.0, 1.0)])
def test_checkpoints_by_time_are_counted_from_the_last_one_on_request(again, lost):
    """Every 4 s; it saved on request at second 2, and saves next 4 s later, not at second 4."""
    work = Work()
    work.add(0, 50.0, now=0.0, every=4.0)
    work.set_rate(0, 1.0, now=0.0)
    work.set_rate(0, 0.0, now=2.0)
    work.save(0)
    work.set_rate(0, 1.0, now=10.0)
    for booked in range(int(again) + 1):
        work.set_rate(0, 1.0, now=10.0 + booked)
    assert work.lose(0) == lost
    assert work.left[0] == 50.0 - 2.0 - (again - lost)


def test_a_checkpoint_on_request_keeps_everything_so_far():
    work = Work()
    work.add(0, 10.0, now=0.0)
    work.set_rate(0, 2.0, now=0.0)
    work.set_rate(0, 0.0, now=3.0)
    work.save(0)
    assert work.lose(0) == 0.0
    assert (work.left[0], work.trained[0]) == (4.0, 3.0)


def test_rows_grow_and_are_renumbered():
    work = Work()
    for row in range(70):
        work.add(row, float(row), now=0.0)
    work.renumber([3, 69])
    assert (work.left[0], work.left[1], work.total[1]) == (3.0, 69.0, 69.0)


@pytest.mark.parametrize(("rate", "left"), [(1.0, 10.0), (2.0, 5.0)])
def test_an_oracle_knows_seconds_at_the_present_rate(rate, left):
    work = Work()
    work.add(0, 10.0, now=0.0)
    work.set_rate(0, rate, now=0.0)
    work.plain = rate == 1.0
    truth = work.truth(a_snapshot(running(a_job("a"), [0])))
    assert np.array_equal(truth.left, [left])
