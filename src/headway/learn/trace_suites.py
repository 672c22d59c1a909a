"""Task suites of one's own trace or log: windows of consecutive jobs, the parts one after the other in time.

The first six tenths of the jobs are for training, the next two for validation, the last two for tests. Between two
parts of a trace jobs are left out for as long as the longest job takes: no job of one part is there when the next one
begins. A log is short, and one long job would leave nothing: there it is one window, as in `tuning.windows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs
from headway.beliefs.folding import Folding
from headway.compare.own_log import trace_of_log
from headway.compare.scenario import MakeWorld, Scenario
from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.node import Node, Nodes
from headway.core.placement import shape_of
from headway.estimates.models.coefficients import BUILT_IN
from headway.learn.suites import PARTS, Suite, blind, elastic_world
from headway.record.replay import snapshots
from headway.sim.speed import Speed
from headway.trained.regret import costs_of, replayed_world
from headway.workload.cluster import open_cluster
from headway.workload.models import assign_models
from headway.workload.open import open_workload
from headway.workload.trace import Trace, rebase

SHARES = (0.6, 0.8)
"""Where training ends, and where validation does, as shares of the jobs."""
Places = tuple[tuple[int, int], ...]
"""Windows: the number of the first job, and of the one behind the last."""


@dataclass(frozen=True, slots=True)
class TraceTasks:
    """Makes the tasks of a trace's suite."""

    trace: Trace
    nodes: tuple[Node, ...]
    places: dict[str, Places]
    world: MakeWorld = elastic_world

    def __call__(self, part: str, number: int) -> Scenario:
        first, last = self.places[part][number]
        window = rebase(replace(self.trace, jobs=self.trace.jobs[first:last]))
        return Scenario(window, self.nodes, self.world, "progress", f"{self.trace.name} {first}-{last}")


def trace_suite(path: Path, cluster: str = "", jobs: int = 200, format_: str = "") -> Suite:
    """A suite of a trace's windows of this many jobs. Declared times are taken out: in a trace they are the truth."""
    return _suite(path, open_workload(path, format_), cluster, jobs, elastic_world, from_log=False)


def log_suite(path: Path, cluster: str = "", jobs: int = 200) -> Suite:
    """The same of the jobs that finished in a log. Starts and stops take there what they took in the log's run."""
    trace, _ = trace_of_log(path, Speed(profiles=BUILT_IN))
    folding = Folding(NO_BELIEFS.history)
    folding.run(snapshots(path))
    world = partial(replayed_world, costs=costs_of(LearnedBeliefs(folding.history)))
    return _suite(path, trace, cluster, jobs, world, from_log=True)


def _suite(path: Path, trace: Trace, cluster: str, jobs: int, world: MakeWorld, *, from_log: bool) -> Suite:
    nodes = tuple(open_cluster(cluster)) if cluster else trace.nodes
    if not nodes:
        raise UserError(f"{path}: it names no nodes; give a cluster such as 32x4 (nodes x GPUs) or a file of nodes")
    fit = fitting(trace.jobs, nodes)
    is_told = from_log and all(job.model or not job.elastic for job in fit)
    ready = blind(replace(trace, jobs=fit if is_told else assign_models(fit)))
    places = split(ready, jobs, by_window=from_log)
    empty = next((part for part in PARTS if not places[part]), None)
    if empty is not None:
        apart = "as one window is long" if from_log else "as the longest job takes"
        raise UserError(
            f"{path}: part {empty} has no {jobs} jobs; parts are as far apart {apart}, and "
            f"{len(ready.jobs)} jobs fit the cluster: ask for fewer a window, or take a trace of a longer time"
        )
    sizes = {part: len(found) for part, found in places.items()}
    return Suite(f"{path.name}/{jobs}", f"windows of {jobs} jobs of {path.name}", sizes,
                 TraceTasks(ready, nodes, places, world))  # fmt: skip


def fitting(jobs: Sequence[Job], nodes: Sequence[Node]) -> tuple[Job, ...]:
    """The jobs that the empty cluster can hold."""
    table = Nodes.of(nodes)
    return tuple(job for job in jobs if _fits(job, table))


def _fits(job: Job, nodes: Nodes) -> bool:
    shape = shape_of(job, nodes)
    return not shape.missing and all(
        nodes.slots(role.asks, role.constraint) >= role.replicas if role.asks else True for role in shape.roles
    )


def split(trace: Trace, jobs: int, *, by_window: bool = False) -> dict[str, Places]:
    """Windows by part. Those of training overlap by half, the others do not overlap.

    Parts are as far apart as the longest job takes, or `by_window` as many jobs as a window has.
    """
    count = len(trace.jobs)
    submits = np.array([job.submit for job in trace.jobs])
    longest = max((trace.work(job) or 0.0 for job in trace.jobs), default=0.0)
    found, begin = {}, 0
    for part, end in zip(PARTS, (*(int(share * count) for share in SHARES), count), strict=True):
        step = max(1, jobs // 2) if part == "train" else jobs
        found[part] = tuple((first, first + jobs) for first in range(begin, end - jobs + 1, step))
        behind = submits[end - 1] + longest if 0 < end < count else 0.0
        begin = end + jobs if by_window else max(end, int(np.searchsorted(submits, behind, side="right")))
    return found
