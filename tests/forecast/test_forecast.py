"""Forecasts: the middle is what a simulation says, the range is what is not known, and nothing touches the run."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from headway.core.estimates import Basis, Beliefs, Estimates, OnTypes
from headway.core.job import JobId
from headway.core.node import Nodes
from headway.core.plan import Plan
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.estimates.plain_books import DeclaredBook
from headway.estimates.progress import ProgressBook
from headway.forecast.ahead import draw
from headway.forecast.eta import DRAWS, FIRST_DRAWS, Background, forecast
from headway.forecast.present import UNKNOWN_SECONDS, Present, TimeLeft
from headway.policies.baselines.fifo import first_fit
from headway.policies.registry import POLICIES
from headway.sim.world import Costs
from make import a_job, a_node, a_snapshot, flying, over, running, some_nodes, waiting

ONE = some_nodes(1, gpus=1)


def believed(snapshot, left, basis, spread=0.05):
    count = snapshot.jobs.count
    columns = Beliefs(
        np.array(left, float), np.full(count, snapshot.now), snapshot.jobs.training(), np.full(count, spread),
        np.zeros(count, np.uint8), np.full(count, math.nan), np.array([int(one) for one in basis], np.uint8),
    )  # fmt: skip
    return snapshot.with_estimates(Estimates(lambda: columns, lambda _row, _counts: 1.0))


def test_who_runs_ends_and_who_waits_starts_then():
    jobs = (running(a_job("up"), [0], since=0.0), waiting(a_job("next")), waiting(a_job("last")))
    snapshot = a_snapshot(*jobs, nodes=ONE, now=100.0)
    snapshot = believed(snapshot, [50.0, 200.0, 30.0], [Basis.STEPS, Basis.DECLARED, Basis.DECLARED])
    found = forecast(Present.of(snapshot, costs=Costs(start=10.0)), POLICIES["fifo"](), draws=30, budget=60.0)
    up, second, last = (found.jobs[JobId(name)] for name in ("up", "next", "last"))
    assert (found.draws, up.starts) == (30, None)
    assert up.done.mid == pytest.approx(150.0, rel=0.03)
    assert second.starts is not None
    assert second.starts.mid == pytest.approx(up.done.mid + 10.0, abs=1.0)
    assert last.done.mid == pytest.approx(400.0, rel=0.2)
    assert found.all_done == last.done
    for eta in (up, second, last):
        assert eta.done.low < eta.done.mid < eta.done.high
    assert up.done.high - up.done.low < second.done.high - second.done.low, "reports tell more than a declaration"
    single = forecast(Present.of(snapshot), POLICIES["fifo"](), draws=0)
    assert (single.draws, single.jobs[JobId("up")].done) == (1, (150.0, 150.0, 150.0))


def test_the_order_is_the_policys():
    snapshot = DeclaredBook().annotate(a_snapshot(a_job("long", seconds=900.0), a_job("short", seconds=9.0), nodes=ONE))
    ends = {name: forecast(Present.of(snapshot), POLICIES[name](), draws=0).jobs for name in ("fifo", "srtf")}
    assert ends["fifo"][JobId("short")].done.mid == pytest.approx(909.0)
    assert ends["srtf"][JobId("short")].done.mid == pytest.approx(9.0)


def test_a_job_of_which_nothing_is_known_comes_where_the_policy_puts_it():
    """`headway` takes it to be short. A forecast that gave it a length of its own would put it behind."""
    jobs = (running(a_job("up", seconds=100.0), [0]), a_job("declared", seconds=300.0), a_job("unknown"))
    snapshot = ProgressBook().annotate(a_snapshot(*jobs, nodes=ONE))
    ended = (over(a_job("up", seconds=100.0)), *jobs[1:])
    next_one = POLICIES["headway"]()(ProgressBook().annotate(a_snapshot(*ended, nodes=ONE, now=100.0)))
    assert [decision.job for decision in next_one.decisions] == ["unknown"]
    found = forecast(Present.of(snapshot), POLICIES["headway"](), draws=0).jobs
    first, second = (found[JobId(name)].starts for name in ("unknown", "declared"))
    assert first is not None
    assert second is not None
    assert first.mid == pytest.approx(100.0)
    assert second.mid > first.mid


def test_types_of_accelerators_are_foreseen_as_they_are_believed():
    nodes = Nodes.of([a_node("slow", gpus=1, accelerator="k80"), a_node("fast", gpus=1, accelerator="v100")])
    jobs = [a_job(name, seconds=1000.0) for name in ("a", "b")]
    snapshot = ProgressBook().annotate(a_snapshot(*jobs, nodes=nodes))
    slower = snapshot.estimates.on_types([0])[0].seconds[0]
    present = Present.of(snapshot)
    ends = {
        name: sorted(eta.done.mid for eta in forecast(present, POLICIES[name](), draws=0).jobs.values())
        for name in ("fifo", "headway")
    }
    assert ends["fifo"] == pytest.approx([1000.0, 1000.0 * slower], rel=0.01)
    assert ends["headway"] == pytest.approx([1000.0, 2000.0 - 1000.0 / slower], rel=0.01)


def test_a_job_that_runs_is_foreseen_to_go_on_where_it_is_and_one_that_comes_gains_like_others():
    nodes = Nodes.of([a_node("slow", gpus=1, accelerator="k80"), a_node("fast", gpus=1, accelerator="v100")])
    held = running(a_job("up", seconds=1000.0), [0], since=0.0)
    plain = a_snapshot(held, nodes=nodes)
    snapshot = believed(plain, [1000.0], [Basis.STEPS])
    snapshot.estimates.with_types(lambda rows: [OnTypes((1.0, 0.25), (True, False)) for _ in rows])
    later = [a_job("p", submit=10.0, seconds=100.0), a_job("q", submit=1100.0, seconds=100.0)]
    found = forecast(Present.of(snapshot, later), POLICIES["first-fit"](), draws=0).jobs
    assert found[JobId("up")].done.mid == pytest.approx(1000.0, rel=0.03)
    assert found[JobId("p")].done.mid == pytest.approx(110.0, rel=0.03)
    assert found[JobId("q")].done.mid == pytest.approx(1500.0, rel=0.03)


def test_a_job_that_never_fits_is_not_foreseen_and_holds_up_nothing():
    snapshot = DeclaredBook().annotate(a_snapshot(a_job("giant", 8, seconds=9.0), a_job("a", seconds=9.0), nodes=ONE))
    found = forecast(Present.of(snapshot), POLICIES["first-fit"](), draws=5)
    assert math.isinf(found.jobs[JobId("giant")].done.mid)
    assert found.jobs[JobId("a")].done.high < 60.0


def test_what_is_under_way_ends_when_it_usually_does_not_when_it_is_given_up():
    job = a_job("a", seconds=100.0)
    entry = flying(job, State.STARTING, towards=running(job, [0]).placement, since=95.0)
    snapshot = DeclaredBook().annotate(a_snapshot(entry, nodes=ONE, now=100.0))
    found = forecast(Present.of(snapshot, costs=Costs(start=10.0)), POLICIES["fifo"](), draws=0)
    assert found.jobs[JobId("a")].done.mid == pytest.approx(205.0)


def test_jobs_that_come_later_are_told_too():
    snapshot = DeclaredBook().annotate(a_snapshot(a_job("a", seconds=50.0), nodes=ONE))
    present = Present.of(snapshot, [a_job("later", seconds=10.0, submit=500.0)])
    eta = forecast(present, POLICIES["fifo"](), draws=0).jobs[JobId("later")]
    assert (eta.starts, eta.done) == ((500.0,) * 3, (510.0,) * 3)


def ended(name, took, **more):
    return replace(over(a_job(name, **more)), columns={"attained": took})


def test_unknown_jobs_take_as_long_as_those_before_however_few():
    """Four of 4.5 s are done, and the book needs five to believe anything."""
    entries = [*(ended(f"d{i}", 4.5) for i in range(4)), waiting(a_job("new"))]
    left = TimeLeft.of(ProgressBook().annotate(a_snapshot(*entries, nodes=ONE, now=30.0)))
    assert left.median[4] == pytest.approx(4.5)
    assert left.off[4] < 0.5
    alone = TimeLeft.of(ProgressBook().annotate(a_snapshot(a_job("new"), nodes=ONE)))
    assert alone.median[0] == UNKNOWN_SECONDS
    assert alone.off[0] > 1.0


def test_declared_times_are_taken_as_they_have_proved():
    good = [ended(f"d{i}", 100.0, seconds=100.0) for i in range(20)]
    bad = [ended(f"d{i}", 300.0 if i % 2 else 150.0, seconds=100.0) for i in range(20)]
    found = [
        TimeLeft.of(DeclaredBook().annotate(a_snapshot(*entries, waiting(a_job("new", seconds=100.0)), nodes=ONE)))
        for entries in (good, bad)
    ]
    assert found[0].median[-1] == pytest.approx(100.0, rel=0.01)
    assert found[0].off[-1] < 0.2
    assert 150.0 < found[1].median[-1] < 250.0
    assert found[1].off[-1] > 0.6


def test_early_in_a_run_the_long_ones_have_not_finished_yet():
    """Like jobs took 10 s, say those that have finished. Those that run show that they take 1,000."""
    entries = [*(ended(f"d{i}", 10.0) for i in range(3)),
               *(running(a_job(f"r{i}"), [0], since=0.0) for i in range(4)), waiting(a_job("new"))]  # fmt: skip
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=4), now=100.0)
    bases = [*[Basis.NOTHING] * 3, *[Basis.STEPS] * 4, Basis.HISTORY]
    left = TimeLeft.of(believed(snapshot, [0.0] * 3 + [900.0] * 4 + [10.0], bases))
    assert left.median[-1] == pytest.approx(1000.0)
    assert left.off[-1] > 1.0


def test_arrivals_are_like_those_seen_and_hold_up_who_waits():
    jobs = [waiting(a_job(f"j{i}", submit=10.0 * i, seconds=30.0)) for i in range(12)]
    present = Present.of(DeclaredBook().annotate(a_snapshot(*jobs, nodes=ONE, now=120.0)))
    futures = [draw(present, np.random.default_rng(seed)).coming for seed in range(60)]
    gaps = np.concatenate([np.diff([job.submit for job in coming]) for coming in futures if len(coming) > 1])
    assert 5.0 < gaps.mean() < 20.0
    assert all(job.submit > 120.0 and job.seconds == 30.0 for coming in futures for job in coming)
    longer = sum(bool(coming) and coming[-1].submit > 230.0 for coming in futures)
    assert 20 <= longer <= 40, "in half of the futures they come for longer than until now"
    at_once = [waiting(a_job(f"j{i}", seconds=30.0)) for i in range(12)]
    still = Present.of(DeclaredBook().annotate(a_snapshot(*at_once, nodes=ONE, now=120.0)))
    assert not draw(still, np.random.default_rng(0)).coming, "all came at once: nothing says that more come"


def test_arrivals_come_in_bursts_where_they_did():
    jobs = [waiting(a_job(f"j{i}", submit=100.0 * (i // 4) + i % 4, seconds=30.0)) for i in range(24)]
    present = Present.of(DeclaredBook().annotate(a_snapshot(*jobs, nodes=ONE, now=600.0)))
    futures = [draw(present, np.random.default_rng(seed)).coming for seed in range(40)]
    gaps = np.concatenate([np.diff([job.submit for job in coming]) for coming in futures if len(coming) > 1])
    assert (gaps < 3.0).mean() > 0.6
    assert (gaps > 40.0).mean() > 0.1


def test_a_policy_that_fails_is_stood_in_for():
    def broken(_snapshot):
        raise ZeroDivisionError

    present = Present.of(DeclaredBook().annotate(a_snapshot(a_job("a", seconds=50.0), nodes=ONE)))
    found = forecast(present, broken, safe=POLICIES["first-fit"](), draws=0)
    assert found.jobs[JobId("a")].done.mid == pytest.approx(50.0)


class Paced(Background):
    EVERY = 0.3


def _slow(seconds: float) -> Policy:
    """Each decision takes so long."""

    def policy(snapshot: Snapshot) -> Plan:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        return first_fit(snapshot)

    return policy


def _looked(background: Background, present: Present) -> float:
    """Looks ahead, and returns how long the caller waited for that."""
    began, before = time.thread_time(), background.newest
    background.look(lambda: present)
    waited, until = time.thread_time() - began, time.monotonic() + 60.0
    while background.newest is before and time.monotonic() < until:
        time.sleep(0.01)
    assert background.newest is not before
    assert background._thread is not None
    background._thread.join()
    return waited


def test_the_background_never_waits_and_stays_within_its_share():
    """Eight futures of two decisions and more take half a second; the next look may come after twenty times that."""
    present = Present.of(DeclaredBook().annotate(a_snapshot(a_job("a", seconds=50.0), nodes=ONE)))
    background = Paced(lambda: _slow(0.03))
    assert _looked(background, present) < 0.1
    assert background.newest is not None
    assert background.newest.jobs[JobId("a")].done.low > 0.0
    pause = background._next - time.monotonic()
    assert pause > 0.4 / Background.SHARE
    assert not background.due
    background.look(lambda: pytest.fail("it is not due, so nothing is asked"))


def test_the_background_has_its_ranges_also_where_others_have_the_processor(monkeypatch):
    """A decision takes long by the clock, and hardly any time of the processor."""
    present = Present.of(DeclaredBook().annotate(a_snapshot(a_job("a", seconds=50.0), nodes=ONE)))

    def policy(snapshot: Snapshot) -> Plan:
        time.sleep(0.03)
        return first_fit(snapshot)

    background = Background(lambda: policy)
    monkeypatch.setattr(background, "BUDGET", 0.3)
    _looked(background, present)
    assert background.newest is not None
    assert background.newest.draws == FIRST_DRAWS


def test_the_background_looks_again_after_a_pause_however_little_it_takes():
    present = Present.of(DeclaredBook().annotate(a_snapshot(a_job("a", seconds=50.0), nodes=ONE)))
    background = Paced(POLICIES["fifo"])
    background.SHARE = math.inf
    _looked(background, present)
    ended = time.monotonic()
    assert 0.0 < background._next - ended <= Paced.EVERY
    time.sleep(max(0.0, background._next - time.monotonic()))
    assert background.due
    assert background.newest is not None
    first = background.newest.draws
    _looked(background, present)
    assert (first, background.newest.draws) == (FIRST_DRAWS, DRAWS)


def test_where_no_thread_can_be_had_the_background_tries_again_later(monkeypatch):
    """The machine may have too many; whoever decides goes on."""
    present = Present.of(DeclaredBook().annotate(a_snapshot(a_job("a", seconds=50.0), nodes=ONE)))
    background = Paced(POLICIES["fifo"])

    def refused(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as here:
        here.setattr(threading.Thread, "start", refused)
        background.look(lambda: present)
    assert background.newest is None
    assert 0.0 < background.due_in <= Paced.EVERY
    time.sleep(background.due_in)
    _looked(background, present)


def test_nothing_is_written_to_the_snapshot_that_is_foreseen():
    board_jobs = [a_job(f"j{i}", seconds=10.0 + i) for i in range(5)]
    snapshot = DeclaredBook().annotate(a_snapshot(*board_jobs, nodes=some_nodes(1, gpus=2)))
    before = (snapshot.jobs.state.tolist(), snapshot.free.tolist())
    forecast(Present.of(snapshot), POLICIES["headway"](), draws=3)
    assert (snapshot.jobs.state.tolist(), snapshot.free.tolist()) == before


@pytest.mark.parametrize("policy", ["headway", "fifo"])
def test_a_thousand_jobs_take_seconds(policy):
    """The aim is two seconds of processor time, by `bench/eta.py --cost`; here only that it is not far off."""
    nodes = [a_node(f"n{i}", gpus=8) for i in range(8)]
    jobs = [a_job(f"j{i}", 1 + i % 3, seconds=100.0 + 7 * (i % 90)) for i in range(1000)]
    snapshot = DeclaredBook().annotate(a_snapshot(*jobs, nodes=type(ONE).of(nodes)))
    began = time.process_time()
    found = forecast(Present.of(snapshot), POLICIES[policy](), draws=0)
    assert time.process_time() - began < 8.0
    assert len(found.jobs) == 1000
