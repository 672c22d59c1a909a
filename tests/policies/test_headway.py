"""headway: worked examples, no flapping, and reports that are garbage or try to win something."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from headway.core.draft import Draft
from headway.core.estimates import Basis, Beliefs, Estimates
from headway.core.job import Can, JobId
from headway.core.plan import Reserve, Resize, Start, Stop
from headway.core.snapshot import Sample
from headway.cycle.loop import decide
from headway.estimates.progress import ProgressBook
from headway.policies.headway import Headway
from headway.policies.value.expected import expected
from headway.sim.cluster import Costs, Reports, SimCluster, World
from make import a_job, a_role, a_snapshot, decided, over, running, some_nodes, started, waiting
from simulated import ends_of, simulate

PLAIN = Headway()


def believed(snapshot, left, basis, spread=math.nan):
    """The same snapshot with a book that says on what its beliefs rest."""
    count = snapshot.jobs.count
    columns = Beliefs(
        np.array(left, float), np.full(count, snapshot.now), snapshot.jobs.training(), np.full(count, spread),
        np.zeros(count, np.uint8), np.full(count, math.nan), np.array([int(one) for one in basis], np.uint8),
    )  # fmt: skip
    return snapshot.with_estimates(Estimates(lambda: columns, lambda _row, _counts: 1.0))


# ── order and trials ────────────────────────────────────────────────────────────────────────────────────────


def test_the_shortest_for_its_share_starts_first():
    jobs = [a_job("long", seconds=5000.0), a_job("wide", 4, seconds=600.0), a_job("short", seconds=900.0)]
    assert started(PLAIN(a_snapshot(*jobs, nodes=some_nodes(1, gpus=1)))) == ["short"]
    assert started(PLAIN(a_snapshot(*jobs, nodes=some_nodes(1, gpus=4))))[0] == "short"
    narrow = replace(PLAIN, width_weight=0.0)
    assert started(narrow(a_snapshot(*jobs, nodes=some_nodes(1, gpus=4)))) == ["wide"]


def test_a_new_job_is_tried_before_one_that_is_known_to_be_long():
    snapshot = a_snapshot(a_job("known"), a_job("new"), nodes=some_nodes(1, gpus=1), now=10.0)
    found = believed(snapshot, [9000.0, 9000.0], [Basis.STEPS, Basis.HISTORY], spread=2.0)
    assert started(PLAIN(found)) == ["new"]
    alike = believed(snapshot, [9000.0, 9500.0], [Basis.STEPS, Basis.HISTORY], spread=0.05)
    assert started(PLAIN(alike)) == ["known"], "where like jobs are all alike there is nothing to try"


def test_nobody_is_stopped_during_his_trial_and_the_plan_looks_again():
    entries = (running(a_job("new"), (0,), since=0.0, touched=-100.0), a_job("short"))
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=1), now=30.0)
    plan = PLAIN(believed(snapshot, [9000.0, 50.0], [Basis.HISTORY, Basis.STEPS], spread=1.0))
    assert not plan.decisions
    assert plan.until == pytest.approx(60.0, abs=0.1)
    late = a_snapshot(*entries, nodes=some_nodes(1, gpus=1), now=130.0)
    assert decided(PLAIN(believed(late, [9000.0, 50.0], [Basis.HISTORY, Basis.STEPS], spread=1.0))) == {"new": "stop"}


def test_trials_have_a_bounded_share():
    entries = [running(a_job(f"r{i}"), (0,), touched=0.0, since=0.0) for i in range(4)]
    new = [a_job(f"n{i}") for i in range(4)]
    snapshot = a_snapshot(*entries, *new, nodes=some_nodes(1, gpus=4), now=500.0)
    found = believed(snapshot, [3000.0] * 4 + [4000.0] * 4, [Basis.STEPS] * 4 + [Basis.HISTORY] * 4, spread=2.5)
    stops = [one for one in PLAIN(found).decisions if isinstance(one, Stop)]
    assert len(stops) == 2, "half the cluster"
    assert not replace(PLAIN, trial_share=0.0)(found).decisions


def test_a_stop_must_gain_more_than_it_costs():
    def plan(left, short):
        entries = (running(a_job("up"), (0,), since=0.0, touched=0.0), a_job("next"))
        snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=1), now=500.0)
        return decided(PLAIN(believed(snapshot, [left, short], [Basis.STEPS, Basis.STEPS])))

    assert plan(1000.0, 100.0) == {"up": "stop"}
    assert plan(1000.0, 900.0) == {}, "within the margin"
    assert plan(70.0, 5.0) == {}, "a restart costs more"


def test_just_started_jobs_are_left_alone():
    entries = (running(a_job("up", seconds=1000.0), (0,), since=480.0, touched=470.0), a_job("next", seconds=10.0))
    plan = PLAIN(a_snapshot(*entries, nodes=some_nodes(1, gpus=1), now=500.0))
    assert not plan.decisions
    assert plan.until == pytest.approx(530.0, abs=0.1)


# ── who comes before ────────────────────────────────────────────────────────────────────────────────────────


def test_the_administrators_word_comes_first():
    jobs = (a_job("short", user="bob", seconds=10.0), a_job("long", user="ann", seconds=90_000.0))
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=1))
    assert started(PLAIN(snapshot)) == ["short"]
    assert started(replace(PLAIN, user_priority=(("ann", 8.0), ("bob", 2.0)))(snapshot)) == ["long"]
    urgent = a_snapshot(jobs[0], replace(jobs[1], priority=5), nodes=some_nodes(1, gpus=1))
    assert started(PLAIN(urgent)) == ["long"]
    up = a_snapshot(running(jobs[0], (0,), since=0.0, touched=0.0), replace(jobs[1], priority=5),
                    nodes=some_nodes(1, gpus=1), now=100.0)  # fmt: skip
    assert decided(PLAIN(replace(up))) in ({"short": "stop"}, {}), "the short one may be over by then"


def test_who_would_be_latest_has_a_share():
    short = [a_job(f"s{i}", seconds=100.0, submit=19_000.0) for i in range(9)]
    old = a_job("old", seconds=30_000.0)
    nodes = some_nodes(1, gpus=8)
    snapshot = a_snapshot(waiting(old), *short, nodes=nodes, now=20_000.0)
    assert "old" in started(PLAIN(snapshot))
    assert "old" not in started(replace(PLAIN, tail_share=0.0)(snapshot))
    early = a_snapshot(waiting(replace(old, submit=19_990.0)), *short, nodes=nodes, now=20_000.0)
    assert "old" not in started(PLAIN(early)), "it has not waited for as long as it would hold up the others"


def test_the_latest_are_not_stopped_but_for_a_wide_and_short_job():
    entries = [running(a_job(f"r{n}"), (0,), since=0.0, touched=0.0) for n in range(16)]
    left = [90_000.0, *([3000.0] * 15)]
    nodes = some_nodes(1, gpus=16)

    def stops(*others, most):
        snapshot = a_snapshot(*entries, *others, nodes=nodes, now=1000.0)
        known = [*left, *([most] * len(others))]
        return {job for job, what in decided(PLAIN(believed(snapshot, known, [Basis.STEPS] * len(known)))).items()
                if what == "stop"}  # fmt: skip

    narrow = [a_job(f"n{n}", submit=990.0) for n in range(16)]
    assert len(stops(*narrow, most=100.0)) == 15
    assert "r0" not in stops(*narrow, most=100.0)
    assert "r0" in stops(a_job("wide", 16, submit=990.0), most=100.0)


def test_a_deadline_at_risk_comes_before_a_shorter_job():
    jobs = (a_job("short", seconds=500.0), a_job("due", seconds=1000.0, deadline=1200.0))
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=1))
    assert started(PLAIN(snapshot)) == ["due"]
    assert started(replace(PLAIN, deadline_share=0.0)(snapshot)) == ["short"]
    for deadline in (900.0, 9000.0):  # hopeless, and with time to spare
        other = a_snapshot(jobs[0], replace(jobs[1], deadline=deadline), nodes=some_nodes(1, gpus=1))
        assert started(PLAIN(other)) == ["short"]


def test_where_nobody_may_be_stopped_who_waited_long_reserves():
    fixed = Can.everything() & ~Can.STOP
    entries = [running(a_job(f"r{i}", seconds=5000.0, can=fixed), (0,), since=0.0) for i in range(3)]
    wide, small = (
        a_job("wide", 4, seconds=100.0, can=fixed),
        a_job("small", seconds=90_000.0, submit=19_000.0, can=fixed),
    )
    plan = PLAIN(a_snapshot(*entries, wide, small, nodes=some_nodes(1, gpus=4), now=20_000.0))
    assert [type(one) for one in plan.decisions] == [Reserve], "the small one would hold it up"


# ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_running_jobs_grow_when_nobody_waits_and_shrink_for_a_newcomer():
    job = a_job("a", 2, min=1, max=4, seconds=5000.0)
    nodes = some_nodes(1, gpus=4)
    alone = a_snapshot(running(job, (0, 0), since=0.0, touched=0.0), nodes=nodes, now=500.0)
    assert decided(PLAIN(alone)) == {"a": "scale"}
    assert decided(replace(PLAIN, scaling=False)(alone)) == {}
    full = running(job, (0, 0, 0, 0), since=0.0, touched=0.0)
    crowded = a_snapshot(full, a_job("b", 2, min=1, max=4, seconds=300.0), nodes=nodes, now=500.0)
    assert decided(PLAIN(crowded)) == {"a": "scale"}, "nobody is stopped where shrinking will do"


def test_idle_cpu_is_lent_and_taken_back_when_somebody_waits():
    job = a_job("a", roles=[a_role(cpu=1, limit=(("cpu", 4000),))], seconds=5000.0)
    nodes = some_nodes(1, gpus=0, cpu=4)
    alone = a_snapshot(running(job, (0,), since=0.0, touched=0.0), nodes=nodes, now=500.0)
    assert PLAIN(alone).decisions == (Resize(JobId("a"), "worker", 4000, 1),)
    assert not PLAIN(replace(alone, now=30.0)).decisions, "it is left alone at first"
    grown = running(job, (0,), requests=((4000,),), since=0.0, touched=0.0)
    crowded = a_snapshot(grown, a_job("b", roles=[a_role(cpu=2)], seconds=9000.0), nodes=nodes, now=500.0)
    assert PLAIN(crowded).decisions == (Resize(JobId("a"), "worker", 1000, 1),)


# ── whole runs ──────────────────────────────────────────────────────────────────────────────────────────────


def _workload(seed, count=60, **more):
    chance = random.Random(seed)
    return [
        a_job(f"j{i}", chance.choice([1, 1, 1, 2, 4]), submit=chance.uniform(0, 20_000.0),
              seconds=chance.lognormvariate(6.5, 1.5), **more)
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_flapping(seed):
    """Stops are for somebody's good: few, never twice in a row within the cool-down, and each job ends."""
    jobs = sorted(_workload(seed), key=lambda job: job.submit)
    world = World(samples=False, costs=Costs(start=10.0, save=5.0))
    cycles = simulate(jobs, some_nodes(2), PLAIN, cluster=SimCluster(some_nodes(2), jobs, world))
    starts: dict[JobId, list[float]] = {}
    stops = 0
    for cycle in cycles:
        for one in cycle.plan.decisions:
            if isinstance(one, Start):
                starts.setdefault(one.job, []).append(cycle.snapshot.now)
            if isinstance(one, Stop):
                stops += 1
                assert cycle.snapshot.now - starts[one.job][-1] >= PLAIN.cool_down
    assert len(ends_of(cycles)) == len(jobs)
    assert stops <= len(jobs)
    assert max(len(times) for times in starts.values()) <= 12


