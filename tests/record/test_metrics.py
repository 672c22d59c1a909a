"""Metrics: worked by hand on small runs, and against an integration that does not know the log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.plain_books import OracleBook
from headway.policies.registry import POLICIES
from headway.record.holdings import Holdings
from headway.record.lines import Change, CycleLine, End, Head, JobLine, NodesLine, pack_job
from headway.record.log import LogWriter, read
from headway.record.metrics import Tally
from headway.sim.cluster import SimCluster
from headway.sim.faults import Faults
from headway.sim.world import Costs, World
from make import a_job, a_node, a_role, some_nodes
from strategies import workloads


class Watched(SimCluster):
    """A simulated cluster that notes what is held after each plan: an integration of its own."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[tuple[float, np.ndarray[Any, Any]]] = []

    def apply(self, plan: Any) -> None:
        super().apply(plan)
        whole = np.where(self.board.nodes.ready, self.board.nodes.capacity, 0)
        self.seen.append((self.now, (whole - self.board._free).astype(float)))

    def areas(self) -> np.ndarray[Any, Any]:
        """By kind."""
        return sum(((now_held.sum(axis=1)) * (then - now) for (now, now_held), (then, _) in pairwise(self.seen)),
                   start=np.zeros(len(self.board.nodes.kinds)))  # fmt: skip


def simulated(
    jobs: Sequence[Job],
    nodes: Nodes,
    policy: str = "fifo",
    *,
    costs: Costs | None = None,
    log: Any = None,
    world: World | None = None,
    **keep: bool,
) -> tuple[Tally, Watched]:
    cluster = Watched(nodes, jobs, world or World(costs=costs or Costs(), samples=False))
    tally = Tally(**keep)
    writer = LogWriter(log, Head("sim", policy, "oracle"), tally)
    book = OracleBook(cluster.truth)
    run(cluster, POLICIES[policy](), book, lambda d: writer.cycle(d.snapshot, d.plan, d.refusals))
    writer.end(cluster.now, cluster.board.unfinished)
    return tally, cluster


def test_a_job_that_starts_at_once_is_not_unfairly_late() -> None:
    """Four short jobs on four GPUs, each up after a second; then the same four on two."""
    jobs = [a_job(f"j{number}", seconds=10.0) for number in range(4)]
    costs = Costs(start=1.0)
    result = simulated(jobs, some_nodes(1, gpus=4), costs=costs)[0].result()
    assert result["fairness"]["worst"] == pytest.approx(1.1)
    assert result["fairness"]["unfair"] == 0.0
    late = simulated(jobs, some_nodes(1, gpus=2), costs=costs)[0].result()
    assert late["fairness"]["unfair"] == 0.5


def test_two_jobs_one_after_the_other_by_hand() -> None:
    jobs = [a_job("a", seconds=10.0, user="ana"), a_job("b", seconds=5.0, user="ben", deadline=12.0)]
    result = simulated(jobs, some_nodes(1, gpus=1))[0].result()
    assert result["jct"]["mean"] == 12.5
    assert result["wait"] == {"mean": 5.0, "p50": 5.0, "p95": 9.5, "p99": 9.9}
    assert (result["makespan"], result["utilisation"]) == (15.0, {"gpu": 1.0})
    assert result["deadlines"] == {"met": 0, "total": 1}
    assert result["slowdown"]["mean"] == pytest.approx((1.0 + 1.5) / 2), "b alone counts as 10 s"
    # two jobs share one GPU for 10 s, then b has it: an equal share would take a 20 s and b 5 s x 25/15
    assert result["fairness"]["mean"] == pytest.approx((10 / 20 + 15 / (5 * 25 / 15)) / 2)
    assert result["fairness"]["unfair"] == 0.5
    assert result["stalled"] == {}
    assert result["held"] == {"gpu": 15.0}
    assert result["users"]["ben"]["jct"]["mean"] == 15.0
    assert result["users"]["ben"]["held"] == 5.0
    assert result["queues"] == {}


def test_starting_is_held_and_not_running() -> None:
    jobs = [a_job("a", gpus=4, seconds=100.0)]
    tally, _ = simulated(jobs, some_nodes(1, gpus=4), costs=Costs(start=7.0))
    result = tally.result()
    assert result["jct"]["mean"] == 107.0
    assert result["wait"]["mean"] == 7.0
    assert (result["held"]["gpu"], result["stalled"]["gpu"]) == (428.0, 28.0)


