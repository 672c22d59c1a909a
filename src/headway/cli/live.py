"""What a person sees on stderr while a command runs: bars for virtual time; for a live run a table on a terminal, and a
line per event elsewhere.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from headway.cli.show import plain
from headway.cli.tables import TableColumn, fitted
from headway.core.job import JobId
from headway.core.plan import Move, Resize, Scale, Start, Stop
from headway.core.reason import Reasons
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import OVER, State
from headway.cycle.loop import Decided

ROWS_AROUND = 12
"""Lines of the terminal that the live table leaves to its frame, folded names and the events below it."""


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
    def __init__(self, *, quiet: bool = False, told: Mapping[JobId, State] | None = None) -> None:
        self._console = Console(stderr=True)
        self._quiet = quiet
        self._table = RichLive(console=self._console, refresh_per_second=4, transient=True)
        self._on_terminal = sys.stderr.isatty() and not quiet
        self._last: dict[JobId, Sample] = {}
        self._states: dict[JobId, State] = dict(told or {})  # announced, by this run or an earlier one

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
        for sample in snapshot.samples:
            self._last[sample.job] = sample
        if self._quiet:
            return
        if self._on_terminal:
            self._table.update(self._jobs(decided, self._console.width, self._console.height))
        for line in self._events(decided):
            self._console.print(Text.assemble((f"{snapshot.now:7.1f}", "dim"), "  ", plain(line)), highlight=False)

    def say(self, sentence: str) -> None:
        """A line about the run itself. It is shown even if events are not."""
        self._console.print(plain(sentence), highlight=False)

    def _events(self, decided: Decided) -> list[str]:
        snapshot, lines = decided.snapshot, []
        for row in snapshot.changed:
            job, state = snapshot.jobs.job(row).id, snapshot.jobs.state_of(row)
            if snapshot.jobs.row_of.get(job) == row and self._states.get(job) is not state:
                self._states[job] = state
                lines.append(f"{job} is {state.name.lower()}{_where(snapshot, row)}")
        lines += [f"{job}: {sentence}" for job, sentence in snapshot.notes]
        names = snapshot.nodes.nodes
        for decision in decided.plan.decisions:
            match decision:
                case Scale(job, role, nodes):
                    lines.append(f"→ scale {job}: {len(nodes)} {role}")
                case Resize(job, role, cpu, _):
                    lines.append(f"→ resize {job}: {role} to {cpu / 1000:g} cpu")
                case Move(job, placement):
                    lines.append(f"→ move {job} to {', '.join(names[n].name for n in placement.used_nodes())}")
                case Stop(job, because):
                    lines.append(f"→ stop {job}: {because}")
                case Start(job, placement):
                    lines.append(f"→ start {job} on {', '.join(names[n].name for n in placement.used_nodes())}")
        lines += [f"refused: {refusal.decision}: {refusal.why}" for refusal in decided.refusals]
        return lines

    def _jobs(self, decided: Decided, width: int, height: int) -> Group:
        """Running jobs first, then waiting jobs with the reason, as far as there is room; the others are counted."""
        snapshot = decided.snapshot
        alive = [row for row in range(snapshot.jobs.count) if not snapshot.jobs.is_over(row)]
        up = [row for row in alive if snapshot.jobs.state_of(row) is not State.WAITING]
        waiting = [row for row in alive if snapshot.jobs.state_of(row) is State.WAITING]
        rows = [*up, *waiting][: max(3, height - ROWS_AROUND)]
        columns = [
            TableColumn("job", is_text=True), TableColumn("state"), TableColumn("step", drop=1),
            TableColumn("loss", drop=2), TableColumn("left"), TableColumn("deadline"),
            TableColumn("where, or why it waits", is_text=True, one_line=True),
        ]  # fmt: skip
        reasons = Reasons(snapshot, decided.plan)
        table = fitted("", columns, [self._row(snapshot, row, reasons) for row in rows], width)
        hidden = len(alive) - len(rows)
        counts = [f"{hidden} more running or waiting"] if hidden else []
        over = [self._states[job] for job in self._states if self._states[job] in OVER]
        counts += [f"{over.count(state)} {state.name.lower()}" for state in sorted(OVER) if state in over]
        return Group(table, Text(", ".join(counts), style="dim"))

    def _row(self, snapshot: Snapshot, row: int, reasons: Reasons) -> list[str | Text]:
        job, state = snapshot.jobs.job(row), snapshot.jobs.state_of(row)
        sample, left = self._last.get(job.id), snapshot.estimates.of(row, snapshot.now).left
        loss = "" if sample is None or sample.loss is None else f"{sample.loss:.4f}"
        step = "" if sample is None else f"{sample.step}/{sample.total_steps or '?'}"
        deadline = "" if job.deadline is None else f"in {job.deadline - snapshot.now:.0f} s"
        if job.deadline is not None and job.deadline < snapshot.now:
            deadline = "missed"
        if state is State.WAITING:
            where = reasons.of(job.id).sentence
        else:
            where = _where(snapshot, row).strip(" ()")
        seconds = "" if math.isnan(left) else f"{left:.0f} s"
        return [plain(job.id), state.name.lower(), step, loss, seconds, deadline, plain(where)]


def _where(snapshot: Snapshot, row: int) -> str:
    placement = snapshot.placements.get(row)
    if placement is None:
        return ""
    names = snapshot.nodes.nodes
    roles = snapshot.jobs.job(row).roles
    parts = [
        f"{len(nodes)} {role.name} on {'+'.join(sorted({names[n].name for n in nodes}))}"
        for role, nodes in zip(roles, placement.nodes, strict=True)
        if nodes
    ]
    return f" ({', '.join(parts)})"