def _progress_run(jobs, work, spoil=lambda sample: sample):
    """Completion times by job with reports, which may be spoiled on their way; and the bases that were believed."""
    world = World(costs=Costs(start=10.0, save=5.0), work=work, reports=Reports(seconds=30.0))
    nodes = some_nodes(1)
    cluster, book, ends, bases = SimCluster(nodes, jobs, world), ProgressBook(), {}, set()
    while (snapshot := cluster.next_snapshot()) is not None:
        snapshot = replace(snapshot, samples=tuple(filter(None, map(spoil, snapshot.samples))))
        book = book.fold(snapshot)
        found = decide(PLAIN, book.annotate(snapshot))
        assert not found.refusals
        alive = snapshot.jobs.state < 7
        bases |= set(book.annotate(snapshot).estimates.beliefs.basis[alive].tolist())
        for row in snapshot.changed:
            if snapshot.jobs.state[row] == 7:
                ends[snapshot.jobs.job(row).id] = snapshot.now - snapshot.jobs.job(row).submit
        cluster.apply(found.plan)
    return ends, bases


SPOILED = {
    "not a number": (Basis.HISTORY, lambda one: replace(one, at=math.nan, loss=math.nan)),
    "backwards": (Basis.BACKWARDS, lambda one: replace(one, step=max(0, 1_000_000 - one.step))),
    "clock jumps": (Basis.CLOCK, lambda one: replace(one, at=one.at + (1e6 if int(one.at) % 2 else -1e6))),
    "no report at all": (Basis.HISTORY, lambda _one: None),
}


