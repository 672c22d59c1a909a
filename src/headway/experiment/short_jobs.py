"""Short training jobs without cpu limits that share nodes, after SpeCon's set-up, and what no policy can beat.

Published: 4 workers, short jobs, the first arrivals to the second, a mean completion time of 596 s under the native
scheduler. Not published: how long each job takes alone. Works are drawn so that plain spreading gives about that mean.
"""

from __future__ import annotations

import heapq

import numpy as np

from headway.compare.bounds import Floor, Need, floor
from headway.compare.scenario import Scenario
from headway.core.job import Job, JobId, Role
from headway.core.node import Nodes
from headway.core.quantity import CPU, MEMORY
from headway.estimates.models.profiles import AllReduce, Curve, Profile
from headway.estimates.models.sharing import Claim, level
from headway.experiment.case import Cell
from headway.sim.cluster import Costs, Reports, World
from headway.sim.sharing import Sharing
from headway.sim.speed import Speed
from headway.workload.cluster import open_cluster
from headway.workload.trace import Trace

NODES = tuple(open_cluster("4x8cpu,64Gi"))
CORES = 32.0
OWN = "as published"
FIRST = (25.0, 43.0, 50.0, 65.0, 86.0, 142.0, 192.0)
"""Seconds at which the first jobs of the published script arrive; later gaps are drawn from these gaps."""
OWN_WORK = (820.0, 1620.0)
"""Core-seconds."""
MEAN_WORK = 1000.0
REQUEST = 100
"""Thousandths of a core: what the native scheduler counts for a pod that asks for nothing."""
STEPS = 1000
START = 5.0
"""Seconds that a start takes. A save takes as long, so a move takes twice that."""
CURVES = {
    "vae": (Curve(30.0, 1.0, 0.3), 512), "mnist": (Curve(60.0, 1.0, 0.1), 256),
    "lstm-cfc": (Curve(15.0, 1.0, 0.2), 1024), "lstm-crf": (Curve(9.0, 1.0, 0.2), 1024),
    "bi-rnn": (Curve(22.0, 1.0, 0.1), 768), "gru": (Curve(12.0, 1.0, 0.15), 768),
}  # fmt: skip
"""By model: its loss over the share of training done, and the MiB it asks for. The shapes are assumed, fast to slow."""
_FORM = AllReduce(compute=1.0, local=0.0, local_more=0.0, cross=0.0, cross_more=0.0)
PROFILES = {model: Profile(form=_FORM, curve=curve) for model, (curve, _) in CURVES.items()}
MIXES = ("alike", "mixed", "heavy-tailed", "narrow", "sublinear")
"""How lengths are distributed. Narrow jobs use at most 3 of a node's 8 cores, all others all there are. To sublinear
jobs 8 cores are worth 4.5 times one, which no policy is told."""
SUBLINEAR = 0.988


def short_jobs(cell: Cell, seed: int, count: int) -> Scenario:
    chance = np.random.default_rng([seed, 17])
    submits, works = _own(chance, count) if cell.load == OWN else _drawn(cell, chance, count)
    limit = 3000 if cell.mix == "narrow" else 8000
    alone = Claim(REQUEST, limit).speed(limit, parallel(cell.name)) / limit
    jobs, truth = list[Job](), dict[JobId, float]()
    for number, (submit, work) in enumerate(zip(submits, works, strict=True)):
        model = list(CURVES)[int(chance.integers(len(CURVES)))]
        role = Role(name="worker", request=((CPU, REQUEST), (MEMORY, CURVES[model][1])), limit=((CPU, limit),))
        job = Job(id=JobId(f"job-{number}"), roles=(role,), submit=float(submit), steps=STEPS, model=model)
        truth[job.id] = work * 1000.0 / REQUEST * alone
        jobs.append(job)
    return Scenario(Trace(name=cell.name, jobs=tuple(jobs), truth=truth), NODES, _world, "progress")


