"""When a job may be asked again for what it has refused."""

from __future__ import annotations

import pytest

from headway.core.gang import ask_again_at
from headway.core.job import JobId
from headway.core.plan import Because, Stop

PREEMPT = Stop(JobId("j"), Because.PREEMPTED)
NOW = 1000.0


@pytest.mark.parametrize(("refused", "pause"), [(0, 0), (1, 1), (2, 2), (5, 16), (6, 30), (1000, 30)])
def test_the_pause_doubles_up_to_a_limit(refused, pause):
    assert ask_again_at(PREEMPT, refused, NOW, NOW) == NOW + pause
    assert ask_again_at(PREEMPT, refused, NOW, NOW + 40) == NOW + 40, "once it is over, at once"


def test_who_cancels_does_not_wait():
    for because in (Because.CANCELLED, Because.RECLAIMED):
        assert ask_again_at(Stop(JobId("j"), because), 5, NOW, NOW) == NOW


def test_a_clock_that_was_set_back_makes_nobody_wait():
    assert ask_again_at(PREEMPT, 5, NOW, NOW - 1000) == NOW - 1000