@pytest.mark.parametrize("name", list(SPOILED))
def test_garbage_is_as_if_nobody_reported_and_it_is_said(name):
    jobs = sorted((replace(job, seconds=None, steps=1_000_000) for job in _workload(5, 40)), key=lambda job: job.submit)
    lengths = {job.id: random.Random(job.id).lognormvariate(6.0, 1.2) for job in jobs}
    basis, spoil = SPOILED[name]
    spoiled, bases = _progress_run(jobs, lambda job: lengths[job.id], spoil)
    honest, _ = _progress_run(jobs, lambda job: lengths[job.id])
    assert len(spoiled) == len(honest) == len(jobs)
    assert int(basis) in bases
    assert np.mean(list(spoiled.values())) < 4 * np.mean(list(honest.values()))


def test_who_claims_to_be_nearly_done_wins_little():
    """A long job that always claims to be at its last step is found out, and treated as one that does not report."""
    jobs = [a_job("liar", steps=1_000_000), *(a_job(f"j{i}", steps=1_000_000, submit=60.0 * i) for i in range(20))]

    def lie(sample: Sample) -> Sample:
        if sample.job != "liar":
            return sample
        step = 999_000 + int(sample.at) % 7 * 100
        return replace(sample, step=step, total_steps=1_000_000)

    def work(job):
        return 30_000.0 if job.id == "liar" else 2_000.0

    lying, bases = _progress_run(jobs, work, lie)
    honest, _ = _progress_run(jobs, work)
    assert bases & {int(Basis.BACKWARDS), int(Basis.ERRATIC), int(Basis.OVERRUN)}
    others = [one for one in honest if one != "liar"]
    assert np.mean([lying[one] for one in others]) < 1.2 * np.mean([honest[one] for one in others])


