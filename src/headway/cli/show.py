"""Results as tables on the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.cli.tables import TableColumn, fitted
from headway.compare.table import Compared
from headway.core.states import State
from headway.core.text import clean
from headway.record.metrics import Course, Tally


def plain(text: str) -> Text:
    """A text of a user, a script or a cluster, shown as it is: neither Rich nor the terminal obeys it."""
    return Text(clean(text))


def show_result(tally: Tally, *, as_json: bool, jobs: bool = True) -> None:
    result = tally.result()
    if as_json:
        print(json.dumps(result))
        return
    console = Console()
    if jobs and len(tally.courses) <= 50:
        console.print(job_table(list(tally.courses.values()), console.width))
    for course in tally.courses.values():
        if course.note and course.state is State.FAILED:
            console.print(plain(f"{course.job.id} failed: {course.note}"), highlight=False)
    console.print(summary(result), highlight=False, markup=False)


def show_comparison(found: Compared) -> None:
    console = Console()
    for table in (times_table(found, console.width), ratios_table(found, console.width)):
        console.print(table)
    for line in bound_lines(found):
        console.print(plain(line), highlight=False)


def times_table(found: Compared, width: int) -> Table:
    columns = [
        TableColumn("policy", is_text=True), TableColumn("mean"), TableColumn("95 % interval", drop=6),
        TableColumn("p50", drop=4), TableColumn("p99"), TableColumn("wait", drop=2), TableColumn("makespan", drop=3),
        TableColumn("held", drop=5), TableColumn("deadlines", drop=1),
    ]  # fmt: skip
    rows: list[list[str | Text]] = []
    for row in found.rows:
        jct, met = row["jct"], row["deadlines"]
        rows.append([
            plain(row["policy"]), _second(jct["mean"]), _interval(row["ci"].get("jct"), "{:,.0f}"),
            _second(jct["p50"]), _second(jct["p99"]), _second(row["wait"]["mean"]), _second(row["makespan"]),
            _held(row), f"{met['met']:g} of {met['total']:g}" if met["total"] else "",
        ])  # fmt: skip
    return fitted(f"{found.rows[0]['jobs']:,} jobs, completion times in seconds", columns, rows, width)


def ratios_table(found: Compared, width: int) -> Table:
    columns = [
        TableColumn("policy", is_text=True), TableColumn(f"of {found.baseline}"), TableColumn("95 % interval", drop=3),
        TableColumn("of clairvoyant", drop=1), TableColumn("of area", drop=2), TableColumn("worse off"),
        TableColumn("not done"),
    ]  # fmt: skip
    rows: list[list[str | Text]] = []
    for row in found.rows:
        ratio, missing = row["ratio"], row["jobs"] - row["finished"]
        rows.append([
            plain(row["policy"]), _times(ratio["baseline"]), _interval(row["ci"].get("baseline"), "{:.3f}"),
            _times(ratio["clairvoyant"]), _times(ratio["area"]), f"{row['worse']['share']:.1%}",
            f"{missing:g}" if missing else "",
        ])  # fmt: skip
    return fitted("Mean completion as a multiple", columns, rows, width)


def _held(row: dict[str, Any]) -> str:
    shares = row["utilisation"]
    return next((f"{shares[kind]:.1%}" for kind in ("gpu", "cpu") if kind in shares), "")


def plain_table(title: str, columns: Sequence[str], *, wrap: bool = True) -> Table:
    """The first column is text; numbers follow."""
    table = Table(title=plain(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(plain(name), justify="right" if number else "left", no_wrap=not wrap)
    return table


def bound_lines(found: Compared) -> list[str]:
    lines = []
    knowing, area = found.bounds["clairvoyant"], found.bounds["area"]
    if knowing:
        lines.append(f"best clairvoyant: {knowing['policy']} with true remaining times, mean {_second(knowing['jct'])}")
    if area:
        lines.append(f"area bound: no policy's mean is below {_second(area['jct'])}, no makespan below "
                     f"{_second(area['makespan'])}, where decisions cost nothing")  # fmt: skip
    over = {row["ci"].get("over") for row in found.rows} - {None}
    if over:
        lines.append(f"intervals: 95 %, bootstrap over {' and '.join(sorted(over))}")
    return lines


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(pair: list[float] | None, form: str) -> str:
    return "" if pair is None else f"{form.format(pair[0])} to {form.format(pair[1])}"


def job_table(courses: list[Course], width: int = 80) -> Table:
    columns = [
        TableColumn("job", is_text=True), TableColumn("user", is_text=True, drop=3), TableColumn("submit", drop=2),
        TableColumn("start", drop=1), TableColumn("end"), TableColumn("trained", drop=4), TableColumn("stops", drop=5),
        TableColumn("deadline"), TableColumn("state"),
    ]  # fmt: skip
    rows: list[list[str | Text]] = []
    for course in courses:
        job = course.job
        rows.append([
            plain(job.id), plain(job.user), _second(job.submit), _second(course.started), _second(course.ended),
            _second(course.trained), str(course.stops) if course.stops else "", _deadline(course),
            course.state.name.lower(),
        ])  # fmt: skip
    return fitted("Jobs (seconds)", columns, rows, width)


def summary(result: dict[str, Any]) -> str:
    jct, wait = result["jct"], result["wait"]
    used = ", ".join(f"{kind} {share:.0%}" for kind, share in result["utilisation"].items())
    met = result["deadlines"]
    lines = [
        f"{clean(result['policy'])}: {result['finished']} of {result['jobs']} jobs finished"
        + (f", {result['failed']} failed" if result["failed"] else ""),
        f"  completion  mean {_second(jct['mean'])}  "
        + "  ".join(f"{name} {_second(jct[name])}" for name in ("p50", "p95", "p99")),
        f"  waiting     mean {_second(wait['mean'])}  makespan {_second(result['makespan'])}  held: {used}",
    ]
    if result["slowdown"]["mean"] is not None:
        fair = result["fairness"]
        lines.append(
            f"  slowdown    mean {result['slowdown']['mean']:.2f}  p50 {result['slowdown']['p50']:.2f}"
            f"  p99 {result['slowdown']['p99']:.2f}"
            + (f"  unfairly late: {fair['unfair']:.0%}" if result["jobs"] > 1 else "")
        )
    if met["total"]:
        lines.append(f"  deadlines   {met['met']} of {met['total']} met")
    if "worth" in result:
        lines.append(f"  worth       {result['worth']['got']:,.0f} of {result['worth']['most']:,.0f}")
    return "\n".join(lines)


def _deadline(course: Course) -> str:
    if course.job.deadline is None:
        return ""
    verdict = "" if course.ended is None else (" met" if course.met else " missed")
    return f"{course.job.deadline:.0f}{verdict}"


def _second(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.1f}"
