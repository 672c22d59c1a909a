"""Are forecasts calibrated? Of runs in virtual time, how many outcomes are inside the range that was told.

    python bench/eta.py                     # generated workloads, three minutes
    python bench/eta.py FILE 8x8 300        # the first 300 jobs of a trace, on nodes x GPUs
    python bench/eta.py --log RUN.log …     # logs of real runs on this machine, each on its own
    python bench/eta.py --cost              # what one pass over 1,000 waiting jobs on 64 GPUs takes

While a run goes on, all its unfinished jobs are foreseen at ten moments, by the snapshot alone. Afterwards it is known
when each started and ended. The range should hold 80 of 100 outcomes. `off` is the median of how far the middle of the
range is from the end, as a share of the time from the moment until then.
"""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from headway.cli.jobs.eta import local_costs
from headway.cli.wiring import make_policy
from headway.core.board import Board
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.quantity import GPU
from headway.core.states import State
from headway.cycle.loop import Decided, run
from headway.estimates.plain_books import DeclaredBook
from headway.estimates.progress import ProgressBook
from headway.forecast.eta import forecast
from headway.forecast.present import Present
from headway.forecast.times import Eta
from headway.policies.registry import POLICIES
from headway.record.lines import Head
from headway.record.log import read
from headway.record.replay import snapshots
from headway.sim.cluster import SimCluster
from headway.sim.world import Costs, Reports, World
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.open import open_workload
from headway.workload.settings import Settings
from headway.workload.trace import Trace, head, rebase

JOBS, SEEDS = 100, range(1, 7)
MOMENTS = 10
DRAWS = 40
COSTS = Costs(start=10.0, save=5.0, stop=1.0, scale=10.0)
STEPS = 10_000
AGES = ("waiting", "first tenth", "to half", "past half")
Outcome = tuple[str, bool, float, float]
"""Age or `starts`, whether it was inside, how far off, and the width of the range, both as shares."""


def main() -> None:
    if sys.argv[1:] == ["--cost"]:
        cost()
        return
    print(f"{'trace':<24} {'policy':<10} {'what':<12} {'count':>6} {'inside':>7} {'off':>6} {'range':>6}")
    if sys.argv[1:2] == ["--log"]:
        for kind, logs in groupby(sorted(sys.argv[2:], key=_kind), _kind):
            table(*kind, [one for log in logs for one in recorded(Path(log))])
        return
    nodes = open_cluster(sys.argv[2] if len(sys.argv) > 2 else "4x4")
    if len(sys.argv) > 1:
        most = int(sys.argv[3]) if len(sys.argv) > 3 else 300
        trace = rebase(head(open_workload(Path(sys.argv[1])), most))
        traces = [(trace.name[-24:], [trace]), ("the same, not declared", [undeclared(trace)])]
    else:
        traces = list(generated(nodes))
    for name, runs in traces:
        for policy in ("headway", "fifo", "srtf"):
            began = time.process_time()
            table(name, policy, [one for trace in runs for one in outcomes(trace, nodes, policy)])
            print(f"{'':<24} {policy:<10} processor seconds: {time.process_time() - began:.0f}", flush=True)


def cost() -> None:
    """In turns; the least of five."""
    nodes = Nodes.of([Node(name=f"n{number}", capacity=((GPU, 8),)) for number in range(8)])
    board = Board(nodes)
    for number in range(1000):
        replicas = 1 + number % 3
        role = Role(name="worker", replicas=replicas, min=replicas, max=replicas, request=((GPU, 1),))
        board.add(Job(id=JobId(f"j{number}"), roles=(role,), seconds=100.0 + 7 * (number % 90)), 0.0)
    present = Present.of(DeclaredBook().annotate(board.snapshot(0.0)))
    took = dict.fromkeys(("headway", "fifo"), math.inf)
    for policy in 5 * list(took):
        began = time.process_time()
        forecast(present, POLICIES[policy](), draws=0)
        took[policy] = min(took[policy], time.process_time() - began)
    seconds = ", ".join(f"{policy} {least:.2f}" for policy, least in took.items())
    print(f"processor seconds of one pass: {seconds}; ratio {took['headway'] / took['fifo']:.1f}")


def _kind(log: str) -> tuple[str, str]:
    """Its jobs file, without a number at the end, and its policy: such runs are one row."""
    head = next(line for line in read(Path(log)) if isinstance(line, Head))
    return Path(head.source.split()[0]).stem.rstrip("-0123456789"), head.policy


