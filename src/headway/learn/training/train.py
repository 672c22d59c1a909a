"""Evolution strategies over the outer layer of the network, from zero weights: from exactly `headway`.

All candidates of a generation run on the same tasks, against `headway` on the same arrivals. A candidate that lengthens
the tail or is less fair pays for it, as in `headway tune`. The last mean and the best candidate are tried on tasks of
the validation part; the better of the two is the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from cmaes import SepCMA

from headway.compare.scenario import Scenario
from headway.core.errors import UserError
from headway.core.node import FloatArray
from headway.learn.suites import Suite, blind, digest_of
from headway.learn.training.candidate import Candidate, Ranges, ranges_of, seen_features
from headway.learn.tuning.runs import RunFigures, Runs
from headway.learn.tuning.search import SearchSettings, ratios, score
from headway.learn.tuning.verdict import Judged, judge
from headway.policies.knobs import BY_NAME
from headway.policies.network import HIDDEN

TURNED = ("trial", "width_weight", "margin", "restart", "cool_down", "tail_share", "tail_claim", "favour")
"""Settings that the network turns, unless told otherwise."""
STEP = 0.15
"""The first spread of the weights: offsets of a setting then spread by about 0.25."""
TASKS_AT_ONCE = 3
DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    knobs: tuple[str, ...] = TURNED
    budget: int = 360
    """Runs of a task, those of `headway` included; validation comes on top."""
    population: int = 10
    seed: int = 0
    tail: str = "slowest"
    fairness: str = "finish-time"

    @property
    def scoring(self) -> SearchSettings:
        return SearchSettings(knobs=(), present={}, tail=self.tail, fairness=self.fairness)


@dataclass(frozen=True, slots=True)
class Trained:
    candidate: Candidate
    scores: dict[str, float | int | None]
    trained_on: dict[str, object]


def tasks_of(suites: Sequence[Suite], part: str, count: int) -> list[Scenario]:
    """The suites take turns. Declared times are taken out: what is known of a job is what it shows."""
    found = []
    for number in range(count):
        suite = suites[number % len(suites)]
        place = number // len(suites)
        if place < suite.sizes[part]:
            case = suite.scenario(part, place)
            found.append(replace(case, trace=blind(case.trace), source=f"{suite.name}/{part}/{place}"))
    if not found:
        raise UserError(f"part {part}: the suites {', '.join(suite.name for suite in suites)} have no task in it")
    return found


def train(tasks: Sequence[Scenario], chosen_by: Sequence[Scenario], given: TrainSettings, runs: Runs) -> Trained:
    """The same seed gives the same network. `chosen_by`: tasks of the validation part."""
    zero = Candidate(given.knobs, given.seed, _ranges(tasks, runs), (0.0,) * (len(given.knobs) * (HIDDEN + 1)))
    base = runs.all(tasks, [zero])[zero]
    optimiser = SepCMA(
        mean=np.array(zero.outer), sigma=STEP, seed=given.seed, population_size=given.population
    )  # fmt: skip
    at_once = min(TASKS_AT_ONCE, len(tasks))
    best: tuple[float, Candidate] = (0.0, zero)
    generations = 0
    while runs.made + given.population * at_once <= given.budget:
        chosen = [(generations * at_once + number) % len(tasks) for number in range(at_once)]
        tried = [replace(zero, outer=_rounded(optimiser.ask())) for _ in range(given.population)]
        found = runs.all([tasks[number] for number in chosen], tried)
        scores = [score(found[one], [base[number] for number in chosen], given.scoring) for one in tried]
        optimiser.tell([(np.array(one.outer), value) for one, value in zip(tried, scores, strict=True)])
        lowest = int(np.argmin(scores))
        best = min(best, (scores[lowest], tried[lowest]), key=lambda one: one[0])
        generations += 1
    middle = replace(zero, outer=_rounded(optimiser.mean)) if generations else zero
    result, told = _chosen(chosen_by, [zero, middle, best[1]], given, runs)
    about: dict[str, object] = {
        "tasks": [case.source for case in tasks], "validation": [case.source for case in chosen_by],
        "digest": digest_of(tasks), "seed": given.seed, "budget": given.budget,
    }  # fmt: skip
    return Trained(result, {**told, "generations": generations, "runs": runs.made}, about)


def pays(found: Candidate, tasks: Sequence[Scenario], given: TrainSettings, runs: Runs) -> Judged:
    """Against `headway`, on tasks that neither trained nor chose it."""
    zero = replace(found, outer=(0.0,) * len(found.outer))
    figures = runs.all(tasks, [zero, found])
    differs = (("network", 1.0),) if found != zero else ()
    return judge(differs, figures[found], figures[zero], given.scoring)


def _chosen(
    tasks: Sequence[Scenario], candidates: list[Candidate], given: TrainSettings, runs: Runs
) -> tuple[Candidate, dict[str, float | int | None]]:
    """The best of the candidates but the first, which is `headway`, and its scores."""
    found = runs.all(tasks, candidates)
    base = found[candidates[0]]
    ranked = [(score(found[one], base, given.scoring), number) for number, one in enumerate(candidates) if number]
    value, number = min(ranked)
    scores = {"validation score": round(value, 5), "validation tasks": len(tasks)}
    return candidates[number], {**scores, **_ratios(found[candidates[number]], base)}


def _ratios(figures: Sequence[RunFigures], base: Sequence[RunFigures]) -> dict[str, float | int | None]:
    """On the validation tasks, as ratios to `headway`: geometric means."""
    names = {"mean completion": "mean", "slowest 5 %": "slowest", "p99": "p99"}
    return {told: round(float(np.exp(ratios(figures, base, name).mean())), 5) for told, name in names.items()}


def _ranges(tasks: Sequence[Scenario], runs: Runs) -> Ranges:
    futures = [runs.executor.submit(seen_features, case) for case in tasks]
    return ranges_of([row for future in futures for row in future.result()])


def _rounded(weights: FloatArray) -> tuple[float, ...]:
    """So that the same search gives the same bytes."""
    return tuple(round(float(value), DIGITS) for value in weights)


def least_budget(tasks: int, given: TrainSettings) -> int:
    """Runs of `headway` on all tasks, and of one generation."""
    return tasks + given.population * min(TASKS_AT_ONCE, tasks)


def check_knobs(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, however often it is named."""
    chosen = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    unknown = next((name for name in chosen if name not in BY_NAME), None)
    if unknown is not None:
        raise UserError(f"--knobs {unknown}: there are {', '.join(BY_NAME)}")
    return chosen or TURNED
