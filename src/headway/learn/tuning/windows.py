"""Windows of a log or trace: consecutive jobs on the same nodes. Some are tuned on, later ones are held out.

Held-out windows come after the tuned ones; one window between them is left out. No job is in two windows. Every window
starts empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs
from headway.compare.own_log import is_log, trace_of_log
from headway.compare.scenario import MakeWorld, Scenario, WorldFields, described_world
from headway.core.errors import UserError
from headway.core.node import Node
from headway.estimates.models.coefficients import BUILT_IN
from headway.learn.suites import STEPS, blind, elastic_world
from headway.learn.trace_suites import fitting
from headway.policies.knobs import BY_NAME, KNOBS, Knob
from headway.record.lines import Head
from headway.sim.speed import Speed
from headway.sim.world import World
from headway.workload.cluster import open_cluster
from headway.workload.decode import decode
from headway.workload.models import assign_models
from headway.workload.open import open_workload
from headway.workload.simulate_fields import SimulateFields
from headway.workload.trace import Trace, rebase

FEWEST_HELD_OUT = 3
TUNED_SHARE = 0.4
"""Of the jobs, at most: trying on later windows is cheap, and the more there are the smaller a gain can be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """How the file is cut. Zero tuned or held-out windows means as many as there are, up to the defaults."""

    jobs: int = 150
    """Jobs of a window."""
    tuned: int = 6
    held_out: int = 8
    cluster: str = ""
    format: str = ""
    world: Path | None = None
    beliefs: LearnedBeliefs = NO_BELIEFS


@dataclass(frozen=True, slots=True)
class Windows:
    tuned: tuple[Scenario, ...]
    held_out: tuple[Scenario, ...]
    present: dict[str, float]
    """The settings that the log's run had."""
    jobs: int
    """Jobs that the file has and that fit."""
    left_out: tuple[str, ...] = ()
    """What the log's run had and the windows do not have, as sentences."""

    def knobs(self) -> tuple[Knob, ...]:
        """The settings that matter for these jobs."""
        jobs = [job for case in self.tuned for job in case.trace.jobs]
        where = {"": True, "sizes": any(job.elastic for job in jobs), "deadlines": any(job.deadline for job in jobs)}
        return tuple(knob for knob in KNOBS if where[knob.acts])


def read_windows(path: Path, given: WindowSettings) -> Windows:
    trace, head = _read(path, given)
    nodes = tuple(open_cluster(given.cluster)) if given.cluster else trace.nodes
    if not nodes:
        raise UserError(f"{path}: it names no nodes; give --cluster such as 32x4 (nodes x GPUs) or a file of nodes")
    needs_models = any(job.elastic and not job.model for job in trace.jobs)
    jobs = assign_models(trace.jobs) if needs_models else trace.jobs
    ready = replace(trace, jobs=fitting(jobs, nodes))
    # Where a file knows no truth beside what is declared, that is the truth: no job may declare it.
    ready = blind(ready) if trace.truth is None else _with_steps(ready)
    world = _world(path, trace, given)
    cut = partial(_window, ready, nodes, world, given.beliefs)
    tuned, held_out = places(ready, given)
    present, left_out = ({}, ()) if head is None else (_present(head), left_out_of(head))
    return Windows(tuple(map(cut, tuned)), tuple(map(cut, held_out)), present, len(ready.jobs), left_out)


def _with_steps(trace: Trace) -> Trace:
    jobs = (replace(job, steps=job.steps or STEPS) for job in trace.jobs if (trace.work(job) or 0.0) > 0)
    return replace(trace, jobs=tuple(jobs))


def _read(path: Path, given: WindowSettings) -> tuple[Trace, Head | None]:
    if given.format or not is_log(path):
        return open_workload(path, given.format), None
    return trace_of_log(path, Speed(profiles=BUILT_IN))


def _present(head: Head) -> dict[str, float]:
    """What the run had set of the settings that can be tuned."""
    if head.policy != "headway":
        return {}
    pairs = [str(item).partition("=") for item in head.settings.get("set", [])]
    return {name: float(value) for name, equals, value in pairs if equals and name in BY_NAME}


def left_out_of(head: Head) -> tuple[str, ...]:
    """What the log's run had and its windows do not have, as sentences."""
    found = []
    if head.policy != "headway":
        found.append(f"the log is of the policy {head.policy}; what is tuned and compared with is headway")
    names = [str(item).partition("=")[0] for item in head.settings.get("set", [])]
    if "queues" in names:
        found.append("the log's run had queues; the windows are run without them")
    if "round" in names:
        found.append("the log's run decided in rounds; the windows are decided at every event")
    return tuple(found)


def _world(path: Path, trace: Trace, given: WindowSettings) -> MakeWorld:
    if given.world is not None:
        fields = decode(given.world, WorldFields).simulate
        return partial(_described, str(given.world), fields)
    if trace.simulate != SimulateFields():
        return partial(_described, str(path), trace.simulate)
    return elastic_world


def _described(source: str, fields: SimulateFields, trace: Trace, seed: int) -> World:
    return described_world(source, replace(trace, simulate=fields), seed)


def _window(
    trace: Trace, nodes: tuple[Node, ...], world: MakeWorld, beliefs: LearnedBeliefs, place: tuple[int, int]
) -> Scenario:
    first, last = place
    jobs = rebase(replace(trace, jobs=trace.jobs[first:last]))
    return Scenario(jobs, nodes, world, "progress", f"{trace.name} {first}-{last}", beliefs=beliefs)


def places(trace: Trace, given: WindowSettings) -> tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]:
    """The first and last job of each window: tuned ones, then held-out ones."""
    count, jobs = len(trace.jobs), given.jobs
    end = min(max(1, given.tuned) * jobs, max(jobs, int(TUNED_SHARE * count) // jobs * jobs))
    tuned = [(first, first + jobs) for first in range(0, end - jobs + 1, jobs)]
    rest = [(first, first + jobs) for first in range(end + jobs, count - jobs + 1, jobs)]
    held_out = _spaced(rest, given.held_out)
    if count < jobs or len(held_out) < FEWEST_HELD_OUT:
        raise UserError(
            f"{count} jobs make {len(tuned) if count >= jobs else 0} windows of {jobs} to tune on and {len(held_out)} "
            f"to hold out; at least 1 and {FEWEST_HELD_OUT} are needed: give a longer log, or a smaller --window"
        )
    return tuned, held_out


def _spaced(found: Sequence[tuple[int, int]], most: int) -> Sequence[tuple[int, int]]:
    """At most so many, at equal distances."""
    if len(found) <= most:
        return found
    return [found[number * len(found) // most] for number in range(most)]
