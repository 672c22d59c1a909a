"""The windows of the learning curve: of a published trace, or small ones of our own."""

from __future__ import annotations

from dataclasses import replace

from headway.compare.scenario import Scenario
from headway.core.node import Nodes
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.everything_cells import SOURCES, blind, fits_in, nodes_for, read_trace, world
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.trace import Trace, rebase

SOURCE = "itp, half"
COUNT = 8
JOBS = 100
USERS = 5


def itp_windows(count: int = COUNT, jobs: int = JOBS) -> list[Scenario]:
    """Consecutive windows of the part of itp that is for tuning, on nodes as the first of them needs."""
    whole = read_trace(SOURCES[SOURCE].file)
    cut = [replace(whole, jobs=whole.jobs[first : first + jobs]) for first in range(0, count * jobs, jobs)]
    assert count * jobs <= len(whole.jobs) // 3, "the rest is not for tuning"
    nodes = nodes_for(cut[0], SOURCES[SOURCE])
    table = Nodes.of(nodes)
    fitting = [replace(one, jobs=tuple(job for job in one.jobs if fits_in(job, table))) for one in cut]
    return [
        Scenario(blind(rebase(one)), nodes, world, "progress", f"itp {number}") for number, one in enumerate(fitting)
    ]


def own_windows(count: int = 4, jobs: int = 25, models: tuple[str, ...] = ("imagenet", "ncf")) -> list[Scenario]:
    """Generated jobs of a few models and users. Nothing is declared."""
    nodes = tuple(open_cluster("4x4"))
    given = Settings(jobs=count * jobs, load=1.3, elastic=1.0, mean_seconds=1200.0, seed=5)
    trace = generate(given, nodes)
    named = tuple(
        replace(job, model=models[number % len(models)], user=f"u{number % USERS}", queue=f"u{number % USERS}")
        for number, job in enumerate(trace.jobs)
    )
    assert all(model in BUILT_IN for model in models)
    ready: Trace = replace(trace, jobs=named)
    parts = [replace(ready, jobs=named[first : first + jobs]) for first in range(0, count * jobs, jobs)]
    return [Scenario(blind(rebase(one)), nodes, world, "progress", f"own {number}") for number, one in enumerate(parts)]
