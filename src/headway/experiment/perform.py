"""Runs of one cell with one seed: every policy on the same jobs, and the bound. Kept runs are not repeated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from headway.compare.kept_runs import KeptRuns, content
from headway.compare.perform import Task, Tell
from headway.compare.perform import perform as perform_task
from headway.compare.scenario import Scenario
from headway.experiment.case import Cell, Entry, Experiment, Figures, RunSize
from headway.policies.registry import POLICIES
from headway.record.results import Outcome


@dataclass(frozen=True, slots=True)
class Measurement:
    """One cell, one seed: figures by policy, and of the bound."""

    cell: Cell
    seed: int
    figures: dict[str, Figures]
    bound: Figures


def measure(
    experiment: Experiment,
    cell: Cell,
    seed: int,
    size: RunSize,
    kept: KeptRuns | None = None,
    tell: Tell = lambda _: None,
) -> Measurement:
    """`tell` gets the share of policies that have run, after each of them."""
    case = experiment.make(cell, seed, size)
    found = dict[str, Outcome]()
    for entry in experiment.entries:
        seen = case if entry.sees is None else entry.sees(case, seed)
        key = key_of((experiment.name, cell, size), seen, entry, seed) if kept is not None else ""
        before = kept.get(key) if kept is not None else None
        found[entry.label] = before or perform(seen, entry, seed)
        if kept is not None and before is None:
            kept.put(key, found[entry.label])
        tell(len(found) / len(experiment.entries))
    baseline = found[experiment.baseline]
    figures = {label: experiment.measure(case, one, baseline) for label, one in found.items()}
    return Measurement(cell, seed, figures, experiment.bound(case))


def key_of(of: tuple[str, Cell, RunSize], case: Scenario, entry: Entry, seed: int) -> str:
    """`of`: the experiment's name, the cell and how much is run. Other seeds do not matter."""
    name, cell, size = of
    told = (name, cell, size.jobs, size.quick, seed, entry.label, entry.policy, sorted(entry.settings.items()),
            entry.rigid, entry.estimates, content(case))  # fmt: skip
    return sha256(repr(told).encode()).hexdigest()[:32]


def perform(case: Scenario, entry: Entry, seed: int) -> Outcome:
    """Figures are those of the jobs as submitted, also where the policy may not choose sizes."""
    make = partial(POLICIES[entry.policy], **entry.settings)
    task = Task(policy=entry.label, make=make, estimates=entry.estimates, seed=seed, rigid=entry.rigid)
    return perform_task(case, task)
