"""What a generated workload is to be like. Every field says what it means, its unit and why it has its default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from headway.core.errors import UserError

ARRIVALS = ("poisson", "bursty", "diurnal", "at-once")
DURATIONS = ("lognormal", "pareto", "bimodal", "constant")
DEADLINES = ("uniform", "chronus")

Mix = tuple[tuple[int, float], ...]
"""Workers asked for, and the weight of this size."""

MIXES: Mapping[str, Mix] = {
    "single": ((1, 1.0),),
    "philly": ((1, 0.941), (2, 0.022), (4, 0.019), (8, 0.014), (16, 0.003), (32, 0.001)),
    "itp": ((1, 0.870), (2, 0.021), (4, 0.035), (8, 0.065), (16, 0.004), (32, 0.005)),
    "balanced": ((1, 0.40), (2, 0.20), (4, 0.20), (8, 0.15), (16, 0.05)),
    "wide": ((4, 0.30), (8, 0.40), (16, 0.20), (32, 0.10)),
}
"""Sizes by name. `philly` and `itp` are rounded from the published traces; the others are ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    jobs: int = 200
    """How many."""
    seed: int = 0
    """The same seed and the same settings give the same workload, byte for byte."""
    load: float = 0.9
    """Demand over capacity: worker-seconds of all jobs, divided by what the cluster offers between second 0 and the end
    of the window in which jobs arrive. The window is made as long as this needs. Above 1 a queue grows without end."""
    arrivals: str = "poisson"
    """`poisson`: independent of each other. `bursty`: in groups of `burst` jobs on average, within a minute. `diurnal`:
    more by day than by night, `swing` times the mean at most above and below. `at-once`: all at second 0; `load` then
    says nothing."""
    burst: float = 8.0
    """Mean jobs per burst: a sweep over a few hyperparameters."""
    swing: float = 0.8
    """How far the diurnal rate goes above and below its mean, 0 to 1."""
    sizes: str = "balanced"
    """A mix of `MIXES`, or one's own as `1:0.5,4:0.3,8:0.2`. Sizes that the cluster cannot hold are left out."""
    durations: str = "lognormal"
    """`lognormal` with `spread` as its sigma; `pareto` with a tail of 1 + 1/`spread`; `bimodal`: nine short in ten,
    and one that is long, ten times `spread` as long; `constant`."""
    mean_seconds: float = 3600.0
    """Of the distribution; a sample's mean differs."""
    spread: float = 1.5
    """How unlike the durations are. Philly's sigma is about 2; 1.5 has means that settle within a thousand jobs."""
    longest_seconds: float = 864_000.0
    """Durations are cut here; ten days."""
    users: int = 8
    """Users, with weights 1, 1/2, 1/3, …: few submit most. Four of them share a queue."""
    urgent: float = 0.0
    """Share of jobs with priority 5 instead of 0."""
    deadlines: float = 0.0
    """Share of jobs with a deadline."""
    deadline_rule: str = "uniform"
    """`uniform`: a factor between 0.5 and 1.5 of the duration after submission, as ElasticFlow has it, so that half of
    them need more than they ask for. `chronus`: lognormal with median 1.97 and never below 1.1."""
    ps: float = 0.0
    """Share of jobs of two or more workers that have parameter servers: one for every four workers."""
    ps_cpu: float = 1.0
    """Cores of a parameter server. The cluster's nodes must have cpu."""
    elastic: float = 0.0
    """Share of jobs that may run at any size from 1 to four times what they ask for."""
    declared_error: float = 0.0
    """Sigma of the lognormal factor between true and declared seconds; 0 declares the truth."""


def mix_of(text: str) -> Mix:
    if text in MIXES:
        return MIXES[text]
    try:
        parts = [part.partition(":") for part in text.split(",")]
        mix = tuple((int(size), float(weight) if colon else 1.0) for size, colon, weight in parts)
    except ValueError:
        mix = ()
    if not mix or any(size < 1 or not 0 < weight < math.inf for size, weight in mix):
        raise UserError(f"sizes {text}: choose one of {', '.join(MIXES)}, or write for example 1:0.5,4:0.3,8:0.2")
    return mix


def checked(settings: Settings) -> Settings:
    """The settings, or one sentence on the first that makes no sense."""
    for name, offer in (("arrivals", ARRIVALS), ("durations", DURATIONS), ("deadline_rule", DEADLINES)):
        if getattr(settings, name) not in offer:
            raise UserError(f"{name} {getattr(settings, name)}: choose one of {', '.join(offer)}")
    for name in ("urgent", "deadlines", "ps", "elastic", "swing"):
        if not 0 <= getattr(settings, name) <= 1:
            raise UserError(f"{name} {getattr(settings, name):g}: must be between 0 and 1")
    for name in ("jobs", "users", "load", "mean_seconds", "longest_seconds", "spread", "burst", "ps_cpu"):
        if not 0 < getattr(settings, name) < math.inf:
            raise UserError(f"{name} {getattr(settings, name):g}: must be above 0")
    if not 0 <= settings.declared_error < math.inf or settings.seed < 0 or settings.burst < 1:
        raise UserError("declared_error and seed must not be below 0, and burst not below 1")
    if settings.spread > 10:
        raise UserError(f"spread {settings.spread:g}: must not be above 10")
    mix_of(settings.sizes)
    return settings


NAMES = tuple(field.name for field in fields(Settings))
