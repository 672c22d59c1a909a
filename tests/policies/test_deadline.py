"""Deadlines: least sizes, slack order, hopeless last, the answer before a job runs, and no flapping."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.estimates import Beliefs, Estimates
from headway.core.plan import Scale, Start, Stop
from headway.policies.deadline import Deadline
from headway.policies.value.deadlines import Calendar, DeadlineNeed, most_in_time, needs
from headway.policies.value.in_time import Verdict, in_time
from headway.sim.cluster import Costs, SimCluster, World
from make import a_job, a_snapshot, decided, running, some_nodes, started
from simulated import ends_of, simulate

FREE = Deadline(restart=0.0, margin=0.0, cool_down=0.0)


def linear(job, counts):
    """As fast as it has workers, relative to what it asked for."""
    return counts[0] / job.roles[0].replicas


def a_need(row=0, work=100.0, deadline=100.0, sizes=(1, 2, 4), capacity=4, **more):
    given_ = {"spread": 0.0, "delay": 0.0} | more
    return DeadlineNeed(
        row, [(size,) for size in sizes], np.array(sizes) / capacity, np.array(sizes, float), work, deadline=deadline,
        **given_,
    )  # fmt: skip


def test_the_least_satisfactory_size_is_the_smallest_that_is_in_time():
    need = a_need(work=100.0)
    assert [need.least(seconds) for seconds in (20.0, 25.0, 49.0, 50.0, 100.0)] == [None, 2, 2, 1, 0]


def test_the_chance_follows_the_spread():
    assert a_need(work=100.0, sizes=(1,)).chance(99.0) == 0.0
    assert a_need(work=100.0, sizes=(1,), spread=0.1).chance(100.0) == pytest.approx(0.5)
    assert a_need(work=100.0, sizes=(1,), spread=0.1).chance(80.0) == pytest.approx(0.0228, abs=1e-3)


def test_sizes_that_are_no_faster_are_no_sizes():
    """More workers than four slow this job down."""
    snapshot = a_snapshot(
        a_job("a", 2, least=1, most=8, seconds=10.0), nodes=some_nodes(2, gpus=4),
        speed=lambda _, counts: min(counts[0], 8 - counts[0]) / 2,
    )  # fmt: skip
    assert needs(snapshot, [0], 0.0)[0].counts == [(1,), (2,), (3,), (4,)]


def test_a_job_gets_the_least_size_that_is_in_time():
    snapshot = a_snapshot(
        a_job("a", 1, least=1, most=4, seconds=100.0, deadline=55.0),
        a_job("b", 1, least=1, most=4, seconds=100.0, deadline=500.0),
        nodes=some_nodes(1, gpus=4), speed=linear,
    )  # fmt: skip
    sizes = {decision.job: decision.placement.counts for decision in FREE(snapshot).decisions}
    assert sizes["a"] == (2,)
    assert sizes["b"] == (1,)


def test_least_slack_first_and_hopeless_last():
    jobs = [
        a_job("hopeless", seconds=100.0, deadline=50.0),
        a_job("loose", seconds=100.0, deadline=1000.0),
        a_job("none", seconds=10.0),
        a_job("tight", seconds=100.0, deadline=120.0),
    ]
    ends = ends_of(simulate(jobs, some_nodes(1, gpus=1), FREE))
    assert sorted(ends, key=ends.__getitem__) == ["tight", "loose", "none", "hopeless"]


def test_as_many_as_can_be_are_in_time_and_the_largest_is_left_out():
    """Earliest deadline first would serve the large one and be late with three."""
    jobs = [a_job("large", seconds=90.0, deadline=100.0)]
    jobs += [a_job(f"small{i}", seconds=30.0, deadline=101.0) for i in range(3)]
    ends = ends_of(simulate(jobs, some_nodes(1, gpus=1), Deadline(restart=0.0, margin=0.0, packing=1.0)))
    assert {name for name, end in ends.items() if end <= 101.0} == {"small0", "small1", "small2"}
    assert ends["large"] == 180.0


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), max_size=7))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_choosing_is_optimal_on_one_machine(pairs):
    found = [a_need(row, float(work), float(due), sizes=(1,), capacity=1) for row, (work, due) in enumerate(pairs)]
    hopeful = [need for need in found if need.least(need.deadline) is not None]

    def possible(jobs):
        ordered = sorted(jobs, key=lambda need: need.deadline)
        ends = itertools.accumulate(need.work for need in ordered)
        return all(end <= need.deadline for end, need in zip(ends, ordered, strict=True))

    best = max(len(s) for n in range(len(hopeful) + 1) for s in itertools.combinations(hopeful, n) if possible(s))
    chosen = most_in_time(hopeful, 0.0, 1.0)
    assert len(chosen) == best
    assert possible([need for need in hopeful if need.row in chosen])


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 300)), max_size=8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_calendar_never_promises_more_than_there_is_and_keeps_its_word(pairs):
    calendar = Calendar(0.0)
    for row, (work, due) in enumerate(pairs):
        run = calendar.promise(a_need(row, work, due), due)
        assert run is None or run.end <= due
    assert min(calendar.left) >= -1e-9
    assert calendar.starts == sorted(set(calendar.starts))


def test_a_job_with_slack_shrinks_for_one_that_would_be_late():
    snapshot = a_snapshot(
        running(a_job("rich", 1, least=1, most=4, seconds=100.0, deadline=5000.0), [0, 0, 0, 0]),
        a_job("late", 1, least=1, most=4, seconds=100.0, deadline=160.0, submit=100.0),
        nodes=some_nodes(1, gpus=4), now=100.0, speed=linear, left={"rich": 50.0, "late": 100.0},
    )  # fmt: skip
    (scale,) = FREE(snapshot).decisions
    assert isinstance(scale, Scale)
    assert scale.job == "rich"
    assert len(scale.nodes) == 1


def test_one_without_a_chance_is_stopped_for_one_that_has_one_and_never_for_being_late():
    missed = running(a_job("missed", 4, seconds=1000.0, deadline=50.0), [0, 0, 0, 0])
    alone = a_snapshot(missed, nodes=some_nodes(1, gpus=4), now=100.0, left={"missed": 500.0})
    assert FREE(alone).decisions == ()
    pressed = a_snapshot(
        missed, a_job("a", 4, seconds=50.0, deadline=160.0, submit=100.0), nodes=some_nodes(1, gpus=4), now=100.0,
        left={"missed": 500.0, "a": 50.0},
    )  # fmt: skip
    (stop,) = FREE(pressed).decisions
    assert isinstance(stop, Stop)
    assert stop.job == "missed"


def test_a_job_about_to_be_late_grows_and_one_that_is_not_does_not():
    def plan(left):
        return FREE(
            a_snapshot(
                running(a_job("a", 1, least=1, most=4, deadline=100.0), [0]),
                running(a_job("b", 2, deadline=400.0), [0, 0]),
                a_job("wide", 4, seconds=10.0),
                nodes=some_nodes(1, gpus=4),
                now=0.0,
                left={"a": left, "b": 300.0, "wide": 10.0},
                speed=linear,
            )
        )

    assert decided(plan(left=130.0)) == {"a": "scale"}
    assert decided(plan(left=50.0)) == {}


def test_the_cool_down_leaves_a_job_alone_and_asks_to_be_woken():
    snapshot = a_snapshot(
        running(a_job("a", 1, least=1, most=4, deadline=100.0), [0], touched=-20.0),
        nodes=some_nodes(1, gpus=4), now=0.0, left={"a": 130.0}, speed=linear,
    )  # fmt: skip
    plan = Deadline(cool_down=60.0)(snapshot)
    assert plan.decisions == ()
    assert plan.until == pytest.approx(40.0)


def test_without_estimates_of_a_job_it_is_served_like_one_without_a_deadline():
    snapshot = a_snapshot(a_job("a", deadline=100.0), nodes=some_nodes(1), left={})
    assert started(FREE(snapshot)) == ["a"]


def test_the_answer_says_yes_no_or_that_it_needs_a_trial():
    nodes = some_nodes(1, gpus=4)

    def ask(job, *others, left=None):
        entries = (job, *others)
        known = {entry.id: entry.seconds for entry in entries if entry.seconds is not None}
        return in_time(a_snapshot(*entries, nodes=nodes, left=left or known, speed=linear), 0, FREE.promises)

    yes = ask(a_job("a", 1, least=1, most=4, seconds=100.0, deadline=55.0))
    assert (yes.verdict, yes.counts, yes.done_at) == (Verdict.YES, (2,), 50.0)
    no = ask(a_job("a", 1, least=1, most=4, seconds=100.0, deadline=20.0))
    assert no.verdict is Verdict.NO
    assert "5 seconds later" in no.remedy
    crowded = ask(
        a_job("a", 4, seconds=100.0, deadline=150.0), a_job("b", 4, seconds=100.0, deadline=140.0), left=None
    )  # fmt: skip
    assert crowded.verdict is Verdict.NO
    assert crowded.done_at == pytest.approx(200.0)
    unknown = ask(a_job("a", deadline=100.0), left={"other": 1.0})
    assert unknown.verdict is Verdict.UNKNOWN
    assert "trial of 10 minutes" in unknown.sentence
    assert ask(a_job("a", seconds=5.0)).verdict is Verdict.YES


def test_the_answer_is_more_careful_where_the_estimate_is_loose():
    snapshot = a_snapshot(a_job("a", 1, deadline=100.0), nodes=some_nodes(1, gpus=1))

    def with_spread(spread):
        beliefs = Beliefs(
            np.array([130.0]), np.array([0.0]), np.array([False]), np.array([spread]), np.zeros(1, np.uint8),
            np.zeros(1), np.zeros(1, np.uint8),
        )  # fmt: skip
        return snapshot.with_estimates(Estimates(lambda: beliefs, lambda *_: 1.0))

    assert needs(with_spread(0.05), [0], 0.0)[0].chance(100.0) < 0.05
    assert needs(with_spread(0.5), [0], 0.0)[0].chance(100.0) > 0.05


@given(st.integers(0, 10_000))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_no_flapping_whatever_comes(seed):
    """A whole run with costs: nobody is changed twice within the cool-down, and all jobs end."""
    chance = np.random.default_rng(seed)
    lengths, factors = chance.uniform(50, 600, 14), chance.uniform(0.5, 2.5, 14)
    jobs = [
        a_job(
            f"j{i}", int(chance.choice([1, 2, 4])), least=1, most=8, submit=30.0 * i, seconds=float(lengths[i]),
            deadline=30.0 * i + float(lengths[i] * factors[i]),
        )
        for i in range(14)
    ]  # fmt: skip
    nodes, policy = some_nodes(2, gpus=4), Deadline()
    cluster = SimCluster(nodes, jobs, World(samples=False, costs=Costs(start=10.0, scale=5.0, save=3.0)))
    cycles = simulate(jobs, nodes, policy, cluster=cluster)
    changes: dict[str, list[float]] = {}
    for cycle in cycles:
        for decision in cycle.plan.decisions:
            if isinstance(decision, Scale | Stop):
                changes.setdefault(decision.job, []).append(cycle.snapshot.now)
    for times in changes.values():
        assert all(b - a >= policy.cool_down for a, b in itertools.pairwise(times))
    assert len(ends_of(cycles)) == len(jobs)
    starts = Counter(d.job for cycle in cycles for d in cycle.plan.decisions if isinstance(d, Start))
    assert max(starts.values()) <= 6


def test_a_job_that_should_be_done_and_is_not_is_not_taken_for_done():
    entry = running(a_job("a", 1, deadline=500.0), [0], since=0.0, attained=0.0)
    snapshot = a_snapshot(entry, nodes=some_nodes(1), now=200.0, left={"a": 0.0})
    assert needs(snapshot, [0], 0.0)[0].work == pytest.approx(20.0)
