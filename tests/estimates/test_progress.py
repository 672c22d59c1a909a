"""The book of progress: right where reports are right, as if there were none where they are not, and it says which."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.estimates import BASES, Basis, Growth
from headway.core.job import JobId
from headway.core.placement import Placement
from headway.core.snapshot import Sample
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.models.scaling import plain_speed
from headway.estimates.plain_books import NoEstimates
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.replay import ReplayCluster
from headway.sim.cluster import Costs, SimCluster, World
from headway.sim.sharing import Sharing
from make import a_board, a_job, a_role, a_snapshot, flying, over, running, some_nodes, waiting

A = JobId("a")


def _fed(samples, snapshot, book=None):
    """Reports one by one, each in a snapshot of its own moment."""
    book = book or ProgressBook()
    for sample in samples:
        now = max(snapshot.now, sample.at) if math.isfinite(sample.at) else snapshot.now
        book = book.fold(replace(snapshot, now=now, samples=(sample,)))
    return book


def _steady(count=20, speed=10, total=1000, start=0.0, loss=None):
    return [Sample(A, start + i, i * speed, None if loss is None else loss(i), total) for i in range(1, count + 1)]


def _estimate(book, snapshot, row=0):
    estimates = book.annotate(snapshot).estimates
    return float(estimates.left(snapshot.now)[row]), estimates.basis(row), float(estimates.spread()[row])


def test_steady_reports_are_believed_and_burn_down():
    snapshot = a_snapshot(running(a_job("a", seconds=9999.0), (0,)), now=20.0)
    book = _fed(_steady(), snapshot)
    left, basis, spread = _estimate(book, snapshot)
    assert left == pytest.approx(80.0, rel=0.02)
    assert basis is Basis.STEPS
    assert spread < 0.05
    assert _estimate(book, replace(snapshot, now=25.0))[0] == pytest.approx(left - 5.0)


def test_before_there_are_reports_the_user_is_believed():
    snapshot = a_snapshot(running(a_job("a", seconds=100.0), (0,)), a_job("b"), now=10.0)
    book = _fed(_steady(1), snapshot)
    assert _estimate(book, snapshot)[:2] == (90.0, Basis.DECLARED)
    estimates = book.annotate(snapshot).estimates
    assert estimates.basis(1) is Basis.NOTHING
    assert math.isnan(estimates.left(10.0)[1])


def test_a_resize_is_foreseen_by_the_model_and_then_measured():
    job = a_job("a", gpus=2, min=1, max=4)
    nodes = some_nodes(1, gpus=4)
    small = a_snapshot(running(job, (0, 0)), nodes=nodes, now=20.0)
    large = a_snapshot(running(job, (0, 0, 0, 0), since=20.0), nodes=nodes, now=21.0)
    book = _fed(_steady(20, speed=10, total=10_000), small)
    book = book.fold(replace(large, samples=(Sample(A, 21.0, 201, None, 10_000),)))
    expected = (10_000 - 201) / (10 * plain_speed(job, (4,)))
    assert _estimate(book, large)[0] == pytest.approx(expected, rel=0.03), "one report at the new size is no speed yet"
    book = _fed([Sample(A, 21.0 + i, 201 + 12 * i, None, 10_000) for i in range(1, 30)], large, book)
    later = replace(large, now=50.0)
    assert _estimate(book, later)[0] == pytest.approx((10_000 - 201 - 12 * 29) / 12, rel=0.03)
    speeds = [book.annotate(later).estimates.speed(0, (count,)) for count in (1, 2, 3, 4)]
    assert speeds[1] == pytest.approx(1.0, rel=0.02)
    assert speeds[3] == pytest.approx(1.2, rel=0.05)
    assert speeds == sorted(speeds)
    assert book.annotate(later).estimates.speed(0, (0,)) == 0.0


@pytest.mark.parametrize(("per_second", "size"), [(10, 4), (5, 1)])
def test_reports_from_before_a_new_size_was_up_tell_nothing_of_it(per_second, size):
    """They come with the snapshot that shows it first; at their speed a job of four would be as fast as one of two."""
    job, nodes = a_job("a", gpus=2, min=1, max=4), some_nodes(1, gpus=4)
    book = _fed(_steady(20, speed=10, total=10_000), a_snapshot(running(job, (0, 0)), nodes=nodes, now=20.0))
    after = a_snapshot(running(job, (0,) * size, since=30.0, attained=30.0), nodes=nodes, now=30.0)
    late = tuple(Sample(A, 20.0 + i, 200 + per_second * i, None, 10_000) for i in range(1, 10))
    book = book.fold(replace(after, samples=late))
    speeds = [book.annotate(after).estimates.speed(0, (count,)) for count in (2, 4)]
    assert speeds == [pytest.approx(plain_speed(job, (count,)), rel=0.001) for count in (2, 4)]


def test_after_a_change_of_size_the_time_left_is_that_of_the_new_size_at_once():
    """It trained at its old speed until the new size was up, ten seconds after its last report."""
    job, nodes = a_job("a", gpus=2, min=1, max=4), some_nodes(1, gpus=4)
    book = _fed(_steady(20, speed=10, total=10_000), a_snapshot(running(job, (0, 0)), nodes=nodes, now=20.0))
    large = a_snapshot(running(job, (0, 0, 0, 0), since=30.0, attained=30.0), nodes=nodes, now=35.0)
    expected = (10_000 - 300) / (10 * plain_speed(job, (4,)))
    assert _estimate(book, large)[0] == pytest.approx(expected - 5.0, rel=0.005)


@pytest.mark.parametrize("settled", [(0, 0), (0, 0, 0, 0)], ids=["shrunk", "given up"])
def test_reports_of_a_job_that_gives_up_replicas_are_of_neither_size(settled):
    """Some replicas end before the others: its steps are slow by then, and the old size is still shown."""
    job, nodes = a_job("a", gpus=2, min=1, max=4), some_nodes(1, gpus=4)
    small, large = Placement(((0, 0),)), Placement(((0, 0, 0, 0),))
    book = _fed(_steady(20, speed=10, total=10_000), a_snapshot(running(job, (0, 0, 0, 0)), nodes=nodes, now=20.0))
    shrinks = a_snapshot(flying(job, State.SCALING, at=large, towards=small), nodes=nodes, now=21.0)
    book = _fed([Sample(A, 20.0 + i, 200 + 5 * i, None, 10_000) for i in range(1, 20)], shrinks, book)
    after = a_snapshot(running(job, settled, since=40.0, attained=40.0), nodes=nodes, now=40.0)
    per_second = 5 if settled == (0, 0) else 10
    book = _fed([Sample(A, 40.0 + i, 300 + per_second * i, None, 10_000) for i in range(20)], after, book)
    later = replace(after, now=60.0)
    if settled == (0, 0):
        assert book.annotate(later).estimates.speed(0, (4,)) == pytest.approx(2.0, rel=0.03)
    assert _estimate(book, later)[0] == pytest.approx((9700 - 20 * per_second) / per_second, rel=0.03)


def test_speeds_are_for_the_best_place_even_at_the_present_size():
    """What a worse place costs is taken off by the policy: it would be taken off twice."""
    roles = [a_role("ps", 1, cpu=1), a_role("worker", 2, min=1, max=4, cpu=1)]
    job, nodes = a_job("a", roles=roles), some_nodes(3, gpus=0, cpu=8)
    found = []
    for where in (((0,), (0, 0)), ((0,), (1, 2))):
        snapshot = a_snapshot(running(job, *where), nodes=nodes, now=20.0)
        found.append(_fed(_steady(), snapshot).annotate(snapshot).estimates.speed(0, (1, 2)))
    assert found == [pytest.approx(1.0)] * 2


def test_a_job_that_was_down_has_not_trained_meanwhile():
    job = a_job("a", seconds=5000.0)
    book = _fed(_steady(), a_snapshot(running(job, (0,)), now=20.0))
    again = a_snapshot(running(job, (0,), since=500.0, attained=30.0), now=510.0)
    assert _estimate(book, again)[0] == pytest.approx(60.0, rel=0.01), "700 steps were left at 500, and 10 s ago"
    stopped = a_snapshot(waiting(job, attained=30.0), now=510.0)
    assert _estimate(book, replace(stopped, now=600.0))[0] == pytest.approx(80.0, rel=0.01)


def test_a_job_that_reports_rarely_is_not_silent_after_a_change_of_size():
    job, nodes = a_job("a", gpus=2, min=1, max=4, seconds=9e5), some_nodes(1, gpus=4)
    hourly = [Sample(A, 3600.0 * i, 10 * i, None, 10_000) for i in range(1, 20)]
    book = _fed(hourly, a_snapshot(running(job, (0, 0)), nodes=nodes, now=19 * 3600.0))
    at = 20 * 3600.0
    large = a_snapshot(running(job, (0, 0, 0, 0), since=at, attained=at), nodes=nodes, now=at + 10.0)
    book = _fed([Sample(A, at + 10.0, 200, None, 10_000)], large, book)
    assert _estimate(book, replace(large, now=at + 2 * 3600.0))[1] is Basis.STEPS
    assert _estimate(book, replace(large, now=at + 20 * 3600.0))[1] is Basis.SILENT


def test_a_stopped_job_is_known_at_the_asked_for_size_and_does_not_burn():
    job = a_job("a", gpus=2, min=1, max=4)
    book = _fed(_steady(), a_snapshot(running(job, (0,)), now=20.0))
    stopped = a_snapshot(waiting(job, attained=20.0), now=50.0)
    left, basis, _ = _estimate(book, stopped)
    assert basis is Basis.STEPS
    assert left == pytest.approx(80.0 * plain_speed(job, (1,)), rel=0.02)
    assert _estimate(book, replace(stopped, now=90.0))[0] == pytest.approx(left)


def test_a_job_that_was_down_goes_on_at_its_speed_even_from_an_older_step():
    job = a_job("a", seconds=5000.0)
    book = _fed(_steady(), a_snapshot(running(job, (0,)), now=20.0))
    again = a_snapshot(running(job, (0,), since=500.0, attained=20.0), now=510.0)
    book = _fed([Sample(A, 501.0 + i, 150 + 10 * i, None, 1000) for i in range(3)], again, book)
    left, basis, _ = _estimate(book, replace(again, now=503.0))
    assert basis is Basis.STEPS
    assert left == pytest.approx(83.0, rel=0.03)
    assert not book.tracks[A].doubt.strikes


def test_a_job_without_a_total_ends_when_its_loss_no_longer_falls():
    snapshot = a_snapshot(running(a_job("a"), (0,)), now=100.0)
    samples = [Sample(A, float(i), 10 * i, math.exp(-i / 100) + 0.1, None) for i in range(1, 101)]
    left, basis, spread = _estimate(_fed(samples, snapshot), snapshot)
    assert basis is Basis.CURVE
    assert 20 < left < 2000
    assert spread > 0.3
    flat = a_snapshot(running(a_job("a", seconds=500.0), (0,)), now=3.0)
    assert _estimate(_fed(samples[:2], flat), flat)[1] is Basis.DECLARED


def test_growth_is_told_with_its_moment():
    snapshot = a_snapshot(running(a_job("a"), (0,)), now=900.0)
    book = _fed(_steady(900, total=10**6, loss=lambda i: math.exp(-i / 60)), snapshot)
    kinds, since = book.annotate(snapshot).estimates.growth()
    assert kinds[0] == Growth.CONVERGING
    assert 60 < since[0] < 600


GARBAGE = {
    "backwards": (Basis.BACKWARDS, [Sample(A, 21.0 + i, 200 - 20 * i, None, 1000) for i in range(6)]),
    "negative": (Basis.BACKWARDS, [Sample(A, 21.0 + i, -5, None, 1000) for i in range(6)]),
    "from the future": (Basis.CLOCK, [Sample(A, 1e9 + i, 210 + i, None, 1000) for i in range(6)]),
    "from the past": (Basis.CLOCK, [Sample(A, -1e6 - i, 210 + i, None, 1000) for i in range(6)]),
    "no time at all": (Basis.CLOCK, [Sample(A, math.nan, 210 + i, None, 1000) for i in range(6)]),
    "past its total": (Basis.OVERRUN, [Sample(A, 21.0 + i, 1500 + 10 * i, None, 1000) for i in range(6)]),
    "a shrinking total": (Basis.ERRATIC, [Sample(A, 21.0 + i, 210 + 10 * i, None, 900 - 50 * i) for i in range(6)]),
    "giant leaps": (Basis.ERRATIC, [Sample(A, 21.0 + i, 10**4 * 4**i, None, 10**9) for i in range(8)]),
    "numbers beyond counting": (Basis.ERRATIC, [Sample(A, 21.0 + i, 10**400, None, 10**400) for i in range(6)]),
}


@pytest.mark.parametrize("name", list(GARBAGE))
def test_garbage_degrades_to_what_was_declared_and_says_so(name):
    basis, samples = GARBAGE[name]
    snapshot = a_snapshot(running(a_job("a", seconds=500.0), (0,)), now=30.0)
    book = ProgressBook()
    for sample in (*_steady(), *samples):
        book = book.fold(replace(snapshot, samples=(sample,)))
    assert _estimate(book, snapshot)[:2] == (470.0, basis)
    assert BASES[basis] in book.annotate(snapshot).estimates.of(0, snapshot.now).sentence
    assert book.annotate(snapshot).estimates.growth()[0][0] == Growth.UNKNOWN


def test_one_odd_report_is_forgiven_and_belief_returns_after_many():
    snapshot = a_snapshot(running(a_job("a", seconds=500.0), (0,)), now=300.0)
    once = _fed([*_steady(), Sample(A, 21.0, 190, None, 1000)], snapshot)
    assert once.annotate(snapshot).estimates.basis(0) is not Basis.BACKWARDS
    _, bad = GARBAGE["backwards"]
    book = _fed([*_steady(), *bad], snapshot)
    assert book.annotate(replace(snapshot, now=30.0)).estimates.basis(0) is Basis.BACKWARDS
    book = _fed([Sample(A, 40.0 + i, 100 + i, None, 1000) for i in range(60)], snapshot, book)
    assert book.annotate(replace(snapshot, now=100.0)).estimates.basis(0) is Basis.STEPS


def test_a_silent_job_is_no_longer_believed_and_a_stopped_one_is_not_silent():
    job = a_job("a", seconds=5000.0)
    snapshot = a_snapshot(running(job, (0,)), now=300.0)
    book = _fed(_steady(), snapshot)
    assert _estimate(book, replace(snapshot, now=190.0))[1] is Basis.STEPS
    assert _estimate(book, snapshot)[:2] == (4700.0, Basis.SILENT)
    assert "(last: step 200 of 1000, 280 s ago)" in book.annotate(snapshot).estimates.of(0, 300.0).sentence
    assert _estimate(book, a_snapshot(waiting(job, attained=20.0), now=999.0))[1] is Basis.STEPS
    assert _estimate(book, a_snapshot(running(job, (0,), since=290.0, attained=20.0), now=300.0))[1] is Basis.STEPS


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.floats(), st.floats(0, 100)),
            st.one_of(st.integers(), st.integers(0, 1000)),
            st.one_of(st.none(), st.floats()),
            st.one_of(st.none(), st.integers(), st.just(1000)),
            st.sampled_from([(0,), (0, 0), (0, 0, 0)]),
        ),
        max_size=60,
    ),
    st.sampled_from([None, 100.0]),
)
def test_nothing_that_is_reported_breaks_the_book(reports, declared):
    job = a_job("a", gpus=2, min=1, max=4, seconds=declared, model="m")
    book = ProgressBook()
    for at, step, loss, total, place in reports:
        snapshot = a_snapshot(running(job, place), now=50.0)
        book = book.fold(replace(snapshot, samples=(Sample(A, at, step, loss, total),)))
        estimates = book.annotate(snapshot).estimates
        left = float(estimates.left(50.0)[0])
        assert left >= 0 or (math.isnan(left) and declared is None)
        assert estimates.basis(0) in BASES
        assert 0.0 <= estimates.speed(0, (1,)) < math.inf
        assert estimates.speed(0, (3,)) > 0
    board = a_board([over(job)])
    gone = book.fold(board.snapshot(60.0))
    assert not gone.tracks


def test_like_jobs_tell_how_long_a_step_takes_and_how_it_grows():
    nodes, book = some_nodes(1, gpus=4), ProgressBook()
    for number in range(3):
        job = a_job(f"j{number}", gpus=2, min=1, max=4, model="m")
        for place, start, speed in (((0, 0), 0, 10), ((0, 0, 0, 0), 30, 11)):
            for i in range(1, 30):
                at = float(start + i)
                sample = Sample(job.id, at, start * 10 + speed * i, None, 9999)
                book = book.fold(replace(a_snapshot(running(job, place), nodes=nodes, now=at), samples=(sample,)))
        board = a_board([over(job)], nodes, 100.0)
        board.table.set("attained", 0, 60.0)
        book = book.fold(board.snapshot(100.0))
    assert not book.tracks
    fresh = a_snapshot(a_job("new", gpus=2, min=1, max=4, model="m", steps=1000), nodes=nodes, now=0.0)
    left, basis, spread = _estimate(book, fresh)
    assert basis is Basis.HISTORY
    assert left == pytest.approx(100.0, rel=0.05)
    assert 0 < spread < 0.5
    speed = book.annotate(fresh).estimates.speed(0, (4,))
    assert speed == pytest.approx(1.1, rel=0.08)
    assert plain_speed(fresh.jobs.job(0), (4,)) > 1.7


def test_durations_of_like_jobs_stand_in_where_nothing_is_declared():
    book = ProgressBook()
    for number in range(6):
        board = a_board([over(a_job(f"j{number}", user="ann"))], now=9.0)
        board.table.set("attained", 0, 300.0)
        book = book.fold(board.snapshot(9.0))
    left, basis, _ = _estimate(book, a_snapshot(a_job("new", user="ann")))
    assert basis is Basis.HISTORY
    assert left == pytest.approx(300.0, rel=0.2)


def test_folding_leaves_the_old_book_alone_and_asking_changes_nothing():
    snapshot = a_snapshot(running(a_job("a", steps=1000), (0,)), now=20.0)
    old = _fed(_steady(10), snapshot)
    before = dict(old.tracks)
    new = old.fold(replace(snapshot, samples=(Sample(A, 20.0, 200, 0.5, 1000),)))
    assert old.tracks == before
    assert new.tracks != before
    asked = _fed(_steady(10), snapshot)
    for now in (12.0, 15.0):
        _estimate(asked, replace(snapshot, now=now))
        asked.annotate(snapshot).estimates.speed(0, (1,))
    assert _estimate(asked, snapshot) == _estimate(old, snapshot)
    assert old.fold(replace(snapshot, samples=())) == old


@pytest.mark.parametrize("policy", ["srtf", "backfill", "adaptive", "optimus", "elasticflow"])
def test_a_replay_decides_the_same_and_sees_the_same_beliefs(tmp_path, policy):
    jobs = [
        a_job(f"j{i}", roles=[a_role(replicas=1 + i % 3, min=1, max=4)], submit=10.0 * (i // 2), model=f"m{i % 2}",
              seconds=None if i % 3 == 0 else 50.0 + 7 * i, steps=500, deadline=10.0 * i + 300.0)
        for i in range(14)
    ]  # fmt: skip
    world = World(costs=Costs(start=2.0, scale=1.0, save=1.0), work=lambda job: 40.0 + 5.0 * len(job.id),
                  sharing=Sharing(neighbour_loss=0.3))  # fmt: skip
    sim = SimCluster(some_nodes(2), jobs, world)
    writer = LogWriter(tmp_path / "log", Head("sim", policy, "progress"), fresh=True)
    seen = []

    def told(snapshot):
        beliefs = snapshot.estimates.beliefs if snapshot.estimates.asked else None
        alive = np.flatnonzero(snapshot.jobs.state < State.FINISHED)
        return None if beliefs is None else [
            np.nan_to_num(np.asarray(column, float)[alive], nan=-1.0).tolist()
            for column in (beliefs.left, beliefs.at, beliefs.burning, beliefs.spread, beliefs.growth,
                           beliefs.growth_since, beliefs.basis)
        ]  # fmt: skip

    def observe(decided):
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        seen.append(told(decided.snapshot))

    run(sim, POLICIES[policy](), ProgressBook(), observe)
    writer.end(sim.now, sim.board.unfinished)
    assert not sim.board.unfinished
    replayed = []
    cluster = ReplayCluster(tmp_path / "log")
    run(cluster, POLICIES[policy](), NoEstimates(), lambda decided: replayed.append(told(decided.snapshot)))
    assert not cluster.differences
    assert replayed == seen
    assert any(seen), "the policy looked at nothing"


def test_reports_of_a_job_that_is_nowhere_are_passed_over():
    snapshot = a_snapshot(waiting(a_job("a")), now=5.0)
    assert not _fed(_steady(3), snapshot).tracks
