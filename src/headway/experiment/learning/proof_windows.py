"""The windows of the proof, and the jobs that teach beliefs and tune settings. No job is in two sets.

Of a published trace the tuning part (its first third) teaches; only jobs count that ended before the first window of
the proof begins. Generated workloads have seeds derived from the plan's hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from headway.compare.scenario import Scenario
from headway.core.node import Nodes
from headway.experiment.everything_cells import (
    SMALL,
    SOURCES,
    blind,
    case_of,
    fits_in,
    nodes_for,
    read_trace,
    window,
    world,
)
from headway.experiment.learning.plan import ProofPlan, Window, windows_of
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.trace import Trace, rebase

GENERATED = "generated"
TAUGHT = 1000
"""Generated workloads that teach have numbers from here on."""


@lru_cache(maxsize=64)
def case(source: str, place: int, jobs: int, generated: tuple[tuple[str, object], ...], digest: str) -> Scenario:
    """The window as a scenario. The last two arguments are for generated ones."""
    if source == GENERATED:
        return _generated(dict(generated), digest, place)
    return replace(case_of(source, place, jobs), source=f"{source} {place}")


def scenario(plan: ProofPlan, digest: str, one: Window) -> Scenario:
    return case(one.source, one.place, plan.jobs, tuple(sorted(plan.generated.items())), digest)


def teaching(plan: ProofPlan, digest: str, source: str) -> list[Scenario]:
    """What was before: the tuning part of the same source."""
    if source == GENERATED:
        return [_generated(plan.generated, digest, TAUGHT + place) for place in plan.taught_by]
    whole = read_trace(SOURCES[source].file.format(0)) if "{}" not in SOURCES[source].file else None
    if whole is None or len(whole.jobs) <= SMALL:
        return [replace(case_of(source, place, plan.jobs, tuning=True), source=f"{source} tuning {place}")
                for place in plan.taught_by]  # fmt: skip
    begins = first_arrival(plan, whole, source)
    return [_before(whole, source, place, plan.jobs, begins) for place in plan.taught_by]


def first_arrival(plan: ProofPlan, whole: Trace, source: str) -> float:
    """When the first window of the proof begins, in the trace's own time."""
    places = [one.place for one in windows_of(plan) if one.source == source]
    return min(window(whole, place, cut(whole, plan.jobs)).jobs[0].submit for place in places)


def cut(whole: Trace, jobs: int) -> int:
    return jobs // 2 if whole.jobs[0].elastic else jobs


def _before(whole: Trace, source: str, place: int, jobs: int, begins: float) -> Scenario:
    part = window(whole, place, cut(whole, jobs), tuning=True)
    nodes = nodes_for(part, SOURCES[source])
    table = Nodes.of(nodes)
    kept = tuple(job for job in part.jobs if fits_in(job, table) and job.submit + (whole.work(job) or 0.0) < begins)
    return Scenario(
        blind(rebase(replace(part, jobs=kept)), deadlines=False), nodes, world, "progress", f"{source} tuning {place}"
    )


def _generated(given: dict[str, object], digest: str, place: int) -> Scenario:
    nodes = tuple(open_cluster(str(given["cluster"])))
    settings = Settings(
        jobs=int(str(given["jobs"])), load=float(str(given["load"])), elastic=1.0,
        mean_seconds=float(str(given["mean_seconds"])), seed=int(digest[:8], 16) % 10**6 * 10_000 + place,
    )  # fmt: skip
    return Scenario(blind(generate(settings, nodes), deadlines=False), nodes, world, "progress", f"{GENERATED} {place}")


def sources(plan: ProofPlan, sizes: str = "") -> Sequence[str]:
    return list(dict.fromkeys(group.source for group in plan.windows if not sizes or group.sizes == sizes))
