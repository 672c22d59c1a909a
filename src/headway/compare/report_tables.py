"""The page's tables, as HTML that reads without script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from headway.compare.html_table import HtmlCell, html_table
from headway.compare.report_text import Subject, colours, count, interval, percent, times
from headway.compare.table import worse
from headway.core.job import Job
from headway.core.node import BoolArray
from headway.core.text import duration, in_one_unit

Row = Mapping[str, Any]
TIMES = "\u00d7"
STAR = '<span class="star" title="the best"> \u2605</span>'


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A column of the summary: one figure of each policy."""

    title: str
    cell: Callable[[Row], str]
    value: Callable[[Row], float | None] = lambda _: None
    """Of which the lowest is best; None if no value is."""
    small: str = ""
    kind: str = ""
    """`name` if the title is a policy's name."""
    small_cell: Callable[[Row], str] = lambda _: ""


_TERMS = {
    "completion time": "From submission to end, of jobs that finished.",
    "waiting": "The part of a job's life in which its gang did not run: queued, starting, saving, below its minimum.",
    "slowdown": "Completion time over the time alone at the asked-for size (at least 10 s); never below 1.",
    "unfairly late": "Finish-time fairness: completion time over what an equal share of the cluster among all jobs "
    "present would have given. A job is unfairly late above 1.05, without the time that its processes took to come up.",
    "held": "Share of the main resource that jobs held, from the first submission to the end.",
    "stalled": "The part of held resources that belonged to gangs that did not run.",
    "split": "Of what was free, the part on nodes that were partly used: a measure of fragmentation.",
    "clairvoyant": "The better of srtf and srsf with true remaining times on the same cluster at the same costs. "
    "Not a proven optimum: it is what two well-known rules reach with perfect knowledge.",
    "area bound": "The cluster as one divisible machine. No policy's mean completion time or makespan can be below it "
    "where decisions cost nothing.",
    "interval": "95 %, bootstrap over seeds; where seeds make no difference, over blocks of neighbouring jobs.",
    "worse": "At least 1 % and one second longer than under the baseline, or never finished.",
}


def kind_word(kind: str) -> str:
    return {"gpu": "GPUs", "cpu": "cpu"}.get(kind, kind)


def words(sentences: Sequence[str]) -> str:
    return '<ul class="words">' + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def summary(subject: Subject) -> str:
    parts = (_times_columns(subject), _ratio_columns(subject), _use_columns(subject))
    return "".join(_figures(subject, columns) for columns in parts if columns)


def _figures(subject: Subject, columns: Sequence[FigureColumn]) -> str:
    index, several = colours(subject.runs, subject.baseline), len(subject.rows) > 1
    best = [_best_value(subject, column) if several else None for column in columns]
    rows = []
    for row in subject.rows:
        mark = f'<span data-sample="{index[row["policy"]]}"></span>' if row["policy"] in index else ""
        small = "baseline" if several and row["policy"] == subject.baseline else ""
        first = [
            lowest is not None and column.value(row) == lowest for column, lowest in zip(columns, best, strict=True)
        ]
        cells = [HtmlCell(column.cell(row), column.small_cell(row), kind="best" * is_best, mark=STAR * is_best)
                 for column, is_best in zip(columns, first, strict=True)]  # fmt: skip
        rows.append([HtmlCell(row["policy"], small, mark=mark), *cells])
    heads = [HtmlCell(column.title, column.small, kind=column.kind) for column in columns]
    return html_table([HtmlCell("policy"), *heads], rows)


def _best_value(subject: Subject, column: FigureColumn) -> float | None:
    """The lowest value, among policies under which the most jobs finished; None where all are alike."""
    whole = max(row["finished"] for row in subject.rows)
    values = [value for row in subject.rows if row["finished"] == whole and (value := column.value(row)) is not None]
    return min(values) if values and min(values) < max(values) else None


