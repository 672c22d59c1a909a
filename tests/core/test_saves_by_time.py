"""When a job is asked to save by time: its interval, what a save costs, and one at a time on a disk."""

from __future__ import annotations

import math

import pytest

from headway.core.gang import SaveTurn, StepsSeen, due_saves, save_interval
from headway.core.job import JobId


@pytest.mark.parametrize(
    ("every", "cost", "interval"),
    [(600.0, 0.0, 600.0), (600.0, 12.0, 600.0), (600.0, 60.0, 2940.0), (5.0, 1.0, 49.0), (0.0, 1.0, math.inf)],
    ids=["as asked", "cheap", "dear: 2 % of the time", "short interval, dear", "never"],
)
def test_a_dear_save_is_asked_for_less_often(every: float, cost: float, interval: float) -> None:
    assert save_interval(every, cost) == pytest.approx(interval)
    assert cost == 0 or not math.isfinite(interval) or cost / (interval + cost) <= 0.02 + 1e-9


def a_turn(job: str, since: float, disk: str = "d", cost: float = 0.0) -> SaveTurn:
    return SaveTurn(JobId(job), disk, 600.0, since, (cost, 900.0, cost / 2) if cost else ())


def test_one_at_a_time_on_a_disk_and_the_longest_overdue_first() -> None:
    turns = [a_turn("late", 100.0), a_turn("later", 50.0), a_turn("not-due", 500.0), a_turn("other-disk", 90.0, "e")]
    assert due_saves(turns, set(), 750.0) == ["later", "other-disk"]
    assert due_saves(turns, {"d"}, 750.0) == ["other-disk"]
    assert due_saves(turns, set(), 649.0) == []
    assert due_saves([a_turn("dear", 0.0, cost=60.0)], set(), 2000.0) == []


def seen(*reports: tuple[int, float]) -> StepsSeen:
    found = StepsSeen()
    for step, at in reports:
        found = found.reported(step, at)
    return found


@pytest.mark.parametrize(
    ("before", "first", "sentence"),
    [
        (seen((1, 0.0), (520, 26.0)), 251, "it goes on from step 250; 270 steps (14 s) were lost"),
        (seen((1, 0.0), (520, 26.0)), 520, "it goes on from step 519; 1 step (0 s) was lost"),
        (seen((1, 0.0), (520, 26.0)), 521, "it goes on from step 520"),
        (seen((1, 0.0), (270, 13.5)), 1, "it starts again at its first step; 270 steps (14 s) were lost"),
        (seen((7, 3.0)), 5, "it goes on from step 4; 3 steps were lost"),
        (seen(), 1, ""),
    ],
)
def test_a_job_that_goes_on_says_what_was_lost(before: StepsSeen, first: int, sentence: str) -> None:
    assert before.stopped().sentence(first) == sentence


def test_each_start_counts_for_itself() -> None:
    """It waited for an hour between two starts: that is no time per step."""
    later = seen((1, 0.0), (100, 10.0)).stopped().reported(101, 3600.0).reported(200, 3610.0)
    assert later.reported(150, 3611.0) == later, "a step that goes back is not counted"
    assert later.stopped().sentence(151) == "it goes on from step 150; 50 steps (5 s) were lost"
