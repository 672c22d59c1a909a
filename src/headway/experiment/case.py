"""What an experiment is made of: cells of a grid, policies that take part, and figures that are measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.compare.scenario import Scenario
from headway.record.results import Outcome

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class RunSize:
    """How much is run: jobs per run, and seeds."""

    jobs: int
    seeds: tuple[int, ...]
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid."""

    load: str
    mix: str

    @property
    def name(self) -> str:
        return f"{self.load}, {self.mix}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy that takes part in an experiment."""

    label: str
    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rigid: bool = False
    """Jobs keep the size that they ask for: for policies that do not choose sizes."""
    estimates: str = ""
    """Where this policy's estimates come from; empty means as the scenario says."""
    sees: Callable[[Scenario, int], Scenario] | None = None
    """The same jobs as this policy sees them, by the seed; None: as they are."""


def said(form: str, value: float) -> str:
    """The value as people read it: a space before the per cent sign, and no minus before nothing."""
    text = re.sub(r"(?<=\d)%", " %", form.format(value))
    return re.sub(r"^[-+](?=[0.,]*( |$))", "", text)


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    title: str
    form: str = "{:.3g}"
    more_is_better: bool = False
    about: str = ""

    def said(self, value: float) -> str:
        return said(self.form, value)


@dataclass(frozen=True, slots=True)
class Goal:
    """A target: a figure of one policy, or its distance from another policy's."""

    what: str
    measure: Callable[[Mapping[str, Figures]], float | None]
    """From the figures by policy in one cell; None if the cell says nothing about the goal."""
    reach: float
    form: str = "{:.1f}"
    at_least: bool = True

    def reached(self, value: float) -> bool:
        return value >= self.reach - 1e-9 if self.at_least else value <= self.reach + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    name: str
    title: str
    about: str
    """The claim and its authors."""
    setup: str
    main: str
    """Label of the policy that the claim is about."""
    baseline: str
    entries: Sequence[Entry]
    cells: Sequence[Cell]
    quick_cells: Sequence[Cell]
    full: RunSize
    quick: RunSize
    make: Callable[[Cell, int, RunSize], Scenario]
    measure: Callable[[Scenario, Outcome, Outcome], Figures]
    """From a scenario, one policy's outcome and the baseline's."""
    bound: Callable[[Scenario], Figures]
    """What no policy can beat, by the names of figures."""
    figures: Sequence[Figure]
    targets: Sequence[Goal]
    analysis: Sequence[str] = ()
    """Notes for the reader of the figures."""
    traces: Callable[[Cell], Sequence[str]] = lambda _cell: ()
    """Files of published traces without which a cell is left out; where all lack, or none is named, it is run."""
