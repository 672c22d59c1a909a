"""A comparison of policies on the terminal: assumptions first, then two tables, the bounds, and a hint."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headway.cli.screen.show import figure, plain
from headway.cli.screen.tables import TableColumn, fitted
from headway.compare.report_text import percent
from headway.compare.table import Compared


def show_comparison(found: Compared) -> None:
    console = Console()
    console.print(said(found.assumptions))
    console.print()
    for table in (times_table(found, console.width), ratios_table(found, console.width)):
        console.print(table)
    for line in bound_lines(found):
        console.print(Padding(plain(line), (0, 0, 0, 1)), highlight=False)
    for sentence in filter(None, [found.hint, found.kept_out]):
        console.print(Padding(plain(f"note: {sentence}"), (0, 0, 0, 1)), highlight=False)


def said(assumptions: dict[str, str]) -> Table:
    """A topic and its sentence in a line; a long sentence goes on below itself."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for topic, sentence in assumptions.items():
        table.add_row(Text(f" {topic}", style="dim"), plain(sentence))
    return table


def times_table(found: Compared, width: int) -> Table:
    columns = [
        TableColumn("policy", is_text=True), TableColumn("mean"), TableColumn("95 % interval"),
        TableColumn("p50", drop=4), TableColumn("p99"), TableColumn("wait", drop=2), TableColumn("makespan", drop=3),
        TableColumn("held", drop=5), TableColumn("deadlines", drop=1),
    ]  # fmt: skip
    rows: list[list[str | Text]] = []
    for row in found.rows:
        jct, met = row["jct"], row["deadlines"]
        rows.append([
            plain(row["policy"]), figure(jct["mean"]), _interval(row["ci"].get("jct"), "{:,.0f}"),
            figure(jct["p50"]), figure(jct["p99"]), figure(row["wait"]["mean"]), figure(row["makespan"]),
            _held(row), f"{met['met']:g} of {met['total']:g}" if met["total"] else "",
        ])  # fmt: skip
    return fitted(f"{found.rows[0]['jobs']:,} jobs, completion times in seconds", columns, rows, width)


def ratios_table(found: Compared, width: int) -> Table:
    columns = [
        TableColumn("policy", is_text=True), TableColumn("of baseline"), TableColumn("95 % interval"),
        TableColumn("of clairvoyant", drop=1), TableColumn("of area", drop=2), TableColumn("worse off"),
        TableColumn("not done"),
    ]  # fmt: skip
    rows: list[list[str | Text]] = []
    for row in found.rows:
        ratio, missing = row["ratio"], row["jobs"] - row["finished"]
        rows.append([
            plain(row["policy"]), _times(ratio["baseline"]), _interval(row["ci"].get("baseline"), "{:.3f}"),
            _times(ratio["clairvoyant"]), _times(ratio["area"]), percent(row["worse"]["share"]),
            f"{missing:g}" if missing else "",
        ])  # fmt: skip
    return fitted(f"Mean completion as a multiple; the baseline is {found.baseline}", columns, rows, width)


def _held(row: dict[str, Any]) -> str:
    shares = row["utilisation"]
    return next((percent(shares[kind]) for kind in ("gpu", "cpu") if kind in shares), "")


def bound_lines(found: Compared) -> list[str]:
    lines = []
    knowing, area = found.bounds["clairvoyant"], found.bounds["area"]
    if knowing:
        lines.append(f"best clairvoyant: {knowing['policy']} with true remaining times, mean {figure(knowing['jct'])}")
    if area:
        lines.append(f"area bound: no policy's mean is below {figure(area['jct'])}, no makespan below "
                     f"{figure(area['makespan'])}, where decisions cost nothing")  # fmt: skip
    over = {row["ci"].get("over") for row in found.rows} - {None}
    if over:
        lines.append(f"intervals: 95 %, bootstrap over {' and '.join(sorted(over))}")
    return lines


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(pair: list[float] | None, form: str) -> str:
    return "" if pair is None else f"{form.format(pair[0])} to {form.format(pair[1])}"