def test_a_job_never_seen_running_is_counted_all_the_same() -> None:
    """It starts at one event and ends at the next, so that no cycle shows it up: the plan tells what it held."""
    tally, cluster = simulated([a_job("a", gpus=2, seconds=30.0)], some_nodes(1, gpus=4))
    assert tally.cycles == 2
    assert tally.result()["held"] == {"gpu": 60.0}
    assert cluster.areas()[0] == 60.0


def test_half_gangs_stall() -> None:
    """Pod by pod, two gangs of four hold two GPUs each of four, until one gives up or for ever."""
    jobs = [a_job("a", gpus=3, seconds=10.0), a_job("b", gpus=3, seconds=10.0)]
    result = simulated(jobs, some_nodes(1, gpus=4), "kube-default")[0].result()
    assert result["stalled"].get("gpu", 0.0) > 0


def test_fragmentation_by_hand() -> None:
    """One of two GPUs is held on one of two nodes for 10 s while a gang of four cannot start."""
    jobs = [a_job("a", seconds=10.0), a_job("b", gpus=4, seconds=10.0, submit=0.0)]
    result = simulated(jobs, some_nodes(2, gpus=2))[0].result()
    assert result["fragmentation"] == {"split": pytest.approx(1 / 3, abs=1e-6), "idle_while_waiting": 0.375}


def test_what_is_held_on_a_failed_node_is_not_free_there() -> None:
    """A node is told of as failed before its jobs are: until then it has neither free nor split capacity."""
    holdings = Holdings()
    holdings.set_nodes(some_nodes(2, gpus=4))
    holdings.advance(0.0)
    holdings.arrive(0, a_job("a", gpus=3))
    holdings.decided(0, ["start", "a", [[[0, 0, 0]]]], 0.0)
    holdings.advance(10.0)
    assert (holdings.free_area, holdings.split_area) == (50.0, 10.0)
    holdings.set_nodes(Nodes.of([a_node("n0", gpus=4, ready=False), a_node("n1", gpus=4)]))
    holdings.advance(20.0)
    assert (holdings.free_area, holdings.split_area) == (90.0, 10.0)
    holdings.set_nodes(some_nodes(2, gpus=4))
    holdings.advance(30.0)
    assert (holdings.free_area, holdings.split_area) == (140.0, 20.0)


def test_cpu_is_told_in_cores_and_memory_in_gib() -> None:
    job = a_job("a", roles=[a_role(cpu=1.5, memory=2048)], seconds=10.0)
    result = simulated([job], some_nodes(1, gpus=0, cpu=3, memory=4096))[0].result()
    assert result["held"] == {"cpu": 15.0, "memory": 20.0}
    assert result["utilisation"] == {"cpu": 0.5, "memory": 0.5}


def test_the_same_from_the_file_as_while_it_was_written(tmp_path: Any) -> None:
    jobs = [a_job(f"j{i}", gpus=1 + i % 3, seconds=10.0 + i, submit=float(i)) for i in range(40)]
    log = tmp_path / "run.log.gz"
    live, _ = simulated(jobs, some_nodes(2, gpus=4), "srtf", costs=Costs(start=1.0, save=2.0), log=log)
    again = Tally()
    for line in read(log):
        again(line)
    assert again.result() == live.result()


def test_an_empty_log_has_a_result() -> None:
    assert Tally().result()["jct"] == {"mean": None, "p50": None, "p95": None, "p99": None}


COSTS = st.sampled_from([Costs(), Costs(start=3.0), Costs(start=2.0, save=1.0, stop=1.0, scale=4.0)])


