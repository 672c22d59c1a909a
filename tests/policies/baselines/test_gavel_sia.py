"""gavel-max-min, gavel-finish-time, gavel-makespan and sia: programmes that can be solved by hand, and their rounds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from forked import headway
from headway.core.errors import UserError
from headway.core.node import Nodes
from headway.core.plan import Start, Stop
from headway.cycle.loop import run
from headway.estimates.plain_books import OracleBook
from headway.policies.baselines.gavel_finish_time import FinishTime
from headway.policies.baselines.gavel_makespan import soonest
from headway.policies.baselines.gavel_max_min import max_min
from headway.policies.baselines.sia import choose
from headway.policies.registry import POLICIES
from headway.policies.steps.time_shares import by_shares
from headway.policies.steps.type_rounds import Asked
from headway.policies.value.shares import Programme
from headway.sim.cluster import Costs, SimCluster, World
from headway.sim.speed import Speed
from make import a_job, a_node, a_role, a_snapshot, some_nodes, started
from simulated import ends_of, simulate

NAMES = ("gavel-max-min", "gavel-finish-time", "gavel-makespan", "sia")
INF = np.inf
TWO = Nodes.of([a_node("slow", gpus=1, accelerator="k80"), a_node("fast", gpus=1, accelerator="v100")])


def _asked(seconds, slots, width=None, **more):
    """Jobs that wait, by their seconds left on each type."""
    seconds = np.array(seconds, float)
    count = len(seconds)
    columns = {"age": 0.0, "trained": 0.0, "service": 0.0, "stops": 0.0, "at": -1, "fixed": False} | more
    return Asked(
        now=0.0, ids=[f"j{number}" for number in range(count)], seconds=seconds, slots=np.array(slots, float),
        width=np.array(width or [1] * count, float),
        **{name: np.broadcast_to(np.array(value), count).copy() for name, value in columns.items()},
    )  # fmt: skip


def _near(found, wanted, by=0.002):
    assert found == pytest.approx(np.array(wanted, float), abs=by)


def test_max_min_gives_each_job_the_type_that_is_its_own():
    _near(max_min(_asked([[100, 400], [400, 100]], [1, 1])), [[1, 0], [0, 1]])


def test_max_min_gives_a_wide_job_less_time():
    """Two accelerators: the job of two has them half of the time, and the job of one has one for the other half."""
    share = max_min(_asked([[100], [100]], [2], width=[2, 1]))
    assert share[0] == pytest.approx(0.5, abs=0.01)
    assert share[1] >= 0.99


def test_max_min_does_not_see_how_long_jobs_are():
    _near(max_min(_asked([[100], [9000]], [1])), [[0.5], [0.5]])


def test_finish_time_gives_more_to_the_job_that_is_behind():
    """One accelerator, 100 s left each, of which one has waited for 100 s. With an even share both would take 200 s.
    1 + 1/x = 1/y and x + y = 1: x is the golden section.
    """
    _near(FinishTime()(_asked([[100], [100]], [1], age=[100, 0])), [[0.618], [0.382]])


def test_finish_time_counts_what_was_done_before_at_the_even_share():
    """The first did half while it had all: that counts as 100 s. It fares as well as one that waited for 50 s."""
    share = FinishTime()
    _near(share(_asked([[100], [100]], [1])), [[0.5], [0.5]])
    now, before = share(_asked([[50], [100]], [1], age=[50, 50])), share.before
    assert before["j0"] == (50.0, pytest.approx(100.0), pytest.approx(100.0))
    assert before["j1"] == (100.0, pytest.approx(200.0), 0.0)
    x, y = now[:, 0]
    assert (50 + 50 / x) / 200 == pytest.approx((50 + 100 / y) / 200, rel=0.01)


def test_finish_time_counts_nothing_as_done_where_more_is_left_than_before():
    """It was thought to take 100 s and now 100,000 s, or an hour and now 30 s."""
    share = FinishTime()
    share(_asked([[100], [3600]], [1]))
    now = share(_asked([[100_000], [30]], [1], age=[1000, 1000]))
    assert share.before["j0"] == (100_000.0, pytest.approx(200_000.0), 0.0)
    assert (now > 0).all()
    assert now.sum() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("policy", [max_min, FinishTime(), soonest, choose])
@pytest.mark.parametrize("grown", [1e5, 1e8, 1e11, 1e14])
def test_estimates_may_grow_by_any_factor(policy, grown):
    for factor in (1.0, grown, 1.0):
        found = policy(_asked([[100 * factor, 50 * factor], [100, INF]], [1, 1], age=[1000, 1000]))
        if policy is choose:
            assert dict(found) == {0: 1, 1: 0}
        else:
            assert np.isfinite(found).all()
            assert (found.sum(axis=1) > 0).all()


def test_a_programme_that_fails_is_made_at_the_next_snapshot():
    fails = True

    def share(asked):
        if fails:
            raise ValueError("no answer")
        return np.array([[0.1], [0.9]])

    policy = by_shares(lambda: share)
    at = [a_snapshot(a_job("a"), a_job("b"), nodes=some_nodes(1, gpus=1), now=now) for now in (0.0, 1.0, 2.0)]
    for snapshot in at[:2]:
        with pytest.raises(ValueError, match="no answer"):
            policy(snapshot)
    fails = False
    assert started(policy(at[2])) == ["b"]


def test_makespan_gives_time_by_what_is_left():
    """400 s of work on one accelerator; the end may be up to 5 % later."""
    share = soonest(_asked([[300], [100]], [1]))
    assert share[0, 0] >= 0.75 / 1.05 - 1e-3
    assert share[1, 0] >= 0.25 / 1.05 - 1e-3
    assert share.sum() <= 1.0


def test_makespan_keeps_a_long_job_from_the_slow_type():
    share = soonest(_asked([[1000, 8000], [1000, 1000]], [1, 1]))
    assert share[0, 0] >= 0.9
    assert share[1, 1] >= 0.9


@pytest.mark.parametrize("gain", [[[1.0, 0.0], [1.0, 2.0]], [[0.5, 3.0], [2.0, 0.1]]])
def test_shares_keep_every_limit_and_reach_what_is_possible(gain):
    programme = Programme(np.array(gain), np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    share = programme.middle(programme.most())
    assert (share >= 0).all()
    assert (share.sum(axis=1) <= 1.0).all()
    assert (programme.width @ share <= programme.slots).all()
    assert (share[np.array(gain) == 0.0] == 0.0).all()
    assert (programme.gain * share).sum(axis=1).min() == pytest.approx(programme.most(), rel=1e-3)


def test_sia_gives_the_fast_type_to_the_job_that_gains_most():
    assert dict(choose(_asked([[100, 900], [100, 110]], [1, 1]))) == {0: 0, 1: 1}
    assert dict(choose(_asked([[100, 110], [100, 900]], [1, 1]))) == {0: 1, 1: 0}


def test_sia_runs_as_many_as_there_is_room_for():
    """A job of two costs 0.71 while it runs, two of one cost 2: with 1.1 for who does not run, 2.91 against 3.1."""
    assert dict(choose(_asked([[100], [100], [100]], [2], width=[2, 1, 1]))) == {0: 0}
    assert dict(choose(_asked([[100], [100], [100]], [2]))) == {0: 0, 1: 0}
    assert dict(choose(_asked([[100], [INF]], [1]))) == {0: 0}
    assert dict(choose(_asked([[INF]], [1]))) == {}


@pytest.mark.parametrize("seed", range(10))
def test_no_other_choice_costs_less_in_sia(seed):
    """All choices of five jobs on two types, one by one."""
    chance = np.random.default_rng(seed)
    asked = _asked(chance.uniform(50, 500, (5, 2)), [3, 2], width=chance.choice([1, 1, 2], 5).tolist())

    def cost(kinds):
        used = [sum(asked.width[job] for job in range(5) if kinds[job] == kind) for kind in (0, 1)]
        slowest = asked.seconds.max(axis=1)
        costs = [
            1.1 if kind < 0 else round((asked.width[job] * slowest[job] / asked.seconds[job, kind]) ** -0.5, 2)
            for job, kind in enumerate(kinds)
        ]
        return sum(costs) if used[0] <= 3 and used[1] <= 2 else INF

    chosen = dict(choose(asked))
    best = min(cost(kinds) for kinds in product((-1, 0, 1), repeat=5))
    assert cost([chosen.get(job, -1) for job in range(5)]) <= best + 0.005


@pytest.mark.parametrize(("stops", "kind"), [(0, 1), (9, 0)])
def test_sia_leaves_a_job_where_it_is_that_was_restarted_often(stops, kind):
    job = _asked([[150, 100]], [1, 1], at=[0], age=300.0, service=300.0, stops=stops)
    assert dict(choose(job)) == {0: kind}


def test_sia_leaves_a_job_where_it_is_that_just_starts():
    assert dict(choose(_asked([[900, 100], [100, 100]], [1, 1], at=[0, -1], fixed=[True, False]))) == {0: 0, 1: 1}


def test_jobs_take_turns_in_rounds_of_six_minutes():
    """Two jobs of two rounds each on one GPU."""
    jobs = [a_job("a", seconds=720.0), a_job("b", seconds=720.0)]
    assert ends_of(simulate(jobs, some_nodes(1, gpus=1), POLICIES["gavel-max-min"]())) == {"a": 1080.0, "b": 1440.0}


def test_who_arrives_waits_for_the_next_programme():
    """Though a GPU is idle: for 1,920 s, or until those that it was made for are done."""
    jobs = [a_job("a", seconds=1000.0), a_job("b", submit=10.0, seconds=30.0)]
    ends = ends_of(simulate(jobs, some_nodes(1, gpus=2), POLICIES["gavel-makespan"]()))
    assert ends == {"a": 1000.0, "b": 1030.0}
    jobs = [a_job("a", seconds=3000.0), a_job("b", submit=10.0, seconds=30.0)]
    assert ends_of(simulate(jobs, some_nodes(1, gpus=2), POLICIES["gavel-makespan"]()))["b"] == 6 * 360.0 + 30.0


def test_sia_looks_each_minute():
    jobs = [a_job("a", seconds=1000.0), a_job("b", submit=10.0, seconds=30.0)]
    assert ends_of(simulate(jobs, some_nodes(1, gpus=2), POLICIES["sia"]()))["b"] == 90.0


@pytest.mark.parametrize("name", NAMES)
def test_each_job_runs_where_it_gains_most(name):
    jobs = [a_job("a", seconds=900.0), a_job("b", seconds=900.0)]
    on = {"a": {"k80": 1000.0, "v100": 900.0}, "b": {"k80": 9000.0, "v100": 900.0}}
    sim = SimCluster(TWO, jobs, World(samples=False, speed=Speed(seconds_on=on)))
    places = {}

    def observe(cycle):
        assert cycle.refusals == ()
        for one in cycle.plan.decisions:
            if isinstance(one, Start):
                places.setdefault(one.job, one.placement.nodes)

    run(sim, POLICIES[name](), OracleBook(sim.truth, sim.speed_at, on_types=sim.speed_on), observe)
    assert places == {"a": ((0,),), "b": ((1,),)}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stopped_makes_room_within_the_round(name):
    """A save takes 10 s: the next job does not wait for the end of a round."""
    jobs = [a_job(f"j{number}", seconds=900.0) for number in range(3)]
    world = World(samples=False, costs=Costs(start=30.0, save=10.0))
    cycles = simulate(
        jobs, some_nodes(1, gpus=2), POLICIES[name](), cluster=SimCluster(some_nodes(1, gpus=2), jobs, world)
    )
    assert len(ends_of(cycles)) == 3
    stops = [one.snapshot.now for one in cycles if any(isinstance(done, Stop) for done in one.plan.decisions)]
    starts = {one.snapshot.now for one in cycles if started(one.plan)}
    assert all(any(0.0 < at - stop <= 10.0 for at in starts) for stop in stops)
    assert stops or name == "sia"


@pytest.mark.parametrize("name", NAMES)
def test_jobs_that_no_type_is_asked_for_run_beside(name):
    jobs = [a_job("cpu", roles=[a_role(cpu=2)]), a_job("gpu"), a_job("wide", gpus=3)]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=2, cpu=4), left={"gpu": 60.0})
    assert sorted(started(POLICIES[name]()(snapshot))) == ["cpu", "gpu"]
    bare = a_snapshot(jobs[0], nodes=Nodes.of([a_node("n", gpus=0, cpu=4)]))
    assert started(POLICIES[name]()(bare)) == ["cpu"]


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_that_is_used_again_begins_anew(name):
    jobs = [a_job(f"j{number}", 1 + number % 2, submit=100.0 * number, seconds=2000.0) for number in range(8)]
    policy = POLICIES[name]()
    first, second = (simulate(jobs, TWO_WIDE, policy) for _ in range(2))
    assert [one.plan for one in first] == [one.plan for one in second]


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_simulation_begins_anew(name, tmp_path):
    """What the policy remembered is not in the log."""
    jobs = [f"{{name: j{n}, gpu: 1, replicas: {1 + n % 2}, seconds: {900 + 300 * (n % 5)}, submit: {70 * n}}}"
            for n in range(16)]  # fmt: skip
    nodes = [f"{{gpu: 2, labels: {{accelerator: {kind}}}}}" for kind in ("k80", "v100")]
    (tmp_path / "jobs.yaml").write_text(f"jobs: [{', '.join(jobs)}]\nnodes: [{', '.join(nodes)}]\n")
    words = ["simulate", "jobs.yaml", "--policy", name, "--set", "round=10", "--estimates", "oracle", "--json"]
    done = headway(*words, "--log", "run.log", folder=tmp_path)
    log = tmp_path / "run.log"
    whole = log.read_bytes()
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[: whole.count(b"\n") // 2]))
    again = headway(*words, "--log", "run.log", folder=tmp_path)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert log.read_bytes() == whole
    assert "begins anew" in again.stderr
    assert "begins anew" not in done.stderr
    assert headway("replay", "run.log", folder=tmp_path).returncode == 0


@pytest.mark.parametrize("words", [("run", "jobs.yaml"), ("run", "jobs.yaml", "--dry-run"), ("schedule",)])
def test_a_policy_that_remembers_is_for_virtual_time(words, tmp_path):
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, cpu: 100m, command: ['true']}]\n")
    (tmp_path / "queues.yaml").write_text("queues: [{name: a}]\n")
    done = headway(*words, "--policy", "sia", "--queues", "queues.yaml", folder=tmp_path)
    assert done.returncode == 2
    assert "--policy sia: " in done.stderr
    assert "virtual time" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


TWO_WIDE = Nodes.of([a_node("slow", gpus=2, accelerator="k80"), a_node("fast", gpus=2, accelerator="v100")])


def test_without_scipy_it_is_told_which_extra_has_it(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("headway.policies.value.shares.import_module", missing)
    for name in NAMES:
        with pytest.raises(UserError, match=r"headway\[solver\]"):
            POLICIES[name]()
