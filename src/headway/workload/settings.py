"""The settings of a generated workload. Every field has its meaning, unit and default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from headway.core.errors import UserError
from headway.workload.yaml_values import shortened

ARRIVALS = ("poisson", "bursty", "diurnal", "at-once")
DURATIONS = ("lognormal", "pareto", "bimodal", "constant")
DEADLINES = ("uniform", "chronus")

MOST = {
    "jobs": 10_000_000, "users": 1_000_000, "load": 1000, "mean_seconds": 1e9, "longest_seconds": 1e9, "burst": 1e6,
    "ps_cpu": 10_000,
}  # fmt: skip
"""The largest value of each setting that has one."""
LEAST_LOAD = 0.001

Mix = tuple[tuple[int, float], ...]
"""Requested workers, and the weight of this size."""

MIXES: Mapping[str, Mix] = {
    "single": ((1, 1.0),),
    "philly": ((1, 0.941), (2, 0.022), (4, 0.019), (8, 0.014), (16, 0.003), (32, 0.001)),
    "itp": ((1, 0.870), (2, 0.021), (4, 0.035), (8, 0.065), (16, 0.004), (32, 0.005)),
    "balanced": ((1, 0.40), (2, 0.20), (4, 0.20), (8, 0.15), (16, 0.05)),
    "wide": ((4, 0.30), (8, 0.40), (16, 0.20), (32, 0.10)),
}
"""Mixes of sizes by name. `philly` and `itp` are rounded from the published traces; the others are ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    jobs: int = 200
    """Number of jobs."""
    seed: int = 0
    """The same seed and the same settings give the same workload, byte for byte."""
    load: float = 0.9
    """Demand over capacity: worker-seconds of all jobs, divided by what the cluster offers in the window in which jobs
    arrive. The length of the window follows from it. Above 1 the queue grows without end."""
    arrivals: str = "poisson"
    """`poisson`: independent of each other. `bursty`: in groups of `burst` jobs on average, within a minute. `diurnal`:
    more by day than by night, up to `swing` times the mean above and below. `at-once`: all at second 0; `load` then has
    no effect."""
    burst: float = 8.0
    """Mean number of jobs per burst, such as a sweep over hyperparameters."""
    swing: float = 0.8
    """Amplitude of the diurnal rate as a share of its mean, 0 to 1."""
    sizes: str = "balanced"
    """A mix of `MIXES`, or your own such as `1:0.5,4:0.3,8:0.2`. Sizes above the cluster's capacity are left out."""
    durations: str = "lognormal"
    """`lognormal` with `spread` as sigma; `pareto` with tail index 1 + 1/`spread`; `bimodal`: nine of ten are short
    and one is 10 * `spread` times as long; `constant`."""
    mean_seconds: float = 3600.0
    """Mean of the distribution; the mean of a sample differs."""
    spread: float = 1.5
    """Spread of the durations. Philly's sigma is about 2; with 1.5 the mean settles within a thousand jobs."""
    longest_seconds: float = 864_000.0
    """Max duration: longer ones are cut to it. Ten days."""
    users: int = 8
    """Number of users, with weights 1, 1/2, 1/3, …: few users submit most jobs. Four users share a queue."""
    urgent: float = 0.0
    """Share of jobs with priority 5 instead of 0."""
    deadlines: float = 0.0
    """Share of jobs with a deadline."""
    deadline_rule: str = "uniform"
    """`uniform`: 0.5 to 1.5 times the duration after submission, as in ElasticFlow, so half of them need more than they
    request. `chronus`: a lognormal factor with median 1.97, 1.1 or more."""
    ps: float = 0.0
    """Share of jobs with two or more workers that have parameter servers: one for every four workers."""
    ps_cpu: float = 1.0
    """Cores of a parameter server. The nodes of the cluster must have cpu."""
    elastic: float = 0.0
    """Share of jobs that may run at any size from 1 to four times their request."""
    declared_error: float = 0.0
    """Sigma of the lognormal factor between true and declared seconds; 0: jobs declare the truth."""


def mix_of(text: str) -> Mix:
    if text in MIXES:
        return MIXES[text]
    try:
        parts = [part.partition(":") for part in text.split(",")]
        mix = tuple((int(size), float(weight) if colon else 1.0) for size, colon, weight in parts)
    except ValueError:
        mix = ()
    if not mix or any(not 1 <= size <= 1_000_000 or not 0 < weight < math.inf for size, weight in mix):
        raise UserError(
            f"sizes {shortened(text, 60)}: choose one of {', '.join(MIXES)}, or write for example 1:0.5,4:0.3,8:0.2"
        )
    return mix


def checked(settings: Settings) -> Settings:
    """Returns the settings. Raises with one sentence on the first wrong one."""
    for name, offer in (("arrivals", ARRIVALS), ("durations", DURATIONS), ("deadline_rule", DEADLINES)):
        if getattr(settings, name) not in offer:
            raise UserError(f"{name} {getattr(settings, name)}: choose one of {', '.join(offer)}")
    for name in ("urgent", "deadlines", "ps", "elastic", "swing"):
        if not 0 <= getattr(settings, name) <= 1:
            raise UserError(f"{name} {getattr(settings, name):g}: must be between 0 and 1")
    for name in ("jobs", "users", "load", "mean_seconds", "longest_seconds", "spread", "burst", "ps_cpu"):
        if not 0 < getattr(settings, name) < math.inf:
            raise UserError(f"{name} {getattr(settings, name):g}: must be above 0")
    _check_bounds(settings)
    if not 0 <= settings.declared_error <= 10 or settings.seed < 0 or settings.burst < 1:
        raise UserError("declared_error must be 0 to 10, seed must be 0 or more, burst 1 or more")
    if settings.spread > 10:
        raise UserError(f"spread {settings.spread:g}: must be 10 or less")
    mix_of(settings.sizes)
    return settings


def _check_bounds(settings: Settings) -> None:
    for name, most in MOST.items():
        if getattr(settings, name) > most:
            raise UserError(f"{name} {getattr(settings, name):g}: must be {most:g} or less")
    if settings.load < LEAST_LOAD:
        raise UserError(f"load {settings.load:g}: must be {LEAST_LOAD:g} or more")


NAMES = tuple(field.name for field in fields(Settings))
