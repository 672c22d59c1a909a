"""DefaultPreemption: who goes, from which node, and that half a gang may go."""

from __future__ import annotations

import pytest

from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.core.node import Node
from headway.core.plan import Plan, Scale, Stop
from headway.core.quantity import GPU
from headway.policies.baselines.kube_default import KubeDefault
from headway.sim.world import World
from headway.workload.trace import Trace
from make import a_job, a_role, a_snapshot, running, some_nodes


def decided(plan: Plan) -> list[object]:
    return [(type(one).__name__, one.job) for one in plan.decisions]


def test_a_pod_takes_the_room_of_a_less_important_one_and_never_of_its_equal() -> None:
    equal = a_snapshot(running(a_job("low", 1), [0]), a_job("new", 1), nodes=some_nodes(1, gpus=1))
    assert KubeDefault()(equal) == Plan(())
    snapshot = a_snapshot(running(a_job("low", 1), [0]), a_job("high", 1, priority=1), nodes=some_nodes(1, gpus=1))
    assert decided(KubeDefault()(snapshot)) == [("Stop", "low")]


CASES = [
    ("the least important", {"a": (0, 2, 0.0), "b": (1, 1, 0.0)}, "b"),
    ("the youngest of the same priority", {"a": (0, 1, 0.0), "b": (1, 1, 50.0)}, "b"),
    ("the first node on a tie", {"a": (0, 1, 0.0), "b": (1, 1, 0.0)}, "a"),
]


@pytest.mark.parametrize(("why", "jobs", "goes"), CASES)
def test_who_goes(why: str, jobs: dict[str, tuple[int, int, float]], goes: str) -> None:
    """Two nodes of one GPU: by job its node, its priority and when it started."""
    there = [
        running(a_job(name, 1, priority=level), [node], since=since) for name, (node, level, since) in jobs.items()
    ]
    snapshot = a_snapshot(*there, a_job("new", 1, priority=9), nodes=some_nodes(2, gpus=1), now=60.0)
    assert decided(KubeDefault()(snapshot)) == [("Stop", goes)], why


def test_no_more_go_than_must() -> None:
    """Two of four must go: the less important two, and the older ones stay."""
    jobs = [running(a_job(name, 1, priority=level), [0], since=since)
            for name, level, since in (("a", 2, 0.0), ("b", 1, 0.0), ("c", 1, 9.0), ("d", 1, 8.0))]  # fmt: skip
    wide = a_job("wide", roles=[a_role(gpu=2)], priority=9)
    plan = KubeDefault()(a_snapshot(*jobs, wide, nodes=some_nodes(1, gpus=4), now=60.0))
    assert sorted(one.job for one in plan.decisions) == ["c", "d"]


def test_one_replica_of_a_gang_may_go_and_it_is_pending_from_then_on() -> None:
    gang = running(a_job("gang", 3), [0, 0, 1])
    plan = KubeDefault()(a_snapshot(gang, a_job("new", 1, priority=1), nodes=some_nodes(2, gpus=2)))
    assert [type(one) for one in plan.decisions] != [Stop]
    held = a_snapshot(running(a_job("gang", 4), [0, 0, 1, 1]), a_job("new", 1, priority=1), nodes=some_nodes(2, gpus=2))
    (one,) = KubeDefault()(held).decisions
    assert one == Scale("gang", "worker", (0, 1, 1))


def test_the_room_of_one_replica_is_taken_at_once() -> None:
    """Removing a replica takes no time: the pod for which it went does not wait for the next event."""
    jobs = (a_job("gang", 2, seconds=100.0), a_job("new", 1, priority=1, seconds=10.0, submit=20.0))
    trace = Trace(name="made", jobs=jobs, truth={"gang": 100.0, "new": 10.0})
    found = perform(
        Scenario(trace, (Node(name="one", capacity=((GPU, 2),)),), lambda *_: World()),
        Task(policy="kube-default", make=KubeDefault),
    )  # fmt: skip
    assert found.completion.tolist() == pytest.approx([110.0, 10.0])