@settings(max_examples=60, deadline=None)
@given(workloads(), st.sampled_from(sorted(POLICIES)), COSTS, st.booleans())
def test_areas_agree_with_what_was_truly_held(jobs: list[Job], policy: str, costs: Costs, keep: bool) -> None:
    tally, cluster = simulated(jobs, some_nodes(3, gpus=2), policy, costs=costs, stays=keep)
    result = tally.result()
    held = cluster.areas()[0]
    assert result["held"].get("gpu", 0.0) == pytest.approx(held, abs=1e-6)
    assert result["stalled"].get("gpu", 0.0) <= held + 1e-6
    if not any(vars_ for vars_ in (costs.start, costs.save, costs.stop)) and policy != "kube-default":
        assert result["stalled"].get("gpu", 0.0) == pytest.approx(0.0, abs=1e-6)
    for course in tally.courses.values():
        if course.ended is not None:
            assert -1e-6 <= course.up <= course.completion + 1e-6  # type: ignore[operator]
    if keep:
        kept = tally.holdings.kept
        assert kept is not None
        spans, places = kept.span_table(), kept.place_table()
        assert float(((spans[:, 1] - spans[:, 0]) * spans[:, 3]).sum()) == pytest.approx(held, abs=1e-6)
        seconds = spans[places[:, 0].astype(int), 1] - spans[places[:, 0].astype(int), 0]
        assert float((seconds * places[:, 2]).sum()) == pytest.approx(held, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(workloads(), st.sampled_from(sorted(POLICIES)), st.integers(0, 1000))
def test_nodes_that_fail_and_come_back(jobs: list[Job], policy: str, seed: int) -> None:
    faults = Faults(mean_seconds_between=60.0, mean_repair_seconds=8.0, refused_starts=0.1, stragglers=0.2)
    world = World(costs=Costs(start=2.0), samples=False, faults=faults, seed=seed, checkpoint_seconds=7.0)
    tally, cluster = simulated(jobs, some_nodes(3, gpus=2), policy, world=world)
    result = tally.result()
    assert result["held"].get("gpu", 0.0) == pytest.approx(cluster.areas()[0], abs=1e-6)
    assert result["utilisation"].get("gpu", 0.0) <= 1.0 + 1e-6, "what is down has no capacity, from that moment on"


def test_a_kind_of_resource_that_comes_later() -> None:
    """A node with memory joins while a job that asks for GPUs only runs; another asks for both."""
    one, other = a_job("a", gpus=2, seconds=20.0), a_job("b", roles=[a_role(gpu=1, memory=1024)], seconds=5.0)
    tally = Tally()
    first, both = some_nodes(1, gpus=2), [a_node("n0", gpus=2), a_node("n1", gpus=2, memory=2048)]

    def change(serial: int, state: State, since: float, attained: float, nodes: list[int] | None = None) -> Change:
        return Change(serial, int(state), since, attained, 0.0, None, None, 0.0, 0, nodes and [[nodes]], None)

    for line in (
        Head("kube", "fifo", "declared"), NodesLine(list(first.nodes), list(first.kinds)), JobLine(0, pack_job(one)),
        CycleLine(0, 0.0, changed=[change(0, State.RUNNING, 0.0, 0.0, [0, 0])]),
        NodesLine(both, ["gpu", "memory"]), JobLine(1, pack_job(other)),
        CycleLine(1, 10.0, changed=[change(1, State.RUNNING, 10.0, 0.0, [1])]),
        CycleLine(2, 15.0, changed=[change(1, State.FINISHED, 15.0, 5.0)]),
        CycleLine(3, 20.0, changed=[change(0, State.FINISHED, 20.0, 20.0)]), End(20.0),
    ):  # fmt: skip
        tally(line)
    result = tally.result()
    assert result["held"] == {"gpu": 45.0, "memory": 5.0}
    assert result["utilisation"] == {"gpu": 0.75, "memory": 0.25}


def test_a_job_that_is_edited_while_it_runs_is_one_job() -> None:
    old, new = a_job("a", gpus=1, seconds=20.0), a_job("a", gpus=1, seconds=20.0, deadline=40.0)
    nodes = some_nodes(1, gpus=2)

    def change(serial: int, state: State, since: float, attained: float, nodes: list[int] | None = None) -> Change:
        return Change(serial, int(state), since, attained, 0.0, None, 0.0, 0.0, 0, nodes and [[nodes]], None)

    tally = Tally(courses=True)
    begun = [
        Head("local", "fifo", "declared"), NodesLine(list(nodes.nodes), list(nodes.kinds)), JobLine(0, pack_job(old)),
        CycleLine(0, 0.0, changed=[change(0, State.RUNNING, 0.0, 0.0, [0])]),
    ]  # fmt: skip
    exchanged = [change(0, State.CANCELLED, 10.0, 10.0), change(1, State.RUNNING, 0.0, 0.0, [0])]
    for line in (
        *begun, JobLine(1, pack_job(new)), CycleLine(1, 10.0, changed=exchanged),
        begun[0], begun[1], JobLine(0, pack_job(old)), JobLine(1, pack_job(new)),  # it goes on after a restart
        CycleLine(0, 12.0, changed=[change(0, State.CANCELLED, 10.0, 10.0), change(1, State.RUNNING, 0.0, 0.0, [0])]),
        CycleLine(1, 20.0, changed=[change(1, State.FINISHED, 20.0, 20.0)]), End(20.0),
    ):  # fmt: skip
        tally(line)
    result = tally.result()
    [course] = tally.courses.values()
    assert (result["jobs"], result["finished"], result["cancelled"]) == (1, 1, 0)
    assert (course.up, course.waited, course.met) == (20.0, 0.0, True)
    assert result["held"] == {"gpu": 20.0}
    assert (course.spans[0][0], course.spans[-1][1]) == (0.0, 20.0)
