"""Unlike accelerators: who runs where, what stays as it is, and that it is told why."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from headway.cli.app import app_for
from headway.core.check import check
from headway.core.estimates import OnTypes
from headway.core.job import Can, JobId
from headway.core.node import Nodes
from headway.core.plan import Start
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.plain_books import OracleBook
from headway.policies.headway import Headway
from headway.policies.wrappers.queues import Queued
from headway.policies.wrappers.quota import Queue
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.sim.cluster import Costs, SimCluster, World
from headway.sim.speed import Speed
from make import a_job, a_node, a_role, a_snapshot, decided, running, started
from strategies import snapshots

NODES = Nodes.of([a_node("slow", gpus=1, accelerator="k80"), a_node("fast", gpus=1, accelerator="v100")])
PLAIN = Headway()


def _believed(snapshot, gains):
    """`gains`: by job, how many times as fast it is on a V100, the second type."""
    jobs, fast = snapshot.jobs, snapshot.nodes.types.of_node.max()

    def types(rows):
        told = []
        for row in rows:
            gain, where = gains[jobs.job(row).id], snapshot.placements.get(row)
            here = where is not None and snapshot.nodes.types.of_node[min(where.used_nodes())] == fast
            told.append(OnTypes((gain, 1.0) if here or where is None else (1.0, 1.0 / gain), (True, True)))
        return told

    snapshot.estimates.with_types(types)
    return snapshot


def _where(plan):
    return {one.job: one.placement.nodes for one in plan.decisions if isinstance(one, Start)}


def test_each_job_goes_where_it_gains_most():
    jobs = [a_job("a", seconds=3600.0), a_job("b", seconds=3600.0)]
    snapshot = _believed(a_snapshot(*jobs, nodes=NODES, now=10.0), {"a": 1.5, "b": 8.0})
    assert _where(PLAIN(snapshot)) == {"a": ((0,),), "b": ((1,),)}
    other_way = _believed(a_snapshot(*jobs, nodes=NODES, now=10.0), {"a": 8.0, "b": 1.5})
    assert _where(PLAIN(other_way)) == {"a": ((1,),), "b": ((0,),)}


def test_without_beliefs_about_types_or_without_the_setting_nothing_changes():
    jobs = [a_job("a", seconds=3600.0), a_job("b", seconds=3000.0)]
    plain = a_snapshot(*jobs, nodes=NODES, now=10.0)
    off = replace(PLAIN, by_type=False)
    assert PLAIN(plain) == off(plain) == off(_believed(a_snapshot(*jobs, nodes=NODES, now=10.0), {"a": 2, "b": 8}))


def test_a_priority_comes_before_what_others_gain():
    jobs = [a_job("a", seconds=3600.0, priority=5), a_job("b", seconds=3600.0), a_job("c", seconds=60.0)]
    snapshot = _believed(a_snapshot(*jobs, nodes=NODES, now=10.0), {"a": 1.5, "b": 8.0, "c": 8.0})
    assert _where(PLAIN(snapshot))["a"] == ((1,),)


def test_a_running_job_is_stopped_only_for_one_that_takes_its_room():
    held = running(a_job("a", seconds=9000.0), (1,), since=0.0, touched=-500.0)
    alone = _believed(a_snapshot(held, nodes=NODES, now=1000.0), {"a": 4.0})
    assert decided(PLAIN(alone)) == {}
    longer = running(a_job("c", seconds=90_000.0), (0,), since=0.0, touched=-500.0)
    jobs = [held, a_job("b", seconds=600.0), longer]
    both = _believed(a_snapshot(*jobs, nodes=NODES, now=1000.0), {"a": 1.1, "b": 8.0, "c": 1.1})
    assert decided(PLAIN(both)) == {"a": "stop"}


@pytest.mark.parametrize("kept", [{"can": Can.NOTHING}, {"touched": 990.0}])
def test_a_job_that_may_not_be_stopped_or_was_just_started_stays(kept):
    more = {"can": kept["can"]} if "can" in kept else {}
    held = running(a_job("a", seconds=9000.0, **more), (1,), since=0.0, touched=kept.get("touched", -500.0))
    snapshot = _believed(a_snapshot(held, a_job("b", seconds=600.0), nodes=NODES, now=1000.0), {"a": 1.1, "b": 8.0})
    assert decided(PLAIN(snapshot)).get("a") is None


def test_a_job_runs_where_it_may():
    job = a_job("a", roles=[a_role(accelerator="K80")], seconds=600.0)
    assert _where(PLAIN(_believed(a_snapshot(job, nodes=NODES, now=10.0), {"a": 8.0}))) == {"a": ((0,),)}


def test_a_gang_has_one_type_and_its_servers_may_be_anywhere():
    nodes = Nodes.of([a_node("slow", gpus=4, cpu=1, accelerator="k80"), a_node("fast", gpus=2, accelerator="v100")])
    gang = a_job("a", gpus=4, seconds=600.0)
    assert _where(PLAIN(_believed(a_snapshot(gang, nodes=nodes, now=10.0), {"a": 8.0}))) == {"a": ((0,) * 4,)}
    roles = [a_role("worker", 2), a_role("ps", 1, cpu=1)]
    served = _believed(a_snapshot(a_job("a", roles=roles, seconds=600.0), nodes=nodes, now=10.0), {"a": 8.0})
    assert _where(PLAIN(served)) == {"a": ((1, 1), (0,))}


def test_a_gang_that_runs_is_of_the_type_of_its_workers_wherever_its_servers_are():
    nodes = Nodes.of([a_node("slow", gpus=4, cpu=1, accelerator="k80"), a_node("fast", gpus=2, accelerator="v100")])
    roles = [a_role("worker", 2), a_role("ps", 1, cpu=1)]
    gang = running(a_job("a", roles=roles, seconds=9000.0), (1, 1), (0,), since=0.0, touched=-500.0)
    snapshot = _believed(a_snapshot(gang, nodes=nodes, now=1000.0), {"a": 3.0})
    assert "the list of v100" in PLAIN.explain(snapshot, 0)["type"]["sentence"]


def test_jobs_without_accelerators_and_those_that_need_several_types_run_too():
    nodes = Nodes.of([a_node("slow", gpus=2, cpu=4, accelerator="k80"), a_node("fast", gpus=2, accelerator="v100")])
    plain = a_job("a", roles=[a_role(cpu=1)], seconds=600.0)
    wide = a_job("b", gpus=4, seconds=600.0)
    assert started(PLAIN(_believed(a_snapshot(plain, wide, nodes=nodes, now=10.0), {"a": 1.0, "b": 1.0}))) == ["a", "b"]


def test_a_deadline_chooses_the_type_on_which_it_is_met_and_comes_first_there():
    jobs = [a_job("a", seconds=1000.0), a_job("b", seconds=3000.0, deadline=4000.0)]
    snapshot = _believed(a_snapshot(*jobs, nodes=NODES, now=10.0), {"a": 8.0, "b": 1.5})
    assert _where(PLAIN(snapshot)) == {"a": ((0,),), "b": ((1,),)}
    told = PLAIN.explain(snapshot, 1)
    assert "its deadline wants it there now" in told["type"]["sentence"]
    assert "in time" in told["deadline"]
    none = _believed(a_snapshot(*jobs, nodes=NODES, now=10.0), {"a": 8.0, "b": 1.5})
    assert _where(replace(PLAIN, deadline_share=0.0)(none)) == {"a": ((1,),), "b": ((0,),)}


def test_a_priority_comes_before_a_deadline():
    jobs = [a_job("a", seconds=3000.0, priority=5), a_job("b", seconds=3000.0, deadline=4000.0)]
    snapshot = _believed(a_snapshot(*jobs, nodes=NODES, now=10.0), {"a": 8.0, "b": 1.5})
    assert _where(PLAIN(snapshot)) == {"a": ((1,),)}


def test_a_running_job_goes_to_the_type_on_which_it_is_in_time():
    slow = running(a_job("a", seconds=30_000.0, deadline=9000.0), (0,), since=0.0, touched=-500.0)
    rival = running(a_job("b", seconds=9000.0), (1,), since=0.0, touched=-500.0)
    assert decided(PLAIN(_believed(a_snapshot(slow, rival, nodes=NODES, now=1000.0), {"a": 8.0, "b": 9.0}))) == {
        "a": "stop", "b": "stop",
    }  # fmt: skip


def test_a_running_job_that_is_in_time_keeps_its_type_unless_a_faster_one_is_idle():
    held = running(a_job("a", seconds=3000.0, deadline=5000.0), (0,), since=0.0, touched=-500.0)
    rival = running(a_job("b", seconds=9000.0, deadline=12_000.0), (1,), since=0.0, touched=-500.0)
    gains = {"a": 8.0, "b": 9.0}
    assert decided(PLAIN(_believed(a_snapshot(held, rival, nodes=NODES, now=1000.0), gains))) == {}
    assert decided(PLAIN(_believed(a_snapshot(held, nodes=NODES, now=1000.0), gains))) == {"a": "stop"}


HALF = Nodes.of(
    [*(a_node(f"v{n}", gpus=4, accelerator="v100") for n in range(2)), a_node("k", gpus=1, accelerator="k80")]
)


def _half_full(*waiting, **more):
    """Two of four V100s of each node are free."""
    held = [running(a_job(f"r{n}", seconds=9000.0 + n, can=more.get("can", Can.everything())), (n // 2,), since=0.0,
                    touched=more.get("touched", -500.0)) for n in range(4)]  # fmt: skip
    jobs = [*held, *waiting]
    return _believed(a_snapshot(*jobs, nodes=HALF, now=1000.0), {f"r{n}": 5.0 for n in range(4)} | {"w": 5.0, "s": 5.0})


WHOLE = a_job("w", roles=[a_role(gpu=4)], seconds=100.0)


def test_jobs_behind_make_room_for_one_that_needs_a_whole_node():
    assert decided(PLAIN(_half_full(WHOLE))) == {"r3": "stop", "r2": "stop"}


def test_a_node_is_kept_for_it_while_jobs_there_may_not_be_stopped_yet():
    assert decided(PLAIN(_half_full(WHOLE, a_job("s", seconds=20_000.0), touched=990.0))) == {}


def test_accelerators_that_it_cannot_have_go_to_others():
    bound = _half_full(WHOLE, a_job("s", seconds=20_000.0), can=Can.everything() & ~Can.STOP)
    assert decided(PLAIN(bound)) == {"s": "start"}


def test_it_is_told_why_this_type():
    jobs = [a_job("a", seconds=3600.0), a_job("b", seconds=3600.0)]
    snapshot = _believed(a_snapshot(*jobs, nodes=NODES, now=10.0), {"a": 1.4, "b": 3.1})
    assert PLAIN.explain(snapshot, 0)["type"]["sentence"] == (
        "It is in the list of k80, where 0 jobs come before it: it would gain 1.4\N{MULTIPLICATION SIGN} on v100, "
        "the jobs in the list of v100 3.1\N{MULTIPLICATION SIGN}."
    )
    assert "it gains 3.1\N{MULTIPLICATION SIGN} over k80" in PLAIN.explain(snapshot, 1)["type"]["sentence"]


# ── whole runs ──────────────────────────────────────────────────────────────────────────────────────────────

MIXED = Nodes.of(
    [a_node("k", gpus=4, accelerator="k80"), *(a_node(f"v{n}", gpus=2, accelerator="v100") for n in range(2))]
)


def _run(jobs, gains, policy=PLAIN, nodes=MIXED, log=None, costs=None, starts=None):
    """Job to the moment of its end. `gains`: by job, on a V100. `starts`: counts them."""
    speed = Speed(seconds_on={job.id: {"v100": job.seconds, "k80": job.seconds * gains[job.id]} for job in jobs})
    sim = SimCluster(nodes, jobs, World(samples=False, speed=speed, costs=costs or Costs()))
    writer = LogWriter(log, Head("sim", "headway", "oracle"), fresh=True)
    ends = {}

    def observe(one):
        assert one.refusals == ()
        writer.cycle(one.snapshot, one.plan, one.refusals)
        if starts is not None:
            starts.update(_where(one.plan).keys())
        for row in one.snapshot.changed:
            if one.snapshot.jobs.state_of(row) is State.FINISHED:
                ends[one.snapshot.jobs.job(row).id] = one.snapshot.now

    run(sim, policy, OracleBook(sim.truth, sim.speed_at, sim.speed_on), observe)
    writer.end(sim.now, sim.board.unfinished)
    return ends


def _crowd(count=24, seed=0):
    chance = np.random.default_rng(seed)
    jobs = [
        a_job(f"j{n}", int(chance.choice([1, 1, 1, 2])), submit=float(chance.uniform(0, 2000)),
              seconds=float(np.exp(chance.normal(6.5, 0.8))))
        for n in range(count)
    ]  # fmt: skip
    return jobs, {job.id: float(chance.uniform(1.2, 8.0)) for job in jobs}


def _mean(jobs, ends):
    return sum(ends[job.id] - job.submit for job in jobs) / len(jobs)


def test_a_crowd_is_much_sooner_done():
    jobs, gains = _crowd()
    with_, without = _run(jobs, gains), _run(jobs, gains, replace(PLAIN, by_type=False))
    assert with_.keys() == {job.id for job in jobs}
    assert _mean(jobs, with_) < 0.75 * _mean(jobs, without)
    assert max(with_.values()) < max(without.values())


COSTS = Costs(start=30.0, save=10.0)


@pytest.mark.parametrize("deadline", [1500.0, 4000.0, 9000.0, None])
def test_a_job_with_a_deadline_is_started_once(deadline):
    nodes = Nodes.of([a_node("k", gpus=4, accelerator="k80"), a_node("v", gpus=2, accelerator="v100")])
    starts = Counter()
    job = a_job("a", seconds=1000.0, deadline=deadline)
    assert _run([job], {"a": 5.0}, nodes=nodes, costs=COSTS, starts=starts) == {"a": 1030.0}
    assert starts == {"a": 1}


@pytest.mark.parametrize("every", [200.0, 400.0])
def test_jobs_that_need_whole_nodes_do_not_starve_beside_small_ones(every):
    chance = np.random.default_rng(0)
    small = [a_job(f"s{n}", submit=n * every, seconds=float(chance.uniform(1000, 3000))) for n in range(80)]
    wide = [replace(WHOLE, id=JobId(f"w{n}"), submit=300.0 + 250.0 * n) for n in range(12)]
    ends = _run([*small, *wide], {job.id: 4.0 for job in [*small, *wide]}, nodes=HALF, costs=COSTS)
    waited = [ends[job.id] - job.submit - 100.0 for job in wide]
    assert sum(waited) / len(waited) < 300.0
    assert max(waited) < 1000.0


def _dated(seed, every, slack):
    """Every so many jobs have a deadline, after this much of their seconds on a V100."""
    jobs, gains = _crowd(seed=seed)
    chance = np.random.default_rng(seed)
    late = [job.submit + 60.0 + job.seconds * float(chance.uniform(*slack)) for job in jobs]
    return [replace(job, deadline=late[n] if n % every == 0 else None) for n, job in enumerate(jobs)], gains


def _met(jobs, ends):
    return sum(ends[job.id] <= job.deadline for job in jobs if job.deadline is not None)


@pytest.mark.parametrize(("every", "slack"), [(2, (1.5, 6.0)), (1, (1.5, 6.0)), (2, (1.2, 3.0))])
def test_types_meet_more_deadlines_with_fewer_starts(every, slack):
    met, without, dated, starts, others = 0, 0, 0, Counter(), Counter()
    for seed in range(2):
        jobs, gains = _dated(seed, every, slack)
        dated += len(jobs) // every
        met += _met(jobs, _run(jobs, gains, costs=COSTS, starts=starts))
        without += _met(jobs, _run(jobs, gains, replace(PLAIN, by_type=False), costs=COSTS, starts=others))
    assert met >= max(0.85 * dated, 1.2 * without)
    assert starts.total() < others.total()


def test_a_recorded_run_is_decided_again_alike(tmp_path):
    jobs, gains = _crowd(12)
    _run(jobs, gains, log=tmp_path / "run.log")
    assert '"on_types"' in (tmp_path / "run.log").read_text()
    words = ["replay", str(tmp_path / "run.log")]
    result = CliRunner().invoke(app_for(words), words, catch_exceptions=False)
    assert "0 plans differ" in result.output


@settings(max_examples=25, deadline=None)
@given(
    specs=st.lists(
        st.tuples(st.integers(1, 6), st.floats(0, 500), st.floats(1, 2000), st.floats(0.3, 9), st.integers(0, 2),
                  st.sampled_from(["", "k80", "k80, v100"]), st.booleans(), st.booleans()),
        min_size=1, max_size=14,
    ),
    cost=st.sampled_from([0.0, 15.0]),
    behind=st.booleans(),
)  # fmt: skip
def test_whatever_comes_is_done(specs, cost, behind):
    jobs = [
        a_job(f"j{n}", roles=[a_role(replicas=min(gpus, 4) if kind == "k80" else gpus, accelerator=kind)],
              submit=submit, seconds=seconds, priority=priority, queue="ab"[n % 2],
              deadline=submit + 2 * seconds if urgent else None,
              can=Can.everything() if stops or behind else Can.everything() & ~Can.STOP)
        for n, (gpus, submit, seconds, _, priority, kind, stops, urgent) in enumerate(specs)
    ]  # fmt: skip
    gains = {job.id: spec[3] for job, spec in zip(jobs, specs, strict=True)}
    queues = (Queue(name="a", quota=(("gpu", 2),)), Queue(name="b", quota=(("gpu", 6),)))
    policy = Queued(PLAIN, queues) if behind else PLAIN
    ends = _run(jobs, gains, policy, costs=Costs(start=cost, save=cost))
    assert ends.keys() == {job.id for job in jobs}
    assert not any(math.isnan(end) for end in ends.values())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(snapshot=snapshots(), slope=st.floats(0.1, 9.0))
def test_on_any_snapshot_the_plan_keeps_the_rules(snapshot, slope):
    count = len(snapshot.nodes.types.names)

    def types(rows):
        return [OnTypes(tuple(1.0 + slope * ((row + kind) % 3) for kind in range(count)), (False,) * count)
                for row in rows]  # fmt: skip

    snapshot.estimates.with_types(types)
    policy = replace(PLAIN, scaling=False)
    plan = policy(snapshot)
    assert check(snapshot, plan) == ()
    assert policy(snapshot) == plan
    assert plan.until > snapshot.now
    for row in range(snapshot.jobs.count):
        assert isinstance(policy.explain(snapshot, row), dict)
