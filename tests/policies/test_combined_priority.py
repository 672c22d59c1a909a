"""Combined priority: the worked example, the five claims, and the guard against starvation."""

from __future__ import annotations

import pytest

from headway.core.node import Nodes
from headway.core.plan import Reserve, Stop
from headway.policies.baselines.kube_default import KubeDefault
from headway.policies.baselines.volcano import Volcano
from headway.policies.combined_priority import CombinedPriority
from headway.policies.placing.affinity import place_any_by_role
from headway.policies.steps.reserve import DESPERATE
from headway.sim.cluster import Costs, SimCluster, World
from headway.sim.speed import Speed
from make import a_job, a_node, a_role, a_snapshot, running, some_nodes, started
from simulated import ends_of, simulate

HOUR = 3600.0


def a_ps_job(name="ps-job", servers=2, workers=4, **more):
    """Servers and workers of one core each, as in the design note's example."""
    ps = a_role("ps", servers, cpu=1, near=("worker",))
    worker = a_role("worker", workers, cpu=1, near=("ps",), after=("ps",))
    return a_job(name, roles=[worker, ps], **more)


def test_the_score_is_shown_with_its_parts():
    policy = CombinedPriority(user_priority=(("ann", 5.0),), widest=7)
    snapshot = a_snapshot(a_job("a", 7, user="ann", priority=10), now=12 * HOUR)
    score = policy.score(snapshot, 0)
    assert score.user == pytest.approx(0.15)
    assert score.job == pytest.approx(0.30)
    assert score.wait == pytest.approx(0.125)
    assert score.parallelism == pytest.approx(0.15)
    assert score.total == pytest.approx(0.725)


def test_age_lifts_a_job_by_its_weight_at_most():
    policy = CombinedPriority()
    assert policy.score(a_snapshot(a_job(), now=1e9), 0).wait == pytest.approx(0.25)


def first_started(*jobs, policy, gpus=1, now=0.0):
    return started(policy(a_snapshot(*jobs, nodes=some_nodes(1, gpus=gpus), now=now)))


def test_of_two_users_the_one_whom_the_administrator_prefers_comes_first():
    policy = CombinedPriority(user_priority=(("ann", 1.0), ("bob", 9.0)))
    assert first_started(a_job("a", user="ann"), a_job("b", user="bob"), policy=policy) == ["b"]


def test_nobody_raises_himself_by_a_name_that_the_administrator_does_not_know():
    policy = CombinedPriority(user_priority=(("ann", 1.0),))
    assert first_started(a_job("a", user="ann"), a_job("b", user="root"), policy=policy) == ["a"]


def test_an_urgent_job_that_comes_late_passes():
    jobs = [a_job("early", submit=0.0), a_job("urgent", submit=100.0, priority=9)]
    assert first_started(*jobs, policy=CombinedPriority(), now=100.0) == ["urgent"]
    assert first_started(*jobs, policy=CombinedPriority(job_weight=0.0), now=100.0) == ["early"]


def test_a_wide_job_comes_before_a_narrow_one():
    assert first_started(a_job("narrow", 1), a_job("wide", 4), policy=CombinedPriority(), gpus=4) == ["wide"]


def test_a_pair_of_gangs_that_deadlocks_pod_by_pod_does_not_here():
    """While another job holds a GPU, one gang gets one node of the two that it needs, the other gang what is left."""
    jobs = [
        a_job("first", 1, seconds=5.0),
        a_job("a", roles=[a_role(replicas=2, gpu=2)], seconds=10.0, submit=1.0),
        a_job("b", 3, seconds=10.0, submit=2.0),
    ]
    nodes = some_nodes(2, gpus=2)
    assert set(ends_of(simulate(jobs, nodes, KubeDefault()))) == {"first"}
    assert set(ends_of(simulate(jobs, nodes, CombinedPriority()))) == {"first", "a", "b"}


def test_a_job_that_has_waited_the_longest_reserves_and_others_pass_only_around_it():
    wide = a_job("wide", 4, submit=0.0, seconds=100.0)
    entries = [
        wide,
        running(a_job("runs", 2, submit=0.0, seconds=600.0), [0, 0], since=2 * HOUR, first_start=2 * HOUR),
        a_job("short", 2, submit=1.0, seconds=300.0, priority=9),
        a_job("long", 2, submit=2.0, seconds=9000.0, priority=9),
    ]
    nodes = some_nodes(1, gpus=4)
    snapshot = a_snapshot(*entries, nodes=nodes, now=2 * HOUR)
    patient = CombinedPriority()(snapshot)
    assert set(started(patient)) <= {"short", "long"}
    guarded = CombinedPriority(longest_wait=HOUR, wait_weight=0.0)(
        a_snapshot(
            *entries[:2], a_job("long", 2, submit=2 * HOUR, seconds=9000.0, priority=9), nodes=nodes, now=2 * HOUR
        )
    )
    assert [type(decision) for decision in guarded.decisions] == [Reserve]
    passed = CombinedPriority(longest_wait=HOUR)(
        a_snapshot(*entries[:2], a_job("short", 2, submit=2 * HOUR, seconds=300.0), nodes=nodes, now=2 * HOUR)
    )
    assert started(passed) == ["short"]


