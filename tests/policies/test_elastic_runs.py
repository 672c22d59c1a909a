"""elastic in virtual time: nothing flaps, decisions pay, and garbage from training scripts wins nobody anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.plan import Scale
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import State
from headway.cycle.loop import Book, Decided, run
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.plain_books import OracleBook
from headway.estimates.progress import ProgressBook
from headway.policies.elastic import Elastic
from headway.sim.cluster import Costs, Reports, SimCluster, World
from headway.sim.speed import Speed
from make import a_job, a_role, some_nodes
from simulated import ends_of

COOL_DOWN = 60.0
MODELS = ["resnet-50", "vgg-16", "seq2seq", "cnn-text", "bert", "cifar10", ""]
bounded = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)


def ps_job(name: str, workers: int, servers: int, **more: object) -> Job:
    worker = a_role("worker", workers, min=1, max=12, cpu=2, near=("ps",) if servers else ())
    roles = [a_role("ps", servers, min=1, max=4, cpu=2, near=("worker",)), worker] if servers else [worker]
    return a_job(name, roles=roles, **more)


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    jobs, submit = [], 0.0
    for number in range(draw(st.integers(2, 9))):
        submit += draw(st.sampled_from([0.0, 1.0, 45.0, 300.0, 2000.0]))
        seconds = draw(st.sampled_from([20.0, 200.0, 1500.0, 9000.0]))
        jobs.append(
            ps_job(f"j{number}", draw(st.sampled_from([1, 2, 4, 8])), draw(st.integers(0, 2)), submit=submit,
                   seconds=seconds, steps=int(seconds), model=draw(st.sampled_from(MODELS)))
        )  # fmt: skip
    return jobs


def watched(jobs: list[Job], world: World, policy: Elastic, book: Callable[[SimCluster], Book]) -> list[Decided]:
    sim = SimCluster(some_nodes(3, gpus=0, cpu=16), jobs, world)
    cycles: list[Decided] = []
    run(sim, policy, book(sim), cycles.append)
    assert sim.board.unfinished == 0
    assert all(decided.refusals == () for decided in cycles)
    return cycles


def oracle(sim: SimCluster) -> Book:
    return OracleBook(sim.truth, sim.speed_at)


@bounded
@given(jobs=workloads(), cost=st.sampled_from([0.0, 30.0]))
def test_nothing_flaps(jobs: list[Job], cost: float) -> None:
    """A job is changed at most once per cool-down; and as long as nobody comes or goes, who grew does not shrink."""
    needs = {job.id: 0.3 for job in jobs[::3]}
    world = World(
        costs=Costs(start=cost, scale=cost), speed=Speed(profiles=BUILT_IN, metered=True, needs=needs), samples=False
    )
    changed: dict[str, float] = {}
    grew: set[str] = set()
    present: frozenset[str] = frozenset()
    cycles = watched(jobs, world, Elastic(cool_down=COOL_DOWN, patience=math.inf), oracle)
    for decided in cycles:
        snapshot, here = decided.snapshot, _present(decided.snapshot)
        if here != present:
            present, grew = here, set()
        for decision in decided.plan.decisions:
            if isinstance(decision, Scale):
                larger = len(decision.nodes) > _count(snapshot, decision)
                assert larger or decision.job not in grew, "grew and shrank though nothing happened"
                grew |= {decision.job} if larger else set()
            if type(decision).__name__ in ("Scale", "Resize"):
                assert snapshot.now - changed.get(decision.job, -math.inf) >= COOL_DOWN
            changed[decision.job] = snapshot.now
    assert len(cycles) < 60 * len(jobs)


def _present(snapshot: Snapshot) -> frozenset[str]:
    jobs = snapshot.jobs
    return frozenset(jobs.job(row).id for row in range(jobs.count) if jobs.state_of(row) < State.FINISHED)


def _count(snapshot: Snapshot, decision: Scale) -> int:
    row = snapshot.jobs.row_of[decision.job]
    number = [role.name for role in snapshot.jobs.job(row).roles].index(decision.role)
    return len(snapshot.placements[row].nodes[number])


# ── garbage ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Garbled:
    """A book of progress that hears garbage from one job."""

    inner: ProgressBook
    job: str
    garble: Callable[[Sample], Sample | None]

    def fold(self, snapshot: Snapshot) -> Garbled:
        heard = [self.garble(sample) if sample.job == self.job else sample for sample in snapshot.samples]
        samples = tuple(sample for sample in heard if sample is not None)
        return replace(self, inner=self.inner.fold(replace(snapshot, samples=samples)))

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return self.inner.annotate(snapshot)


GARBAGE: dict[str, Callable[[Sample], Sample | None]] = {
    "loss is no number": lambda s: replace(s, loss=math.nan),
    "backwards": lambda s: replace(s, step=max(0, 5000 - s.step)),
    "silent": lambda _: None,
    "clock jumps": lambda s: replace(s, at=s.at - 1e7 if s.step % 2 else s.at + 1e7),
    "endless total": lambda s: replace(s, total_steps=10**12),
    "claims to be nearly done": lambda s: replace(s, step=s.total_steps - 1 if s.total_steps else s.step),
    "jumps": lambda s: replace(s, step=s.step * (1 + s.step % 7) ** 3),
}
WORLD = World(
    costs=Costs(start=10.0, scale=10.0), speed=Speed(profiles=BUILT_IN), reports=Reports(seconds=30.0), samples=True
)


def honest_jobs() -> list[Job]:
    return [ps_job(f"j{n}", 2, 1, submit=100.0 * n, seconds=4000.0, steps=4000, model="cnn-text") for n in range(5)]


@pytest.mark.parametrize("kind", sorted(GARBAGE))
def test_garbage_ends_no_run_scales_nobody_and_takes_little_from_others(kind: str) -> None:
    policy, jobs = Elastic(), honest_jobs()
    before = ends_of(watched(jobs, WORLD, policy, lambda _: Garbled(ProgressBook(), "none", GARBAGE[kind])))
    cycles = watched(jobs, WORLD, policy, lambda _: Garbled(ProgressBook(), "j0", GARBAGE[kind]))
    for decided in cycles:
        for decision in decided.plan.decisions:
            if isinstance(decision, Scale) and len(decision.nodes) > _count(decided.snapshot, decision):
                assert policy.explain(decided.snapshot, decided.snapshot.jobs.row_of[decision.job]) == {}
    after = ends_of(cycles)
    for name in ("j1", "j2", "j3", "j4"):
        assert after[name] <= 1.35 * before[name], f"{name} ends later because j0 lies"


def test_it_is_faster_than_what_was_asked_for_whoever_estimates() -> None:
    jobs = honest_jobs()
    asked = ends_of(watched(jobs, WORLD, Elastic(scaling=False), oracle))
    for book in (oracle, lambda _: ProgressBook()):
        ends = ends_of(watched(jobs, WORLD, Elastic(), book))
        assert sum(ends.values()) < sum(asked.values())


def test_idle_cores_of_those_who_ask_for_too_much_go_to_others() -> None:
    """Two jobs of 8 cores use 1 of each; cut to twice of that, they leave room for a third on the only node."""
    jobs = [
        a_job(f"j{n}", roles=[a_role("worker", 1, cpu=8)], submit=10.0 * n, seconds=3000.0) for n in range(3)
    ]  # fmt: skip
    world = World(
        costs=Costs(start=5.0), samples=False, speed=Speed(metered=True, needs={job.id: 0.125 for job in jobs})
    )

    def ends(idle: float) -> dict[str, float]:
        sim = SimCluster(Nodes.of(some_nodes(1, gpus=0, cpu=16).nodes), jobs, world)
        cycles: list[Decided] = []
        run(sim, Elastic(idle=idle), oracle(sim), cycles.append)
        return ends_of(cycles)

    assert ends(0.0)["j2"] > 6000.0
    assert ends(0.2)["j2"] < 3500.0
    assert max(ends(0.2)["j0"], ends(0.2)["j1"]) == pytest.approx(max(ends(0.0)["j0"], ends(0.0)["j1"]))
