"""Runs of one scenario: a single one from beginning to end, or many on all cores."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from headway.beliefs.books import make_book
from headway.compare.scenario import Scenario, differing
from headway.compare.trained_coverage import witnessed
from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.plan import Plan
from headway.core.policy import Policy, does_remember, is_gangless
from headway.core.snapshot import Snapshot
from headway.cycle.loop import Decided, run
from headway.cycle.sound import PolicyError, stalls
from headway.policies.baselines.fifo import first_fit
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.metrics import Tally
from headway.record.reading import keep_good
from headway.record.results import Outcome, outcome
from headway.record.resume import Interrupted, interrupted
from headway.sim.cluster import SimCluster
from headway.workload.simulate_fields import SimulateFields
from headway.workload.trace import rigid


def resume(policy: Policy, plans: Sequence[Plan]) -> Policy:
    """A policy whose first answers are the recorded plans; then the given policy decides. For virtual time."""
    if not plans:
        return policy
    recorded: Iterator[Plan] = iter(plans)

    def resumed(snapshot: Snapshot) -> Plan:
        plan = next(recorded, None)
        return policy(snapshot) if plan is None else plan

    resumed.gangless = is_gangless(policy)  # type: ignore[attr-defined]
    return resumed


Tell = Callable[[float], None]
"""Called from time to time with the share that is done, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run that is to be made. It is sent to other processes."""

    policy: str
    """The name in tables and in the log."""
    make: Callable[[], Policy]
    estimates: str = ""
    """Where estimates come from; empty means as the scenario says."""
    settings: tuple[str, ...] = ()
    """The policy's settings, as the log keeps them."""
    trained: str = ""
    """The file of a trained policy, with the begin of its hash, as the log keeps it."""
    seed: int = 0
    before: int = 0
    """Jobs that came before those of the scenario, and are over: policies may go by their number."""
    rigid: bool = False
    """Jobs keep the size that they ask for: for policies that know no other."""
    picture: bool = False
    samples: bool = False
    """Jobs report progress even if no estimate needs it: for a log that people read."""


# ── one run ─────────────────────────────────────────────────────────────────────────────────────────────────


def perform(scenario: Scenario, task: Task, tell: Tell | None = None) -> Outcome:
    """One run, with no log file."""
    tally = simulate(scenario, task, tell)
    return outcome(tally, scenario.trace.jobs, name=task.policy, seed=task.seed)


def simulate(
    scenario: Scenario, task: Task, tell: Tell | None = None, log: Path | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> Tally:  # fmt: skip
    """One run from beginning to end. An unfinished log of the same run is continued: its plans are not made again.
    Under a policy that remembers it begins anew, and `say` is told.
    """
    cluster, head = make_cluster(scenario, task), make_head(scenario, task)
    tally = Tally(stays=task.picture, worth=scenario.trace.expectations)
    if log is not None and log.exists():
        keep_good(log)
    before, (policy, witness) = interrupted(log, head), witnessed(task.make())
    if before.lines and does_remember(policy):
        say(f"{log}: begins anew: {task.policy} remembers what no log has, so an interrupted run cannot go on")
        before = Interrupted()
    readers = [] if tell is None else [_watcher(tally, scenario, tell)]
    writer = LogWriter(log, head, tally, *readers, fresh=not before.lines, written=before.lines)
    book = make_book(head.estimates, cluster.truth, cluster.speed_at, scenario.beliefs, cluster.speed_on)
    last: list[Decided] = []

    def observe(decided: Decided) -> None:
        last[:] = [decided]
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)

    run(cluster, resume(policy, before.plans), book, observe)
    writer.end(cluster.now, cluster.board.unfinished)
    if witness is not None and not before.plans:  # who made the recorded plans of a continued run is not known
        tally.trained = witness.told()
    if last and not tally.over and ".py:" in task.policy:
        _check_started(task.policy, last[0])
    return tally


def _check_started(policy: str, last: Decided) -> None:
    """A user's own policy under which no job ended: if it starts nothing, figures would say nothing."""
    why = stalls(last.snapshot, last.plan, first_fit)
    if why:
        raise PolicyError(policy, f"{why}{_first_refusal(last)}")


def _first_refusal(last: Decided) -> str:
    if not last.refusals:
        return ""
    refusal = last.refusals[0]
    return f"; {type(refusal.decision).__name__} of {refusal.decision.job!r} was refused: {refusal.why}"


def make_cluster(scenario: Scenario, task: Task) -> SimCluster:
    trace = rigid(scenario.trace) if task.rigid else scenario.trace
    world = scenario.world(trace, task.seed)
    if task.samples or (task.estimates or scenario.estimates) in ("progress", "linear"):
        world = replace(world, samples=True)
    jobs = shuffled(trace.jobs, task.seed) if scenario.shuffles else trace.jobs
    cluster = SimCluster(Nodes.of(scenario.nodes), jobs, world)
    cluster.board.table.arrivals = task.before
    return cluster


