"""An experiment as one self-contained page: the claim, the result, and the whole grid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from headway.compare.html_table import HtmlCell, html_table
from headway.experiment.case import Experiment, Figure, said

MOST_FIGURES = 6
"""Columns of a table beside the policies: so many fit, with their intervals, on a screen of 1024."""
THEME = """
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = dark ? "dark" : "light";
"""


def page(experiment: Experiment, result: Mapping[str, Any], command: str) -> str:
    style = resources.files("headway.compare").joinpath("page", "report.css").read_text(encoding="utf-8")
    jobs = f"{result['jobs']} jobs per run" if result["jobs"] else "whole traces"
    seeds = f"{jobs}, seeds {', '.join(map(str, result['seeds']))}"
    parts = [
        f"<p>{escape(result['about'])}</p><p>{escape(result['setup'])}</p>",
        "<h2>Targets</h2>" + _targets(result),
        "<h2>The whole grid</h2>" + "".join(_cell(experiment, cell) for cell in result["cells"]),
        "<h2>How to read it</h2>" + _notes(experiment, result),
        f"<h2>To reproduce</h2><pre><code>{escape(command)}</code></pre>" + _figures(result),
    ]
    title = escape(result["title"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{style}</style><script>{THEME}</script></head>"
        f'<body><header class="top"><div><h1>{title}</h1><div class="soft">{escape(seeds)}</div></div></header><main>'
        + "".join(f"<section>{part}</section>" for part in parts)
        + "</main></body></html>\n"
    )


def value_of(figure: Figure, spread: Mapping[str, Any]) -> tuple[str, str]:
    """A figure and its interval, as text."""
    mean, ci = spread["mean"], spread["ci"]
    if mean is None:
        return "", ""
    return figure.said(mean), f"{figure.said(ci[0])} to {figure.said(ci[1])}" if ci else ""


def verdict(target: Mapping[str, Any]) -> str:
    if target["median"] is None:
        return "not measured"
    return "reached" if target["reached"] else "not reached"


def amount(target: Mapping[str, Any], name: str) -> str:
    value = target[name]
    return "" if value is None else said(str(target["form"]), value)


def _targets(result: Mapping[str, Any]) -> str:
    rows = [
        [
            target["what"], ("at least " if target["at_least"] else "at most ") + amount(target, "reach"),
            amount(target, "median"), f"{amount(target, 'worst')} to {amount(target, 'best')}",
            f"{target['cells_reached']} of {target['cells']}", verdict(target),
        ]
        for target in result["targets"]
    ]  # fmt: skip
    return _table(["target", "to reach", "median cell", "worst to best cell", "cells that reach it", ""], rows)


def _figures(result: Mapping[str, Any]) -> str:
    text = escape(json.dumps(result, indent=1))
    return f"<details><summary>All figures as JSON</summary><pre><code>{text}</code></pre></details>"


def _cell(experiment: Experiment, cell: Mapping[str, Any]) -> str:
    """One table, or several beneath each other where it has more figures than a page is wide."""
    tables = -(-len(experiment.figures) // MOST_FIGURES)
    each = -(-len(experiment.figures) // max(tables, 1))
    parts = [experiment.figures[at : at + each] for at in range(0, len(experiment.figures), each)]
    return f"<h3>{escape(cell['load'])}, {escape(cell['mix'])}</h3>" + "".join(_part(cell, part) for part in parts)


def _part(cell: Mapping[str, Any], shown: Sequence[Figure]) -> str:
    rows = []
    for label, figures in cell["policies"].items():
        told = [value_of(figure, figures[figure.name]) for figure in shown]
        rows.append([label, *(f"{mean}\n{ci}" for mean, ci in told)])
    bounds = [figure.said(cell["bound"][figure.name]) if figure.name in cell["bound"] else "" for figure in shown]
    rows += [["bound", *bounds]] if any(bounds) else []
    return _table(["policy", *(figure.title for figure in shown)], rows)


def _notes(experiment: Experiment, result: Mapping[str, Any]) -> str:
    told = [f"{figure.title}: {figure.about}" for figure in experiment.figures if figure.about]
    told += [
        *result["analysis"],
        "Small print: 95 % interval, bootstrap over seeds. Median cell: the median over cells of a target's value.",
    ]
    return "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in told) + "</ul>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cell(text: str) -> HtmlCell:
        first, _, small = text.partition("\n")
        return HtmlCell(first, small)

    return html_table([HtmlCell(title) for title in head], [[cell(text) for text in row] for row in rows])