@pytest.mark.parametrize("make", [CombinedPriority, lambda **more: Volcano(sla_waiting_time=more["longest_wait"])])
def test_nothing_starves_behind_a_stream_of_better_jobs(make):
    """A wide job of no priority, and a stream of narrow urgent ones that never leaves four GPUs free at once."""
    stream = [a_job(f"s{i}", 2, submit=50.0 * i, seconds=100.0, priority=9) for i in range(200)]
    jobs = [a_job("wide", 4, submit=1.0, seconds=10.0), *stream]
    limit = 1000.0
    starving = ends_of(simulate(jobs, some_nodes(1, gpus=4), make(longest_wait=1e9)))
    assert starving["wide"] > 9000.0
    ends = ends_of(simulate(jobs, some_nodes(1, gpus=4), make(longest_wait=limit)))
    assert ends["wide"] <= limit + 200.0 + 10.0
    assert len(ends) == len(jobs)


USERS = (("ann", 10.0), ("bob", 0.0))
STOPPING = {"user_priority": USERS, "preempt": 0.15}
URGENT = {"user": "ann", "priority": 5}
"""Three quarters of the most that user and job priority can be together."""


def test_an_urgent_job_reserves_as_soon_as_it_does_not_fit():
    runs = running(a_job("runs", 2, seconds=600.0, checkpoints=False), [0, 0])
    entries = [runs, a_job("wide", 4, **URGENT), a_job("long", 2, seconds=9000.0), a_job("short", 1, seconds=300.0)]
    plan = CombinedPriority(user_priority=USERS)(a_snapshot(*entries, nodes=some_nodes(1, gpus=4)))
    assert started(plan) == ["short"], "it is done before the urgent one fits"
    assert [decision.job for decision in plan.decisions if isinstance(decision, Reserve)] == ["wide"]
    never = CombinedPriority(user_priority=USERS, urgent=2.0)(a_snapshot(*entries, nodes=some_nodes(1, gpus=4)))
    assert started(never) == ["long"]


def test_an_urgent_job_stops_as_few_lower_ones_as_will_do_those_that_lose_least_first():
    low = {"user": "bob", "seconds": 9000.0, "submit": 0.0}
    entries = [
        running(a_job("dear", 1, **low), [0], since=0.0),
        running(a_job("cheap", 1, **low), [0], since=0.0, saved=900.0),
        running(a_job("equal", 1, seconds=9000.0, **URGENT), [0], since=0.0, saved=990.0),
        running(a_job("unsaved", 1, **low, checkpoints=False), [0], since=0.0),
        a_job("urgent", 1, submit=990.0, **URGENT), a_job("late", 1, submit=990.0, user="bob", seconds=1.0),
    ]  # fmt: skip
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=4), now=1000.0)
    plan = CombinedPriority(**STOPPING)(snapshot)
    assert [(type(one), one.job) for one in plan.decisions] == [(Stop, "cheap")]
    wide = a_snapshot(*entries[:4], a_job("urgent", 2, **URGENT), nodes=some_nodes(1, gpus=4), now=1000.0)
    assert {one.job for one in CombinedPriority(**STOPPING)(wide).decisions} == {"cheap", "dear"}
    larger = a_snapshot(*entries[:4], a_job("urgent", 3, **URGENT), nodes=some_nodes(1, gpus=4), now=1000.0)
    kinds = [type(one) for one in CombinedPriority(**STOPPING)(larger).decisions]
    assert kinds == [Reserve], "all that may be stopped are not enough"
    assert not CombinedPriority(user_priority=USERS)(snapshot).decisions[1:]


def test_what_was_stopped_for_an_urgent_job_is_kept_for_it_until_it_is_there():
    jobs = [
        a_job("low", 4, submit=0.0, seconds=1000.0, user="bob"),
        a_job("urgent", 4, submit=100.0, seconds=50.0, **URGENT),
        a_job("thief", 4, submit=101.0, seconds=1.0, user="bob"),
    ]
    nodes = some_nodes(1, gpus=4)
    cluster = SimCluster(nodes, jobs, World(samples=False, costs=Costs(save=60.0, stop=10.0)))
    ends = ends_of(simulate([], nodes, CombinedPriority(**STOPPING), cluster=cluster))
    assert ends["urgent"] == pytest.approx(100.0 + 70.0 + 50.0)
    assert ends["low"] >= 1000.0 + 70.0 + 50.0
    assert set(ends) == {"low", "urgent", "thief"}


def test_nobody_is_stopped_for_ever():
    """Urgent jobs that leave hardly a gap, and one of no rank that they stop: it ends, and is stopped twice at most."""
    stream = [a_job(f"s{i}", 4, submit=100.0 * i + 10.0, seconds=80.0, **URGENT) for i in range(100)]
    jobs = [a_job("low", 4, submit=0.0, seconds=200.0, user="bob"), *stream]
    cluster = simulate(jobs, some_nodes(1, gpus=4), CombinedPriority(**STOPPING, longest_wait=500.0))
    ends = ends_of(cluster)
    assert len(ends) == len(jobs)
    assert ends["low"] <= DESPERATE * 500.0 + 400.0


def test_affinity_makes_a_job_that_exchanges_much_faster():
    """One server and two workers fit on one node, but best fit by role tears them apart."""
    job = a_ps_job("job", servers=1, workers=2, seconds=100.0)
    nodes = Nodes.of([a_node("n0", gpus=0, cpu=4), a_node("n1", gpus=0, cpu=1)])
    world = World(samples=False, speed=Speed(apart_loss=0.4))

    def end(affinity):
        cluster = SimCluster(nodes, [job], world)
        return ends_of(simulate([], nodes, CombinedPriority(affinity=affinity), cluster=cluster))["job"]

    assert end(True) == pytest.approx(100.0)
    assert end(False) == pytest.approx(100.0 / 0.6)


def test_without_affinity_roles_are_still_whole():
    snapshot = a_snapshot(a_ps_job(), nodes=some_nodes(5, gpus=0, cpu=1))
    assert place_any_by_role(snapshot, snapshot.free, 0) is None
