"""What a model shows on one type of accelerators is told first to jobs on that type."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.board import Board
from headway.core.job import JobId
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.scaling import SizeSpan
from headway.core.snapshot import Sample
from headway.core.states import State
from headway.estimates.history import history as history_file
from headway.estimates.history.by_user import ModelHistory, Seconds
from headway.estimates.history.history import History
from headway.estimates.history.lessons import MOST, Lessons
from headway.estimates.progress import ProgressBook
from headway.estimates.speed.accelerators import type_at, type_wanted
from headway.estimates.speed.model import Form
from headway.estimates.speed.requested import requested_setting
from make import a_job, a_node, a_role, a_snapshot, over, running, waiting

MIXED = Nodes.of([a_node(f"n{n}", gpus=8, accelerator="A100" if n < 2 else "t4") for n in range(4)])
ONE_TYPE = Nodes.of([a_node(f"n{n}", gpus=8, accelerator="t4") for n in range(4)])
NO_TYPE = Nodes.of([a_node(f"n{n}", gpus=8) for n in range(4)])
BERT = ("bert", Form.GANG)
SPAN = SizeSpan(1, 16, 8)


def _job(name, accelerator="", **more):
    role = a_role(gpu=1, replicas=2, min=1, max=32, accelerator=accelerator)
    return a_job(name, roles=[role], model="bert", **more)


def _seen_at(book, job, node, workers, pace, begins, nodes=MIXED):
    """Thirty reports a second apart, `pace` steps each."""
    for second in range(1, 31):
        step = 100_000 + int(begins) * 5 + int(second * pace)
        sample = Sample(JobId(job.id), begins + second, step, None, 10_000_000)
        entry = running(job, (node,) * workers, since=begins, attained=begins)
        book = book.fold(replace(a_snapshot(entry, nodes=nodes, now=begins + second), samples=(sample,)))
    return book


def _two_sizes(book, name, node, gain, nodes=MIXED, **more):
    """A job that becomes `gain` times as fast by its second pair of workers."""
    job = _job(name, **more)
    book = _seen_at(book, job, node, 2, 40, 0.0, nodes)
    return _seen_at(book, job, node, 4, 40 * gain, 100.0, nodes)


def _ended(book, name, nodes=MIXED, state=State.FINISHED, **more):
    entry = over(_job(name, **more), state)
    return book.fold(replace(a_snapshot(entry, nodes=nodes, now=300.0), changed=(0,)))


def _gain(book, job, nodes=MIXED):
    estimates = book.annotate(a_snapshot(waiting(job), nodes=nodes, now=400.0)).estimates
    return estimates.speed(0, (4,)) / estimates.speed(0, (2,))


@pytest.fixture
def both():
    """Of one model: on an A100 more workers bring a tenth, on a T4 nine tenths."""
    book = _ended(_two_sizes(ProgressBook(), "fast", 0, 1.1), "fast")
    return _ended(_two_sizes(book, "slow", 2, 1.9), "slow")


def test_a_job_is_told_what_its_model_shows_on_its_type(both):
    assert _gain(both, _job("a", "A100")) == pytest.approx(1.1, abs=0.12)
    assert _gain(both, _job("b", "t4")) == pytest.approx(1.9, abs=0.12)


def test_a_type_on_which_nothing_was_shown_is_told_what_all_have(both):
    together = _gain(both, _job("a"))
    assert _gain(both, _job("b", "v100")) == together
    assert 1.2 < together < 1.8
    assert both.history.kind(_job("a")) is both.history.kinds[BERT]


def test_a_job_that_names_no_type_is_told_by_where_it_reports(both):
    job = _job("a")
    book = _seen_at(both, job, 0, 2, 40, 400.0)
    assert _gain(book, job) == pytest.approx(1.1, abs=0.12)
    assert _gain(_seen_at(both, job, 2, 2, 40, 400.0), job) == pytest.approx(1.9, abs=0.12)


def test_running_jobs_teach_their_type_and_take_their_lesson_back():
    book = _two_sizes(ProgressBook(), "fast", 0, 1.1)
    slow = _two_sizes(book, "slow", 2, 1.9)
    assert slow.history.kinds == slow.history.types == {}, "none has finished"
    assert _gain(slow, _job("a", "A100")) == pytest.approx(1.1, abs=0.12)
    assert _gain(slow, _job("a", "t4")) == pytest.approx(1.9, abs=0.2)
    failed = _ended(slow, "slow", state=State.FAILED)
    assert _gain(failed, _job("a", "t4")) == _gain(failed, _job("a"))
    assert _ended(failed, "fast", state=State.FAILED).history.lessons == Lessons()


def test_a_lesson_counts_on_its_type_also_where_newer_ones_count_on_all_and_goes_with_its_job():
    book = _two_sizes(ProgressBook(), "slow", 2, 1.9)
    for number in range(MOST):
        book = _two_sizes(book, f"fast{number}", 0, 1.1)
    assert _gain(book, _job("a")) == pytest.approx(1.1, abs=0.12), "the newest are all of the other type"
    assert _gain(book, _job("a", "t4")) == pytest.approx(1.9, abs=0.2)
    gone = _ended(book, "slow", state=State.CANCELLED).history.lessons.given
    assert JobId("slow") not in gone[BERT]
    assert (*BERT, "t4") not in gone


def test_a_job_that_was_on_two_types_teaches_all_together_only():
    book = _seen_at(ProgressBook(), _job("a"), 0, 2, 40, 0.0)
    book = _ended(_seen_at(book, _job("a"), 2, 4, 60, 100.0), "a")
    assert list(book.history.kinds) == [BERT]
    assert book.history.types == {}


def test_what_was_shown_on_a_type_is_told_there_first_and_to_its_user_before_others():
    book = ProgressBook()
    for user in ("ann", "bob", "eve"):
        book = _ended(_two_sizes(book, user, 2, 1.5, user=user), user, user=user)
    book = _ended(_two_sizes(book, "other", 0, 1.02, user="eve"), "other", user="eve")
    assert _gain(book, _job("a", "A100", user="eve")) == pytest.approx(1.02, abs=0.12), "her own jobs showed it"
    assert _gain(book, _job("a", "A100", user="bob")) == pytest.approx(1.5, abs=0.12), "his own on another type"
    for user in ("ann", "bob"):
        book = _ended(_two_sizes(book, f"{user}2", 0, 1.1, user=user), f"{user}2", user=user)
    assert _gain(book, _job("a", "A100", user="eve")) == pytest.approx(1.02, abs=0.12), "her own jobs showed it"
    assert _gain(book, _job("a", "A100", user="kim")) == pytest.approx(1.1, abs=0.15), "the median of three"


def _remembered(history, ends, waits, node, sizes):
    """Whether a book that remembers its answers says of a waiting job what one says that works it out anew, while
    another job trains at these sizes and finishes. And whether what is said of it has changed.
    """
    board, book, told = Board(MIXED), ProgressBook(history=history), []
    row, waiting_row = board.add(ends, 0.0), board.add(waits, 0.0)

    def look(now):
        nonlocal book
        snapshot = board.snapshot(now)
        book = book.fold(snapshot)
        anew = ProgressBook(book.tracks, book.history)
        kept, fresh = (one.annotate(snapshot).estimates for one in (book, anew))
        kept.left(now)
        told.append(kept.scaling(waiting_row, SPAN).speeds)
        assert told[-1] == fresh.scaling(waiting_row, SPAN).speeds, f"at {now}"

    look(0.0)
    now, step = 0.0, 1000
    for workers, pace in sizes:
        board.begin(row, State.SCALING if now else State.STARTING, Placement(((node,) * workers,)), now, now + 60.0)
        board.settle(row, State.RUNNING, Placement(((node,) * workers,)), now)
        for _ in range(40):
            now, step = now + 1.0, step + pace
            board.sampled(Sample(ends.id, now, step))
            look(now)
    board.settle(row, State.FINISHED, None, now + 1.0)
    look(now + 1.0)
    return told[-1] != told[0]


def test_what_is_shown_on_one_type_alone_is_not_forgotten_by_a_book_that_remembers():
    book = ProgressBook()
    for user in ("ann", "bob", "eve"):
        book = _ended(_two_sizes(book, user, 2, 1.5, user=user), user, user=user)
    ends, waits = _job("ends", user="zed"), _job("waits", "A100", user="zed")
    assert _remembered(book.history, ends, waits, 0, [(2, 40), (4, 41)]), "her own jobs tell her"


def test_the_pace_is_told_by_those_on_the_same_type():
    two, eight = (ModelHistory(seconds={2: Seconds().add(took).add(took)}) for took in (2.0, 8.0))
    history = History({BERT: eight}, types={(*BERT, "a100"): two})
    told = [history.step(job, requested_setting(job, MIXED)).seconds for job in (_job("a", "A100"), _job("b", "t4"))]
    assert told == pytest.approx([2.0, 8.0])


def test_on_a_cluster_of_one_type_the_type_is_known_and_nothing_is_told_otherwise():
    """The same jobs on nodes of one type and on nodes of none."""
    told = []
    for nodes in (ONE_TYPE, NO_TYPE):
        book = _two_sizes(ProgressBook(), "a", 0, 1.4, nodes)
        told.append([_gain(one, _job("b"), nodes) for one in (book, _ended(book, "a", nodes))])
    assert told[0] == told[1]
    assert type_wanted(_job("b"), ONE_TYPE) == "t4"


def test_without_types_nothing_is_kept_by_type():
    book = _ended(_two_sizes(ProgressBook(), "a", 0, 1.4, NO_TYPE), "a", NO_TYPE)
    assert book.history.types == {}
    assert set(book.history.kinds) == {BERT}


def test_the_type_of_a_job_that_has_not_started_is_where_alone_its_workers_fit():
    nodes = Nodes.of([a_node("cpus", gpus=0, cpu=8), a_node("gpus", gpus=4, cpu=8, accelerator="V100")])
    on_cpus = a_job("b", roles=[a_role(cpu=1)])
    assert type_wanted(_job("a"), nodes) == "v100"
    assert type_wanted(on_cpus, nodes) == "", "it fits on both"
    assert type_wanted(_job("a"), MIXED) == ""
    assert type_at(_job("a"), running(_job("a"), (0, 1)).placement, MIXED) == "a100"
    assert type_at(_job("a"), running(_job("a"), (0, 2)).placement, MIXED) == ""


def test_what_is_kept_by_type_is_bounded(monkeypatch):
    monkeypatch.setattr(history_file, "MOST_KINDS", 3)
    book = ProgressBook()
    for number in range(6):
        job = replace(_job("a"), model=f"m{number}")
        book = _seen_at(book, job, 0, 2, 40, 0.0)
        book = book.fold(replace(a_snapshot(over(job), nodes=MIXED, now=300.0), changed=(0,)))
    assert list(book.history.types) == [(f"m{number}", Form.GANG, "a100") for number in (3, 4, 5)]
