"""What it costs a gang to leave a node: believed before it was seen, taught by those that have left one, and tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.job import JobId
from headway.core.snapshot import Sample
from headway.estimates.history.by_user import ModelHistory, Shown
from headway.estimates.job.promise import UserReliability
from headway.estimates.job.track import LONG_LEFT
from headway.estimates.models.profiles import Layout
from headway.estimates.progress import ProgressBook
from headway.estimates.speed.model import Form, Setting, SpeedFit, exchange_of, gang_setting
from headway.estimates.speed.prior import EXCHANGE, plain_prior
from make import a_job, a_snapshot, over, running, some_nodes, waiting

NODES = some_nodes(4, gpus=4)
BERT = ("bert", Form.GANG)
ASKED = gang_setting(4, 4)
INSIDE = (0.0, 1.0, 0.02, 0.0, EXCHANGE, 0.0)
NOTHING_LOST = (0.0, 1.0, 0.02, 0.0, 0.0, 0.0)
MUCH_LOST = (0.0, 1.0, 0.02, 0.0, 2.0, 0.0)


def _exchange(kind):
    return exchange_of(kind.coefficients)


def _job(name="a", **more):
    return a_job(name, gpus=2, min=1, max=16, model="bert", **more)


def _seen_at(book, job, nodes, pace, begins, total, first=0):
    """Thirty reports, ten seconds apart."""
    for number in range(1, 31):
        at = begins + 10.0 * number
        sample = Sample(JobId(job.id), at, first + int(10 * number * pace), None, total)
        entry = running(job, nodes, since=begins, attained=begins)
        book = book.fold(replace(a_snapshot(entry, nodes=NODES, now=at), samples=(sample,)))
    return book


def _ended(book, job, trained):
    entry = replace(over(job), columns={"attained": trained})
    return book.fold(replace(a_snapshot(entry, nodes=NODES, now=trained + 1.0), changed=(0,)))


def test_a_model_that_nobody_has_seen_is_believed_to_lose_by_leaving_a_node():
    believed = SpeedFit(Form.GANG, plain_prior(Form.GANG, gang_setting(1, 4)))
    one, two = (Setting(Layout(4, 0, nodes, 1.0)) for nodes in (1, 2))
    assert believed.relative(gang_setting(1, 4), gang_setting(1, 4)) == pytest.approx(1.0)
    assert believed.relative(one, gang_setting(1, 4)) > 1.3 * believed.relative(two, gang_setting(1, 4))
    wide = SpeedFit(Form.GANG, plain_prior(Form.GANG, gang_setting(8, 4)))
    assert wide.seconds(gang_setting(8, 4)) == pytest.approx(1.0), "also of one that asks for several nodes"


def test_jobs_that_never_left_a_node_teach_nothing_of_it():
    shown = Shown().scaled_like(INSIDE, Form.GANG, ASKED, 3, across=False)
    assert shown.across == 0.0
    shown = shown.scaled_like(NOTHING_LOST, Form.GANG, ASKED, 2, across=True)
    assert _exchange(shown) == pytest.approx(0.0), "the first that left one decides"
    for _ in range(5):
        shown = shown.scaled_like(INSIDE, Form.GANG, ASKED, 3, across=False)
    assert _exchange(shown) == pytest.approx(0.0), "and others do not take it back"
    assert shown.across == 1.0 < shown.weight


def test_of_three_who_left_a_node_one_does_not_decide():
    kind = ModelHistory()
    for user in ("ann", "bob", "cyd"):
        kind = kind.scaled_like(user, INSIDE, Form.GANG, ASKED, 3, across=True)
    lied = kind.scaled_like("cyd", MUCH_LOST, Form.GANG, ASKED, 6, across=True)
    assert _exchange(lied) == pytest.approx(_exchange(kind), rel=0.05)


def test_a_long_job_finds_out_what_leaving_its_node_costs_where_no_job_of_its_model_has():
    short, long_ = (_seen_at(ProgressBook(), _job(), (0,), 10.0, 0.0, total) for total in (20_000, int(12 * LONG_LEFT)))
    told = [_speeds(book, _job()) for book in (short, long_)]
    assert told[0][8] / told[0][4] == pytest.approx(4 / 3, abs=0.2)
    assert told[1][8] / told[1][4] > 1.6
    crossed = _seen_at(long_, _job(), (0, 1), 11.0, 300.0, int(12 * LONG_LEFT), first=3000)
    told_then = _speeds(crossed, _job(), (0, 1))
    assert told_then[8] / told_then[4] < 1.6, "it has seen that two nodes bring nothing"


def _speeds(book, job, nodes=(0,)):
    entry = running(job, nodes, since=0.0, attained=0.0)
    estimates = book.annotate(a_snapshot(entry, nodes=NODES, now=700.0)).estimates
    return {count: estimates.speed(0, (count,)) for count in (1, 2, 4, 8)}


def test_a_job_that_is_stopped_early_still_teaches():
    """It has made a tenth of its steps and said so."""
    book = _seen_at(ProgressBook(), _job(), (0,), 10.0, 0.0, 60_000)
    book = _seen_at(book, _job(), (0, 0), 18.0, 300.0, 60_000, 3_000)
    ended = _ended(book, _job(user="ann"), 600.0)
    assert BERT in ended.history.kinds
    assert not ended.history.users.get("ann", UserReliability()).broken


def test_waiting_jobs_are_told_the_exchange_that_was_seen():
    book = _seen_at(ProgressBook(), _job(user="ann"), (0,) * 4, 40.0, 0.0, 10_000_000)
    book = _seen_at(book, _job(user="ann"), (0,) * 4 + (1,) * 4, 78.0, 300.0, 10_000_000, 12_000)
    told = book.annotate(a_snapshot(waiting(_job("b", user="ann")), nodes=NODES, now=700.0)).estimates
    nothing = ProgressBook().annotate(a_snapshot(waiting(_job("b")), nodes=NODES, now=700.0)).estimates
    assert told.speed(0, (8,)) / told.speed(0, (4,)) > nothing.speed(0, (8,)) / nothing.speed(0, (4,)) + 0.2