def _times_columns(subject: Subject) -> list[FigureColumn]:
    def timed(title: str, value: Callable[[Row], float | None], small: str = "", pair: str = "") -> FigureColumn:
        say = in_one_unit([value(row) for row in subject.rows])
        return FigureColumn(
            title, lambda r: say(value(r)), value, small,
            small_cell=lambda r: interval(r["ci"].get(pair), say) if pair else "",
        )  # fmt: skip

    return [
        timed("mean completion", lambda r: r["jct"]["mean"], "95 % interval", "jct"),
        timed("median", lambda r: r["jct"]["p50"]),
        timed("99th percentile", lambda r: r["jct"]["p99"]),
        timed("mean waiting", lambda r: r["wait"]["mean"]),
        timed("makespan", lambda r: r["makespan"]),
    ]


def _ratio_columns(subject: Subject) -> list[FigureColumn]:
    columns, several = list[FigureColumn](), len(subject.rows) > 1
    if several:
        columns.append(FigureColumn(
            f"{TIMES} {subject.baseline}", lambda r: times(r["ratio"]["baseline"]),
            lambda r: r["ratio"]["baseline"], "of mean completion; 95 % interval", "name",
            lambda r: "" if r["policy"] == subject.baseline else interval(r["ci"].get("baseline"), times),
        ))  # fmt: skip
    for name, title in (("clairvoyant", "clairvoyant"), ("area", "area bound")):
        if bound := subject.bounds.get(name):
            small = bound["policy"] if name == "clairvoyant" else duration(bound["jct"])
            columns.append(FigureColumn(f"{TIMES} {title}", lambda r, name=name: times(r["ratio"][name]), small=small))  # type: ignore[misc]
    if several:
        columns.append(FigureColumn("worse off", lambda r: percent(r["worse"]["share"])))
    if any(row["deadlines"]["total"] for row in subject.rows):
        columns.append(FigureColumn("deadlines met", lambda r: _of(r["deadlines"]["met"], r["deadlines"]["total"])))
    return [*columns, FigureColumn("finished", lambda r: _of(r["finished"], r["jobs"]))]


def _use_columns(subject: Subject) -> list[FigureColumn]:
    kind = subject.kind

    def stalled(row: Row) -> str:
        held = row["held"].get(kind, 0.0)
        return percent(row["stalled"].get(kind, 0.0) / held) if held else ""

    columns = [
        FigureColumn(f"{kind_word(kind)} held", lambda r: percent(r["utilisation"].get(kind))),
        FigureColumn("stalled", stalled),
        FigureColumn("free but split", lambda r: percent(r["fragmentation"]["split"])),
        FigureColumn("mean slowdown", lambda r: f"{r['slowdown']['mean'] or 0:,.2f}"),
    ]
    if len(subject.jobs) > 1:
        columns.append(FigureColumn("unfairly late", lambda r: percent(r["fairness"]["unfair"])))
    return [*columns, FigureColumn("stops, moves", lambda r: count(r["stops"]))]


def _of(part: float, whole: float) -> str:
    return f"{count(part)} of {count(whole)}"


def worse_summary(subject: Subject) -> str:
    others = [row for row in subject.rows if row["policy"] != subject.baseline]
    say = in_one_unit([row["worse"]["seconds"] for row in others if row["worse"]["share"]])
    rows = []
    for row in others:
        found = row["worse"]
        cells = [
            percent(found["better"]), percent(found["share"]), say(found["seconds"]) if found["share"] else "",
            times(found["factor"]["p50"]), times(found["factor"]["p95"]), count(found["lost"]),
        ]  # fmt: skip
        rows.append([HtmlCell(text) for text in (row["policy"], *cells)])
    titles = ("policy", "done sooner", "took longer", "longer by, mean", "median multiple", "95th percentile",
              "never finished")  # fmt: skip
    return html_table([HtmlCell(title) for title in titles], rows)


def worse_groups(subject: Subject) -> str:
    parts = [
        ("By size", size_classes(subject.jobs, subject.kind)),
        ("By length", length_classes(subject.jobs)),
        ("By user", named_groups([job.user for job in subject.jobs])),
        ("By queue", named_groups([job.queue for job in subject.jobs])),
    ]
    return "".join(f"<h3>{title}</h3>{_group_table(subject, groups)}" for title, groups in parts if len(groups) > 1)


