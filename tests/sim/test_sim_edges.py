"""Edge cases of the simulator, each with a defined result: no jobs, too large, zero duration, all at once."""

from __future__ import annotations

import math

import pytest

from headway.core.placement import Placement
from headway.core.plan import Plan, Scale, Start
from headway.core.snapshot import Snapshot
from headway.cycle.loop import run
from headway.estimates.plain_books import OracleBook
from headway.policies.registry import POLICIES
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.metrics import Tally
from headway.sim.cluster import Costs, SimCluster, SimulationError, World
from headway.sim.faults import Faults, Outage
from make import a_job, a_role, some_nodes


def simulate(jobs, *, nodes=None, world=None, policy="first-fit", log=None):
    """The tally, and completion times by job."""
    sim = SimCluster(nodes or some_nodes(2, gpus=4), jobs, world or World())
    tally = Tally()
    writer = LogWriter(log, Head("sim", policy, "oracle"), tally)
    chosen = POLICIES[policy]() if isinstance(policy, str) else policy
    run(sim, chosen, OracleBook(sim.truth), lambda d: writer.cycle(d.snapshot, d.plan, d.refusals))
    writer.end(sim.now, sim.board.unfinished)
    return tally, {str(course.job.id): course.ended for course in tally.courses.values()}


def test_empty_trace() -> None:
    tally, ends = simulate([])
    assert ends == {}
    assert tally.result()["jobs"] == 0


def test_zero_durations_end_when_they_start() -> None:
    _, ends = simulate([a_job("a", 8, seconds=0.0, submit=3.0), a_job("b", 8, seconds=0.0, submit=3.0)])
    assert ends == {"a": 3.0, "b": 3.0}


def test_a_job_larger_than_the_cluster_waits_and_the_rest_goes_on() -> None:
    tally, ends = simulate([a_job("huge", 9, seconds=5.0), a_job("b", 8, seconds=5.0)])
    assert ends == {"huge": None, "b": 5.0}
    assert tally.result()["unfinished"] == 1


def test_ties_are_settled_by_arrival_and_ends_come_before_starts() -> None:
    jobs = [a_job("a", 8, seconds=10.0), a_job("c", 8, seconds=1.0, submit=10.0), a_job("b", 8, seconds=1.0)]
    _, ends = simulate(jobs, policy="fifo")
    assert ends == {"a": 10.0, "b": 11.0, "c": 12.0}


