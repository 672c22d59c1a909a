"""Books that need no fitting: what is declared, what a line says, the truth, and nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from headway.core.estimates import Estimates
from headway.core.job import JobId
from headway.core.snapshot import Sample
from headway.estimates.plain_books import DeclaredBook, LinearBook, NoEstimates, OracleBook, declared_beliefs
from make import a_job, a_snapshot, running, waiting


def _samples(*points, total=100):
    return tuple(Sample(JobId("a"), at, step, None, total) for at, step in points)


def _left(book, snapshot):
    return float(book.annotate(snapshot).estimates.left(snapshot.now)[0])


def test_what_was_declared_burns_down_while_it_trains():
    snapshot = a_snapshot(running(a_job("a", seconds=100.0), (0,), since=10.0, attained=20.0), now=40.0)
    assert _left(DeclaredBook(), snapshot) == 50.0
    assert _left(DeclaredBook(), a_snapshot(waiting(a_job("a", seconds=100.0), attained=20.0), now=40.0)) == 80.0
    assert _left(DeclaredBook(), a_snapshot(running(a_job("a", seconds=1.0), (0,)), now=40.0)) == 0.0
    assert math.isnan(_left(DeclaredBook(), a_snapshot(a_job("a"))))


def test_progress_is_extrapolated_and_burns_down_until_the_next_report():
    snapshot = a_snapshot(running(a_job("a", seconds=999.0), (0,)), now=20.0)
    book = LinearBook().fold(replace(snapshot, samples=_samples((10.0, 10), (20.0, 30))))
    assert _left(book, snapshot) == 35.0
    assert _left(book, replace(snapshot, now=25.0)) == 30.0


@pytest.mark.parametrize("points", [[(10.0, 10)], [(10.0, 10), (20.0, 10)], [(10.0, 10), (10.0, 20)]])
def test_before_there_is_a_speed_the_user_is_believed(points):
    snapshot = a_snapshot(running(a_job("a", seconds=100.0), (0,), since=0.0), now=20.0)
    book = LinearBook().fold(replace(snapshot, samples=_samples(*points)))
    assert _left(book, snapshot) == 80.0


def test_steps_that_go_back_start_the_measurement_anew():
    snapshot = a_snapshot(running(a_job("a"), (0,)), now=40.0)
    book = LinearBook().fold(replace(snapshot, samples=_samples((0.0, 0), (10.0, 50), (30.0, 20), (40.0, 30))))
    assert _left(book, snapshot) == 70.0


def test_folding_leaves_the_old_book_alone():
    snapshot = a_snapshot(running(a_job("a", seconds=5.0), (0,)), now=20.0)
    old = LinearBook()
    old.fold(replace(snapshot, samples=_samples((10.0, 10), (20.0, 30))))
    assert not old.tracks
    assert LinearBook().fold(snapshot) == LinearBook()


def test_a_book_without_estimates_says_so():
    snapshot = NoEstimates().annotate(replace(a_snapshot(a_job("a")), estimates=Estimates()))
    assert not snapshot.estimates.known
    with pytest.raises(AssertionError, match="--estimates"):
        snapshot.estimates.left(0.0)


@pytest.mark.parametrize(
    ("book", "words"),
    [
        (DeclaredBook(), "as the user declared"),
        (LinearBook(), "last 30 seconds"),
        (OracleBook(declared_beliefs), "the truth"),
    ],
)
def test_people_are_told_what_an_estimate_rests_on(book, words):
    snapshot = a_snapshot(running(a_job("a", seconds=100.0), (0,), since=0.0), a_job("b"), now=20.0)
    estimates = book.annotate(snapshot).estimates
    assert words in estimates.of(0, 30.0).sentence
    assert estimates.of(0, 30.0).left == 70.0
    assert "nothing is known" in estimates.of(1, 30.0).sentence
