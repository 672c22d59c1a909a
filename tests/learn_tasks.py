"""Small tasks for tests of the environments."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from headway.compare.scenario import Scenario
from headway.learn.suites import Suite, blind, elastic_world, fixed_world
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings


@cache
def fixed(seed: int = 0, jobs: int = 40) -> Scenario:
    nodes = tuple(open_cluster("4x4"))
    settings = Settings(jobs=jobs, load=2.0, declared_error=1.0, deadlines=0.5, urgent=0.2, seed=seed)
    return Scenario(generate(settings, nodes), nodes, fixed_world, "progress", "small")


@cache
def elastic(seed: int = 0, jobs: int = 11) -> Scenario:
    nodes = tuple(open_cluster("4x2"))
    settings = Settings(jobs=jobs, load=3.0, elastic=0.8, mean_seconds=900.0, spread=1.0, seed=seed)
    return Scenario(blind(generate(settings, nodes)), nodes, elastic_world, "progress", "small")


def small(case=fixed) -> Suite:
    return Suite("small", "", {"train": 4, "validation": 2, "test": 2}, lambda _part, number: case(number))


def with_truth(scenario: Scenario, factor: dict[str, float]) -> Scenario:
    """The same jobs; those named take that many times as long in truth. Nothing that users declare changes."""
    trace = scenario.trace
    truth = {job.id: (trace.work(job) or 0.0) * factor.get(job.id, 1.0) for job in trace.jobs}
    return replace(scenario, trace=replace(trace, truth=truth))
