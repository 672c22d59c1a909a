"""Jobs that stop at a target: by their own metric, and by what like jobs took."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from headway.core.estimates import Basis
from headway.core.job import JobId, Target
from headway.core.snapshot import Sample
from headway.estimates.job.target import known_length, length_by_shape, plain_shapes, shape_of
from headway.estimates.progress import ProgressBook
from make import a_board, a_job, a_snapshot, over, running, some_nodes, waiting


def _fed(samples, snapshot, book=None):
    """Reports one by one, each in a snapshot of its own moment."""
    book = book or ProgressBook()
    for sample in samples:
        book = book.fold(replace(snapshot, now=max(snapshot.now, sample.at), samples=(sample,)))
    return book


def _estimate(book, snapshot, row=0):
    estimates = book.annotate(snapshot).estimates
    return float(estimates.left(snapshot.now)[row]), estimates.basis(row), float(estimates.spread()[row])


TO_LOSS = Target(value=0.2)


def _to_target(job="a", *, upto=400, start=0.0, length=400, name="loss"):
    """A loss that falls to 0.2 in so many steps, ten a second."""
    samples = []
    for step in range(10, upto + 1, 10):
        value = 0.1 + 1.0 / (1.0 + 9.0 * step / length)
        loss, metric = (value, value) if name == "loss" else (1.0, 1.0 - value)
        samples.append(Sample(JobId(job), start + step / 10, step, loss, None, metric))
    return samples


def test_a_job_with_a_target_is_believed_to_end_there():
    job = a_job("a", target=TO_LOSS)
    snapshot = a_snapshot(running(job, (0,)), now=20.0)
    book = _fed(_to_target(upto=200), snapshot)
    left, basis, spread = _estimate(book, snapshot)
    assert basis is Basis.TARGET
    assert 2.0 < left < 100.0, "one curve of a model never seen says little"
    assert spread > 0.5
    assert "target" in book.annotate(snapshot).estimates.of(0, 20.0).sentence
    nearer = a_snapshot(running(replace(job, target=Target(value=0.25)), (0,)), now=20.0)
    assert _estimate(_fed(_to_target(upto=200), nearer), nearer)[0] < left
    capped = a_snapshot(running(replace(job, steps=210), (0,)), now=20.0)
    assert _estimate(_fed(_to_target(upto=200), capped), capped)[0] == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("name", ["loss", "accuracy"])
def test_like_jobs_tell_how_far_a_target_is(name):
    target = TO_LOSS if name == "loss" else Target(metric=name, value=0.8, higher=True)
    book, nodes = ProgressBook(), some_nodes(1)
    for number in range(4):
        old = a_job(f"old{number}", target=target, model="m")
        samples = _to_target(f"old{number}", length=400 + 10 * number, upto=400 + 10 * number, name=name)
        book = _fed(samples, a_snapshot(running(old, (0,)), nodes=nodes, now=45.0), book)
        board = a_board([over(old)], nodes, now=45.0)
        board.table.set("attained", 0, 41.5)
        book = book.fold(board.snapshot(45.0))
    job = a_job("a", target=target, model="m")
    at_start = a_snapshot(waiting(job), nodes=nodes, now=50.0)
    left, basis, _ = _estimate(book, at_start)
    assert basis is Basis.HISTORY
    assert left == pytest.approx(41.5, rel=0.05)
    begun = a_snapshot(running(job, (0,)), nodes=nodes, now=10.0)
    left, basis, spread = _estimate(_fed(_to_target(upto=100, name=name), begun, book), begun)
    assert basis is Basis.TARGET
    assert left == pytest.approx(31.5, rel=0.1)
    assert spread < 0.4
    other = replace(job, target=replace(target, value=0.9 if target.higher else 0.15))
    assert not book.history.reached(other).lengths, "another target is another way"


def test_a_job_that_ends_far_from_its_target_teaches_no_length():
    old = a_job("a", target=TO_LOSS, model="m")
    book = _fed(_to_target(upto=100), a_snapshot(running(old, (0,)), now=10.0))
    book = book.fold(replace(a_snapshot(over(old), now=10.0), changed=(0,)))
    assert not book.history.reached(old).lengths


def _way(shape, length, count=40):
    """Points on the way to 0.9."""
    return tuple((length * i / count, 0.9 * shape(i / count)) for i in range(1, count + 1))


def test_the_length_of_the_way_is_found_by_its_shape():
    def shape(u):
        return 1 - math.exp(-4 * u) + math.exp(-4) * u

    library = np.concatenate([plain_shapes(), shape_of(_way(shape, 1000.0), 0.9)[None, :]])
    found = length_by_shape(_way(shape, 3000.0)[:24], 0.9, library)
    assert found.low <= found.median <= found.high
    assert found.median == pytest.approx(3000.0, rel=0.25)


def test_like_jobs_decide_until_theirs_is_overdue():
    early, known = _way(lambda u: u**0.5, 1000.0)[:4], (1000.0, 0.05)
    assert length_by_shape(early, 0.9, known=known).median == pytest.approx(1000.0, rel=0.05)
    late = tuple((at * 3, value) for at, value in early)
    assert length_by_shape(late, 0.9, known=known, elapsed=5000.0).median > 5000.0


def test_lengths_of_like_jobs_are_robust():
    middle, spread = known_length([*(100.0 + i for i in range(9)), 1e6])
    assert 100 < middle < 110
    assert spread < 0.1
    assert known_length([]) is None
