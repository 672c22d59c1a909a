"""One self-contained page about one or several runs: tables by hand, charts drawn by the page itself. No network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from headway.compare import report_tables as tables
from headway.compare.report_data import chart_data
from headway.compare.report_words import count, takeaways
from headway.core.job import Job
from headway.record.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the page is about."""

    title: str
    subtitle: str
    jobs: Sequence[Job]
    kind: str
    """The main resource."""
    rows: Sequence[Mapping[str, Any]]
    """One result per policy, with `ci`, `ratio` and `worse`."""
    runs: Mapping[str, Sequence[Outcome]]
    """By policy, the first with pictures."""
    baseline: str
    bounds: Mapping[str, Any]
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """Settings and where things came from: name and value."""
    command: str = ""
    version: str = ""


def write(path: Path, subject: Subject) -> None:
    path.write_text(page(subject), encoding="utf-8")


def page(subject: Subject) -> str:
    sections = [(name, title, body) for name, title, body in _sections(subject) if body]
    return _fill(
        _asset("report.html"),
        title=escape(subject.title),
        subtitle=escape(subject.subtitle),
        css=_asset("report.css"),
        js=_asset("report.js"),
        nav="".join(f'<a href="#{name}">{title}</a>' for name, title, _ in sections),
        sections="\n".join(
            f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>\n{body}</section>'
            for name, title, body in sections
        ),
        footer=f"Made by headway {escape(subject.version)}. Everything on this page is in this file.",
        data=_embedded(chart_data(subject.jobs, subject.runs, subject.baseline)),
    )


def _sections(subject: Subject) -> list[tuple[str, str, str]]:
    several = len(subject.rows) > 1
    return [
        ("summary", "Summary", tables.words(takeaways(subject)) + tables.summary(subject)),
        ("completion", "How long jobs took", _curves()),
        ("time", "Over time", _time(subject)),
        ("nodes", "On the nodes", _nodes(subject)),
        ("worse", f"Who got worse than under {escape(subject.baseline)}", _worse(subject) if several else ""),
        ("reproduce", "Settings, and how to reproduce", _reproduce(subject)),
        ("terms", "What the words mean", tables.terms(several=several)),
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
        "(starting, saving, or below their least).", chart="strips", field="held",
        label=f"Share of {word} held over time, one strip per policy",
    )  # fmt: skip
    queue = _figure(
        "queue", "Jobs waiting", "All strips share one scale.", chart="strips", field="waiting",
        label="Number of waiting jobs over time, one strip per policy",
    )  # fmt: skip
    split = _figure(
        "split", f"{word} free on partly used nodes", f"Share of all {word}. A gang that needs whole nodes cannot use "
        "them: the higher, the more the cluster is fragmented.", chart="strips", field="split",
        label=f"Share of {word} that is free on partly used nodes over time, one strip per policy",
    )  # fmt: skip
    return (held + queue + split).replace("{controls}", "")


def _nodes(subject: Subject) -> str:
    drawn = [name for name, runs in subject.runs.items() if runs[0].gantt]
    if not drawn:
        return ""
    few = any(run.bars for name in drawn if (run := subject.runs[name][0].gantt))
    note = (
        "Each bar is one job on one node, as tall as its share of it; a gang shows on several. Hatched: not running."
        if few
        else "Too many stays to draw one by one: the darker, the fuller the nodes of a row were at that time."
    )
    figure = _figure("gantt", "What ran where", note, chart="gantt", label="Use of nodes over time")
    return figure.replace("{controls}", _choice("gantt", [(name, name, "") for name in drawn]))


def _worse(subject: Subject) -> str:
    figure = _figure(
        "ratio", f"Completion time as a multiple of {subject.baseline}'s, job by job",
        "The share of jobs whose multiple is below the value; what lies right of 1 took longer.",
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
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return resources.files("headway.compare").joinpath("page", name).read_text(encoding="utf-8")


def _fill(template: str, **parts: str) -> str:
    """Each mark is replaced once, in the template's own text only: parts may contain marks."""
    pieces = []
    for piece in template.split("{{"):
        name, closed, rest = piece.partition("}}")
        pieces.append(f"{parts[name]}{rest}" if closed and name in parts else piece)
    return "".join(pieces)
