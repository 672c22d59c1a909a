"""A quota is guaranteed: against jobs that cannot or will not stop, against borrowers who come back, against jobs that
name no cpu."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from headway.core.check import check
from headway.core.job import Can
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.plan import Because, Plan, Resize, Scale, Start, Stop
from headway.core.quantity import DEFAULT_CPU
from headway.core.states import State
from headway.policies.baselines.fifo import first_fit
from headway.policies.registry import POLICIES
from headway.policies.wrappers.queues import Queued, with_queues
from headway.policies.wrappers.quota import Queue, QueueUse
from headway.sim.cluster import SimCluster, World
from headway.sim.world import Costs
from make import a_job, a_node, a_role, a_snapshot, amounts, decided, flying, running, some_nodes, started
from simulated import ends_of, simulate

GPUS = some_nodes(2, gpus=4)
HALVES = [Queue(name="a", quota=amounts(gpu=4)), Queue(name="b", quota=amounts(gpu=4))]


def gpu(number):
    return amounts(gpu=number)


def cores(name, cpu, queue, **more):
    return a_job(name, roles=[a_role("worker", 1, cpu=cpu)], queue=queue, **more)


def plan_of(*entries, queues=HALVES, policy=first_fit, nodes=GPUS, now=100.0, used=None):
    snapshot = replace(a_snapshot(*entries, nodes=nodes, now=now), used_cpu=used or {})
    plan = with_queues(policy, queues)(snapshot)
    assert check(snapshot, plan) == ()
    return plan


def why_not(job, *others, queues, nodes=GPUS):
    snapshot = a_snapshot(*others, job, nodes=nodes)
    return Queued(first_fit, tuple(queues)).beyond(snapshot)(snapshot.jobs.row_of[job.id])


# ── what cannot be stopped borrows nothing that is promised ─────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [{"checkpoints": False}, {"can": Can.NOTHING}, {"can": Can.SIZE | Can.MOVE}])
def test_what_cannot_be_stopped_does_not_borrow(kind):
    jobs = [a_job(f"b{i}", 2, queue="b", **kind) for i in range(4)]
    assert started(plan_of(*jobs)) == ["b0", "b1"], "the quota and no more"
    assert len(started(plan_of(*(a_job(f"b{i}", 2, queue="b") for i in range(4))))) == 4, "others borrow"


def test_within_its_quota_it_may_take_the_place_of_what_can_be_stopped():
    """The queue is over its quota then, and what can be stopped is what is given back."""
    other = running(a_job("b0", 4, queue="b"), [0, 0, 0, 0])
    assert started(plan_of(other, a_job("b1", 4, queue="b", checkpoints=False))) == ["b1"]


def test_it_may_take_what_is_promised_to_nobody():
    queues = [Queue(name="a", quota=gpu(5)), Queue(name="b")]
    jobs = [a_job(f"b{i}", queue="b", checkpoints=False) for i in range(8)]
    assert len(started(plan_of(*jobs, queues=queues))) == 3
    beside = running(a_job("c", 2, queue="c", can=Can.NOTHING), [0, 0])
    assert len(started(plan_of(beside, *jobs, queues=queues))) == 1, "all queues together"


def test_its_growth_is_a_loan_too():
    entry = running(a_job("b0", 4, min=1, max=6, queue="b", checkpoints=False), [0, 0, 0, 0])

    def grows(snapshot):
        return Plan((Scale(snapshot.jobs.job(0).id, "worker", (0, 0, 0, 0, 1)),))

    assert plan_of(entry, policy=grows).decisions == ()


def test_a_job_that_cannot_be_stopped_does_not_keep_others_of_its_queue_waiting():
    queues = [Queue(name="a", quota=gpu(4)), Queue(name="b", quota=gpu(1))]
    stuck = a_job("b0", 5, queue="b", checkpoints=False, priority=9)
    assert started(plan_of(stuck, a_job("b1", 4, queue="b"), queues=queues)) == ["b1"]
    said = "Queue 'b' may hold 4 gpu in what cannot be stopped and holds 0 gpu; the job needs 5 gpu."
    assert why_not(a_job("b0", 5, queue="b", can=Can.NOTHING), queues=queues) == said
    assert why_not(a_job("b0", 5, queue="b"), queues=queues) == ""


@pytest.mark.parametrize("name", ["first-fit", "srtf", "headway", "las"])
def test_over_a_whole_run_a_job_within_its_quota_waits_for_no_job_that_cannot_stop(name):
    flood = [a_job(f"b{i}", 2, queue="b", seconds=5000.0, checkpoints=False, submit=float(i)) for i in range(6)]
    mine = a_job("a0", 4, queue="a", seconds=10.0, submit=60.0)
    ends = ends_of(simulate([*flood, mine], GPUS, with_queues(POLICIES[name](), HALVES)))
    assert ends["a0"] == pytest.approx(70.0)
    assert len(ends) == 7


# ── a borrower goes even if it does not save ────────────────────────────────────────────────────────────────


def test_the_stop_of_a_borrower_says_that_it_is_final():
    entries = [running(a_job("b0", 8, queue="b"), [0] * 4 + [1] * 4), a_job("a0", 2, queue="a")]
    (stop,) = plan_of(*entries).decisions
    assert stop == Stop("b0", Because.RECLAIMED)


def stopping(*names):
    """A policy that stops these jobs, whatever for."""
    return lambda _snapshot: Plan(tuple(Stop(name, Because.PREEMPTED) for name in names))


def test_so_does_a_stop_of_a_borrower_that_the_policy_itself_decides():
    """Of two stops, the one that a job within its quota counts on. b then no longer borrows, so the other may fail."""
    entries = [
        running(a_job("b0", 4, queue="b"), [0, 0, 0, 0]),
        running(a_job("b1", 4, queue="b"), [1, 1, 1, 1]),
        a_job("a0", 2, queue="a"),
    ]
    reasons = [stop.because for stop in plan_of(*entries, policy=stopping("b0", "b1")).decisions]
    assert sorted(reasons) == [Because.PREEMPTED, Because.RECLAIMED]


def test_a_stop_within_the_same_queue_is_not_final():
    entries = [
        running(a_job("a1", 2, queue="a"), [0, 0]),
        running(a_job("b0", 4, queue="b"), [1, 1, 1, 1]),
        running(a_job("b1", 2, queue="b"), [0, 0]),
        a_job("a0", 2, queue="a"),
    ]
    assert plan_of(*entries, policy=stopping("a1")).decisions == (Stop("a1", Because.PREEMPTED),)


# ── room that was made for a job is that job's ──────────────────────────────────────────────────────────────

TEAMS = [
    Queue(name="vision", quota=amounts(cpu=2)), Queue(name="speech", quota=amounts(cpu=1)),
    Queue(name="ops", quota=amounts(cpu=1)),
]  # fmt: skip
DRAINED = Nodes.of([a_node("node-1", gpus=0, cpu=2), a_node("node-2", gpus=0, cpu=2, taints=("drained:NoSchedule",))])


def with_servers(name, queue):
    return a_job(name, roles=[a_role("ps", 1, cpu=0.2), a_role("worker", 2, cpu=0.25)], queue=queue)


def drained(*waiting):
    """One of two nodes is drained. Three jobs run on the other, and 700m were freed for vision/long-ps."""
    return [
        running(cores("speech/notebook", 0.2, "speech", can=Can.NOTHING), [0]),
        running(cores("vision/long-a", 0.4, "vision"), [0]),
        running(with_servers("speech/long-ps", "speech"), [0], [0, 0]),
        *waiting,
    ]


BACK, MINE = cores("speech/long-a", 0.4, "speech"), with_servers("vision/long-ps", "vision")


@pytest.mark.parametrize("name", ["first-fit", "las", "srtf", "headway", "edf", "optimus"])
def test_reclaimed_room_does_not_go_back_to_whom_it_was_taken_from(name):
    plan = plan_of(*drained(BACK, MINE), queues=TEAMS, nodes=DRAINED, policy=POLICIES[name]())
    assert decided(plan) == {"vision/long-ps": "start"}


def test_however_many_borrowers_come_first():
    crowd = [cores(f"speech/{i}", 0.4, "speech") for i in range(20)]
    plan = plan_of(*drained(*crowd, MINE), queues=TEAMS, nodes=DRAINED)
    assert decided(plan) == {"vision/long-ps": "start"}


def test_borrowers_start_beside_it():
    small = cores("speech/small", 0.1, "speech")
    without = [entry for entry in drained(BACK, small, MINE) if getattr(entry, "job", entry).id != "speech/notebook"]
    plan = plan_of(*without, queues=TEAMS, nodes=DRAINED)
    assert decided(plan) == {"vision/long-ps": "start", "speech/small": "start"}


def test_room_that_is_still_coming_is_kept_as_well():
    """300m are free, and 400m are of a job that still saves."""
    saves = flying(BACK, State.STOPPING, at=Placement(((0,),)))
    plan = plan_of(*drained(saves, cores("speech/small", 0.3, "speech"), MINE), queues=TEAMS, nodes=DRAINED)
    assert decided(plan) == {}


def test_nor_does_a_borrower_grow_into_it():
    queues, grown = [Queue(name="a", quota=gpu(4)), Queue(name="b")], a_job("b0", 2, min=1, max=4, queue="b")
    entries = [running(grown, [0, 0]), a_job("a0", roles=[a_role(gpu=4)], queue="a")]
    grows = Scale("b0", "worker", (0, 0, 1))
    assert plan_of(*entries, queues=queues, policy=lambda _: Plan((grows,))).decisions == ()
    assert plan_of(entries[0], queues=queues, policy=lambda _: Plan((grows,))).decisions == (grows,)


def test_nor_is_it_given_more_cpu_there():
    job = a_job("b0", roles=[a_role("worker", 1, cpu=1, memory=1)], queue="b")
    more, nodes = Resize("b0", "worker", 2000, 1), Nodes.of([
        a_node("n0", gpus=0, cpu=4, memory=9), a_node("n1", gpus=0, cpu=4, taints=("drained:NoSchedule",)),
    ])  # fmt: skip
    entries = [running(job, [0]), cores("a0", 3, "a")]
    queues = [Queue(name="a", quota=amounts(cpu=3)), Queue(name="b")]
    assert plan_of(*entries, queues=queues, nodes=nodes, policy=lambda _: Plan((more,))).decisions == ()
    alone = plan_of(entries[0], queues=queues, nodes=nodes, policy=lambda _: Plan((more,)))
    assert alone.decisions == (more,)


def test_a_policy_that_does_not_want_a_job_keeps_no_room_for_it():
    def without_mine(snapshot):
        plan = first_fit(snapshot)
        return Plan(tuple(start for start in plan.decisions if start.job != MINE.id), plan.until)

    plan = plan_of(*drained(BACK, MINE), queues=TEAMS, nodes=DRAINED, policy=without_mine)
    assert decided(plan) == {"speech/long-a": "start"}


@pytest.mark.parametrize("name", ["first-fit", "headway"])
def test_over_a_whole_run_borrowers_are_not_stopped_again_and_again(name):
    """One of four nodes is drained, so quotas promise more than there is, and who borrows competes with who is owed."""
    dice, jobs, now = random.Random(0), [], 0.0
    for number in range(60):
        now += dice.expovariate(1 / 40)
        queue, width = dice.choice("abbcc"), dice.choice([1, 2, 3, 4])
        more = {"min": 1, "max": width + 1} if dice.random() < 0.3 else {}
        seconds = dice.choice([30.0, 200.0, 800.0])
        jobs.append(a_job(f"{queue}{number}", width, queue=queue, seconds=seconds, submit=now, **more))
    nodes = Nodes.of([a_node(f"n{i}", taints=("drained:NoSchedule",) * (i == 3)) for i in range(4)])
    queues = [Queue(name="a", quota=gpu(6)), Queue(name="b", quota=gpu(6)), Queue(name="c")]
    sim = SimCluster(nodes, jobs, World(samples=False, costs=Costs(start=5.0, stop=10.0)))
    cycles = simulate(jobs, nodes, with_queues(POLICIES[name](), queues), cluster=sim)
    stops = Counter(one.job for cycle in cycles for one in cycle.plan.decisions if isinstance(one, Stop))
    assert stops.most_common(1)[0][1] <= 8
    assert len(ends_of(cycles)) == 60


def test_nobody_is_stopped_for_a_job_that_the_policy_would_not_start():
    """First fit starts a job at the size it asks for; stopping b0 would make room for less."""
    queues = [Queue(name="a", quota=gpu(2)), Queue(name="b")]
    other = running(a_job("c0", 6, queue="c", can=Can.NOTHING), [0, 0, 0, 0, 1, 1])
    entries = [other, running(a_job("b0", 2, queue="b"), [1, 1]), a_job("a0", 4, min=1, max=4, queue="a")]
    assert decided(plan_of(*entries, queues=queues)) == {}
    assert decided(plan_of(*entries, queues=queues, policy=POLICIES["optimus"]())) == {"b0": "stop"}


# ── jobs that name no cpu ───────────────────────────────────────────────────────────────────────────────────

CORES = some_nodes(2, gpus=0, cpu=4, memory=1024)
STRICT = [Queue(name="a", quota=amounts(cpu=4)), Queue(name="b", quota=amounts(cpu=2), borrow=(("cpu", 0),))]


def sizeless(name, replicas=1, queue="b", **more):
    return a_job(name, roles=[a_role("worker", replicas, memory=1)], queue=queue, **more)


def test_a_replica_that_names_no_cpu_counts_as_one_core():
    assert started(plan_of(*(sizeless(f"b{i}") for i in range(5)), queues=STRICT, nodes=CORES)) == ["b0", "b1"]
    assert started(plan_of(sizeless("b0", 30), queues=STRICT, nodes=CORES)) == []
    said = why_not(sizeless("b0", 30), queues=STRICT, nodes=CORES)
    assert said == "Queue 'b' may hold 2 cpu and holds 0 cpu; the job needs 30 cpu."


def test_where_its_use_is_measured_it_counts_with_that():
    entry, more = running(sizeless("b0", 2), [0, 0]), sizeless("b1")
    assert started(plan_of(entry, more, queues=STRICT, nodes=CORES)) == []
    assert started(plan_of(entry, more, queues=STRICT, nodes=CORES, used={0: 0.9})) == ["b1"]
    assert started(plan_of(entry, more, queues=STRICT, nodes=CORES, used={0: 1.1})) == []


def test_a_role_that_names_none_beside_one_that_does_counts_by_default():
    mixed = a_job("b0", roles=[a_role("ps", 1, cpu=0.5), a_role("worker", 2, memory=1)], queue="b")
    snapshot = replace(a_snapshot(running(mixed, [0], [0, 0]), nodes=CORES), used_cpu={0: 0.1})
    use = QueueUse(snapshot, STRICT)
    assert use.held[snapshot.jobs.queues["b"]][CORES.kinds.index("cpu")] == 500 + 2 * DEFAULT_CPU


def test_its_sidecars_are_not_its_cpu():
    """A pod whose only cpu is its sidecar's or its runtime's overhead names none."""
    role = replace(a_role("worker", 1, memory=1), overhead=(("cpu", 10),))
    snapshot = a_snapshot(a_job("b0", roles=[role], queue="b"), nodes=CORES)
    assert QueueUse(snapshot, STRICT).least(0)[CORES.kinds.index("cpu")] == DEFAULT_CPU + 10


def test_its_growth_counts_as_well():
    entry = running(sizeless("b0", 2), [0, 0])
    entry = replace(entry, job=replace(entry.job, roles=(replace(entry.job.roles[0], min=1, max=9),)))

    def grows(snapshot):
        return Plan((Scale(snapshot.jobs.job(0).id, "worker", (0, 0, 0)),))

    assert plan_of(entry, queues=STRICT, nodes=CORES, policy=grows).decisions == ()
    assert len(plan_of(entry, queues=STRICT, nodes=CORES, policy=grows, used={0: 0.5}).decisions) == 1


def test_where_no_quota_names_cpu_nothing_is_counted():
    nodes = some_nodes(1, gpus=4, cpu=2)
    jobs = [a_job(f"a{i}", queue="a") for i in range(4)]
    for queues in ([Queue(name="a", quota=gpu(1))], [Queue(name="a", weight=2.0)]):
        assert len(started(plan_of(*jobs, queues=queues, nodes=nodes))) == 4


def test_a_quota_of_pods_and_of_a_vendors_gpus():
    nodes = Nodes.of([replace(a_node("n0", gpus=8), capacity=(("gpu", 8), ("pods", 110)))])
    role = replace(a_role("worker", 1, gpu=1), overhead=(("pods", 1),))
    jobs = [a_job(f"a{i}", roles=[role], queue="a") for i in range(6)]
    for kind in ("pods", "gpu", "nvidia.com/gpu"):
        strict = Queue(name="a", quota=((kind, 3),), borrow=((kind, 0),))
        assert len(started(plan_of(*jobs, queues=[strict], nodes=nodes))) == 3, kind
    assert isinstance(plan_of(*jobs, queues=[strict], nodes=nodes).decisions[0], Start)
