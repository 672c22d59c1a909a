"""Jobs on the same node: they share cpu above their requests and slow each other down."""

from __future__ import annotations

import pytest

from headway.core.placement import Placement
from headway.core.plan import Plan, Start
from headway.core.states import State
from headway.sim.cluster import SimCluster, World
from headway.sim.sharing import Sharing
from make import a_job, a_role, some_nodes


def test_cpu_above_requests_is_shared_and_given_back() -> None:
    """One core asked for, up to four allowed, on a node of four: alone four cores, with a neighbour two each."""
    job = a_role(replicas=1, cpu=1, limit=(("cpu", 4000),))
    jobs = [a_job("a", roles=(job,), seconds=100.0), a_job("b", roles=(job,), seconds=100.0, submit=10.0)]
    nodes = some_nodes(1, gpus=0, cpu=4)
    ends, rates = _run(jobs, nodes, World(sharing=Sharing(cpu=True), samples=False))
    alone, together = 1 / (0.03 + 0.97 / 4), 1 / (0.03 + 0.97 / 2)
    assert rates[0] == {"a": pytest.approx(alone)}
    assert rates[1] == {"a": pytest.approx(together), "b": pytest.approx(together)}
    first = 10.0 + (100.0 - 10.0 * alone) / together
    assert ends["a"] == pytest.approx(first)
    assert ends["b"] == pytest.approx(first + (100.0 - (first - 10.0) * together) / alone)


def test_neighbours_slow_each_other_down() -> None:
    world = World(sharing=Sharing(neighbour_loss=0.4), samples=False)
    jobs = [a_job("a", 2, seconds=10.0), a_job("b", 1, seconds=100.0, submit=5.0)]
    ends, rates = _run(jobs, some_nodes(1, gpus=4), world)
    assert rates[1] == {"a": pytest.approx(1 - 0.4 / 2), "b": pytest.approx(1 - 0.4 * 2 / 3)}
    assert ends["a"] == pytest.approx(5.0 + 5.0 / 0.8)


def test_without_sharing_no_other_job_is_touched() -> None:
    touched = []
    sim = SimCluster(some_nodes(1, gpus=4), [a_job(f"j{i}", 1, seconds=9.0, submit=float(i)) for i in range(4)])
    sim.board.touch = touched.append
    while (snapshot := sim.next_snapshot()) is not None:
        sim.apply(_start_all(snapshot))
    assert not touched


def _start_all(snapshot) -> Plan:
    return Plan(tuple(
        Start(snapshot.jobs.job(int(row)).id, Placement(((0,) * snapshot.jobs.job(int(row)).replicas,)))
        for row in snapshot.jobs.waiting()
    ))  # fmt: skip


def _run(jobs, nodes, world):
    """When each ends, and the rates after every cycle."""
    sim, ends, rates = SimCluster(nodes, jobs, world), {}, []
    while (snapshot := sim.next_snapshot()) is not None:
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                ends[snapshot.jobs.job(row).id] = snapshot.now
        sim.apply(_start_all(snapshot))
        rates.append({job.id: float(sim.work.rate[sim.board.row(job.id)]) for job in jobs
                      if sim.board.row(job.id) is not None and sim.work.rate[sim.board.row(job.id)] > 0})  # fmt: skip
    return ends, rates
