"""From finished runs to the page that `--report` writes."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from headway.compare.reach import needs_of
from headway.compare.report import Subject, write
from headway.compare.scenario import Scenario, Task, differing
from headway.compare.table import Compared, compared
from headway.core.node import Node
from headway.core.quantity import CPU, GPU, show
from headway.record.outcome import Outcome
from headway.workload.schema import SimulateFields


def report_one(path: Path, scenario: Scenario, task: Task, found: Outcome) -> None:
    report_all(path, scenario, compared([task], [found], task.policy, needs_of(scenario, task), scenario))


def report_all(path: Path, scenario: Scenario, found: Compared) -> None:
    trace, task = scenario.trace, found.tasks[0]
    names = list(found.runs)
    seeds = sorted({one.seed for one in found.tasks})
    settings = [
        f"{one.policy}: {', '.join(one.settings)}" for one in found.tasks if one.settings and one.seed == seeds[0]
    ]
    world = differing(trace.simulate, SimulateFields())
    facts = [
        ("trace", f"{scenario.source} ({len(trace.jobs):,} jobs)"),
        ("cluster", cluster_words(scenario.nodes)),
        ("policies", ", ".join(names)),
        ("settings", "; ".join(settings) or "the policies' own"),
        ("estimates", task.estimates),
        ("seeds", ", ".join(str(seed) for seed in seeds)),
        ("world", json.dumps(world) if world else "plain: decisions take effect at once, nothing fails"),
        *[("about the trace", note) for note in trace.notes],
    ]
    several = len(names) > 1
    write(path, Subject(
        title=f"{names[0]} on {scenario.source}" if not several else f"{len(names)} policies on {scenario.source}",
        subtitle=f"{len(trace.jobs):,} jobs on {cluster_words(scenario.nodes)}, in virtual time",
        jobs=trace.jobs, kind=main_kind(scenario.nodes), rows=found.rows, runs=found.runs, baseline=found.baseline,
        bounds=found.bounds, facts=facts, version=version("headway"),
        command=shlex.join(["headway", *sys.argv[1:]]),
    ))  # fmt: skip


def main_kind(nodes: tuple[Node, ...]) -> str:
    """The kind that clusters are short of: accelerators, or cpu where there are none."""
    kinds = {kind for node in nodes for kind, amount in node.capacity if amount}
    return next((kind for kind in (GPU, CPU) if kind in kinds), min(kinds, default=CPU))


def cluster_words(nodes: tuple[Node, ...]) -> str:
    shapes = Counter((node.capacity, node.accelerator) for node in nodes)
    said = [
        f"{number} x {', '.join(show(kind, amount) for kind, amount in capacity if amount)}"
        + (f" ({accelerator})" if accelerator else "")
        for (capacity, accelerator), number in shapes.most_common(4)
    ]
    more = f" and {len(shapes) - 4} other shapes" if len(shapes) > 4 else ""
    return f"{'; '.join(said)}{more} ({len(nodes):,} nodes)" if len(shapes) > 1 else f"{said[0]}"
