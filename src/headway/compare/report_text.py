"""The page's text: its subject, the facts about the runs, and a summary in a few sentences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from headway.compare.scenario import Scenario, differing
from headway.compare.table import Compared
from headway.core.job import Job
from headway.core.node import Node
from headway.core.quantity import CPU, GPU, show
from headway.core.text import duration
from headway.record.results import Outcome
from headway.workload.simulate_fields import SimulateFields


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
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """By topic, a sentence each."""
    hint: str = ""
    """Sentences where jobs hardly compete, and where a trained policy never decided."""
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """Settings and sources: name and value."""
    command: str = ""
    version: str = ""


def subject_of(scenario: Scenario, found: Compared, command: str) -> Subject:
    """`command`: the words that make the page again."""
    trace, names = scenario.trace, list(found.runs)
    seeds = sorted({one.seed for one in found.tasks})
    settings = [
        f"{one.policy}: {', '.join(one.settings)}" for one in found.tasks if one.settings and one.seed == seeds[0]
    ]
    world = differing(trace.simulate, SimulateFields())
    facts = [
        ("trace", f"{scenario.source} ({len(trace.jobs):,} jobs)"),
        ("cluster", cluster_text(scenario.nodes)),
        ("policies", ", ".join(names)),
        ("settings", "; ".join(settings) or "the policies' own"),
        ("estimates", found.tasks[0].estimates or scenario.estimates),
        ("seeds", ", ".join(str(seed) for seed in seeds)),
        ("world", json.dumps(world) if world else "plain: decisions take effect at once, nothing fails"),
        *[("about the trace", note) for note in trace.notes],
    ]
    several, hint = len(names) > 1, " ".join(filter(None, [found.hint, found.kept_out]))
    return Subject(
        title=f"{names[0]} on {scenario.source}" if not several else f"{len(names)} policies on {scenario.source}",
        subtitle=f"{len(trace.jobs):,} jobs on {cluster_text(scenario.nodes)}, in virtual time",
        jobs=trace.jobs, kind=main_kind(scenario.nodes), rows=found.rows, runs=found.runs, baseline=found.baseline,
        bounds=found.bounds, assumptions=found.assumptions, hint=hint, facts=facts,
        version=version("headway"), command=command,
    )  # fmt: skip


def main_kind(nodes: tuple[Node, ...]) -> str:
    """The main resource: accelerators, or cpu where there are none."""
    kinds = {kind for node in nodes for kind, amount in node.capacity if amount}
    return next((kind for kind in (GPU, CPU) if kind in kinds), min(kinds, default=CPU))


def cluster_text(nodes: tuple[Node, ...]) -> str:
    shapes = Counter((node.capacity, node.accelerator) for node in nodes)
    said = [
        f"{number} x {', '.join(show(kind, amount) for kind, amount in capacity if amount)}"
        + (f" ({accelerator})" if accelerator else "")
        for (capacity, accelerator), number in shapes.most_common(4)
    ]
    more = f" and {len(shapes) - 4} other shapes" if len(shapes) > 4 else ""
    return f"{'; '.join(said)}{more} ({len(nodes):,} nodes)" if len(shapes) > 1 else f"{said[0]}"


def colours(names: Mapping[str, object], baseline: str) -> dict[str, int]:
    """Colour and dash by policy: the baseline is the plain grey one where there are others."""
    others = iter(range(1, 1000))
    return {name: 0 if name == baseline and len(names) > 1 else next(others) for name in names}


# ── numbers and sentences ───────────────────────────────────────────────────────────────────────────────────


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}".replace("%", " %")


def times(value: float | None) -> str:
    """A multiple. One that would be shown as nothing is told to be small."""
    return "" if value is None else "under 0.001" if 0 < value < 0.001 else f"{value:.3f}"


def count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def interval(pair: list[float] | None, say: Any) -> str:
    return "" if pair is None else f"{say(pair[0])} to {say(pair[1])}"


def takeaways(subject: Subject) -> list[str]:
    rows = [row for row in subject.rows if row["jct"]["mean"] is not None]
    if not rows:
        return ["No job finished."]
    most = max(row["finished"] for row in rows)
    best = min((row for row in rows if row["finished"] == most), key=lambda row: row["jct"]["mean"])
    said = [_best(best, subject.baseline, several=len(rows) > 1), *_bounds(best, subject.bounds)]
    if len(rows) > 1 and best["policy"] != subject.baseline:
        worse = best["worse"]
        factor = worse["factor"]["p50"]
        much = f", half of them by {factor:.2f} times or more" if factor else ""
        said.append(f"Under {best['policy']}, {percent(worse['share'])} of jobs took longer than under "
                    f"{subject.baseline}{much}; {percent(worse['better'])} were done sooner.")  # fmt: skip
    asked = [row for row in rows if row["deadlines"]["total"]]
    if asked:
        first = max(asked, key=lambda row: row["deadlines"]["met"])
        met = first["deadlines"]
        said.append(f"{first['policy']} meets {count(met['met'])} of {count(met['total'])} deadlines"
                    + (", the most." if len(asked) > 1 else "."))  # fmt: skip
    left = [
        f"{row['policy']} ({count(row['jobs'] - row['finished'])})" for row in rows if row["finished"] < row["jobs"]
    ]
    if left:
        said.append(f"Not every job finished under {', '.join(left)}: times there are of the finished ones only.")
    return said


def _best(best: Mapping[str, Any], baseline: str, *, several: bool) -> str:
    mean, ci = duration(best["jct"]["mean"]), best["ci"]
    if not several:
        return f"{best['policy']}: mean completion time {mean}, median {duration(best['jct']['p50'])}."
    if best["policy"] == baseline:
        return f"{best['policy']}, the baseline, has the lowest mean completion time: {mean}."
    ratio, spread = best["ratio"]["baseline"], interval(ci.get("baseline"), times)
    much = "" if ratio is None else f", {percent(abs(1 - ratio))} {'less' if ratio <= 1 else 'more'} than {baseline}'s"
    return (
        f"{best['policy']} has the lowest mean completion time: {mean}{much}"
        + (f" (as a multiple: {times(ratio)}, 95 % interval {spread})." if spread else ".")
    )  # fmt: skip


def _bounds(best: Mapping[str, Any], bounds: Mapping[str, Any]) -> list[str]:
    said = []
    ratio = best["ratio"]
    if bounds.get("clairvoyant") and ratio["clairvoyant"]:
        said.append(f"That is {times(ratio['clairvoyant'])} times the best clairvoyant policy "
                    f"({bounds['clairvoyant']['policy']} with true remaining times).")  # fmt: skip
    if bounds.get("area") and ratio["area"]:
        said.append(f"It is {times(ratio['area'])} times the area bound, {duration(bounds['area']['jct'])}, "
                    "below which no policy's mean can be.")  # fmt: skip
    return said