def parallel(name: str) -> float:
    """Share of the work that more cpu speeds up, by a cell's name."""
    return SUBLINEAR if name.endswith("sublinear") else 1.0


def _own(chance: np.random.Generator, count: int) -> tuple[list[float], list[float]]:
    gaps = chance.choice(np.diff(FIRST), size=count)
    submits = [*FIRST, *(FIRST[-1] + np.cumsum(gaps))][:count]
    return submits, chance.uniform(*OWN_WORK, size=count).tolist()


def _drawn(cell: Cell, chance: np.random.Generator, count: int) -> tuple[list[float], list[float]]:
    """Poisson arrivals at the cell's load: core-seconds that arrive in a second, over cores."""
    gap = MEAN_WORK / CORES / float(cell.load.split()[-1])
    submits = np.cumsum(chance.exponential(gap, size=count)).tolist()
    match cell.mix:
        case "mixed":
            works = chance.uniform(0.25, 1.75, size=count)
        case "heavy-tailed":
            works = chance.lognormal(-0.5, 1.0, size=count).clip(0.1, 8.0)
        case _:
            works = chance.uniform(0.67, 1.33, size=count)
    return submits, (MEAN_WORK * works).tolist()


def _world(trace: Trace, seed: int) -> World:
    return World(
        costs=Costs(start=START, save=START), speed=Speed(parallel_cpu=parallel(trace.name), profiles=PROFILES),
        work=trace.work, reports=Reports(seconds=10.0, noise=0.01), sharing=Sharing(cpu=True), seed=seed,
    )  # fmt: skip


def best_possible(case: Scenario) -> Floor:
    """No policy can beat it, not even a clairvoyant one that divides cpu freely at no cost."""
    nodes = Nodes.of(case.nodes)
    needs = []
    for job, work, claim in _works(case):
        areas = tuple(work if kind == CPU else 0.0 for kind in nodes.kinds)
        needs.append(Need(job.submit, work / claim.speed(claim.limit, parallel(case.trace.name)), areas))
    return floor(needs, nodes)


def even_sharing(case: Scenario) -> tuple[float, float]:
    """Mean completion time and last end if all jobs shared all nodes as one, evenly and at no cost."""
    jobs, left, ends = _works(case), dict[int, float](), dict[int, float]()
    now, following, whole, gains = 0.0, 0, 1000.0 * CORES, parallel(case.trace.name)
    while following < len(jobs) or left:
        now = now if left else max(now, jobs[following][0].submit)
        while following < len(jobs) and jobs[following][0].submit <= now:
            left[following] = jobs[following][1]
            following += 1
        claims = {number: jobs[number][2] for number in left}
        reached = level(whole, list(claims.values()))
        rates = {number: claim.speed(claim.part(reached), gains) for number, claim in claims.items()}
        until = min(now + left[number] / rate for number, rate in rates.items())
        if following < len(jobs):
            until = min(until, jobs[following][0].submit)
        for number, rate in rates.items():
            left[number] -= rate * (until - now)
            if left[number] <= 1e-6:
                ends[number] = until
                del left[number]
        now = until
    return float(np.mean([ends[number] - jobs[number][0].submit for number in range(len(jobs))])), now


def queued(case: Scenario) -> float:
    """Mean completion time without sharing: first come, first served, one node per job, start included."""
    free, total = [0.0] * len(case.nodes), 0.0
    for job, work, claim in _works(case):
        alone = claim.speed(claim.limit, parallel(case.trace.name))
        end = max(heapq.heappop(free), job.submit) + START + work / alone
        heapq.heappush(free, end)
        total += end - job.submit
    return total / len(case.trace.jobs)


def _works(case: Scenario) -> list[tuple[Job, float, Claim]]:
    """In order of submission: the job, its work in thousandths of a core times seconds, and what it can use at once."""
    return [
        (job, (case.trace.work(job) or 0.0) * REQUEST, Claim(REQUEST, dict(job.roles[0].limit)[CPU]))
        for job in case.trace.jobs
    ]
