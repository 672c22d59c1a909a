"""The cells of `everything`: which part of which published trace, on how many nodes.

The rule was fixed beforehand. In a trace of more than 1,000 jobs, the first third is for tuning. Reported is a window
of 200 consecutive jobs from the rest; seed n is the n-th of ten places at equal distances. Places from 11 on are
between them: 11 to 20 half way, 21 to 30 after a quarter of the way, 31 to 40 after three quarters, 41 to 80 after one,
three, five and seven eighths. From smaller traces the first 200 jobs are taken. Where jobs can be scaled it is 100,
because sizing takes long.

A trace without a published cluster gets nodes of 8 GPUs. They hold the cell's share (a half or a quarter) of what the
window's jobs would use at the busiest moment if no job waited, and never less than the widest job needs.

No job declares how long it takes. A job reports its steps; where a trace has none, a millionth of the job is a step.
Models and steps that a trace has are known from the start, as users know them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

from headway.compare.scenario import Scenario
from headway.core.job import Job
from headway.core.node import Node, Nodes
from headway.core.placement import shape_of
from headway.core.quantity import GPU
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.case import Cell, RunSize
from headway.experiment.elastic import COSTS
from headway.experiment.trace_folder import trace_path
from headway.sim.speed import Speed
from headway.sim.world import Reports, World
from headway.workload.cluster import open_cluster
from headway.workload.open import open_workload
from headway.workload.trace import Trace, rebase

GPU_MILLI = "gpu_milli"
"""Thousandths of a GPU, as openb counts."""
SMALL = 1000
PLACES = 10
"""Windows of one trace."""
BETWEEN = (0.0, 0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875)
"""Where each further ten of them are, as shares of the way to the next."""
APART = 3
"""Of several workloads, that for tuning is so many further on."""
PARTS = 1_000_000
"""Steps of a job whose trace has none."""
REPORTS = Reports(seconds=60.0, growth=0.1)


@dataclass(frozen=True, slots=True)
class Source:
    file: str
    """{} is the seed, where a trace has several workloads."""
    share: float = 0.5
    """The share of what its jobs would use at the busiest moment."""
    cluster: str = ""
    """As published; empty means by share."""
    own_nodes: bool = False
    """Take as many of the trace's own nodes as that needs."""


SOURCES: dict[str, Source] = {
    "philly, half": Source("philly/philly_jobs.csv.gz"),
    "philly, quarter": Source("philly/philly_jobs.csv.gz", 0.25),
    "itp, half": Source("elasticflow/itp_jobs_deadline.csv.gz"),
    "itp, quarter": Source("elasticflow/itp_jobs_deadline.csv.gz", 0.25),
    "elasticflow philly": Source("elasticflow/philly_103959.csv"),
    "elasticflow t4": Source("elasticflow/elasticVpollux_e.csv", cluster="16x4"),
    "chronus mix2": Source("chronus/trace_job_Philly_MIX2.csv.gz"),
    "pollux": Source("pollux/workloads/workload-{}.csv", cluster="16x4"),
    "pollux untuned": Source("pollux/workloads-realistic/workload-{}.csv", cluster="16x4"),
    "sia": Source("sia/workloads/philly/workload-{}.csv", cluster="16x4"),
    "gavel philly": Source("gavel/traces/msr/seed0/11cb48.trace.gz"),
    "gavel": Source("gavel/traces/physical_cluster/max_min_fairness.trace"),
    "shockwave": Source("shockwave/220_0.2_5_100_25_4_0_0.5_0.5_0.6_0.3_0.09_0.01_multigpu_dynamic.trace"),
    "tiresias": Source("tiresias/60_job.csv", cluster="4x4"),
    "openb": Source("alibaba/openb_pod_list_default.csv.gz", own_nodes=True),
    "hydra": Source("hydra/20_ddl.csv.gz", cluster="16x4"),
    "acme": Source("acme/kalos_converted_sample.csv"),
}
CELLS = tuple(Cell("published", name) for name in SOURCES)


def make(cell: Cell, seed: int, size: RunSize) -> Scenario:
    return case_of(cell.mix, seed, size.jobs)