def test_a_thousand_jobs_at_one_instant() -> None:
    tally, ends = simulate([a_job(f"j{i:04}", 1, seconds=1.0) for i in range(1000)])
    assert sorted(ends.values()) == [float(1 + i // 8) for i in range(1000)]
    assert tally.complete


def test_a_job_without_a_duration_is_refused_in_a_sentence() -> None:
    with pytest.raises(SimulationError, match=r"job 'a': field seconds is needed"):
        simulate([a_job("a")])


def test_a_policy_that_decides_for_ever_is_told_so(monkeypatch) -> None:
    monkeypatch.setattr("headway.sim.cluster.MAX_CYCLES_AT_ONE_INSTANT", 50)

    def restless(snapshot: Snapshot) -> Plan:
        return Plan((), snapshot.now)

    with pytest.raises(SimulationError, match="makes decisions without end at second 0"):
        simulate([a_job("a", seconds=1.0)], policy=restless)


def test_a_policy_that_only_waits_comes_to_an_end() -> None:
    def waits(snapshot: Snapshot) -> Plan:
        return Plan((), snapshot.now + 1.0)

    tally, _ = simulate([a_job("a", seconds=1.0)], policy=waits)
    assert tally.result()["unfinished"] == 1


def test_a_gang_below_its_least_holds_and_does_not_train() -> None:
    def half(snapshot: Snapshot) -> Plan:
        starts = [Start(snapshot.jobs.job(int(row)).id, Placement(((0, 0),))) for row in snapshot.jobs.waiting()]
        return Plan(tuple(starts))

    half.gangless = True
    tally, ends = simulate([a_job("a", 3, seconds=1.0)], policy=half)
    assert ends == {"a": None}
    assert tally.result()["unfinished"] == 1


def test_costs_are_paid() -> None:
    world = World(costs=Costs(start=7.0, save=2.0, stop=1.0))
    _, ends = simulate([a_job("a", 8, seconds=10.0), a_job("b", 8, seconds=10.0)], world=world, policy="fifo")
    assert ends == {"a": 17.0, "b": 34.0}


@pytest.mark.parametrize(
    ("every", "end"),
    [(0.0, 225.0), (40.0, 185.0), (25.0, 150.0)],
    ids=["all is lost", "back to the last checkpoint", "failed just after it saved"],
)
def test_work_since_the_last_checkpoint_is_lost(every, end) -> None:
    """It fails after 75 of 100 s, for 50 s; the rest, and what was lost, is trained from second 125 on."""
    world = World(faults=Faults(outages=(Outage("n0", 75.0, 50.0),)), checkpoint_seconds=every)
    tally, ends = simulate([a_job("a", 4, seconds=100.0)], nodes=some_nodes(1, gpus=4), world=world)
    assert ends == {"a": end}
    assert tally.result()["stops"] == 1


@pytest.mark.parametrize(
    ("save_every", "cost", "end"),
    [(40.0, 0.0, 185.0), (0.0, 0.0, 225.0), (20.0, 0.4, 166.6), (20.0, 1.0, 178.0)],
    ids=["as the job says", "never", "a save takes time", "a dear save is asked for less often: every 49 s"],
)
def test_a_job_that_is_asked_by_time_loses_what_came_since_its_last_save(save_every, cost, end) -> None:
    """As above; 100 s of training with four saves of 0.4 s take 101.6 s, and 60 of the first 75 s are kept."""
    world = World(faults=Faults(outages=(Outage("n0", 75.0, 50.0),)), checkpoint_seconds=None, costs=Costs(save=cost))
    job = a_job("a", 4, seconds=100.0, save_every=save_every)
    _, ends = simulate([job], nodes=some_nodes(1, gpus=4), world=world)
    assert ends == {"a": pytest.approx(end, abs=0.001)}


def test_without_failures_and_without_a_cost_saves_by_time_change_nothing() -> None:
    job = a_job("a", 4, seconds=5000.0, save_every=10.0)
    _, ends = simulate([job], nodes=some_nodes(1, gpus=4), world=World(checkpoint_seconds=None))
    assert ends == {"a": 5000.0}


def test_a_job_that_cannot_save_loses_everything() -> None:
    world = World(faults=Faults(outages=(Outage("n0", 75.0, 50.0),)), checkpoint_seconds=10.0)
    _, ends = simulate([a_job("a", 4, seconds=100.0, checkpoints=False)], nodes=some_nodes(1, gpus=4), world=world)
    assert ends == {"a": 225.0}


def test_only_gangs_on_the_failed_node_are_interrupted() -> None:
    world = World(faults=Faults(outages=(Outage("n1", 5.0, 10.0),)))
    jobs = [a_job("a", 4, seconds=10.0), a_job("b", 4, seconds=10.0), a_job("wide", 8, seconds=1.0, submit=1.0)]
    _, ends = simulate(jobs, world=world)
    assert ends == {"a": 10.0, "b": 25.0 - 5.0, "wide": 21.0}


def test_an_unknown_node_cannot_fail() -> None:
    with pytest.raises(Exception, match="field outages: there is no node 'nowhere'"):
        simulate([a_job("a", seconds=1.0)], world=World(faults=Faults(outages=(Outage("nowhere", 1.0, 1.0),))))


def test_failures_alone_do_not_keep_a_simulation_going() -> None:
    world = World(faults=Faults(mean_seconds_between=10.0, mean_repair_seconds=1.0))
    tally, _ = simulate([a_job("huge", 9, seconds=5.0)], world=world)
    assert tally.result()["unfinished"] == 1


def test_refused_starts_are_tried_again_and_stragglers_are_slow() -> None:
    refusing = World(costs=Costs(start=1.0), faults=Faults(refused_starts=0.9), seed=2)
    tally, ends = simulate([a_job("a", seconds=10.0)], world=refusing)
    starts = tally.decisions["start"]
    assert starts > 1
    assert ends == {"a": 10.0 + starts}
    _, slow = simulate([a_job("a", seconds=10.0)], world=World(faults=Faults(stragglers=1.0, straggler_speed=0.25)))
    assert slow == {"a": 40.0}


def test_same_seed_same_log_byte_for_byte(tmp_path) -> None:
    world = World(
        costs=Costs(start=1.0),
        faults=Faults(mean_seconds_between=50.0, mean_repair_seconds=9.0, stragglers=0.3),
        seed=5,
    )
    jobs = [a_job(f"j{i}", 1 + i % 4, seconds=20.0 + i, submit=float(i), steps=50) for i in range(30)]
    for name in ("one", "other"):
        simulate(jobs, world=world, log=tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    simulate(jobs, world=World(costs=world.costs, faults=world.faults, seed=6), log=tmp_path / "third")
    assert (tmp_path / "one").read_bytes() != (tmp_path / "third").read_bytes()


def test_stepping_is_running() -> None:
    jobs = [a_job(f"j{i}", 1 + i % 5, seconds=20.0 + i, submit=float(i % 7)) for i in range(40)]
    _, ran = simulate(jobs)
    sim, policy = SimCluster(some_nodes(2, gpus=4), jobs, World()), POLICIES["first-fit"]()
    stepped = {}
    while (snapshot := sim.next_snapshot()) is not None:
        stepped |= {str(snapshot.jobs.job(r).id): snapshot.now for r in snapshot.changed if snapshot.jobs.state[r] == 7}
        sim.apply(policy(snapshot))
    assert stepped == ran
    assert math.isfinite(sim.now)


def test_elastic_ps_job_scales_its_workers() -> None:
    roles = (a_role("ps", 1, cpu=1), a_role("worker", 2, cpu=1, min=2, max=3))
    _, ends = simulate([a_job("a", roles=roles, seconds=9.0)], nodes=some_nodes(1, gpus=0, cpu=8))
    assert ends == {"a": 9.0}


@pytest.mark.parametrize(("nodes", "seconds"), [((0, 0), 5.0), ((1,), 5.0), ((), 0.0), ((0,), 0.0)])
def test_a_replica_on_another_node_is_a_new_one_and_takes_its_time(nodes, seconds) -> None:
    job = a_job("a", roles=(a_role("worker", 1, cpu=1, min=1, max=3),))
    here = Placement(((0,),))
    assert Costs(scale=5.0).of(Scale(job.id, "worker", nodes), here, job) == seconds
