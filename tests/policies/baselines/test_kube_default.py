"""The native scheduler's ways: pod by pod, half gangs, scores and back-off."""

from __future__ import annotations

import pytest

from headway.core.job import Job
from headway.core.placement import Placement
from headway.core.plan import Plan, Scale, Start
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.plain_books import DeclaredBook
from headway.policies.baselines.kube_default import KubeDefault
from headway.sim.cluster import SimCluster, World
from make import Put, a_job, a_role, a_snapshot, over, running, some_nodes, started


def test_half_a_gang_is_started_and_completed_later() -> None:
    policy = KubeDefault()
    half = a_snapshot(running(a_job("up", 3), [0, 0, 0]), a_job("gang", 3), nodes=some_nodes(1, gpus=4))
    assert policy(half) == Plan((Start("gang", Placement(((0,),))),))
    later = a_snapshot(
        over(a_job("up", 3)), running(a_job("gang", 3), [0], since=0.0), nodes=some_nodes(1, gpus=4), now=60.0
    )
    assert policy(later) == Plan((Scale("gang", "worker", (0, 0, 0)),))


def test_priority_then_arrival() -> None:
    snapshot = a_snapshot(a_job("a", 1), a_job("b", 1, priority=5), a_job("c", 1), nodes=some_nodes(1, gpus=2))
    assert started(KubeDefault()(snapshot)) == ["b", "a"]


SCORES = [
    ("the emptier node", [(2, 7), (4, 7)], 1),
    ("the better balanced node", [(7, 2), (4, 4)], 1),
    ("the lower number on a tie", [(4, 4), (4, 4)], 0),
]


@pytest.mark.parametrize(("why", "free", "node"), SCORES)
def test_scores(why: str, free: list[tuple[int, int]], node: int) -> None:
    """Free cores and GiB on nodes of eight each; one core and one GiB are asked for."""
    held = [
        running(a_job(f"up{number}", roles=[a_role(cpu=8 - cpu, memory=(8 - gib) * 1024)]), [number])
        for number, (cpu, gib) in enumerate(free)
    ]
    job = a_job("new", roles=[a_role(cpu=1, memory=1024)])
    plan = KubeDefault()(a_snapshot(*held, job, nodes=some_nodes(2, gpus=0, cpu=8, memory=8 * 1024)))
    assert plan == Plan((Start("new", Placement(((node,),))),)), why


def test_back_off_lets_a_newcomer_pass() -> None:
    """`old` failed on arrival at 0 and at 100; a job ends at 100.5: it backs off until 102, and `new` comes first."""

    def at(now: float, *more: Job) -> Plan:
        ends = [ended("first", 100.0), ended("second", 100.5)]
        return KubeDefault()(a_snapshot(a_job("old", 2), *ends, *more, nodes=some_nodes(1, gpus=2), now=now))

    assert started(at(100.5)) == ["old"], "there is nothing else to try"
    first = at(100.5, a_job("new", 1, submit=100.5)).decisions[0]
    assert first.job == "new"
    assert at(105.0, a_job("new", 1, submit=105.0)).decisions[0].job == "old", "it has waited for longer"


def ended(name: str, when: float) -> Put:
    return Put(a_job(name), State.FINISHED, columns={"since": when})


def test_two_half_gangs_wait_for_each_other_for_ever() -> None:
    """Three GPUs are free when A comes, one more when B comes: each holds a part, neither trains, nobody ends."""
    jobs = [
        a_job("first", 1, seconds=10.0),
        a_job("A", 4, submit=1.0, seconds=10.0),
        a_job("B", 4, submit=10.0, seconds=10.0),
    ]
    sim = SimCluster(some_nodes(1, gpus=4), jobs, World(samples=False))
    run(sim, KubeDefault(first_backoff=600.0, longest_backoff=600.0), DeclaredBook())
    assert sim.board.unfinished == 2
    assert [sim.board.placement(sim.board.row(name)).width() for name in ("A", "B")] == [3, 1]  # type: ignore[union-attr,arg-type]


def test_a_gang_below_its_least_makes_no_headway_until_it_is_whole() -> None:
    jobs = [a_job("first", 2, seconds=100.0), a_job("gang", 4, submit=1.0, seconds=10.0)]
    sim = SimCluster(some_nodes(1, gpus=4), jobs, World(samples=False))
    run(sim, KubeDefault(), DeclaredBook())
    assert sim.board.unfinished == 0
    assert sim.now == 110.0
