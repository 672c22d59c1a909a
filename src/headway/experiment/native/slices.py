"""The slices of the proof: which jobs of which published trace, on how many nodes. The rule was fixed beforehand.

Of Philly and ITP, windows of consecutive jobs by the rule of `everything_cells`: the first third of a trace is for
calibration, windows of the rest are reported. Reported are
the first, fourth and seventh of ten. Of Pollux, workloads 1, 2 and 3 are reported, 4 is for calibration. At most
200 jobs; half as many where jobs may be scaled. Nodes have 8 GPUs (Pollux: 4), 4 cores and 16 GiB a GPU, and every
replica asks for one such share. They hold a half or a quarter of what the jobs would use at the busiest moment if none
waited, and never less than the widest job.

No job declares how long it takes, and none has a priority or a deadline: the native scheduler knows neither.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.compare.scenario import Scenario
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.quantity import CPU, GPU, MEMORY
from headway.experiment.everything_cells import blind, busiest, fits_in, read_trace, window, world
from headway.workload.trace import rebase, rigid

JOBS = 200
CORES, MEBIBYTES = 4, 16 * 1024
"""Of a GPU's share of its node."""
SHARES = {"half": 0.5, "quarter": 0.25}


@dataclass(frozen=True, slots=True)
class SliceSource:
    file: str
    """{} is the place, where a trace has several workloads."""
    gpus: int = 8
    """Of one node."""


SOURCES = {
    "pollux": SliceSource("pollux/workloads/workload-{}.csv", 4),
    "itp": SliceSource("elasticflow/itp_jobs_deadline.csv.gz"),
    "philly": SliceSource("philly/philly_jobs.csv.gz"),
}
PLACES = {"pollux": (1, 2, 3), "itp": (1, 4, 7), "philly": (1, 4, 7)}
"""Reported of each source, at each share."""


@dataclass(frozen=True, slots=True)
class Slice:
    source: str
    share: str
    place: int
    calibration: bool = False

    @property
    def name(self) -> str:
        return f"{self.source} {self.share} {self.place}{' (calibration)' if self.calibration else ''}"

    def case(self, jobs: int = JOBS) -> Scenario:
        """Its jobs on its nodes, as they may be scaled."""
        source = SOURCES[self.source]
        whole = read_trace(source.file.format(self.place + 3 if self.calibration else self.place))
        most = jobs // 2 if whole.jobs[0].elastic else jobs
        cut = blind(rebase(window(whole, self.place, most, tuning=self.calibration)), deadlines=False)
        wanted = round(SHARES[self.share] * busiest(cut, GPU))
        widest = max(sum(role.replicas * role.amount(GPU) for role in job.roles) for job in cut.jobs)
        nodes = nodes_of(-(-max(wanted, widest) // source.gpus), source.gpus)
        table = Nodes.of(nodes)
        asking = (replace(job, roles=tuple(map(_asks, job.roles)), can=job.can, save_every=0.0) for job in cut.jobs)
        trace = replace(cut, jobs=tuple(job for job in asking if fits_in(job, table)), name=self.name)
        return Scenario(trace, nodes, world, "progress", self.name)


REPORTED = tuple(
    Slice(source, share, places[number]) for number in range(3) for source, places in PLACES.items() for share in SHARES
)
CALIBRATION = tuple(Slice(source, share, 1, calibration=True) for source in SOURCES for share in SHARES)
QUICK = (Slice("pollux", "half", 1),)


def nodes_of(count: int, gpus: int) -> tuple[Node, ...]:
    """Named as the lab's simulated nodes are."""
    capacity = ((CPU, CORES * gpus * 1000), (GPU, gpus), (MEMORY, MEBIBYTES * gpus))
    return tuple(Node(name=f"sim-{number:05}", capacity=capacity) for number in range(1, count + 1))


def fixed(case: Scenario) -> Scenario:
    """The same with jobs of the size that they ask for."""
    return replace(case, trace=rigid(case.trace))


def named(number: int) -> str:
    """The name of a job's objects: the ids of traces are no names for Kubernetes."""
    return f"j{number:05}"


def renamed(case: Scenario) -> Scenario:
    """Jobs under names that Kubernetes takes, in order."""
    ids = {job.id: JobId(named(number)) for number, job in enumerate(case.trace.jobs)}
    truth = {ids[job]: seconds for job, seconds in (case.trace.truth or {}).items() if job in ids}
    jobs = tuple(replace(job, id=ids[job.id]) for job in case.trace.jobs)
    return replace(case, trace=replace(case.trace, jobs=jobs, truth=truth))


def _asks(role: Role) -> Role:
    gpus = role.amount(GPU)
    amounts = dict(role.request) | {CPU: 1000 * CORES * gpus, MEMORY: MEBIBYTES * gpus}
    return replace(role, request=tuple(sorted(amounts.items())))


def work_of(case: Scenario, job: Job) -> float:
    return case.trace.work(job) or 0.0
