"""Several runs of the same jobs, against each other: who got better, who got worse, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.compare.confidence import of_mean, of_ratio
from headway.core.job import Job
from headway.core.node import BoolArray, FloatArray
from headway.record.outcome import Outcome

NOTICEABLE = 0.01
"""A job got worse where it took at least so much longer, relatively, and a second."""


@dataclass(frozen=True, slots=True)
class Group:
    """A class of jobs, to tell apart who got worse."""

    name: str
    mask: BoolArray


def worse(completion: FloatArray, baseline: FloatArray, mask: BoolArray | None = None) -> dict[str, Any]:
    """Of the jobs that finished under the baseline: the share that took longer or never ended, and how much longer."""
    counted = ~np.isnan(baseline) if mask is None else mask & ~np.isnan(baseline)
    now, before = completion[counted], baseline[counted]
    lost = np.isnan(now)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(before > 0, now / before, 1.0)
    harmed = (now - before >= 1.0) & (factor >= 1 + NOTICEABLE)
    helped = (before - now >= 1.0) & (factor <= 1 - NOTICEABLE)
    count = max(1, int(counted.sum()))
    return {
        "jobs": int(counted.sum()),
        "share": float((harmed | lost).sum()) / count,
        "better": float(helped.sum()) / count,
        "lost": int(lost.sum()),
        "seconds": _mean((now - before)[harmed]),
        "factor": {"p50": _quantile(factor[harmed], 50), "p95": _quantile(factor[harmed], 95)},
        "median_ratio": _quantile(factor[~lost], 50),
    }


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _quantile(values: FloatArray, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def averaged(results: Sequence[Any]) -> Any:
    """Figures of several seeds, their mean; what is equal in all stays as it is."""
    first = results[0]
    if isinstance(first, dict):
        names = dict.fromkeys(name for result in results for name in result)
        return {name: averaged([result[name] for result in results if name in result]) for name in names}
    if all(result == first for result in results):
        return first
    known = [result for result in results if isinstance(result, int | float)]
    return float(np.mean(known)) if known else first


def intervals(runs: Sequence[Outcome], baseline: Sequence[Outcome]) -> dict[str, Any]:
    found: dict[str, Any] = {"level": 0.95}
    for name in ("completion", "wait", "slowdown"):
        interval = of_mean([getattr(run, name) for run in runs])
        if interval is not None:
            found["jct" if name == "completion" else name] = interval.as_list()
            found["over"] = interval.over
    against = of_ratio([run.completion for run in runs], [run.completion for run in baseline])
    if against is not None:
        found["baseline"] = against.as_list()
    return found


def size_classes(jobs: Sequence[Job], kind: str) -> list[Group]:
    """By how much of the main resource was asked for: one, a few, many."""
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
    """By training time alone, as declared."""
    seconds = np.array([np.nan if job.seconds is None else job.seconds for job in jobs])
    steps = [
        (-1, 600, "under 10 minutes"), (600, 3600, "10 minutes to 1 hour"), (3600, 86400, "1 hour to 1 day"),
        (86400, np.inf, "over 1 day"),
    ]  # fmt: skip
    groups = [Group(name, (seconds > low) & (seconds <= high)) for low, high, name in steps]
    return [group for group in groups if group.mask.any()]


def named_groups(each: Sequence[str], most: int = 12) -> list[Group]:
    """By each job's user or queue: those with most jobs; the others together. Empty where all are the same."""
    users = np.array(each)
    names, counts = np.unique(users, return_counts=True)
    if len(names) < 2:
        return []
    chosen = names[np.argsort(-counts, kind="stable")][:most]
    groups = [Group(str(name) or "(no name)", users == name) for name in chosen]
    others = ~np.isin(users, chosen)
    return [*groups, Group(f"{len(names) - most} others", others)] if others.any() else groups
