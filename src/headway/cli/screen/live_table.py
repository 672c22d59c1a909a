"""The table of a live run: running jobs with progress, then waiting ones with the reason; the others are counted."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from headway.cli.screen.clock_times import ClockTimes
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, cut, deadline_cell, fitted
from headway.core.job import Job, JobId
from headway.core.reason import Reasons
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import OVER, State
from headway.core.text import lasting
from headway.cycle.loop import Decided

LINES_AROUND = 12
"""Lines of the terminal that are left to the heads of two tables, the counts and the newest events."""
FEWEST_WAITING = 3
"""So many waiting jobs are shown, however many run."""
_RUNNING = (
    TableColumn("job", is_text=True), TableColumn("state", is_text=True), TableColumn("step", drop=1),
    TableColumn("loss", drop=2), TableColumn("left", drop=3), TableColumn("done"), TableColumn("deadline"),
    TableColumn("gpu"), TableColumn("where", is_text=True, one_line=True, drop=4),
)  # fmt: skip
_WAITING = (
    TableColumn("waiting", is_text=True), TableColumn("starts"), TableColumn("done"), TableColumn("deadline"),
    TableColumn("why", is_text=True, one_line=True),
)  # fmt: skip


def live_table(
    decided: Decided, last: Mapping[JobId, Sample], told: Mapping[State, int], size: tuple[int, int],
    ahead: ClockTimes | None = None,
) -> Group:  # fmt: skip
    """`last`: the newest report of each job; `told`: how many came into each state, also of jobs that have left the
    board; `size`: the terminal's columns and lines; `ahead`: when jobs start and end, as was foreseen last.
    """
    snapshot, (width, height) = decided.snapshot, size
    alive = [row for row in range(snapshot.jobs.count) if not snapshot.jobs.is_over(row)]
    waiting = [row for row in alive if snapshot.jobs.state_of(row) is State.WAITING]
    running = [row for row in alive if snapshot.jobs.state_of(row) is not State.WAITING]
    room = max(2 + FEWEST_WAITING, height - LINES_AROUND)
    up = _shown(snapshot, running, room - min(len(waiting), FEWEST_WAITING))
    queued = _shown(snapshot, waiting, room - len(up))
    parts: list[RenderableType] = []
    if up:
        rows = [_running(snapshot, row, last, ahead) for row in up]
        parts += [Text(), fitted("", _RUNNING, rows, width, edge=False)]
    if queued:
        reasons = Reasons(snapshot, decided.plan)
        rows = [_waiting(snapshot, row, reasons, ahead) for row in queued]
        parts += [Text(), fitted("", _WAITING, rows, width, edge=False)]
    counts = _counts((len(running) - len(up), len(waiting) - len(queued)), told)
    done = "" if ahead is None or len(alive) < 2 else ahead.about(ahead.forecast.all_done)
    counts = "; ".join(part for part in (counts, f"all done {done}" if done else "") if part)
    return Group(*parts, Text(), Text(counts, style="dim"))


def _shown(snapshot: Snapshot, rows: list[int], room: int) -> list[int]:
    """As many as there is room for. Jobs with a deadline are never left out for others; the earliest come first."""
    due = [snapshot.jobs.job(row).deadline for row in rows]
    ranked = sorted(zip(due, rows, strict=True), key=lambda one: (math.inf if one[0] is None else one[0], one[1]))
    return sorted(row for _, row in ranked[:room])


def _counts(hidden: tuple[int, int], told: Mapping[State, int]) -> str:
    said = [f"{count} more {word}" for count, word in zip(hidden, ("running", "waiting"), strict=True) if count]
    said += [f"{told[state]} {state.name.lower()}" for state in sorted(OVER) if told.get(state)]
    return ", ".join(said)


def _running(snapshot: Snapshot, row: int, last: Mapping[JobId, Sample], ahead: ClockTimes | None) -> list[str | Text]:
    job, state = snapshot.jobs.job(row), snapshot.jobs.state_of(row)
    sample, left = last.get(job.id), snapshot.estimates.of(row, snapshot.now).left
    loss = "" if sample is None or sample.loss is None else f"{sample.loss:.4g}"
    step = "" if sample is None else f"{sample.step}/{sample.total_steps or '?'}"
    seconds = "" if math.isnan(left) else lasting(left)
    gpus = str(snapshot.gpus.get(row, ""))
    _, done = _foreseen(job.id, ahead)
    return [plain(cut(job.id)), state.name.lower(), step, loss, seconds, done, _deadline(job, snapshot.now, left), gpus,
            plain(where(snapshot, row))]  # fmt: skip


def _waiting(snapshot: Snapshot, row: int, reasons: Reasons, ahead: ClockTimes | None) -> list[str | Text]:
    job = snapshot.jobs.job(row)
    starts, done = _foreseen(job.id, ahead)
    return [plain(cut(job.id)), starts, done, _deadline(job, snapshot.now, math.nan), plain(reasons.of(job.id).brief)]


def _foreseen(job: JobId, ahead: ClockTimes | None) -> tuple[str, str]:
    """When it starts and when it is done; empty before that was foreseen."""
    eta = None if ahead is None else ahead.forecast.jobs.get(job)
    return ("", "") if ahead is None or eta is None else (ahead.between(eta.starts), ahead.between(eta.done))


def _deadline(job: Job, now: float, left: float) -> Text:
    return Text() if job.deadline is None else deadline_cell(job.deadline - now, left)


def where(snapshot: Snapshot, row: int) -> str:
    """How many of each role, and on which nodes where there are several: `2 worker on left+right`."""
    placement = snapshot.placements.get(row)
    if placement is None:
        return ""
    names = snapshot.nodes.nodes
    parts = []
    for role, nodes in zip(snapshot.jobs.job(row).roles, placement.nodes, strict=True):
        if nodes:
            on = f" on {'+'.join(sorted({names[node].name for node in nodes}))}" if len(names) > 1 else ""
            parts.append(f"{len(nodes)} {role.name}{on}")
    return ", ".join(parts)