def case_of(name: str, seed: int, jobs: int, *, tuning: bool = False) -> Scenario:
    """`tuning`: the first third of a large trace, or a workload that is not reported, instead."""
    source = SOURCES[name]
    whole = read_trace(source.file.format(seed + APART if tuning else seed))
    trace = window(whole, seed, jobs // 2 if whole.jobs[0].elastic else jobs, tuning=tuning)
    nodes = nodes_for(trace, source)
    table = Nodes.of(nodes)
    fitting = tuple(job for job in trace.jobs if fits_in(job, table))
    return Scenario(blind(rebase(replace(trace, jobs=fitting))), nodes, world, "progress")


def world(trace: Trace, seed: int) -> World:
    return World(costs=COSTS, speed=Speed(profiles=BUILT_IN), work=trace.work, reports=REPORTS, seed=seed)


def window(trace: Trace, seed: int, jobs: int, *, tuning: bool = False) -> Trace:
    """Consecutive jobs by the rule above."""
    third, count = len(trace.jobs) // 3, len(trace.jobs)
    if count <= SMALL:
        return replace(trace, jobs=trace.jobs[:jobs])
    begin, end = (0, third) if tuning else (third, count)
    round_, place = divmod(seed - 1, PLACES)
    first = begin + int(max(0, end - begin - jobs) * (place + BETWEEN[round_ % len(BETWEEN)]) / PLACES)
    return replace(trace, jobs=trace.jobs[first : first + jobs])


def blind(trace: Trace, *, deadlines: bool = True) -> Trace:
    """The same jobs without declared times and priorities: most of the compared policies know no priorities. Without
    deadlines, too, where all that counts is when jobs are done.
    """
    truth = {job.id: trace.work(job) or 0.0 for job in trace.jobs}
    known = (job for job in trace.jobs if truth[job.id] > 0)
    jobs = tuple(replace(job, seconds=None, priority=0, steps=job.steps or PARTS) for job in known)
    jobs = jobs if deadlines else tuple(replace(job, deadline=None) for job in jobs)
    return replace(trace, jobs=jobs, truth=truth)


@cache
def read_trace(file: str) -> Trace:
    return open_workload(trace_path(file))


def nodes_for(trace: Trace, source: Source) -> tuple[Node, ...]:
    if source.cluster:
        return tuple(open_cluster(source.cluster))
    kind = GPU_MILLI if source.own_nodes else GPU
    wanted = source.share * busiest(trace, kind)
    if source.own_nodes:
        return _first_nodes(trace.nodes, wanted)
    widest = max(_asks(job, kind) for job in trace.jobs)
    return tuple(open_cluster(f"{max(1, -(-max(round(wanted), widest) // 8))}x8"))


def busiest(trace: Trace, kind: str) -> int:
    """The max that all jobs together would hold if each started on submission."""
    changes = [(job.submit, _asks(job, kind)) for job in trace.jobs]
    changes += [(job.submit + (trace.work(job) or 0.0), -_asks(job, kind)) for job in trace.jobs]
    return int(max(accumulate(amount for _, amount in sorted(changes))))


def _first_nodes(nodes: tuple[Node, ...], wanted: float) -> tuple[Node, ...]:
    """Nodes at equal distances in the trace's list, so that their mix is that of the list."""
    whole = sum(dict(node.capacity).get(GPU_MILLI, 0) for node in nodes)
    step = max(1, int(whole / max(wanted, 1.0)))
    return nodes[::step]


def _asks(job: Job, kind: str) -> int:
    return sum(role.replicas * role.amount(kind) for role in job.roles)


def fits_in(job: Job, nodes: Nodes) -> bool:
    """Whether the empty cluster holds the job at its asked-for size. Others would wait for ever under every policy."""
    shape = shape_of(job, nodes)
    if shape.missing:
        return False
    for role in shape.roles:
        takes = [nodes.capacity[kind] // amount for kind, amount in role.asks]
        room = sum(int(min(column)) for column in zip(*takes, strict=True)) if takes else role.replicas
        if room < role.replicas or not nodes.mask(role.constraint).any():
            return False
    return True
