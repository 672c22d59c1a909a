"""The loop of `cycle.run`, one cycle at a time, for whoever stands where the policy stands.

An environment asks an agent between `advance` and `carry_out`. A policy that decides in the agent's place gives the
same log as `headway simulate`, byte for byte, because the steps, the book and the log's writer are the same ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from headway.beliefs.books import make_book
from headway.compare.perform import Task, make_cluster, make_head
from headway.compare.scenario import Scenario
from headway.core.check import Refusal
from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.cycle.loop import decide
from headway.record.log import LogWriter

BOOKS = ("progress", "declared", "linear", "none")
"""Where the beliefs of an environment may come from. The truth is not among them."""


class Span(NamedTuple):
    """The time between two cycles, in which the number of jobs does not change."""

    snapshot: Snapshot
    """As it was before the plan was carried out."""
    jobs: int
    """Jobs in the system: submitted, and not over."""
    seconds: float
    last: bool
    """Whether nothing is left to decide behind it."""


class Episode:
    """One simulated run. `bare` is the present snapshot without estimates; None when nothing is left to decide."""

    def __init__(self, scenario: Scenario, task: Task, log: Path | None = None) -> None:
        head = make_head(scenario, task)
        if head.estimates not in BOOKS:
            raise UserError(f"estimates {head.estimates}: an agent sees beliefs only; choose one of {', '.join(BOOKS)}")
        self.cluster = make_cluster(scenario, task)
        self._book = make_book(head.estimates, beliefs=scenario.beliefs)
        self._writer = None if log is None else LogWriter(log, head, fresh=True)
        self.bare: Snapshot | None = None
        self._annotated: Snapshot | None = None
        self._seen: Snapshot | None = None
        self.advance()

    @property
    def now(self) -> float:
        return self.cluster.now

    @property
    def snapshot(self) -> Snapshot | None:
        """The present snapshot with the estimates that the log keeps, for policies. Made when first asked for."""
        if self._annotated is None and self.bare is not None:
            self._annotated = self._book.annotate(self.bare)
        return self._annotated

    @property
    def jobs(self) -> int:
        """Jobs in the system."""
        return self.cluster.board.unfinished

    def advance(self) -> None:
        """Goes on to the next cycle."""
        bare = self.bare = self.cluster.next_snapshot()
        self._annotated = self._seen = None
        if bare is None:
            self.close()
        else:
            self._book = self._book.fold(bare)

    def seen(self) -> Snapshot:
        """The present snapshot with estimates for an agent. The log has them where the agent's own actions decide."""
        assert self.bare is not None
        snapshot = self._seen = self._book.annotate(self.bare)
        if self._writer is not None:
            ask_all(snapshot)
        return snapshot

    def carry_out(self, policy: Policy) -> Span:
        """Decides the present cycle by this policy and goes on to the next."""
        snapshot = self.snapshot
        assert snapshot is not None
        decided = decide(policy, snapshot)
        return self._apply(snapshot, decided.plan, decided.refusals)

    def carry_out_legal(self, plan: Plan) -> Span:
        """The same with a plan that keeps the rules by the way it was made, so that it is not checked again."""
        snapshot = self.bare if self._writer is None else self._annotated or self._seen or self.snapshot
        assert snapshot is not None
        return self._apply(snapshot, plan, ())

    def _apply(self, snapshot: Snapshot, plan: Plan, refusals: tuple[Refusal, ...]) -> Span:
        if self._writer is not None:
            self._writer.cycle(snapshot, plan, refusals)
        cluster = self.cluster
        cluster.apply(plan)
        jobs = cluster.board.unfinished
        self.advance()
        return Span(snapshot, jobs, cluster.now - snapshot.now, self.bare is None)

    def close(self) -> None:
        """Ends the log."""
        if self._writer is not None:
            self._writer.end(self.now, self.jobs)
            self._writer = None


def ask_all(snapshot: Snapshot) -> None:
    """Asks for all times left, so that the log has what an agent saw and a replay of it shows the same."""
    if snapshot.estimates.known:
        snapshot.estimates.beliefs  # noqa: B018  asking is enough


class BaseCourse(NamedTuple):
    """How many jobs were in the system under one policy, from the handover on."""

    times: tuple[float, ...]
    totals: tuple[float, ...]
    """Job-seconds up to each of these times."""


def course_of(episode: Episode, policy: Policy) -> BaseCourse:
    """Runs an episode to its end."""
    times, totals, total = [episode.now], [0.0], 0.0
    while episode.bare is not None:
        span = episode.carry_out(policy)
        total += span.jobs * span.seconds
        times.append(episode.now)
        totals.append(total)
    return BaseCourse(tuple(times), tuple(totals))
