"""What an experiment is made of: cells of a grid, policies that take part, and figures that are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.compare.scenario import Scenario
from headway.record.results import Outcome

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class RunSize:
    """How much is run."""

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
    """A policy that takes part."""

    label: str
    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rigid: bool = False
    """Jobs keep the size that their users asked for: for policies that know no other."""
    estimates: str = ""
    """Where this policy's estimates come from; empty means as the case says."""


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    title: str
    form: str = "{:.3g}"
    more_is_better: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to reach: a figure of one policy, or its distance from another's."""

    what: str
    measure: Callable[[Mapping[str, Figures]], float | None]
    """From figures by policy in one cell; None where the cell says nothing of it."""
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
    """What was claimed, and by whom."""
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
    """From a case, one policy's outcome and the baseline's."""
    bound: Callable[[Scenario], Figures]
    """What no policy can beat, by the names of figures."""
    figures: Sequence[Figure]
    targets: Sequence[Goal]
    analysis: Sequence[str] = ()
    """What is to be known when the figures are read."""
