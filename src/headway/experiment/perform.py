"""Runs of one cell with one seed: every policy on the same jobs, and the bound. What was kept is not run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headway.core.node import Nodes
from headway.cycle.loop import Book, run
from headway.estimates.plain_books import DeclaredBook, OracleBook
from headway.estimates.progress import ProgressBook
from headway.experiment.case import Case, Cell, Entry, Experiment, Figures, Size
from headway.experiment.kept import Kept, key_of
from headway.policies.registry import POLICIES
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.metrics import Tally
from headway.record.outcome import Outcome, outcome
from headway.sim.cluster import SimCluster
from headway.workload.trace import rigid


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell, one seed: figures by policy, and of the bound."""

    cell: Cell
    seed: int
    figures: dict[str, Figures]
    bound: Figures


def measure(
    experiment: Experiment, cell: Cell, seed: int, size: Size, kept: Kept | None = None,
    tell: Callable[[], None] = lambda: None,
) -> Measured:  # fmt: skip
    """`tell` is called after each policy's run."""
    case = experiment.make(cell, seed, size)
    found = dict[str, Outcome]()
    for entry in experiment.entries:
        key = key_of((experiment.name, cell, size), case, entry, seed) if kept is not None else ""
        before = kept.get(key) if kept is not None else None
        found[entry.label] = before or perform(case, entry, seed)
        if kept is not None and before is None:
            kept.put(key, found[entry.label])
        tell()
    baseline = found[experiment.baseline]
    figures = {label: experiment.measure(case, one, baseline) for label, one in found.items()}
    return Measured(cell, seed, figures, experiment.bound(case))


def perform(case: Case, entry: Entry, seed: int) -> Outcome:
    trace = rigid(case.trace) if entry.rigid else case.trace
    # Whoever runs at the asked-for size is judged against the same jobs: only what may be chosen differs.
    cluster = SimCluster(Nodes.of(case.nodes), trace.jobs, case.world(trace, seed))
    tally = Tally()
    writer = LogWriter(None, Head("sim", entry.label, case.estimates, {}, seed, 0.0, trace.name), tally)
    book: Book = OracleBook(cluster.truth, cluster.speed_at)
    estimates = entry.estimates or case.estimates
    if estimates != "oracle":
        book = ProgressBook() if estimates == "progress" else DeclaredBook()
    policy = POLICIES[entry.policy](**entry.settings)
    run(cluster, policy, book, lambda d: writer.cycle(d.snapshot, d.plan, d.refusals))
    writer.end(cluster.now, cluster.board.unfinished)
    return replace(outcome(tally, case.trace.jobs, name=entry.label, seed=seed))
