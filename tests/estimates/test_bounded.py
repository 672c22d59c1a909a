"""What the book of progress keeps does not grow with the number of jobs that it has seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.board import Board
from headway.core.job import JobId
from headway.core.placement import Placement
from headway.core.snapshot import Sample
from headway.core.states import State
from headway.cycle.loop import decide
from headway.estimates.history import durations, history
from headway.estimates.history.durations import newest
from headway.estimates.history.history import History
from headway.estimates.plain_books import LinearBook
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.sim.cluster import Reports, SimCluster, World
from make import a_job, a_role, some_nodes


def _job(number, **more):
    role = replace(a_role(), command=("python", "train.py", f"--seed={number}"), env=(("N", str(number)),))
    return a_job(f"j{number}", roles=[role], submit=20.0 * number, **more)


def test_jobs_that_differ_in_their_command_only_are_one_group():
    jobs = [replace(_job(n), submit=0.0) for n in range(9)]
    cluster, book = SimCluster(some_nodes(1), jobs, World(work=lambda _: 9.0)), ProgressBook()
    snapshot = cluster.next_snapshot()
    book = book.fold(snapshot)
    assert book.annotate(snapshot).estimates.beliefs is not None
    assert len(book.cache.asked[0].groups.examples) == 1


def test_groups_of_which_no_job_is_left_are_forgotten():
    world = World(reports=Reports(seconds=20.0), work=lambda _: 30.0)
    jobs = [_job(number, user=f"user{number}", model=f"m{number}") for number in range(300)]
    cluster, book, policy = SimCluster(some_nodes(2), jobs, world), ProgressBook(), POLICIES["srtf"]()
    most, renumbered = 0, set()
    while (snapshot := cluster.next_snapshot()) is not None:
        book = book.fold(snapshot)
        renumbered.add(id(snapshot.jobs.row_of))
        cluster.apply(decide(policy, book.annotate(snapshot)).plan)
        if book.cache.asked:
            answers = book.cache.asked[0]
            most = max(most, len(answers.groups.examples), len(answers.similar.answers))
    assert len(renumbered) > 1
    assert most < 200


def test_what_changed_longest_ago_is_forgotten():
    known: dict[str, int] = {}
    for number, key in enumerate("abcabd"):
        known = newest(known, {key: number}, 3)
    assert list(known.items()) == [("a", 3), ("b", 4), ("d", 5)]
    assert newest(known, {"b": 9}, 3) == {"a": 3, "d": 5, "b": 9}


def test_a_history_of_many_models_is_bounded(monkeypatch):
    monkeypatch.setattr(history, "MOST_KINDS", 20)
    monkeypatch.setattr(durations, "MOST_KINDS", 50)
    nodes, book = some_nodes(1), ProgressBook()
    jobs = [replace(_job(n, model=f"m{n}", user=f"u{n}", steps=1000), id=JobId(f"j{n}")) for n in range(120)]
    cluster = SimCluster(nodes, jobs, World(reports=Reports(seconds=20.0, growth=0.1), work=lambda _: 300.0))
    while (snapshot := cluster.next_snapshot()) is not None:
        book = book.fold(snapshot)
        cluster.apply(decide(POLICIES["fifo"](), book.annotate(snapshot)).plan)
    learned: History = book.history
    assert len(learned.kinds) == 20
    assert len(learned.durations.histograms) == 50
    last, first = jobs[-1], jobs[0]
    assert learned.kind(last) is not None
    assert learned.kind(first) is None
    assert learned.durations.histograms["all",].count == 120, "the most general kind stays"


def _reported(book, board, row, step):
    board.sampled(Sample(board.job(row).id, float(step), step, total_steps=1000))
    return book.fold(board.snapshot(float(step)))


@pytest.mark.parametrize("book", [ProgressBook(), LinearBook()], ids=["progress", "linear"])
def test_a_job_under_other_terms_keeps_its_reports_and_one_that_ended_has_none(book):
    board = Board(some_nodes(1))
    row = board.add(a_job("a"), 0.0)
    board.begin(row, State.STARTING, Placement(((0,),)), 0.0, 9.0)
    board.settle(row, State.RUNNING, Placement(((0,),)), 0.0)
    for step in (1, 2, 3):
        book = _reported(book, board, row, step)
    row = board.replace(row, a_job("a", priority=5), 4.0)
    book = book.fold(board.snapshot(4.0))
    assert list(book.tracks) == ["a"]
    assert (board.state(row), board.placement(row)) == (State.RUNNING, Placement(((0,),)))
    board.settle(row, State.FINISHED, None, 5.0)
    assert not book.fold(board.snapshot(5.0)).tracks, "also without a report in that cycle"
