"""DRAGON's three phases, each with its clock."""

from __future__ import annotations

from headway.core.plan import Plan, Scale
from headway.policies.baselines.dragon import Dragon
from make import a_job, a_role, a_snapshot, decided, running, some_nodes, started, waiting


def crowd(waited: float, *, now: float = 1000.0):
    """Eight GPUs on two nodes, all held by one elastic job whose server is on the first."""
    up = a_job("up", roles=[a_role("ps", 1, cpu=1), a_role("worker", 8, min=4, gpu=1)])
    return a_snapshot(
        running(up, [0], [0, 0, 0, 0, 1, 1, 1, 1], since=0.0, touched=0.0, first_start=0.0),
        waiting(a_job("head", 2), since=now - waited), nodes=some_nodes(2, gpus=4, cpu=4), now=now,
    )  # fmt: skip


def test_nothing_before_the_head_has_waited_thirty_seconds() -> None:
    assert Dragon()(crowd(10.0)) == Plan((), until=1020.0)


def test_relief_takes_workers_far_from_the_server_one_by_one() -> None:
    plan = Dragon()(crowd(30.0))
    assert plan == Plan((Scale("up", "worker", (0, 0, 0, 0, 1, 1)),), until=1015.0)


def test_no_relief_without_enough_to_take_and_then_nothing_starts() -> None:
    up = a_job("up", roles=[a_role("worker", 7, min=7, gpu=1)])
    snapshot = a_snapshot(
        running(up, [0] * 7, touched=0.0), waiting(a_job("head", 4), since=0.0), a_job("one", 1),
        nodes=some_nodes(1, gpus=8), now=1000.0,
    )  # fmt: skip
    assert Dragon()(snapshot).decisions == ()


def test_one_start_per_pass() -> None:
    snapshot = a_snapshot(a_job("a", 9), a_job("b", 2), a_job("c", 1), nodes=some_nodes(1, gpus=8), now=5.0)
    plan = Dragon()(a_snapshot(a_job("a", 9), a_job("b", 2), a_job("c", 1), nodes=some_nodes(1, gpus=8)))
    assert started(plan) == ["b"]
    assert plan.until == 15.0
    assert started(Dragon()(snapshot)) == ["b"]


def test_growth_after_a_minute_without_decisions() -> None:
    job = a_job("up", roles=[a_role("worker", 2, max=6, gpu=1)])

    def at(now: float) -> Plan:
        return Dragon()(a_snapshot(running(job, [0, 0], touched=0.0), nodes=some_nodes(1, gpus=8), now=now))

    assert at(30.0) == Plan((), until=60.0)
    assert at(60.0) == Plan((Scale("up", "worker", (0,) * 6),))


def test_a_job_of_higher_priority_need_not_wait() -> None:
    snapshot = crowd(1.0)
    assert decided(Dragon()(snapshot)) == {}
    up = a_job("up", roles=[a_role("worker", 8, min=4, gpu=1)])
    urgent = a_snapshot(
        running(up, [0] * 4 + [1] * 4, touched=0.0), waiting(a_job("urgent", 2, priority=1), since=1000.0),
        nodes=some_nodes(2, gpus=4), now=1000.0,
    )  # fmt: skip
    assert decided(Dragon()(urgent)) == {"up": "scale"}
