"""One window from beginning to end, with what its finished jobs taught."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headway.beliefs.file import LearnedBeliefs
from headway.compare.perform import Task, make_cluster, make_head
from headway.compare.scenario import Scenario
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.cycle.loop import Book, run
from headway.estimates.history.history import History
from headway.estimates.progress import ProgressBook
from headway.record.log import LogWriter
from headway.record.metrics import Tally
from headway.record.results import Outcome, outcome
from headway.sim.lies import Lie

FROZEN = math.inf
"""As `since` of a book: no job of this run teaches it anything."""


@dataclass(slots=True)
class ShadowBooks:
    """Books that hear the same run. The first is asked; others hear what a liar would have told."""

    asked: ProgressBook
    liar: str = ""
    deceived: list[tuple[Lie, ProgressBook]] = field(default_factory=list)

    def hear(self, snapshot: Snapshot) -> None:
        self.asked = self.asked.fold(snapshot)
        self.deceived = [(lie, book.fold(self._bent(snapshot, lie))) for lie, book in self.deceived]

    def _bent(self, snapshot: Snapshot, lie: Lie) -> Snapshot:
        """The same moment, if the liar's jobs had reported lies."""
        samples = []
        for sample in snapshot.samples:
            lies = sample.job in snapshot.jobs.row_of and snapshot.job(sample.job).user == self.liar
            told = lie(sample) if lies else sample
            if told is not None:
                samples.append(told)
        return replace(snapshot, samples=tuple(samples))


@dataclass(frozen=True, slots=True)
class ShadowedBook:
    """The book of a run whose books are looked at afterwards."""

    books: ShadowBooks

    def fold(self, snapshot: Snapshot) -> ShadowedBook:
        self.books.hear(snapshot)
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return self.books.asked.annotate(snapshot)


def run_with(scenario: Scenario, make: Callable[[], Policy], books: ShadowBooks) -> Outcome:
    """Runs the scenario. Afterwards the books have learned."""
    task = Task(policy="headway", make=make, estimates="progress")
    named = replace(scenario, beliefs=LearnedBeliefs(books.asked.history))
    cluster, tally = make_cluster(named, task), Tally()
    writer = LogWriter(None, make_head(named, task), tally)
    book: Book = ShadowedBook(books)
    run(cluster, make(), book, lambda decided: writer.cycle(decided.snapshot, decided.plan, decided.refusals))
    writer.end(cluster.now, cluster.board.unfinished)
    return outcome(tally, scenario.trace.jobs, name="headway", seed=0)


def mean_of(found: Outcome) -> float:
    done = found.completion[found.finished]
    return float(done.mean()) if len(done) else math.inf


def learning_run(scenario: Scenario, make: Callable[[], Policy], before: History, *, frozen: bool = False) -> (
    tuple[float, History]
):  # fmt: skip
    """Mean completion time, and the history afterwards."""
    books = ShadowBooks(ProgressBook(history=before, since=FROZEN if frozen else -math.inf))
    return mean_of(run_with(scenario, make, books)), books.asked.history