def test_a_job_that_is_not_believed_ranks_as_one_that_never_reported():
    snapshot = a_snapshot(a_job("a"), a_job("known"), nodes=some_nodes(1, gpus=1), now=10.0)
    for left in (math.nan, 900.0):
        odd, silent = (
            expected(believed(snapshot, [left, 100.0], [basis, Basis.STEPS]), np.arange(2), 60.0)
            for basis in (Basis.ERRATIC, Basis.HISTORY)
        )
        assert (odd.odd.tolist(), silent.odd.tolist()) == ([True, False], [False, False])
        assert odd.shown.tolist() == silent.shown.tolist() == [False, True]
        assert odd.seconds.tolist() == silent.seconds.tolist()


def test_without_estimates_who_had_least_comes_first():
    entries = (waiting(a_job("had"), attained=5000.0), waiting(a_job("new"), attained=100.0))
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=1), now=6000.0)
    assert started(PLAIN(snapshot.with_estimates(Estimates()))) == ["new"]


def test_ranks_leave_the_draft_alone():
    snapshot = a_snapshot(a_job("a", seconds=10.0), a_job("b", seconds=20.0))
    draft = Draft(snapshot)
    rank = PLAIN.ranks(draft)
    assert rank[0] < rank[1]
    assert not draft.plan().decisions


# ── what it explains ────────────────────────────────────────────────────────────────────────────────────────


