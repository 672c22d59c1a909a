"""One self-contained page about one or several runs: tables as HTML, charts drawn by the page itself. No network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from headway.compare import report_tables as tables
from headway.compare.report_text import Subject, colours, count, takeaways
from headway.core.job import Job
from headway.core.node import FloatArray
from headway.record.results import Outcome
from headway.record.timeline import Gantt

POINTS = 240
"""Of a curve: quantiles at equal steps."""


def write(path: Path, subject: Subject) -> None:
    path.write_text(page(subject), encoding="utf-8")


def page(subject: Subject) -> str:
    sections = [(name, title, body) for name, title, body in _sections(subject) if body]
    return _fill(
        _asset("report.html"),
        title=escape(subject.title),
        subtitle=escape(subject.subtitle),
        assumptions=_assumptions(subject),
        css=_asset("report.css"),
        js=_asset("frame.js") + _asset("charts.js"),
        nav="".join(f'<a href="#{name}">{title}</a>' for name, title, _ in sections),
        sections="\n".join(
            f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>\n{body}</section>'
            for name, title, body in sections
        ),
        footer=f"Made by headway {escape(subject.version)}. Everything on this page is in this file.",
        data=_embedded(chart_data(subject.jobs, subject.runs, subject.baseline)),
    )


def _assumptions(subject: Subject) -> str:
    """Under the title: a reader must know them to judge the figures."""
    if not subject.assumptions:
        return ""
    said = "".join(f"<dt>{escape(topic)}</dt><dd>{escape(text)}</dd>" for topic, text in subject.assumptions.items())
    hint = f'<p class="hint" role="note">{escape(subject.hint)}</p>' if subject.hint else ""
    return f'<dl class="assumptions" aria-label="What the runs take for granted">{said}</dl>{hint}'


def _sections(subject: Subject) -> list[tuple[str, str, str]]:
    several = len(subject.rows) > 1
    return [
        ("summary", "Summary", tables.words(takeaways(subject)) + tables.summary(subject)),
        ("completion", "How long jobs took", _curves()),
        ("time", "Over time", _time(subject)),
        ("nodes", "On the nodes", _nodes(subject)),
        ("worse", f"Which jobs got worse than under {escape(subject.baseline)}", _worse(subject) if several else ""),
        ("reproduce", "Settings, and how to reproduce", _reproduce(subject)),
        ("terms", "Terms", tables.terms(several=several)),
    ]


def _figure(identity: str, caption: str, note: str, **data: str) -> str:
    """A place for a chart; the page's script draws it."""
    given = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    return (
        f'<figure><figcaption>{escape(caption)}</figcaption><p class="soft">{escape(note)}</p>'
        f'{{controls}}<div class="plot" id="{identity}"{given}></div></figure>'
    )


def _choice(target: str, options: Sequence[tuple[str, str, str]]) -> str:
    buttons = "".join(
        f'<button type="button" aria-pressed="{str(number == 0).lower()}" data-value="{escape(value)}" '
        f'data-x="{escape(axis)}">{escape(text)}</button>'
        for number, (value, text, axis) in enumerate(options)
    )
    return f'<div class="row" role="group" aria-label="Choose what is drawn" data-choose="{target}">{buttons}</div>'


def _curves() -> str:
    options = [
        ("completion", "Completion time", "time from submission to end"),
        ("wait", "Waiting", "time in which the gang did not run"),
        ("slowdown", "Slowdown", "completion time / time alone"),
    ]
    figure = _figure(
        "cdf", "Share of jobs done within a time",
        "Further left and higher is better. A curve ends at the slowest job.",
        chart="cdf", kind="completion", x=options[0][2], label="Cumulative distribution of completion times by policy",
    )  # fmt: skip
    return figure.replace("{controls}", _choice("cdf", options))


def _time(subject: Subject) -> str:
    if not any(runs[0].series for runs in subject.runs.values()):
        return ""
    word = tables.kind_word(subject.kind)
    held = _figure(
        "held", f"{word} held", f"Share of all {word} that jobs hold. Hatched: held by gangs that do not run "
        "(starting, saving, or below their minimum).", chart="strips", field="held",
        label=f"Share of {word} held over time, one strip per policy",
    )  # fmt: skip
    queue = _figure(
        "queue", "Jobs waiting", "All strips share one scale.", chart="strips", field="waiting",
        label="Number of waiting jobs over time, one strip per policy",
    )  # fmt: skip
    split = _figure(
        "split", f"{word} free on partly used nodes", f"Share of all {word}. A gang that needs whole nodes cannot use "
        "them. The higher, the more fragmented the cluster is.", chart="strips", field="split",
        label=f"Share of {word} that is free on partly used nodes over time, one strip per policy",
    )  # fmt: skip
    return (held + queue + split).replace("{controls}", "")