def shuffled(jobs: Sequence[Job], seed: int) -> Sequence[Job]:
    """Seed 0 changes nothing; any other shuffles the jobs that are submitted at the same moment."""
    if not seed:
        return jobs
    chance = random.Random(seed)  # noqa: S311  a simulation, not a secret
    return sorted(jobs, key=lambda job: (job.submit, chance.random()))


def make_head(scenario: Scenario, task: Task) -> Head:
    chosen: dict[str, Any] = {"set": list(task.settings)}
    if (world := differing(scenario.trace.simulate, SimulateFields())) and scenario.world_file:
        chosen["simulate"] = world
    estimates = task.estimates or scenario.estimates
    if scenario.beliefs.name and estimates == "progress":
        chosen["beliefs"] = scenario.beliefs.name
    if task.trained:
        chosen["trained"] = task.trained
    return Head("sim", task.policy, estimates, chosen, task.seed, 0.0, scenario.source)


def _watcher(tally: Tally, scenario: Scenario, tell: Tell) -> Callable[[object], None]:
    """A reader of the log that tells the share of jobs that are over, once in 256 lines."""
    lines, jobs = 0, max(1, len(scenario.trace.jobs))

    def watch(_: object) -> None:
        nonlocal lines
        lines += 1
        if lines % 256 == 0:
            tell(tally.over / jobs)

    return watch


# ── many runs ───────────────────────────────────────────────────────────────────────────────────────────────

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Shared, Item, Tell], Result]
"""From what all items share and one item to its result. A function of a module: other processes find it by name."""

_here: dict[str, Any] = {}
"""In a worker process: the work, what all items share, and the shares that are done."""


Workers = int | Executor
"""How many processes of this machine, or an executor that may run elsewhere."""


def perform_all(
    work: Work[Shared, Item, Result], shared: Shared, items: Sequence[Item], workers: Workers,
    tell: Callable[[int, float], None],
) -> list[Result]:  # fmt: skip
    """The results, in the order of the items. `tell` gets an item's number and the share of it that is done."""
    if isinstance(workers, Executor):
        return _on_executor(work, shared, items, workers, tell)
    processes = workers
    if min(processes, len(items)) > 1:
        return _in_processes((work, shared), items, min(processes, len(items)), tell)
    found = []
    for number, item in enumerate(items):
        found.append(work(shared, item, lambda share, number=number: tell(number, share)))  # type: ignore[misc]
        tell(number, 1.0)
    return found


def _on_executor(
    work: Work[Shared, Item, Result], shared: Shared, items: Sequence[Item], pool: Executor,
    tell: Callable[[int, float], None],
) -> list[Result]:  # fmt: skip
    """Where workers may be other machines, only the ends of items are told."""
    numbers = {pool.submit(work, shared, item, _silent): number for number, item in enumerate(items)}
    for future in as_completed(numbers):
        future.result()
        tell(numbers[future], 1.0)
    return [future.result() for future in numbers]


def _silent(_: float) -> None:
    """A worker elsewhere tells nothing."""


def _in_processes(
    given: tuple[Work[Shared, Item, Result], Shared], items: Sequence[Item], processes: int,
    tell: Callable[[int, float], None],
) -> list[Result]:  # fmt: skip
    context = multiprocessing.get_context("spawn")
    shares = context.Array("d", len(items), lock=False)
    with ProcessPoolExecutor(processes, context, _receive, (pickle.dumps(given), shares)) as pool:
        futures: list[Future[Result]] = [pool.submit(_work, number, item) for number, item in enumerate(items)]
        try:
            _watch(futures, shares, tell)
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _watch(futures: Sequence[Future[Any]], shares: Any, tell: Callable[[int, float], None]) -> None:
    running = set(futures)
    while running:
        done, running = wait(running, timeout=0.25)
        for number, future in enumerate(futures):
            if future in done:
                future.result()
                tell(number, 1.0)
            elif shares[number] and future in running:
                tell(number, shares[number])


def _receive(pickled: bytes, shares: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    threading.Thread(target=end_with_parent, daemon=True).start()
    _here["given"], _here["shares"] = pickle.loads(pickled), shares  # noqa: S301  made by our own parent


def end_with_parent() -> None:
    """A parent that was killed ends nobody: its workers would reckon on for nothing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(number: int, item: Any) -> Any:
    def tell(share: float) -> None:
        _here["shares"][number] = max(share, 1e-6)

    work, shared = _here["given"]
    try:
        return work(shared, item, tell)
    except UserError as error:
        raise UserError(str(error)) from None  # subclasses may not survive the way between processes
