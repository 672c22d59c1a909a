"""The page's tables, as HTML that reads without script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from headway.compare.report_text import Subject, colours, count, duration, in_one_unit, interval, percent, times
from headway.compare.table import worse
from headway.core.job import Job
from headway.core.node import BoolArray

Row = Mapping[str, Any]
Column = tuple[str, str, Callable[[Row], str], Callable[[Row], str], Callable[[Row], float | None]]
"""Title, its small print, cell, the cell's small print, and the value, of which the lowest is best."""

TIMES = "\u00d7"
_TERMS = {
    "completion time": "From submission to end, of jobs that finished.",
    "waiting": "The part of a job's life in which its gang did not run: queued, starting, saving, below its minimum.",
    "slowdown": "Completion time over the time alone at the asked-for size (at least 10 s); never below 1.",
    "unfairly late": "Finish-time fairness: completion time over what an equal share of the cluster among all jobs "
    "present would have given. Above 1, a job was served worse than with equal shares.",
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
    columns = _columns(subject)
    rows, index = list(subject.rows), colours(subject.runs, subject.baseline)
    whole = max(row["finished"] for row in rows)
    best = {}
    for column in columns:
        values = [(value, i) for i, row in enumerate(rows)
                  if row["finished"] == whole and (value := column[4](row)) is not None]  # fmt: skip
        if len(rows) > 1 and values and min(values)[0] < max(values)[0]:
            best[column[0]] = min(values)[1]
    head = "".join(
        f'<th scope="col">{escape(title)}<small>{escape(small)}</small></th>' for title, small, *_ in columns
    )
    body = ""
    for i, row in enumerate(rows):
        cells = "".join(_cell(cell(row), small(row), best=best.get(title) == i) for title, _, cell, small, _ in columns)
        mark = f'<span data-sample="{index[row["policy"]]}"></span>' if row["policy"] in index else ""
        base = "<small>baseline</small>" if row["policy"] == subject.baseline and len(rows) > 1 else ""
        body += f'<tr><th scope="row">{mark}{escape(row["policy"])}{base}</th>{cells}</tr>'
    return _table(f'<th scope="col">policy</th>{head}', body) + _second_table(subject)


def _columns(subject: Subject) -> list[Column]:
    def none(_: Row) -> str:
        return ""

    def timed(title: str, small: str, value: Callable[[Row], float | None], pair: str = "") -> Column:
        say = in_one_unit([value(row) for row in subject.rows])
        return (
            title, small, lambda r: say(value(r)), lambda r: interval(r["ci"].get(pair), say) if pair else "", value,
        )  # fmt: skip

    columns: list[Column] = [
        timed("mean completion", "95 % interval", lambda r: r["jct"]["mean"], "jct"),
        timed("median", "", lambda r: r["jct"]["p50"]),
        timed("99th", "percentile", lambda r: r["jct"]["p99"]),
        timed("mean waiting", "", lambda r: r["wait"]["mean"]),
        timed("makespan", "", lambda r: r["makespan"]),
    ]
    if len(subject.rows) > 1:
        columns.append((f"{TIMES} {subject.baseline}", "95 % interval", lambda r: times(r["ratio"]["baseline"]),
                        lambda r: "" if r["policy"] == subject.baseline else interval(r["ci"].get("baseline"), times),
                        lambda r: r["ratio"]["baseline"]))  # fmt: skip
    if subject.bounds.get("clairvoyant"):
        columns.append((f"{TIMES} clairvoyant", subject.bounds["clairvoyant"]["policy"],
                        lambda r: times(r["ratio"]["clairvoyant"]), none, lambda _: None))  # fmt: skip
    if subject.bounds.get("area"):
        columns.append((f"{TIMES} area bound", duration(subject.bounds["area"]["jct"]),
                        lambda r: times(r["ratio"]["area"]), none, lambda _: None))  # fmt: skip
    return columns


def _second_table(subject: Subject) -> str:
    kind, several = subject.kind, len(subject.rows) > 1
    asked = any(row["deadlines"]["total"] for row in subject.rows)
    titles = [
        f"{kind_word(kind)} held",
        "stalled",
        "free but split",
        "mean slowdown",
        "unfairly late",
        "stops, moves",
    ]
    titles += ["worse off"] * several + ["deadlines met"] * asked + ["finished"]
    body = ""
    for row in subject.rows:
        held, stalled = row["held"].get(kind, 0.0), row["stalled"].get(kind, 0.0)
        cells = [
            percent(row["utilisation"].get(kind)), percent(stalled / held) if held else "",
            percent(row["fragmentation"]["split"]), f"{row['slowdown']['mean'] or 0:,.2f}",
            percent(row["fairness"]["unfair"]), count(row["stops"]),
        ]  # fmt: skip
        cells += [percent(row["worse"]["share"])] * several
        cells += [f"{count(row['deadlines']['met'])} of {count(row['deadlines']['total'])}"] * asked
        cells += [f"{count(row['finished'])} of {count(row['jobs'])}"]
        body += f'<tr><th scope="row">{escape(row["policy"])}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
    head = '<th scope="col">policy</th>' + "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    return _table(head, body)


def worse_summary(subject: Subject) -> str:
    body = ""
    for row in subject.rows:
        if row["policy"] == subject.baseline:
            continue
        found = row["worse"]
        cells = [
            percent(found["better"]), percent(found["share"]), duration(found["seconds"]) if found["share"] else "",
            times(found["factor"]["p50"]), times(found["factor"]["p95"]), count(found["lost"]),
        ]  # fmt: skip
        body += f'<tr><th scope="row">{escape(row["policy"])}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
    titles = ("done sooner", "took longer", "longer by, mean", "median multiple", "95th percentile", "never finished")
    return _table('<th scope="col">policy</th>' + "".join(f'<th scope="col">{title}</th>' for title in titles), body)


def worse_groups(subject: Subject) -> str:
    parts = [
        ("By size", size_classes(subject.jobs, subject.kind)),
        ("By length", length_classes(subject.jobs)),
        ("By user", named_groups([job.user for job in subject.jobs])),
        ("By queue", named_groups([job.queue for job in subject.jobs])),
    ]
    return "".join(f"<h3>{title}</h3>{_group_table(subject, groups)}" for title, groups in parts if len(groups) > 1)


def _group_table(subject: Subject, groups: Sequence[Group]) -> str:
    before = subject.runs[subject.baseline][0].completion
    others = [name for name in subject.runs if name != subject.baseline]
    body = ""
    for group in groups:
        cells = f"<td>{count(int(group.mask.sum()))}</td>"
        for name in others:
            found = worse(subject.runs[name][0].completion, before, group.mask)
            cells += _group_cell(found)
        body += f'<tr><th scope="row">{escape(group.name)}</th>{cells}</tr>'
    head = '<th scope="col">jobs</th><th scope="col">number</th>' + "".join(
        f'<th scope="col">{escape(name)}<small>took longer; median multiple</small></th>' for name in others
    )
    return _table(head, body)


def _group_cell(found: Mapping[str, Any]) -> str:
    if not found["jobs"]:
        return "<td></td>"
    median = found["median_ratio"]
    tone = "" if median is None else "worse" if median > 1.01 else "better" if median < 0.99 else ""
    word = {"worse": "▲ ", "better": "▼ "}.get(tone, "")
    share = f"{100 * found['share']:.0f}%"
    return (
        f'<td class="bars" style="--share:{share}">{percent(found["share"])}'
        f'<small class="{tone}">{word}{times(median)} {TIMES}</small></td>'
    )


def terms(*, several: bool) -> str:
    left_out = () if several else ("worse",)
    return "<dl>" + "".join(
        f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _TERMS.items() if name not in left_out
    ) + "</dl>"  # fmt: skip


def _cell(text: str, small: str, *, best: bool) -> str:
    star = '<span class="star" title="the best"> \u2605</span>' if best else ""
    return f"<td{' class=best' if best else ''}>{escape(text)}{star}{_small(small)}</td>"


def _small(text: str) -> str:
    return f"<small>{escape(text)}</small>" if text else ""


def _table(head: str, body: str) -> str:
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


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