def _nodes(subject: Subject) -> str:
    drawn = [name for name, runs in subject.runs.items() if runs[0].gantt]
    if not drawn:
        return ""
    few = any(run.bars for name in drawn if (run := subject.runs[name][0].gantt))
    note = (
        "Each bar is one job on one node, as tall as its share of the node. A gang has a bar on each of its nodes. "
        "Hatched: not running."
        if few
        else "There are too many jobs to draw one by one. The darker, the fuller the nodes of a row were at that time."
    )
    figure = _figure("gantt", "What ran where", note, chart="gantt", label="Use of nodes over time")
    return figure.replace("{controls}", _choice("gantt", [(name, name, "") for name in drawn]))


def _worse(subject: Subject) -> str:
    figure = _figure(
        "ratio", f"Completion time as a multiple of {subject.baseline}'s, job by job",
        "The share of jobs whose multiple is below the value. Jobs right of 1 took longer.",
        chart="cdf", kind="ratio", x=f"completion time / completion time under {subject.baseline}",
        label="Cumulative distribution of each job's completion time relative to the baseline",
    )  # fmt: skip
    return tables.worse_summary(subject) + figure.replace("{controls}", "") + tables.worse_groups(subject)


def _reproduce(subject: Subject) -> str:
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in subject.facts)
    command = f"<pre><code>{escape(subject.command)}</code></pre>" if subject.command else ""
    results = json.dumps(list(subject.rows), indent=1)
    size = count(len(subject.rows))
    return (
        f"{command}<dl>{facts}</dl><details><summary>All figures as JSON ({size} results)</summary>"
        f"<pre><code>{escape(results)}</code></pre></details>"
    )


def _embedded(data: object) -> str:
    """JSON that cannot end the script element around it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return resources.files("headway.compare").joinpath("page", name).read_text(encoding="utf-8")


def _fill(template: str, **parts: str) -> str:
    """Replaces each mark of the template once. Marks inside of parts stay."""
    pieces = []
    for piece in template.split("{{"):
        name, closed, rest = piece.partition("}}")
        pieces.append(f"{parts[name]}{rest}" if closed and name in parts else piece)
    return "".join(pieces)


# ── what the charts are drawn from ──────────────────────────────────────────────────────────────────────────


def chart_data(jobs: Sequence[Job], runs: Mapping[str, Sequence[Outcome]], baseline: str) -> dict[str, Any]:
    before = runs[baseline][0].completion
    curves: dict[str, dict[str, list[float]]] = {"completion": {}, "wait": {}, "slowdown": {}, "ratio": {}}
    series, gantts = {}, {}
    for name, found in runs.items():
        first = found[0]
        for figure in ("completion", "wait", "slowdown"):
            curves[figure][name] = quantiles(np.concatenate([getattr(run, figure) for run in found]))
        if name != baseline:
            with np.errstate(divide="ignore", invalid="ignore"):
                curves["ratio"][name] = quantiles(np.where(before > 0, first.completion / before, np.nan))
        if first.series is not None:
            series[name] = asdict(first.series)
        if first.gantt is not None:
            gantts[name] = packed(first.gantt, first.serials, jobs)
    return {
        "policies": [{"name": name, "index": index} for name, index in colours(runs, baseline).items()],
        "baseline": baseline,
        "curves": curves,
        "series": series,
        "gantt": gantts,
    }


def quantiles(values: FloatArray) -> list[float]:
    """At most POINTS of the sorted values, always with the last one."""
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return []
    if len(known) > POINTS:
        places = np.ceil(np.linspace(1, len(known), POINTS)).astype(np.intp) - 1
        known = known[places]
    return [float(f"{value:.5g}") for value in known]


def packed(gantt: Gantt, serials: Mapping[int, int], jobs: Sequence[Job]) -> dict[str, Any]:
    base = {"begin": gantt.begin, "end": max(gantt.end, gantt.begin + 1e-6), "rows": gantt.rows}
    if not gantt.bars and gantt.shares:
        return {**base, "shares": gantt.shares}
    numbers: dict[int, int] = {}
    bars = [
        [
            bar.row, bar.slot, bar.slots, round(bar.begin, 3), round(bar.end, 3),
            numbers.setdefault(bar.serial, len(numbers)), int(bar.trains),
        ]
        for bar in gantt.bars
    ]  # fmt: skip
    names = [str(jobs[serials[serial]].id) for serial in numbers]
    return {**base, "slots": gantt.slots, "bars": bars, "jobs": names}
