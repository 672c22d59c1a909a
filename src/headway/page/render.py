"""The page as HTML, made from a view of the run. Every text of a job is escaped; there is no inline script or style."""

from __future__ import annotations

import html
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from headway.core.quantity import show
from headway.core.text import clean, lasting
from headway.page.view import Amount, JobView, NodeView, RunView

MOST_ALIVE, MOST_OVER = 200, 30
"""Rows of the table; the others are counted."""
LONGEST_TEXT = 400
_WIDTH = 1000.0
"""Of a timeline, in its own units."""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} · headway</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="htmx-config" content='{{"includeIndicatorCSS": false, "history": false, "extensions": "sse"}}'>
<link rel="icon" href="icon.svg"><link rel="stylesheet" href="uPlot.min.css"><link rel="stylesheet" href="page.css">
</head>
<body><header><h1>{title}</h1><p class="soft">headway, this machine, policy {policy}</p>
<p id="link" role="status">connecting</p></header>
<main><div id="stream" hx-sse:connect="events" hx-sse:close="over" hx-target="#live" hx-swap="innerMorph"></div>
<div id="live">{live}</div>
<section id="losses" hidden><h2>Loss by step</h2><div id="curves"></div></section></main>
<script src="htmx.min.js"></script><script src="hx-sse.min.js"></script>
<script src="uPlot.iife.min.js"></script><script src="page.js"></script></body></html>
"""
"""Scripts are last and not deferred: else htmx may begin before its extension is there, and would never connect."""


def page(view: RunView, now: float) -> str:
    """The whole document, with the state of now: it also shows it where scripts are off."""
    return _PAGE.format(title=text(view.title), policy=text(view.policy), live=live(view, now))


def live(view: RunView, now: float) -> str:
    """The part that changes. A view holds until the next one; times count from it."""
    now = max(now, view.at)
    alive = [job for job in view.jobs if not job.is_over]
    over = [job for job in view.jobs if job.is_over]
    rows = [*_first(alive), *sorted(over, key=lambda job: -job.since)[:MOST_OVER]]
    counts = Counter(job.state for job in view.jobs)
    told = ", ".join(f"{count} {text(state)}" for state, count in counts.items()) or "no jobs yet"
    hidden = len(view.jobs) - len(rows)
    more = f"; {hidden} of them not shown" if hidden else ""
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    return (
        f'<p class="counts"><strong>{told}</strong>{more} <span class="soft">at {clock}</span></p>\n'
        f'<section aria-label="Jobs">{_table(rows, now, now - view.at) if rows else ""}</section>\n'
        f'<section aria-label="Machine"><h2>Machine</h2>{_machine(view)}</section>'
    )


def curves(view: RunView) -> str:
    """The curves as JSON, on one line."""
    found = [
        {"job": clean(one.job, LONGEST_TEXT), "steps": one.steps, "losses": [*map(_finite, one.losses)]}
        for one in view.curves
    ]
    return json.dumps(found, allow_nan=False, separators=(",", ":"))


def text(words: str) -> str:
    """Safe in HTML and in a line of the event stream."""
    return html.escape(clean(words, LONGEST_TEXT))


def _finite(loss: float) -> float | None:
    return float(f"{loss:.6g}") if math.isfinite(loss) else None


def _first(alive: Sequence[JobView]) -> list[JobView]:
    """Running jobs, then waiting ones; where there are too many, those with a deadline are kept."""
    ranked = sorted(alive, key=lambda job: (job.deadline is None, job.state in _WAITING))[:MOST_ALIVE]
    return sorted(ranked, key=lambda job: job.state in _WAITING)


_WAITING = frozenset({"waiting", "to come", "suspended"})


# ── the table of jobs ───────────────────────────────────────────────────────────────────────────────────────


def _table(jobs: Sequence[JobView], now: float, age: float) -> str:
    """`age`: how long ago it was seen that jobs are so."""
    first = min((job.spans[0].since for job in jobs if job.spans), default=now)
    columns: tuple[tuple[str, Callable[[JobView], str]], ...] = (
        ("state", lambda job: f'<span class="state {_word(job)}">{text(job.state)}</span>'),
        ("step", _step),
        ("loss", lambda job: "" if job.loss is None else f"{job.loss:.4g}"),
        ("left", lambda job: "" if job.left is None else lasting(_left(job, age))),
        ("starts", lambda job: text(job.starts)),
        ("done", lambda job: text(job.done)),
        ("deadline", lambda job: _deadline(job, now, _left(job, age))),
        ("gpu", lambda job: text(job.gpus)),
        ("when", lambda job: _timeline(job, first, now)),
        ("where and why", lambda job: text(job.why or job.where)),
    )
    cells = [[cell(job) for _, cell in columns] for job in jobs]
    shown = [number for number in range(len(columns)) if any(row[number] for row in cells)]
    span = f"<small>{_clock(first, now)} to {_clock(now, now)}</small>"
    heads = "".join(f"<th>{columns[n][0]}{span if columns[n][0] == 'when' else ''}</th>" for n in shown)
    rows = [_row(job, [(columns[n][0], row[n]) for n in shown]) for job, row in zip(jobs, cells, strict=True)]
    return f"<table><thead><tr><th>job</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _row(job: JobView, cells: Sequence[tuple[str, str]]) -> str:
    user = f"<small>{text(job.user)}</small>" if job.user else ""
    inner = "".join(
        f'<td data-label="{head}" class="{head.split()[0]}">{cell and f"<div>{cell}</div>"}</td>'
        for head, cell in cells
    )
    return f'<tr><th scope="row">{text(job.name)}{user}</th>{inner}</tr>\n'


def _word(job: JobView) -> str:
    """A class of the style sheet."""
    if job.state in ("finished", "failed", "cancelled", "refused"):
        return job.state
    return "waiting" if job.state in _WAITING else "starting" if job.state in ("starting", "stopping") else "running"


def _step(job: JobView) -> str:
    if job.step is None:
        return ""
    share = f'<progress value="{min(job.step, job.steps)}" max="{job.steps}"></progress>' if job.steps else ""
    return f"{job.step}/{job.steps or '?'}{share}"


def _left(job: JobView, age: float) -> float:
    """It has trained on since it was seen."""
    return max(0.0, (job.left or 0.0) - (age if _word(job) == "running" else 0.0))


def _deadline(job: JobView, now: float, left: float) -> str:
    if job.deadline is None or job.state == "cancelled":
        return ""
    if job.is_over:
        met = job.state == "finished" and job.since <= job.deadline
        return "met" if met else '<span class="bad">missed</span>'
    if job.deadline < now:
        return '<span class="bad">missed</span>'
    told = f"in {lasting(job.deadline - now)}"
    return f'<span class="bad">{told}</span>' if job.deadline < now + left else told


def _timeline(job: JobView, first: float, now: float) -> str:
    """A bar with a part for each state, on the scale that all jobs share."""
    if not job.spans:
        return ""
    scale = _WIDTH / max(now - first, 1.0)
    ends = [one.since for one in job.spans] + [job.since if job.is_over else now]
    parts = "".join(
        f'<rect x="{(begin - first) * scale:.1f}" width="{max(1.0, (end - begin) * scale):.1f}" height="10" '
        f'class="{text(span.state)}"/>'
        for span, (begin, end) in zip(job.spans, pairwise(ends), strict=True)
        if end > begin
    )
    if job.state == "failed":
        parts += f'<rect x="{(job.since - first) * scale - 4:.1f}" width="8" height="10" class="failed"/>'
    return f'<svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">{parts}</svg>'


def _clock(at: float, now: float) -> str:
    """A time of day; with the date where it is not of today."""
    form = "%H:%M:%S" if now - at < 600 else "%H:%M" if now - at < 43_200 else "%d %b %H:%M"
    return time.strftime(form, time.localtime(at))


# ── the machine ─────────────────────────────────────────────────────────────────────────────────────────────


def _machine(view: RunView) -> str:
    gpus = [f"<li>GPU {text(job.gpus)} <small>{text(job.name)}</small></li>" for job in view.jobs if job.gpus]
    held = f'<ul class="gpus">{"".join(gpus)}</ul>' if gpus else ""
    return f'<div class="nodes">{"".join(map(_node, view.nodes))}</div>{held}'


def _node(node: NodeView) -> str:
    rows = "".join(f"<dt>{text(one.kind)}</dt><dd>{_amount(one)}</dd>" for one in node.amounts)
    return f'<div class="node"><h3>{text(node.name)}</h3><dl>{rows}</dl></div>'


def _amount(one: Amount) -> str:
    told = f"{show(one.kind, one.held)} of {show(one.kind, one.capacity)}"
    return f'{text(told)}<progress value="{max(0, one.held)}" max="{one.capacity}"></progress>'
