"""What running jobs teach at once: how their model scales. And what is hoped of a job that was seen at one size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.core.job import JobId
from headway.core.snapshot import Sample
from headway.core.states import State
from headway.estimates.history.by_user import JobCurve, ModelHistory
from headway.estimates.history.history import History
from headway.estimates.history.lessons import MOST, Lessons
from headway.estimates.progress import ProgressBook
from headway.estimates.speed.model import Form, Setting, gang_setting
from make import a_job, a_snapshot, over, running, some_nodes, waiting

NODES = some_nodes(4, gpus=8)
BERT = ("bert", Form.GANG)
SIZES = (1, 2, 4, 8)


def _job(name, model="bert", **more):
    return a_job(name, gpus=2, min=1, max=32, model=model, **more)


def _seen_at(book, job, workers, pace, begins, *others):
    """Thirty reports a second apart, `pace` steps each."""
    steps = 100_000 + int(begins) * 5
    for second in range(1, 31):
        sample = Sample(JobId(job.id), begins + second, steps + int(second * pace), None, 10_000_000)
        entry = running(job, (0,) * workers, since=begins, attained=begins)
        book = book.fold(replace(a_snapshot(entry, *others, nodes=NODES, now=begins + second), samples=(sample,)))
    return book


def _two_sizes(name="a", others=(), book=None, slower=1.25, **more):
    """A job that gained only a quarter by its second pair of workers."""
    job = _job(name, **more)
    book = _seen_at(book or ProgressBook(), job, 2, 40, 0.0, *others)
    return job, _seen_at(book, job, 4, 40 * slower, 100.0, *others)


def _speeds(book, job):
    estimates = book.annotate(a_snapshot(waiting(job), nodes=NODES, now=200.0)).estimates
    return [estimates.speed(0, (count,)) for count in SIZES]


def test_what_a_running_job_has_shown_is_told_to_the_next_one_of_its_model():
    nothing = ProgressBook()
    _, book = _two_sizes()
    told, other = _speeds(book, _job("b")), _speeds(book, _job("b", model="gpt"))
    assert other == _speeds(nothing, _job("b"))
    assert told[2] / told[1] == pytest.approx(1.25, abs=0.15)
    assert other[2] / other[1] > 1.6
    assert book.history.kinds == {}, "it has not finished"


def test_jobs_of_others_are_told_the_median_of_three_users_and_those_of_its_user_first():
    nothing, book = _speeds(ProgressBook(), _job("b")), ProgressBook()
    for user, slower in (("ann", 1.25), ("bob", 1.5), ("cyd", 1.9)):
        assert _speeds(book, _job("b", user="eve")) == nothing
        _, book = _two_sizes(user, user=user, slower=slower, book=book)
        assert _speeds(book, _job("b", user=user)) != nothing
    gains = [told[2] / told[1] for told in (_speeds(book, _job("b", user=user)) for user in ("ann", "eve", "cyd"))]
    assert gains == sorted(gains)
    assert gains[1] == pytest.approx(1.5, abs=0.15)


def test_what_lasts_rests_on_finished_jobs_alone():
    """A second job of hers ends while the first, which may lie, still runs. It teaches what it would have alone."""
    _, alone = _two_sizes("b", user="ann")
    _, beside = _two_sizes("b", user="ann", book=_two_sizes("a", user="ann", slower=3.0)[1])
    kinds = [_ended(book, _job("b", user="ann"), State.FINISHED).history.kinds for book in (alone, beside)]
    assert kinds[0] == kinds[1]


def test_one_size_alone_teaches_nothing():
    book = _seen_at(ProgressBook(), _job("a"), 2, 40, 0.0)
    assert book.history is ProgressBook().history or book.history == History()


def _ended(book, job, state):
    entry = over(job, state)
    return book.fold(replace(a_snapshot(entry, nodes=NODES, now=300.0), changed=(0,)))


def test_a_job_that_fails_takes_its_lesson_with_it():
    job, book = _two_sizes()
    assert BERT in book.history.lessons.given
    failed = _ended(book, job, State.FAILED)
    assert failed.history.lessons == Lessons()
    assert _speeds(failed, _job("b")) == _speeds(ProgressBook(), _job("b"))


def test_a_job_that_is_done_has_taught_once():
    """Its lesson goes when what it taught stays: as if it had said nothing before."""
    job, book = _two_sizes()
    silent = replace(book, history=replace(book.history, lessons=Lessons()))
    done, late = (_ended(one, job, State.FINISHED) for one in (book, silent))
    assert done.history.lessons == Lessons()
    assert done.history.kinds == late.history.kinds
    assert done.history.kinds[BERT].users[""].weight == 1.0


def test_a_job_in_doubt_teaches_nobody():
    """It trains on as before, but names another total in every report."""
    job, book = _two_sizes()
    entry = running(job, (0,) * 4, since=100.0, attained=100.0)
    step = book.tracks[job.id].step
    for number in range(1, 4):
        odd = Sample(JobId(job.id), 130.0 + number, step + 50 * number, None, 10_000_000 + number)
        book = book.fold(replace(a_snapshot(entry, nodes=NODES, now=odd.at), samples=(odd,)))
    assert book.tracks[job.id].sizes_shown() == 2
    assert book.history.lessons == Lessons()


def test_the_newest_lessons_count_and_those_of_one_user_crowd_out_nobody():
    lessons, lesson = (
        Lessons(),
        JobCurve("ann", (1.0, 0.0, 0.01, 0.0, 0.0, 0.0), gang_setting(2, 8), 2, across=True),
    )
    for number in range(3 * MOST):
        lessons = lessons.with_lesson(BERT, JobId(f"j{number}"), lesson)
    assert lessons.kind(BERT, "ann", None).users["ann"].weight == MOST
    more = lessons.with_lesson(BERT, JobId("other"), lesson._replace(user="bob"))
    assert more.kind(BERT, "ann", None) == lessons.kind(BERT, "ann", None)
    assert more.kind(BERT, "bob", None).users["bob"].weight == 1.0
    assert set(more.kind(BERT, "eve", None).users) == {"ann", "bob"}


def test_a_job_gives_its_lesson_once_however_many_others_give_theirs():
    """A job whose lesson no longer counted gave it again with every report, and pushed out the next one."""
    job, book = _two_sizes(user="ann")
    lesson, history = book.history.lessons.given[BERT][job.id], book.history
    for number in range(3 * MOST):
        history = replace(history, lessons=history.lessons.with_lesson(BERT, JobId(f"j{number}"), lesson))
    track = book.tracks[job.id]
    assert track.sizes_shown() == 2
    assert history.heard(job, track, lesson.asked) is history


def test_an_answer_is_made_anew_when_finished_jobs_have_shown_more():
    lesson = JobCurve("ann", (1.0, 0.0, 0.01, 0.0, 0.0, 0.0), gang_setting(2, 8), 2, across=True)
    lessons, finished = Lessons().with_lesson(BERT, JobId("a"), lesson), ModelHistory()
    first = lessons.kind(BERT, "ann", finished)
    assert lessons.kind(BERT, "ann", finished) is first
    more = finished.scaled_like("bob", (0.5, 0.0, 0.5, 0.0, 0.0, 0.0), Form.GANG, gang_setting(2, 8), 9)
    assert lessons.kind(BERT, "ann", more) != first


@pytest.fixture
def declining():
    """A model of which 8 workers are slower than 4, by what others showed."""
    asked: Setting = gang_setting(2, 8)
    kind = ModelHistory()
    for user in ("ann", "bob", "cyd"):
        kind = kind.scaled_like(user, (1.0, 0.0, 0.02, 0.0, 0.0, 0.05), Form.GANG, asked, 4)
    return ProgressBook(history=History({BERT: kind}))


def test_a_decline_is_not_believed_of_a_job_that_was_seen_at_one_size(declining):
    """Nobody would try a size that is believed to be slower, and a belief that became wrong would stay."""
    job = _job("a")
    new = np.array(_speeds(declining, job))
    assert new[3] < new[2], "a job that has shown nothing is what its model is"
    book = _seen_at(declining, job, 2, 40, 0.0)
    hoped = np.array(_speeds(book, job))
    assert (np.diff(hoped) > 0).all()
    assert _speeds(book, _job("b")) == new.tolist(), "that is of this job alone"
    tried = _seen_at(book, job, 8, 30, 100.0)
    known = _speeds(tried, job)
    assert known[3] < known[1], "now it has shown it itself"