def test_it_explains_what_is_expected_and_what_comes_before():
    snapshot = a_snapshot(a_job("long", seconds=5000.0), a_job("short", seconds=60.0), nodes=some_nodes(1, gpus=1))
    long_, short = PLAIN.explain(snapshot, 0), PLAIN.explain(snapshot, 1)
    assert long_["expected"]["seconds"] == 5000.0
    assert long_["expected"]["sentence"].startswith("1 h 23 min of training left at the size it asked for: as the user")
    assert (short["order"]["before"], long_["order"]["before"]) == (0, 1)
    assert long_["order"]["sentence"] == "1 job comes before it (1 waiting), of 2 unfinished ones."
    assert "size" not in long_, "it is not elastic"
    alike = a_snapshot(a_job("a", seconds=60.0), a_job("b", seconds=60.0), nodes=some_nodes(1, gpus=1))
    assert [PLAIN.explain(alike, row)["order"]["before"] for row in (0, 1)] == [0, 1], "of two alike the first"


def test_it_tells_what_is_believed_and_not_by_what_it_ranks():
    """Like jobs took 4.5 s. That a try of a new job costs up to 120 s is the policy's own affair."""
    snapshot = a_snapshot(a_job("new"), a_job("odd"), a_job("unknown"), nodes=some_nodes(1, gpus=1))
    snapshot = believed(snapshot, [4.5, 900.0, math.nan], [Basis.HISTORY, Basis.ERRATIC, Basis.NOTHING], 0.3)
    new, odd, unknown = (PLAIN.explain(snapshot, row)["expected"] for row in range(3))
    assert new == {
        "seconds": 4.5,
        "sentence": "4 s of training left at the size it asked for: as long as like jobs took.",
    }
    assert "15 min" in odd["sentence"]
    assert "not believed" in odd["sentence"]
    assert unknown["seconds"] is None
    assert unknown["sentence"].startswith("It is not known how long it trains: no time was declared")
    up = believed(a_snapshot(running(a_job("up"), (0,)), nodes=some_nodes(1, gpus=1)), [60.0], [Basis.STEPS])
    assert "60 s of training left at its present size: steps left" in PLAIN.explain(up, 0)["expected"]["sentence"]
    nothing = a_snapshot(a_job("a"), nodes=some_nodes(1, gpus=1)).with_estimates(Estimates())
    assert PLAIN.explain(nothing, 0)["expected"]["sentence"].startswith("It is not known how long it trains: there are")


def test_it_explains_trials_the_tail_and_deadlines():
    entries = (running(a_job("new"), (0,), since=0.0, touched=-100.0), a_job("short"))
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=1), now=30.0)
    tried = believed(snapshot, [9000.0, 50.0], [Basis.HISTORY, Basis.STEPS], spread=1.0)
    assert "in its trial" in PLAIN.explain(tried, 0)["order"]["sentence"]
    risky = a_snapshot(a_job("a", seconds=100.0, deadline=160.0), nodes=some_nodes(1, gpus=1))
    assert "can still be met" in PLAIN.explain(risky, 0)["deadline"]
    old = [waiting(a_job("old", seconds=90_000.0, submit=0.0), since=0.0)]
    others = [a_job(f"j{i}", seconds=60.0, submit=99_990.0) for i in range(20)]
    late = a_snapshot(*old, *others, nodes=some_nodes(4, gpus=4), now=100_000.0)
    assert "in the tail" in PLAIN.explain(late, 0)["tail"]
    assert "tail" not in PLAIN.explain(late, 1)


def test_it_explains_sizes_and_moves_where_they_apply():
    elastic = a_job("a", 2, min=1, max=4)
    snapshot = a_snapshot(running(elastic, [0, 0], touched=0.0), nodes=some_nodes(1, gpus=4), now=100.0, left={})
    assert "keeps its size" in PLAIN.explain(snapshot, 0)["size"]
    assert "size" not in replace(PLAIN, scaling=False).explain(snapshot, 0)
    assert "move" not in PLAIN.explain(snapshot, 0), "nothing is measured"
    measured = replace(snapshot, used_cpu={0: 1.0})
    assert PLAIN.explain(measured, 0)["move"].startswith("stays: ")
    done = a_snapshot(over(a_job("a")))
    assert PLAIN.explain(done, 0) == {}
