"""Runs of one cell with one seed: every policy on the same jobs, and the bound. Kept runs are not repeated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from headway.compare.perform import Task, Tell
from headway.compare.perform import perform as perform_task
from headway.compare.scenario import Scenario
from headway.experiment.case import Cell, Entry, Experiment, Figures, RunSize
from headway.experiment.kept import Kept, key_of
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
    experiment: Experiment, cell: Cell, seed: int, size: RunSize, kept: Kept | None = None, tell: Tell = lambda _: None
) -> Measurement:
    """`tell` gets the share of policies that have run, after each of them."""
    case = experiment.make(cell, seed, size)
    found = dict[str, Outcome]()
    for entry in experiment.entries:
        key = key_of((experiment.name, cell, size), case, entry, seed) if kept is not None else ""
        before = kept.get(key) if kept is not None else None
        found[entry.label] = before or perform(case, entry, seed)
        if kept is not None and before is None:
            kept.put(key, found[entry.label])
        tell(len(found) / len(experiment.entries))
    baseline = found[experiment.baseline]
    figures = {label: experiment.measure(case, one, baseline) for label, one in found.items()}
    return Measurement(cell, seed, figures, experiment.bound(case))


def perform(case: Scenario, entry: Entry, seed: int) -> Outcome:
    """Figures are those of the jobs as submitted, also where the policy may not choose sizes."""
    make = partial(POLICIES[entry.policy], **entry.settings)
    task = Task(policy=entry.label, make=make, estimates=entry.estimates, seed=seed, rigid=entry.rigid)
    return perform_task(case, task)
