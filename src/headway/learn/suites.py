"""Task suites: workloads with frozen parts to train on, to choose by (validation) and to report (test).

Generated suites ship with Headway: a task is a workload's settings with a seed, and the parts never share a seed.
Suites of one's own traces are in `trace_suites`. A suite whose tasks change gets another name: results stay comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256

from headway.compare.scenario import Scenario
from headway.core.errors import UserError
from headway.core.job import Job
from headway.estimates.models.coefficients import BUILT_IN
from headway.sim.speed import Speed
from headway.sim.world import Costs, Reports, World
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.overbooked import overbooked
from headway.workload.settings import Settings
from headway.workload.trace import Trace

PARTS = ("train", "validation", "test")
COSTS = Costs(start=30.0, scale=30.0, save=10.0, resize=1.0)
REPORTS = Reports(seconds=60.0, growth=0.1)
STEPS = 1_000_000
"""Steps of a job that names none: it reports the millionth part of its training that it is at."""


@dataclass(frozen=True, slots=True)
class Suite:
    """`sizes`: tasks per part. `make`: from a part and a number to the scenario."""

    name: str
    about: str
    sizes: Mapping[str, int]
    make: Callable[[str, int], Scenario]

    def scenario(self, part: str, number: int) -> Scenario:
        if part not in self.sizes:
            raise UserError(f"part {part}: suite {self.name} has the parts {', '.join(self.sizes)}")
        if not 0 <= number < self.sizes[part]:
            raise UserError(f"task {number}: part {part} of suite {self.name} has {self.sizes[part]} tasks, from 0")
        return self.make(part, number)

    def digest(self, part: str) -> str:
        """Of all jobs of a part: whether two results are of the same tasks."""
        return digest_of(self.scenario(part, number) for number in range(self.sizes[part]))[:16]


def digest_of(cases: Iterable[Scenario]) -> str:
    """Of the nodes and jobs of some tasks: the same in later versions, as long as the tasks are."""
    told = sha256()
    for case in cases:
        told.update(repr([(node.name, node.capacity) for node in case.nodes]).encode())
        told.update(repr([_told(job, case.trace) for job in case.trace.jobs]).encode())
    return told.hexdigest()


def _told(job: Job, trace: Trace) -> tuple[object, ...]:
    """What makes a job the same job in a later version, too."""
    roles = [(role.name, role.replicas, role.min, role.max, role.request) for role in job.roles]
    return (job.id, job.submit, job.seconds, job.steps, job.model, job.deadline, trace.work(job), roles)


@dataclass(frozen=True, slots=True)
class GeneratedTasks:
    """Makes the tasks of a generated suite. Seeds of the parts are far apart."""

    settings: Settings
    cluster: str
    first_seed: int

    def __call__(self, part: str, number: int) -> Scenario:
        return _generated(self.settings, self.cluster, self.first_seed + 10_000 * PARTS.index(part) + number)


@lru_cache(maxsize=256)
def _generated(settings: Settings, cluster: str, seed: int) -> Scenario:
    nodes = tuple(open_cluster(cluster))
    trace = generate(replace(settings, seed=seed), nodes)
    if settings.elastic:
        return Scenario(blind(trace), nodes, elastic_world, "progress", trace.name)
    return Scenario(trace, nodes, fixed_world, "progress", trace.name)


@dataclass(frozen=True, slots=True)
class OverbookedTasks:
    """Makes tasks in which users ask for two to four times the cpu that their jobs use, and use is measured."""

    jobs: int
    load: float
    cluster: str
    first_seed: int

    def __call__(self, part: str, number: int) -> Scenario:
        nodes = tuple(open_cluster(self.cluster))
        seed = self.first_seed + 10_000 * PARTS.index(part) + number
        trace, needs = overbooked(f"overbooked/{seed}", self.jobs, self.load, (2.0, 4.0), nodes, (seed,))
        return Scenario(trace, nodes, partial(metered_world, needs=needs), "progress", trace.name)


def fixed_world(trace: Trace, seed: int) -> World:
    """Starts and stops cost time. A job takes as long as the trace says."""
    return World(costs=COSTS, work=trace.work, samples=False, reports=REPORTS, seed=seed)


def elastic_world(trace: Trace, seed: int) -> World:
    """The same, and profiles of real models say how jobs scale."""
    return replace(fixed_world(trace, seed), speed=Speed(profiles=BUILT_IN))


def metered_world(trace: Trace, seed: int, *, needs: Mapping[str, float]) -> World:
    """The same, and the cpu that jobs really use is measured."""
    return replace(fixed_world(trace, seed), speed=Speed(metered=True, needs=needs))


def blind(trace: Trace) -> Trace:
    """The same jobs without declared times: what is known of a job is what it shows."""
    truth = {job.id: trace.work(job) or 0.0 for job in trace.jobs}
    jobs = tuple(
        replace(job, seconds=None, steps=job.steps or STEPS) for job in trace.jobs if truth[job.id] > 0
    )  # fmt: skip
    return replace(trace, jobs=jobs, truth=truth)


_COUNTS = {"train": 1000, "validation": 8, "test": 16}
SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "fixed-v1", "300 jobs of fixed sizes on 64 GPUs, load 1.6; users are wrong by a factor of e", _COUNTS,
            GeneratedTasks(Settings(jobs=300, load=1.6, declared_error=1.0), "16x4", 100_000),
        ),
        Suite(
            "bursty-v1", "200 jobs, mostly of one GPU, in bursts on 32 GPUs, load 0.9", _COUNTS,
            GeneratedTasks(
                Settings(jobs=200, load=0.9, arrivals="bursty", sizes="philly", declared_error=1.0), "8x4", 200_000
            ),
        ),
        Suite(
            "elastic-v1", "80 jobs of any size on 32 GPUs, load 1.1; nothing is declared", _COUNTS,
            GeneratedTasks(Settings(jobs=80, load=1.1, elastic=1.0, mean_seconds=1800.0), "8x4", 300_000),
        ),
        Suite(
            "overbooked-v1", "100 jobs on 128 cores, load 4; users ask for 2 to 4 times the cpu that their jobs use",
            _COUNTS, OverbookedTasks(100, 4.0, "8x16cpu", 400_000),
        ),
    )
}  # fmt: skip


def suite_named(name: str) -> Suite:
    if name not in SUITES:
        raise UserError(f"suite {name}: there is no such suite; choose one of {', '.join(SUITES)}")
    return SUITES[name]
