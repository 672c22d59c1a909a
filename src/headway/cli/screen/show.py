"""The result of one run on the terminal: its jobs, failures, and a summary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.cli.screen.tables import TableColumn, fitted
from headway.core.job import Job, JobId
from headway.core.quantity import CPU
from headway.core.states import State
from headway.core.text import clean, duration, in_one_unit, lasting
from headway.local.over import last_lines, outputs_of
from headway.record.metrics import Course, Tally

MOST_JOBS = 50
"""Jobs of a run with more than these are not shown one by one."""
MOST_LATE = 5
LAST_LINES = 5
"""Of the output of a failed job."""
LONGEST_LINE = 200
_UNITS = ((10_000.0, "seconds", 1.0), (600_000.0, "minutes", 60.0), (float("inf"), "hours", 3600.0))


def plain(text: str) -> Text:
    """A text of a user, a script or a cluster, shown as it is: neither Rich nor the terminal obeys it."""
    return Text(clean(text))


def near(text: str) -> str:
    """The text with paths below the current folder as they are from here."""
    here = Path.cwd()
    return text if here == here.parent else text.replace(f"{here}/", "")


def show_result(
    tally: Tally,
    *,
    as_json: bool,
    jobs: bool = True,
    folder: Path | None = None,
    times: Mapping[JobId, tuple[str, str]] = {},
) -> None:
    """`folder`: the state folder of a run on this machine, for the last lines that a failed job printed. `times`: by
    job, when it starts and when it is done, as times of day.
    """
    result = tally.result()
    if as_json:
        print(json.dumps(result))
        return
    console, courses = Console(), list(tally.courses.values())
    if jobs and len(courses) <= MOST_JOBS:
        console.print(job_table(courses, console.width, times))
    for course in courses:
        if course.note and course.state is State.FAILED:
            console.print(plain(f"{course.job.id} failed: {near(course.note)}"), highlight=False)
            for line in [] if folder is None else last_words(folder, course.job):
                console.print(plain(f"  | {line}"), highlight=False, style="dim")
    console.print(summary(result, courses), highlight=False, markup=False)


def last_words(folder: Path, job: Job) -> list[str]:
    """The last lines of the output that was written last."""
    outputs = outputs_of(folder, job)
    return [line[:LONGEST_LINE] for line in last_lines(outputs[-1], LAST_LINES)] if outputs else []


def job_table(courses: Sequence[Course], width: int = 80, times: Mapping[JobId, tuple[str, str]] = {}) -> Table:
    columns = [
        TableColumn("job", is_text=True), TableColumn("user", is_text=True, drop=3), TableColumn("submit", drop=2),
        TableColumn("start", drop=1), TableColumn("end"), TableColumn("trained", drop=4), TableColumn("stops", drop=5),
        TableColumn("deadline"), TableColumn("state", is_text=True), TableColumn("starts"), TableColumn("done"),
    ]  # fmt: skip
    last = max((course.ended or course.job.submit for course in courses), default=0.0)
    word, divisor = next((word, divisor) for most, word, divisor in _UNITS if last < most)

    def when(seconds: float | None) -> str:
        return "" if seconds is None else figure(seconds / divisor)

    rows: list[list[str | Text]] = []
    for course in courses:
        job, late = course.job, _lateness(course)
        deadline = "" if job.deadline is None else when(job.deadline)
        verdict = "" if course.ended is None or not deadline else " missed" if late is not None else " met"
        rows.append([
            plain(job.id), plain(job.user), when(job.submit), when(course.started), when(course.ended),
            when(course.trained), str(course.stops) if course.stops else "",
            Text(f"{deadline}{verdict}", style="red" if late is not None else ""),
            Text(course.state.name.lower(), style="red" if course.state is State.FAILED else ""),
            *times.get(job.id, ("", "")),
        ])  # fmt: skip
    return fitted(f"Jobs ({word})", columns, rows, width)


def summary(result: dict[str, Any], courses: Sequence[Course] = ()) -> str:
    jct, wait = result["jct"], result["wait"]
    say = in_one_unit([jct[name] for name in ("mean", "p50", "p95", "p99")])
    used = ", ".join(f"{kind} {share:.0%}" for kind, share in result["utilisation"].items()).replace("%", " %")
    met = result["deadlines"]
    lines = [
        f"{clean(result['policy'])}: {result['finished']} of {result['jobs']} jobs finished"
        + (f", {result['failed']} failed" if result["failed"] else "")
    ]
    if jct["mean"] is not None:
        lines.append("  completion  " + "  ".join(f"{name} {say(jct[name])}" for name in ("mean", "p50", "p95", "p99")))
        lines.append(f"  waiting     mean {duration(wait['mean'])}  makespan {duration(result['makespan'])}")
    if used:
        lines.append(f"  held        {used}")
    if result["used"] and result["utilisation"].get(CPU):
        share = result["used"][CPU] / result["utilisation"][CPU]
        lines.append(f"  used        {100 * share:.0f} % of the cpu that was held")
    if result["slowdown"]["mean"] is not None:
        lines.append(
            f"  slowdown    mean {result['slowdown']['mean']:.2f}  p50 {result['slowdown']['p50']:.2f}"
            f"  p99 {result['slowdown']['p99']:.2f}"
        )
    if met["total"]:
        lines.append(f"  deadlines   {met['met']} of {met['total']} met{_missed(courses)}")
    if "worth" in result:
        lines.append(f"  worth       {result['worth']['got']:,.0f} of {result['worth']['most']:,.0f}")
    return "\n".join(lines)


def _missed(courses: Sequence[Course]) -> str:
    """The names of jobs that missed their deadline, the latest first."""
    late = sorted(((seconds, str(course.job.id)) for course in courses if (seconds := _lateness(course)) is not None),
                  reverse=True)  # fmt: skip
    if not late:
        return ""
    named = [f"{clean(name)} ({lasting(seconds) if seconds >= 10 else f'{seconds:.1f} s'} late)" if seconds else
             clean(name) for seconds, name in late[:MOST_LATE]]  # fmt: skip
    more = f" and {len(late) - MOST_LATE} more" if len(late) > MOST_LATE else ""
    return f"; missed: {', '.join(named)}{more}"


def _lateness(course: Course) -> float | None:
    """Seconds after the deadline at which the job ended; 0 if it never finished; None if it is in time or has none."""
    if course.job.deadline is None or course.ended is None or course.met:
        return None
    return max(0.0, course.ended - course.job.deadline)


def figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.1f}"
