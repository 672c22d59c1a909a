"""The search: CMA-ES over the offsets of the settings, on windows of the log, within a budget of runs.

All candidates of a generation run on the same windows, with the same arrivals, against the present settings. A
candidate that lengthens the tail or makes the fairness figure worse pays for it. Generations take turns with the
windows, so that a generation is cheap; the finalists run on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cmaes import CMA

from headway.compare.scenario import Scenario
from headway.core.node import FloatArray
from headway.learn.tuning.runs import FAIRNESS, RunFigures, Runs, Setting
from headway.policies.knobs import BY_NAME, Knob

WINDOWS_AT_ONCE = 3
"""Windows on which one generation runs."""
SLACK = 0.01
"""The tail and the fairness figure may become worse by this share."""
PENALTY = 2.0
"""What each share beyond the slack counts, where the mean counts 1."""
STEP = 0.3
"""The first spread of the search, in offsets."""
SMALL = 0.05
"""A change of an offset below this is taken back at the end: it is noise, and one setting less to explain."""
LEFT_UNFINISHED = 10.0
FINALISTS = 2
"""The last mean and the best candidate; they run on all windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    knobs: tuple[Knob, ...]
    present: Mapping[str, float]
    """The settings that are in use."""
    budget: int = 240
    """Runs of a window, the ones of the present settings included; those of the held-out windows come on top."""
    tail: str = "slowest"
    fairness: str = "finish-time"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    settings: Setting
    """The best candidate, as settings that differ from the default ones; the present ones if none was better."""
    score: float
    """Its mean logarithm of the ratio to the present settings on all tuned windows, with penalties."""
    generations: int


def as_setting(values: Mapping[str, float]) -> Setting:
    return tuple(sorted((name, value) for name, value in values.items() if value != BY_NAME[name].default))


def search(windows: Sequence[Scenario], settings: SearchSettings, runs: Runs) -> Found:
    """The same seed gives the same candidates."""
    present = as_setting(settings.present)
    base = runs.all(windows, [present])[present]
    begin = np.array([knob.offset(settings.present.get(knob.name, knob.default)) for knob in settings.knobs])
    optimiser = CMA(
        mean=begin, sigma=STEP, bounds=np.array([[-1.0, 1.0]] * len(begin)), seed=settings.seed,
        population_size=_population(len(begin)),
    )  # fmt: skip
    best: list[tuple[float, Setting]] = []
    at_once = min(WINDOWS_AT_ONCE, len(windows))
    cost, finals = optimiser.population_size * at_once, FINALISTS * len(windows)
    generations = 0
    while runs.made + cost + finals <= settings.budget and not optimiser.should_stop():
        chosen = [(generations * at_once + number) % len(windows) for number in range(at_once)]
        points = [optimiser.ask() for _ in range(optimiser.population_size)]
        told = [_settings_at(point, begin, settings) for point in points]
        found = runs.all([windows[number] for number in chosen], told)
        scores = [score(found[one], [base[number] for number in chosen], settings) for one in told]
        optimiser.tell(list(zip(points, scores, strict=True)))
        best.append(min(zip(scores, told, strict=True)))
        generations += 1
    middle = _settings_at(optimiser.mean if generations else begin, begin, settings)
    finalists = list(dict.fromkeys([middle, *(one for _, one in sorted(best)[:1])]))
    whole = runs.all(windows, finalists)
    ranked = [(score(whole[one], base, settings), one) for one in finalists]
    lowest = min(ranked, default=(0.0, present))
    return Found(lowest[1], lowest[0], generations) if lowest[0] < 0 else Found(present, 0.0, generations)


def least_budget(windows: int, knobs: int) -> int:
    """Runs of the present settings, of one generation and of the finalists."""
    return windows + _population(knobs) * min(WINDOWS_AT_ONCE, windows) + FINALISTS * windows


def _population(knobs: int) -> int:
    return max(6, 4 + int(3 * math.log(knobs + 1)))


def score(figures: Sequence[RunFigures], base: Sequence[RunFigures], settings: SearchSettings) -> float:
    """Below zero is better than the present settings."""
    if any(one.unfinished > before.unfinished for one, before in zip(figures, base, strict=True)):
        return LEFT_UNFINISHED
    total = float(ratios(figures, base, "mean").mean())
    for name in (settings.tail, FAIRNESS[settings.fairness]):
        total += PENALTY * max(0.0, float(ratios(figures, base, name).mean()) - math.log1p(SLACK))
    return total


def ratios(figures: Sequence[RunFigures], base: Sequence[RunFigures], name: str) -> FloatArray:
    """Logarithms of the ratios, window by window."""
    return np.log([getattr(one, name) / getattr(before, name) for one, before in zip(figures, base, strict=True)])


def _settings_at(point: FloatArray, begin: FloatArray, settings: SearchSettings) -> Setting:
    values = dict(settings.present)
    for knob, offset, before in zip(settings.knobs, point.tolist(), begin.tolist(), strict=True):
        if abs(offset - before) >= SMALL:
            values[knob.name] = knob.value(offset)
    return as_setting(values)
