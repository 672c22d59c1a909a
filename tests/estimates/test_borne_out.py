"""What a job has shown is told to others only if it is borne out by what was seen of it."""

from __future__ import annotations

from dataclasses import replace

from headway.core.job import JobId
from headway.core.snapshot import Sample
from headway.estimates.fit.kinds import Kind
from headway.estimates.fit.speed import Form
from headway.estimates.progress import ProgressBook
from make import a_job, a_snapshot, over, running, some_nodes

NODES = some_nodes(4, gpus=4)
BERT = ("bert", Form.GANG)
TOTAL = 60_000


def _job(**more):
    return a_job("a", gpus=1, least=1, most=16, model="bert", **more)


def _told(job, step_at, begins, until, workers, service, book=None):
    """Reports every ten seconds; `step_at` says what is reported at each moment."""
    book = book or ProgressBook()
    for at in range(int(begins) + 10, int(until) + 1, 10):
        sample = Sample(JobId(job.id), float(at), int(step_at(at)), None, TOTAL)
        entry = running(job, (0,) * workers, since=begins, attained=begins, service=service)
        book = book.fold(replace(a_snapshot(entry, nodes=NODES, now=float(at)), samples=(sample,)))
    return book


def _ended(book, job, trained, service):
    entry = replace(over(job), columns={"attained": trained, "service": service})
    return book.fold(replace(a_snapshot(entry, nodes=NODES, now=trained + 1.0), changed=(0,)))


def _honest(at):
    return 100.0 * at


def _creeping(at):
    """By 60 s it says 90 %, then it counts slowly and is at 99 % after 600 s: just as it promises all the time."""
    return TOTAL * (min(0.9, at / 60) + 0.09 * at / 600)


def test_a_job_that_hurries_to_its_last_steps_and_counts_those_slowly_teaches_nobody():
    """It keeps what it promises, and each step seems to take eleven times as long as it does."""
    assert BERT in _ended(_told(_job(), _honest, 0, 590, 1, 0.0), _job(), 600.0, 600.0).history.kinds
    taught = _ended(_told(_job(), _creeping, 0, 590, 1, 0.0), _job(), 600.0, 600.0).history
    assert taught.kinds.get(BERT, Kind()).seconds == {}


def test_the_same_of_one_that_tells_only_the_slow_part():
    """Its first report comes when it has hurried: no two of its reports disagree."""
    book = _told(_job(), _creeping, 100, 590, 1, 0.0)
    assert _ended(book, _job(), 600.0, 600.0).history.kinds.get(BERT, Kind()).seconds == {}


def test_a_gang_is_measured_by_what_all_its_workers_had_time_for():
    """Twice the steps in the same time, on four workers: that is no lie."""
    book = _told(_job(), lambda at: 200.0 * at, 0, 290, 4, 0.0)
    assert BERT in _ended(book, _job(), 300.0, 1200.0).history.kinds
    creeps = _told(_job(), lambda at: _creeping(2 * at), 0, 290, 4, 0.0)
    assert _ended(creeps, _job(), 300.0, 1200.0).history.kinds.get(BERT, Kind()).seconds == {}


def test_a_running_job_that_creeps_gives_no_lesson():
    honest = _told(_job(), _honest, 0, 290, 1, 0.0)
    honest = _told(_job(), lambda at: 30_000 + 180.0 * (at - 300), 300, 400, 2, 300.0, honest)
    assert BERT in honest.history.lessons.given
    creeps = _told(_job(), _creeping, 100, 290, 1, 0.0)
    creeps = _told(_job(), lambda at: _creeping(300) + 16.2 * (at - 300), 300, 400, 2, 300.0, creeps)
    assert BERT not in creeps.history.lessons.given


def test_where_no_time_was_counted_nothing_is_held_against_a_job():
    assert BERT in _ended(_told(_job(), _honest, 0, 590, 1, 0.0), _job(), 600.0, 0.0).history.kinds
