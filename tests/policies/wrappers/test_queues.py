"""Queues: guaranteed quotas, limits to borrowing and lending, fair shares, and reclaiming from the cheapest."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.core.check import check
from headway.core.plan import Because, Plan, Scale, Start, Stop
from headway.policies.baselines.fifo import first_fit
from headway.policies.registry import POLICIES
from headway.policies.wrappers.queues import Queued, with_queues
from headway.policies.wrappers.quota import Queue, QueueUse, entitled
from make import a_job, a_role, a_snapshot, amounts, decided, running, some_nodes, started
from simulated import ends_of, simulate
from strategies import snapshots

GPUS = some_nodes(2, gpus=4)


def gpu(number):
    return amounts(gpu=number)


def plan_of(*entries, queues, policy=first_fit, nodes=GPUS, now=100.0):
    snapshot = a_snapshot(*entries, nodes=nodes, now=now)
    plan = with_queues(policy, queues)(snapshot)
    assert check(snapshot, plan) == ()
    return plan


def test_without_queues_a_policy_is_itself():
    assert with_queues(first_fit, ()) is first_fit


def test_a_queue_holds_its_quota_and_what_it_may_borrow_and_no_more():
    queues = [Queue(name="a", quota=gpu(2), borrow=gpu(1)), Queue(name="b", quota=gpu(4))]
    jobs = [a_job(f"a{i}", queue="a") for i in range(6)]
    assert started(plan_of(*jobs, queues=queues)) == ["a0", "a1", "a2"]


def test_what_a_queue_does_not_lend_is_left_for_it():
    lends = [Queue(name="a", quota=gpu(4), lend=gpu(1)), Queue(name="b", quota=gpu(4))]
    jobs = [a_job(f"b{i}", queue="b") for i in range(8)]
    assert len(started(plan_of(*jobs, queues=lends))) == 5
    lends_all = [Queue(name="a", quota=gpu(4)), Queue(name="b", quota=gpu(4))]
    assert len(started(plan_of(*jobs, queues=lends_all))) == 8


def test_who_is_within_his_quota_comes_before_borrowers_whatever_the_order():
    queues = [Queue(name="a", quota=gpu(4)), Queue(name="b")]
    jobs = [*(a_job(f"b{i}", queue="b") for i in range(8)), a_job("a0", 4, queue="a", submit=1.0)]
    assert sorted(started(plan_of(*jobs, queues=queues))) == ["a0", "b0", "b1", "b2", "b3"]


@pytest.mark.parametrize(("weight", "shares"), [(1.0, {"a": 4, "b": 4}), (3.0, {"a": 6, "b": 2})])
def test_beyond_quotas_queues_share_by_their_weights(weight, shares):
    queues = [Queue(name="a", weight=weight), Queue(name="b")]
    jobs = [a_job(f"{name}{i}", queue=name) for name in "ab" for i in range(8)]
    names = [job[0] for job in started(plan_of(*jobs, queues=queues))]
    assert {name: names.count(name) for name in "ab"} == shares


def test_the_dominant_resource_counts():
    """Queue a holds half of the cpu, queue b a quarter of the GPUs: b is next, though a has no GPU."""
    nodes = some_nodes(1, gpus=4, cpu=8)
    snapshot = a_snapshot(
        running(a_job("a0", roles=[_role(cpu=4)], queue="a"), [0]),
        running(a_job("b0", roles=[_role(gpu=1)], queue="b"), [0]),
        nodes=nodes,
    )  # fmt: skip
    use = QueueUse(snapshot, [])
    numbers = snapshot.jobs.queues
    assert use.share(numbers["a"]) == pytest.approx(0.5)
    assert use.share(numbers["b"]) == pytest.approx(0.25)


def _role(**asks):
    return a_role("worker", 1, **asks)


def borrower(name, *nodes, saved, **more):
    return running(a_job(name, len(nodes), queue="b"), nodes, attained=0.0, saved=saved, since=0.0, **more)


def test_reclaiming_stops_whole_jobs_of_borrowers_with_least_unsaved_work_first():
    queues = [Queue(name="a", quota=gpu(4)), Queue(name="b", quota=gpu(4))]
    entries = [
        borrower("dear", 0, 0, 0, 0, saved=0.0),
        borrower("cheap", 1, 1, saved=90.0),
        borrower("cheaper", 1, 1, saved=95.0),
        a_job("a0", 2, queue="a", submit=50.0),
    ]
    assert decided(plan_of(*entries, queues=queues)) == {"cheaper": "stop"}


def test_nobody_is_stopped_in_vain_nor_below_his_queues_quota():
    queues = [Queue(name="a", quota=gpu(8)), Queue(name="b", quota=gpu(4))]
    entries = [
        borrower("one", 0, 0, 0, 0, saved=0.0),
        borrower("two", 1, 1, 1, 1, saved=0.0),
        a_job("a0", 8, queue="a", submit=50.0),
    ]
    assert decided(plan_of(*entries, queues=queues)) == {}


def test_a_job_that_cannot_be_saved_is_no_victim():
    queues = [Queue(name="a", quota=gpu(4)), Queue(name="b")]
    stays = running(a_job("stays", 8, queue="b", checkpoints=False), [0] * 4 + [1] * 4)
    assert decided(plan_of(stays, a_job("a0", 2, queue="a"), queues=queues)) == {}


def test_growth_beyond_the_limit_is_left_out():
    def grows(snapshot):
        return Plan((Scale(snapshot.jobs.job(0).id, "worker", (0, 0, 0, 0)),))

    entry = running(a_job("a0", 2, min=1, max=4, queue="a"), [0, 0])
    limited = [Queue(name="a", quota=gpu(2), borrow=gpu(1))]
    assert plan_of(entry, queues=limited, policy=grows).decisions == ()
    assert len(plan_of(entry, queues=[Queue(name="a", quota=gpu(4))], policy=grows).decisions) == 1


def test_an_elastic_job_starts_at_what_its_queue_allows():
    strict = Queue(name="a", quota=gpu(3), borrow=(("gpu", 0),))
    (start,) = plan_of(a_job("a0", 4, min=1, max=4, queue="a"), queues=[strict]).decisions
    assert isinstance(start, Start)
    assert start.placement.counts == (3,)


def test_a_reclaimed_place_goes_to_who_it_was_made_for_and_nobody_starves_in_his_quota():
    queues = [Queue(name="a", quota=gpu(4)), Queue(name="b", quota=gpu(4))]
    greedy = [a_job(f"b{i}", 2, queue="b", seconds=1000.0, submit=float(i)) for i in range(20)]
    late = a_job("a0", 4, queue="a", seconds=10.0, submit=100.0)
    ends = ends_of(simulate([*greedy, late], GPUS, with_queues(first_fit, queues)))
    assert ends["a0"] == pytest.approx(110.0)
    assert len(ends) == 21


QUEUES = (
    Queue(name="q", quota=amounts(gpu=2, cpu=4), borrow=amounts(gpu=3), lend=amounts(gpu=1, cpu=1)),
    Queue(name="", quota=amounts(gpu=1), weight=2.0),
)


@pytest.mark.parametrize("name", ["first-fit", "srtf", "combined-priority", "deadline", "optimus", "kube-default"])
@settings(
    max_examples=25, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)  # fmt: skip
@given(snapshot=snapshots(), queues=st.sampled_from([QUEUES, QUEUES[:1]]))
def test_every_policy_behind_queues_keeps_the_rules_and_the_limits(name, snapshot, queues):
    policy = Queued(POLICIES[name](), queues)
    plan = policy(snapshot)
    assert check(snapshot, plan, gangless=policy.gangless) == ()
    assert policy(snapshot) == plan
    use = QueueUse(snapshot, queues)
    before = use.held.copy()
    for decision in plan.decisions:
        row = snapshot.jobs.row_of[decision.job]
        if isinstance(decision, Start):
            use.add(row, use.amounts(row, decision.placement))
        if isinstance(decision, Stop):
            assert int(snapshot.jobs.can[row]) & 16
    managed = use.held[:, use.managed]
    assert ((managed <= use.max[:, use.managed] + 1e-6) | (use.held == before)[:, use.managed]).all()


@settings(max_examples=40, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip
@given(snapshot=snapshots())
def test_what_queues_may_hold_is_within_their_limits(snapshot):
    use = QueueUse(snapshot, QUEUES)
    roof = entitled(use)
    grown = (roof.held > use.held + 1e-9) & use.managed[None, :]
    assert (roof.held <= use.max + 1e-6)[grown].all()
    assert (roof.held >= use.held - 1e-9).all()


def test_inside_a_queue_the_policy_decides_who_comes_first():
    queues = [Queue(name="a", quota=gpu(2), borrow=(("gpu", 0),))]
    jobs = [a_job("long", 2, queue="a", seconds=1000.0), a_job("short", 2, queue="a", seconds=10.0)]
    assert started(plan_of(*jobs, queues=queues, now=0.0)) == ["long"]
    assert started(plan_of(*jobs, queues=queues, now=0.0, policy=POLICIES["sjf"]())) == ["short"]


def test_a_start_that_is_left_out_makes_way_for_another_queues():
    """First fit would fill the cluster with a's jobs; two are too many for a, and b's take their place."""
    queues = [Queue(name="a", quota=gpu(4), borrow=gpu(2)), Queue(name="b")]
    jobs = [*(a_job(f"a{i}", queue="a") for i in range(8)), *(a_job(f"b{i}", queue="b") for i in range(4))]
    names = [name[0] for name in started(plan_of(*jobs, queues=queues))]
    assert names.count("a") + names.count("b") == 8
    assert names.count("a") in (4, 5, 6)


def victims(snapshot, *rows):
    """A policy that stops these jobs, whatever for."""
    return Plan(tuple(Stop(snapshot.jobs.job(row).id, Because.PREEMPTED) for row in rows))


SHARED = [Queue(name="a", quota=gpu(4)), Queue(name="b", quota=gpu(4)), Queue(name="c")]


def test_a_deadline_takes_what_is_borrowed_and_never_what_is_within_another_queues_quota():
    """Without queues, edf would stop b0, which has no deadline at all."""
    entries = [
        running(a_job("b0", 4, queue="b"), [0, 0, 0, 0]),
        running(a_job("a0", 2, queue="a", deadline=500.0), [1, 1]),
        running(a_job("c0", 2, queue="c", deadline=900.0), [1, 1]),
        a_job("a1", 2, queue="a", deadline=200.0),
    ]
    edf = POLICIES["edf"]()
    assert decided(edf(a_snapshot(*entries, nodes=GPUS, now=100.0))) == {"b0": "stop"}
    assert decided(plan_of(*entries, queues=SHARED, policy=edf)) == {"c0": "stop"}


def test_a_deadline_beyond_its_queues_share_takes_nothing():
    entries = [
        running(a_job("b0", 4, queue="b"), [0, 0, 0, 0]),
        running(a_job("a0", 4, queue="a", deadline=500.0), [1, 1, 1, 1]),
        a_job("a1", 2, queue="a", deadline=200.0),
    ]
    for name in ("edf", "deadline", "elasticflow", "headway"):
        assert decided(plan_of(*entries, queues=SHARED, policy=POLICIES[name]())) == {}, name


def test_a_queue_may_stop_its_own_jobs_and_borrowers_within_its_quota():
    own = [running(a_job("b0", 2, queue="b"), [0, 0]), a_job("b1", 2, queue="b")]
    assert decided(plan_of(*own, queues=SHARED, policy=lambda s: victims(s, 0))) == {"b0": "stop"}
    lent = running(a_job("c0", 2, queue="c"), [0, 0])
    assert decided(plan_of(lent, queues=SHARED, policy=lambda s: victims(s, 0))) == {"c0": "stop"}


@pytest.mark.parametrize("size", [1, 3])
def test_no_job_within_its_queues_quota_is_stopped_or_shrunk_for_a_running_job_of_another(size):
    def shrinks(snapshot):
        return Plan((Scale(snapshot.jobs.job(0).id, "worker", (0,) * size),))

    entries = [
        running(a_job("b0", 4, min=1, max=4, queue="b"), [0, 0, 0, 0]),
        running(a_job("a0", 1, max=4, queue="a", deadline=300.0), [1]),
    ]
    assert decided(plan_of(*entries, queues=SHARED, policy=shrinks)) == {}
    assert decided(plan_of(*entries, queues=SHARED, policy=lambda s: victims(s, 0))) == {}


@pytest.mark.parametrize("name", ["edf", "deadline", "elasticflow", "headway"])
def test_over_a_whole_run_deadlines_take_nothing_from_another_queues_share(name):
    """A flood of tight deadlines in queue a delays no job of queue b, which has its quota and no more.

    Without queues the same flood does: that is what the quota is for.
    """
    honest = [a_job(f"b{i}", 2, queue="b", seconds=200.0, submit=60.0 * i) for i in range(8)]
    flood = [a_job(f"a{i}", 4, queue="a", seconds=120.0, submit=20.0 * i, deadline=20.0 * i + 200.0) for i in range(24)]
    quotas = [Queue(name=queue, quota=gpu(4), borrow=(("gpu", most),)) for queue, most in (("a", 4), ("b", 0))]
    queued = with_queues(POLICIES[name](), quotas)
    alone, beside, lawless = (
        ends_of(simulate(jobs, GPUS, policy))
        for jobs, policy in ((honest, queued), ([*honest, *flood], queued), ([*honest, *flood], POLICIES[name]()))
    )
    assert max(beside[job.id] - alone[job.id] for job in honest) == pytest.approx(0.0)
    assert max(lawless[job.id] - alone[job.id] for job in honest) > 60.0