def recorded(log: Path) -> list[Outcome]:
    """Of a run that has ended: foreseen at ten moments from its first to its last cycle, by what the log has until
    then.
    """
    ended, trained, last = dict[JobId, tuple[float, float]](), dict[JobId, float](), 0.0
    for snapshot in snapshots(log):
        last = snapshot.now
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                job = snapshot.jobs.job(row).id
                ended[job] = (snapshot.jobs.value(row, "first_start"), snapshot.jobs.value(row, "since"))
                trained[job] = snapshot.jobs.value(row, "attained")
    moments, book, found = iter(np.linspace(0.02, 0.9, MOMENTS) * last), ProgressBook(), list[Outcome]()
    head, due = next(line for line in read(log) if isinstance(line, Head)), next(moments)
    for snapshot in snapshots(log):
        book = book.fold(snapshot)
        if snapshot.now < due:
            continue
        due = next(moments, np.inf)
        present = Present.of(book.annotate(snapshot), costs=local_costs(book.history.costs))
        policy = make_policy(head.policy, head.settings.get("set", []))
        etas, sofar = (
            forecast(present, policy, draws=DRAWS, budget=1e9).jobs,
            snapshot.jobs.trained_seconds(snapshot.now),
        )
        for job in etas.keys() & ended.keys():
            row = snapshot.jobs.row_of[job]
            age = _age(snapshot.jobs.state_of(row), float(sofar[row]), trained[job])
            found += compared(snapshot.now, age, etas[job], *ended[job])
    return found


def _age(state: State, trained: float, whole: float) -> str:
    share = trained / (whole or 1.0)
    return AGES[0] if state is State.WAITING and not trained else AGES[1 + (share >= 0.1) + (share >= 0.5)]


def generated(nodes: list[Node]) -> Iterator[tuple[str, list[Trace]]]:
    """Several of each kind: forecasts of one run are all off together."""
    made = {error: [generate(Settings(jobs=JOBS, load=0.95, seed=seed, declared_error=error), nodes) for seed in SEEDS]
            for error in (0.0, 0.5)}  # fmt: skip
    yield "declared", made[0.0]
    yield "declared, off 0.5", made[0.5]
    yield "not declared", [undeclared(trace) for trace in made[0.0]]
    yield "not declared, at once", [undeclared(at_once(trace)) for trace in made[0.0]]


def at_once(trace: Trace) -> Trace:
    return replace(trace, jobs=tuple(replace(job, submit=0.0) for job in trace.jobs))


def undeclared(trace: Trace) -> Trace:
    truth = {job.id: trace.work(job) or 1.0 for job in trace.jobs}
    return replace(trace, jobs=tuple(replace(job, seconds=None) for job in trace.jobs), truth=truth)


def outcomes(trace: Trace, nodes: list[Node], policy: str) -> list[Outcome]:
    jobs = [replace(job, steps=job.steps or STEPS) for job in trace.jobs]
    world = World(costs=COSTS, work=trace.work, reports=Reports(seconds=30.0, growth=0.02), seed=1)
    moments = iter(np.quantile([job.submit for job in jobs], np.linspace(0.1, 0.98, MOMENTS)).tolist())
    if max(job.submit for job in jobs) == 0.0:
        whole = sum((trace.work(job) or 0.0) * job.replicas for job in jobs) / sum(
            dict(node.capacity)["gpu"] for node in nodes
        )
        moments = iter(np.linspace(0.02, 0.9, MOMENTS) * whole)
    told: list[tuple[float, dict[JobId, tuple[str, Eta]]]] = []
    ended: dict[JobId, tuple[float, float]] = {}
    due = next(moments)

    def observe(decided: Decided) -> None:
        nonlocal due
        snapshot = decided.snapshot
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                ended[snapshot.jobs.job(row).id] = (snapshot.jobs.value(row, "first_start"), snapshot.now)
        if snapshot.now < due:
            return
        due = next(moments, np.inf)
        found = forecast(Present.of(snapshot, costs=COSTS), POLICIES[policy](), draws=DRAWS, budget=1e9)
        trained = snapshot.jobs.trained_seconds(snapshot.now)
        row_of = snapshot.jobs.row_of
        ages = {}
        for job, eta in found.jobs.items():
            row = row_of[job]
            work = trace.work(snapshot.jobs.job(row)) or 1.0
            ages[job] = (_age(snapshot.jobs.state_of(row), float(trained[row]), work), eta)
        told.append((snapshot.now, ages))

    run(SimCluster(Nodes.of(nodes), jobs, world), POLICIES[policy](), ProgressBook(), observe)
    return [one for now, etas in told for job, (age, eta) in etas.items() if job in ended
            for one in compared(now, age, eta, *ended[job])]  # fmt: skip


def compared(now: float, age: str, eta: Eta, started: float, ended: float) -> Iterator[Outcome]:
    for what, moment, at in ((age, eta.done, ended), ("(starts)", eta.starts if age == AGES[0] else None, started)):
        if moment is not None:
            left = max(at - now, 1.0)
            inside = moment.low - 1.0 <= at <= moment.high + 1.0
            yield what, inside, abs(moment.mid - at) / left, (moment.high - moment.low) / left


def table(name: str, policy: str, found: list[Outcome]) -> None:
    by = defaultdict(list)
    for what, *one in found:
        by[what].append(one)
        by["all ends" if what in AGES else "_"].append(one)
    for what in (*AGES, "all ends", "(starts)"):
        if by[what]:
            inside, off, width = np.array(by[what], float).T
            print(f"{name:<24} {policy:<10} {what:<12} {len(inside):>6} {inside.mean():>7.0%} {np.median(off):>6.2f} "
                  f"{np.median(width):>6.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