def _group_table(subject: Subject, groups: Sequence[Group]) -> str:
    """One table for every eight policies: more columns do not fit a page."""
    others = [name for name in subject.runs if name != subject.baseline]
    return "".join(_group_part(subject, groups, others[first : first + 8]) for first in range(0, len(others), 8))


def _group_part(subject: Subject, groups: Sequence[Group], others: Sequence[str]) -> str:
    before = subject.runs[subject.baseline][0].completion
    rows = []
    for group in groups:
        found = [worse(subject.runs[name][0].completion, before, group.mask) for name in others]
        rows.append([HtmlCell(group.name), HtmlCell(count(int(group.mask.sum()))), *map(_group_cell, found)])
    heads = [HtmlCell(name, "took longer; median multiple", kind="name") for name in others]
    return html_table([HtmlCell("jobs"), HtmlCell("number"), *heads], rows)


def _group_cell(found: Mapping[str, Any]) -> HtmlCell:
    if not found["jobs"]:
        return HtmlCell("")
    median = found["median_ratio"]
    tone = "" if median is None else "worse" if median > 1.01 else "better" if median < 0.99 else ""
    word = {"worse": "▲ ", "better": "▼ "}.get(tone, "")
    small = "" if median is None else f"{word}{times(median)} {TIMES}"
    return HtmlCell(
        percent(found["share"]), small, tone=tone, kind="bars", style=f"--share:{100 * found['share']:.0f}%"
    )


def terms(*, several: bool) -> str:
    left_out = () if several else ("worse",)
    return "<dl>" + "".join(
        f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _TERMS.items() if name not in left_out
    ) + "</dl>"  # fmt: skip


# ── classes of jobs ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Group:
    """A class of jobs, to see which jobs got worse."""

    name: str
    mask: BoolArray


def size_classes(jobs: Sequence[Job], kind: str) -> list[Group]:
    """By the asked-for amount of the main resource: one, a few, many."""
    asked = np.array([sum(role.replicas * role.amount(kind) for role in job.roles) for job in jobs])
    unit = 1000 if kind == "cpu" else 1
    title = {"cpu": "cpu", "gpu": "GPU"}.get(kind, kind)
    steps = [
        (0, 1, f"1 {title}"),
        (1, 4, f"2 to 4 {title}s"),
        (4, 8, f"5 to 8 {title}s"),
        (8, np.inf, f"over 8 {title}s"),
    ]
    groups = [Group(name, (asked > low * unit) & (asked <= high * unit)) for low, high, name in steps]
    groups.insert(0, Group(f"no {title}", asked == 0))
    return [group for group in groups if group.mask.any()]


def length_classes(jobs: Sequence[Job]) -> list[Group]:
    """By declared training time alone."""
    seconds = np.array([np.nan if job.seconds is None else job.seconds for job in jobs])
    steps = [
        (-1, 600, "under 10 minutes"), (600, 3600, "10 minutes to 1 hour"), (3600, 86400, "1 hour to 1 day"),
        (86400, np.inf, "over 1 day"),
    ]  # fmt: skip
    groups = [Group(name, (seconds > low) & (seconds <= high)) for low, high, name in steps]
    return [group for group in groups if group.mask.any()]


def named_groups(each: Sequence[str], most: int = 12) -> list[Group]:
    """By user or queue: those with the most jobs, and all others together. Empty if all jobs have the same."""
    users = np.array(each)
    names, counts = np.unique(users, return_counts=True)
    if len(names) < 2:
        return []
    chosen = names[np.argsort(-counts, kind="stable")][:most]
    groups = [Group(str(name) or "(no name)", users == name) for name in chosen]
    others = ~np.isin(users, chosen)
    return [*groups, Group(f"{len(names) - most} others", others)] if others.any() else groups
