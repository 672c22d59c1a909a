"""The learning curve: consecutive windows with beliefs carried on, reset and frozen.

    carried   a window begins with what all windows before it have taught
    reset     every window begins with nothing; it learns while it lasts
    frozen    every window begins with what the first has taught, and learns nothing more

The same with profiles swapped among models in the middle (what was learned is wrong then, and must be learned anew) and
with each job's scaling drawn around that of its model. Feedback improves decisions where carried is below reset, and
it is feedback, not a good start, where carried is below frozen after the swap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

import numpy as np

from headway.compare.perform import Tell
from headway.compare.scenario import Scenario
from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.estimates.history.history import History
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.profiles import Layout, Profile
from headway.experiment.everything_cells import SOURCES, blind, fits_in, nodes_for, read_trace, world
from headway.experiment.learning.window_run import learning_run
from headway.policies.headway import Headway
from headway.sim.speed import SharingEffect, Speed
from headway.sim.world import World
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
        Scenario(blind(rebase(one), deadlines=False), nodes, world, "progress", f"itp {number}")
        for number, one in enumerate(fitting)
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
    return [
        Scenario(blind(rebase(one), deadlines=False), nodes, world, "progress", f"own {number}")
        for number, one in enumerate(parts)
    ]


ARMS = ("carried", "reset", "frozen")
CHANGES = ("as they are", "swapped", "drawn")
DRAWN = 0.15
"""A job's scaling is its model's, to the power of 1 ± this."""


@dataclass(frozen=True, slots=True)
class ArmCourse:
    """Mean completion times, window by window, of one arm under one change."""

    change: str
    arm: str
    means: tuple[float, ...]


def course(windows: Sequence[Scenario], change: str, arm: str, tell: Tell = lambda _: None) -> ArmCourse:
    """One arm through all windows."""
    history, means = History(), []
    for number, case in enumerate(windows):
        begin = history if arm != "reset" else History()
        mean, after = learning_run(
            changed(case, change, late=2 * number >= len(windows)),
            Headway,
            begin,
            frozen=arm == "frozen" and number > 0,
        )
        means.append(mean)
        history = after if arm == "carried" or not number else history
        tell((number + 1) / len(windows))
    return ArmCourse(change, arm, tuple(means))


def courses_of(windows: Sequence[Scenario], item: tuple[str, str], tell: Tell) -> ArmCourse:
    """For `perform_all`."""
    return course(windows, *item, tell)


def ratio(courses: Mapping[tuple[str, str], ArmCourse], change: str, part: slice, other: str = "reset") -> float:
    """Carried over the other arm: the geometric mean over these windows."""
    one, two = (np.array(courses[change, arm].means[part]) for arm in ("carried", other))
    return float(np.exp(np.log(one / two).mean()))


# ── what changes ────────────────────────────────────────────────────────────────────────────────────────────


def changed(case: Scenario, change: str, *, late: bool) -> Scenario:
    if change == "drawn":
        return replace(case, world=partial(_drawn_world, case.world))
    if change == "swapped" and late:
        return replace(case, world=partial(_swapped_world, case.world))
    return case


def _swapped_world(make: Callable[[Trace, int], World], trace: Trace, seed: int) -> World:
    world = make(trace, seed)
    models = {job.model for job in trace.jobs}
    assert isinstance(world.speed, Speed)
    return replace(world, speed=replace(world.speed, profiles=swapped(world.speed.profiles or BUILT_IN, models)))


def swapped(profiles: Mapping[str, Profile], used: set[str]) -> Mapping[str, Profile]:
    """Every model that is used has the profile of the one opposite: those that scale well against those that do not."""
    models = sorted(used & profiles.keys(), key=lambda model: (_at_16(profiles[model]), model))
    return {**profiles, **{model: profiles[other] for model, other in zip(models, reversed(models), strict=True)}}


def _at_16(profile: Profile) -> float:
    return profile.throughput(Layout(16, 16, 4, 0.25, 1.0)) / profile.throughput(Layout(1, 1, 1, 1.0))


@dataclass(frozen=True, slots=True)
class DrawnSpeed:
    """Each job scales a little better or worse than its model does."""

    speed: Speed

    def __call__(self, job: Job, placement: Placement, nodes: Nodes, effect: SharingEffect) -> float:
        return float(self.speed(job, placement, nodes, effect) ** (1.0 + DRAWN * drawn(job)))


def drawn(job: Job) -> float:
    """From -1 to 1, by the job's name."""
    return int.from_bytes(sha256(job.id.encode()).digest()[:4], "big") / 2**31 - 1.0


def _drawn_world(make: Callable[[Trace, int], World], trace: Trace, seed: int) -> World:
    world = make(trace, seed)
    assert isinstance(world.speed, Speed)
    return replace(world, speed=DrawnSpeed(world.speed))
