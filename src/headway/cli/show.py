"""Results as tables for people."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from headway.core.states import State
from headway.record.metrics import Course, Tally


def show_result(tally: Tally, *, as_json: bool, jobs: bool = True) -> None:
    result = tally.result()
    if as_json:
        print(json.dumps(result))
        return
    console = Console()
    if jobs and len(tally.courses) <= 50:
        console.print(job_table(list(tally.courses.values())))
    for course in tally.courses.values():
        if course.note and course.state is State.FAILED:
            console.print(f"{course.job.id} failed: {course.note}", highlight=False)
    console.print(summary(result), highlight=False)


def job_table(courses: list[Course]) -> Table:
    table = Table(title="Jobs (seconds)")
    for name in ("job", "user", "submit", "start", "end", "trained", "stops", "deadline", "state"):
        table.add_column(name, justify="left" if name in ("job", "user", "state") else "right")
    for course in courses:
        job = course.job
        table.add_row(
            job.id, job.user, _second(job.submit), _second(course.started), _second(course.ended),
            _second(course.trained), str(course.stops), _deadline(course), course.state.name.lower(),
        )  # fmt: skip
    return table


def summary(result: dict[str, Any]) -> str:
    jct, wait = result["jct"], result["wait"]
    used = ", ".join(f"{kind} {share:.0%}" for kind, share in result["utilisation"].items())
    met = result["deadlines"]
    lines = [
        f"{result['policy']}: {result['finished']} of {result['jobs']} jobs finished"
        + (f", {result['failed']} failed" if result["failed"] else ""),
        f"  completion  mean {_second(jct['mean'])}  p50 {_second(jct['p50'])}  p95 {_second(jct['p95'])}"
        f"  p99 {_second(jct['p99'])}",
        f"  waiting     mean {_second(wait['mean'])}  makespan {_second(result['makespan'])}  held: {used}",
    ]
    if met["total"]:
        lines.append(f"  deadlines   {met['met']} of {met['total']} met")
    return "\n".join(lines)


def _deadline(course: Course) -> str:
    if course.job.deadline is None:
        return ""
    verdict = "" if course.ended is None else (" met" if course.met else " missed")
    return f"{course.job.deadline:.0f}{verdict}"


def _second(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"
