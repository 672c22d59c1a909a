"""What a person sees on stderr while a command runs: bars for virtual time; for a live run a table on a terminal, and a
line per event elsewhere.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, TextIO, cast

from rich.console import Console
from rich.live import Live as RichLive
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from headway.cli.screen.clock_times import LooksAhead
from headway.cli.screen.live_table import live_table, where
from headway.cli.screen.show import near, plain
from headway.cli.screen.steady import SteadyStream
from headway.core.job import JobId
from headway.core.plan import Decision, Move, Resize, Scale, Start, Stop
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import OVER, State
from headway.cycle.loop import Decided

MOST_ALIKE = 3
"""More jobs than these that come into one state at once share a line."""
MOST_OVER = 1000
"""Jobs that are over and known by name; of earlier ones, only how many there were in which state."""


class Bars:
    """One bar per run. Shown only on a terminal."""

    def __init__(self, names: Sequence[str], *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._shown = console.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True, disable=not self._shown,
        )  # fmt: skip
        self._ids = [self._progress.add_task(name, total=1.0, start=False, visible=number == 0)
                     for number, name in enumerate(names)]  # fmt: skip
        self._started: set[int] = set()

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, trace)

    def set(self, number: int, share: float) -> None:
        """The share of a run that is done; a finished one is no longer shown."""
        if not self._shown:
            return
        if number not in self._started:
            self._started.add(number)
            self._progress.start_task(self._ids[number])
        self._progress.update(self._ids[number], completed=share, visible=share < 1.0)


class Live:
    def __init__(
        self,
        *,
        quiet: bool = False,
        told: Mapping[JobId, State] | None = None,
        ahead: LooksAhead | None = None,
    ) -> None:
        self._console = Console(file=cast(TextIO, SteadyStream(sys.stderr)))
        self._quiet = quiet
        self._table = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._on_terminal = sys.stderr.isatty() and not quiet
        self._last: dict[JobId, Sample] = {}
        self._states: dict[JobId, State] = dict(told or {})  # announced, by this run or an earlier one
        self._decided: dict[JobId, str] = {}  # the last decision that was told
        self._ahead = ahead
        self._earlier: Counter[State] = Counter()  # jobs that are no longer known by name

    def __enter__(self) -> Self:
        if self._on_terminal:
            self._table.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_terminal:
            self._table.__exit__(kind, error, trace)

    def show(self, decided: Decided) -> None:
        snapshot = decided.snapshot
        if self._quiet:
            return
        for sample in snapshot.samples:
            self._last[sample.job] = sample
        events = self._events(decided)
        for line in events:
            self._console.print(Text.assemble((f"{snapshot.now:7.1f}", "dim"), "  ", plain(line)), highlight=False)
        if self._on_terminal:
            size = (self._console.width, self._console.height)
            # Drawn by this thread alone: a second one that draws meanwhile would leave parts of the table before.
            told = Counter(self._states.values()) + self._earlier
            times = None if self._ahead is None else self._ahead.look(snapshot)
            self._table.update(live_table(decided, self._last, told, size, times), refresh=True)
        self._forget()

    def _forget(self) -> None:
        """Jobs that are over are only counted once many more came after them."""
        over = [job for job, state in self._states.items() if state in OVER]
        if len(over) > 2 * MOST_OVER:
            for job in over[:-MOST_OVER]:
                self._earlier[self._states.pop(job)] += 1

    def say(self, sentence: str) -> None:
        """A line about the run itself. It is shown even if events are not."""
        self._console.print(plain(sentence), highlight=False)

    def _events(self, decided: Decided) -> list[str]:
        snapshot, entered = decided.snapshot, dict[State, list[tuple[JobId, str]]]()
        for row in snapshot.changed:
            job, state = snapshot.jobs.job(row).id, snapshot.jobs.state_of(row)
            if snapshot.jobs.row_of.get(job) == row and self._states.get(job) is not state:
                self._states.pop(job, None)
                self._states[job] = state  # those that came last are last
                if state in OVER:
                    self._last.pop(job, None)
                if state is not State.STARTING:  # the decision to start it has been told
                    entered.setdefault(state, []).append((job, where(snapshot, row)))
        lines = [line for state, jobs in entered.items() for line in _entered(state, jobs)]
        lines += [f"{job}: {near(sentence)}" for job, sentence in snapshot.notes]
        for job in (job for jobs in entered.values() for job, _ in jobs):
            self._decided.pop(job, None)
        lines += [line for decision in decided.plan.decisions if (line := self._new(decision, snapshot))]
        lines += [f"refused: {refusal.decision}: {refusal.why}" for refusal in decided.refusals]
        return lines

    def _new(self, decision: Decision, snapshot: Snapshot) -> str:
        """A line about a decision; empty if the same was decided before and the job's state is still the same."""
        line = _decision(decision, snapshot)
        if self._decided.get(decision.job) == line:
            return ""
        self._decided[decision.job] = line
        return line


def _entered(state: State, jobs: Sequence[tuple[JobId, str]]) -> list[str]:
    """A line for each job that came into a state; one line for all where they are many."""
    word = "failed" if state is State.FAILED else f"is {state.name.lower()}"
    if len(jobs) <= MOST_ALIKE or state in OVER:
        return [f"{job} {word}" + (f" ({placed})" if placed else "") for job, placed in jobs]
    names = ", ".join(job for job, _ in jobs[:2])
    return [f"{names} and {len(jobs) - 2} more are {state.name.lower()}"]


def _decision(decision: Decision, snapshot: Snapshot) -> str:
    names = snapshot.nodes.nodes
    match decision:
        case Scale(job, role, nodes):
            return f"→ scale {job}: {len(nodes)} {role}"
        case Resize(job, role, cpu, _):
            return f"→ resize {job}: {role} to {cpu / 1000:g} cpu"
        case Move(job, placement):
            return f"→ move {job} to {', '.join(names[n].name for n in placement.used_nodes())}"
        case Stop(job, because):
            return f"→ stop {job}: {because}"
        case Start(job, placement):
            return f"→ start {job} on {', '.join(names[n].name for n in placement.used_nodes())}"
    return ""
