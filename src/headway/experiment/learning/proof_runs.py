"""Runs of the proof: one window under one arm. Finished runs are kept: the command goes on where it was ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

import numpy as np

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, read_beliefs, write_beliefs
from headway.compare.kept_runs import KeptRuns, content, source
from headway.compare.perform import Task, Tell, perform
from headway.compare.scenario import Scenario
from headway.core.policy import Policy
from headway.estimates.history.history import History
from headway.experiment.learning.plan import ProofPlan, Window
from headway.experiment.learning.proof_windows import scenario, sources, teaching
from headway.experiment.learning.window_run import learning_run
from headway.learn.suites import suite_named
from headway.learn.training.candidate import Candidate, run_candidate
from headway.learn.training.train import Trained, TrainSettings, tasks_of, train
from headway.learn.tuning.runs import RunFigures, Runs, Setting, figures_of
from headway.learn.tuning.search import SearchSettings, score, search
from headway.policies.headway import Headway
from headway.policies.knobs import KNOBS
from headway.policies.learned import Learned
from headway.policies.registry import POLICIES
from headway.record.results import Outcome

KNOWING, OTHERS, TUNED_ELASTIC = "0, all-knowing", "beliefs of other origins", "elastic, tuned"
NOTHING_SET: Setting = ()
RIGID = ("srtf", "srsf", "first-fit", "las", "sjf")
ELASTIC_RANGES = {
    "favour": (0.0, 1.0), "margin": (0.0, 0.5), "cool_down": (10.0, 600.0), "cool_down_share": (0.0, 0.3),
    "restart": (5.0, 300.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Learnt:
    """What the parts that teach have given."""

    beliefs: Mapping[str, LearnedBeliefs]
    """By source."""
    others: Mapping[str, LearnedBeliefs]
    """By origin: of all other origins."""
    tuned: Mapping[str, Setting]
    """By whether sizes are chosen or fixed."""
    elastic: Setting
    networks: Mapping[int, Trained]
    """By seed."""


@dataclass(frozen=True, slots=True)
class ProofContext:
    plan: ProofPlan
    digest: str
    learnt: Learnt
    kept: KeptRuns | None


def labels(plan: ProofPlan, sizes: str) -> list[str]:
    seeds = [f"learned {seed}" for seed in plan.training.seeds]
    known = [KNOWING] if sizes == "chosen" else []
    return ["0", *known, "beliefs", OTHERS, "tuned", *seeds, *plan.baselines[sizes]]


def run_item(context: ProofContext, item: tuple[Window, str], tell: Tell) -> Outcome:
    """For `perform_all`."""
    before = kept_run(context, item)
    if before is not None:
        return before
    case = scenario(context.plan, context.digest, item[0])
    task, beliefs = arm(context, *item)
    found = perform(replace(case, beliefs=beliefs), task, tell)
    if context.kept is not None:
        context.kept.put(_name(context, item), found)
    return found


def kept_run(context: ProofContext, item: tuple[Window, str]) -> Outcome | None:
    """The run, if an earlier call has finished it."""
    return None if context.kept is None else context.kept.get(_name(context, item))


def _name(context: ProofContext, item: tuple[Window, str]) -> str:
    window, label = item
    case = scenario(context.plan, context.digest, window)
    task, beliefs = arm(context, window, label)
    return sha256(told_by(task, context.digest, window.name, content(case), beliefs.name).encode()).hexdigest()[:32]


def told_by(task: Task, *more: str) -> str:
    """Everything that a run depends on, the same in every process."""
    made_by = task.make.args if isinstance(task.make, partial) else ()
    return repr((*more, task.policy, made_by, task.estimates, task.rigid))


def arm(context: ProofContext, window: Window, label: str) -> tuple[Task, LearnedBeliefs]:
    """How a window runs under this label."""
    learnt = context.learnt
    beliefs = learnt.others[window.origin] if label == OTHERS else learnt.beliefs[window.source]
    if label in ("0", KNOWING):
        beliefs = NO_BELIEFS
    policy, settings, make = "headway", NOTHING_SET, None
    if label == "tuned":
        settings = learnt.tuned[window.sizes]
    elif label.startswith("learned "):
        make = partial(_learned, learnt.networks[int(label.split()[1])].candidate)
    elif label == TUNED_ELASTIC:
        policy, settings = "elastic", learnt.elastic
    elif label in POLICIES:
        policy = label
    task = Task(
        policy=label, make=make or partial(_made, policy, settings), rigid=policy in RIGID,
        estimates="oracle" if label == KNOWING else "progress",
    )  # fmt: skip
    return task, beliefs


def _made(policy: str, settings: Setting) -> Policy:
    return POLICIES[policy](**dict(settings))


def _learned(candidate: Candidate) -> Policy:
    return Learned(network=candidate.network())


# ── what is learnt before ───────────────────────────────────────────────────────────────────────────────────


def learn_all(plan: ProofPlan, digest: str, runs: Runs) -> Learnt:
    """Beliefs, tuned settings and networks."""
    cases = {source: teaching(plan, digest, source) for source in sources(plan)}
    origin = {group.source: group.origin for group in plan.windows}
    histories = {source: _taught(found, f"of {source}", runs) for source, found in cases.items()}
    others = {
        one: _taught([case for source, found in cases.items() if origin[source] != one for case in found],
                     f"not of {one}", runs)
        for one in dict.fromkeys(origin.values())
    }  # fmt: skip
    tuned = {sizes: _tuned(plan, [cases[source] for source in sources(plan, sizes)], runs)
             for sizes in ("chosen", "fixed") if sources(plan, sizes)}  # fmt: skip
    elastic = _tuned_elastic(plan, [cases[source] for source in sources(plan, "chosen")], runs)
    networks = {seed: trained(plan, seed, runs) for seed in plan.training.seeds}
    return Learnt(histories, others, tuned, elastic, networks)


def _taught(cases: list[Scenario], name: str, runs: Runs) -> LearnedBeliefs:
    """What these windows teach, one after the other. Kept beside the runs."""
    told = sha256(repr([source(), *(content(case) for case in cases)]).encode()).hexdigest()[:12]
    file = None if runs.file is None else runs.file.with_name(f"beliefs-{told}.json")
    if file is not None and file.exists():
        return replace(read_beliefs(file), name=f"{name} {told}")
    history = History()
    for case in cases:
        history = learning_run(case, Headway, history)[1]
    found = LearnedBeliefs(history, name=f"{name} {told}")
    if file is not None:
        write_beliefs(file, found)
    return found


def _mixed(plan: ProofPlan, groups: list[list[Scenario]]) -> list[Scenario]:
    """The first windows of each source by turns."""
    rows = [case for row in zip(*groups, strict=True) for case in row]
    return rows[: max(plan.tuning.windows, len(groups))]


def _tuned(plan: ProofPlan, groups: list[list[Scenario]], runs: Runs) -> Setting:
    """As `headway tune` searches, without beliefs: the same jobs taught them."""
    knobs = tuple(knob for knob in KNOBS if knob.acts != "deadlines")
    given = SearchSettings(knobs=knobs, present={}, budget=plan.tuning.budget, seed=1)
    mine = Runs(runs.executor, runs.file)
    return search(_mixed(plan, groups), given, mine).settings


def _tuned_elastic(plan: ProofPlan, groups: list[list[Scenario]], runs: Runs) -> Setting:
    """The same number of runs for `elastic`: settings drawn at random, the best on these windows."""
    windows = _mixed(plan, groups)
    chance = np.random.default_rng(1)
    count = max(1, plan.tuning.budget // len(windows))
    drawn: list[Setting] = [(), *(_drawn_elastic(chance) for _ in range(count - 1))]
    mine = Runs(runs.executor, runs.file, run_elastic)
    found = mine.all(windows, [("elastic", one) for one in drawn])
    base, given = found["elastic", ()], SearchSettings(knobs=(), present={})
    return min(drawn, key=lambda one: score(found["elastic", one], base, given))


def _drawn_elastic(chance: np.random.Generator) -> Setting:
    """Ranges that begin above zero go by ratios."""
    return tuple(
        (name, round(float(low * (high / low) ** chance.random() if low > 0 else chance.uniform(low, high)), 3))
        for name, (low, high) in ELASTIC_RANGES.items()
    )


def run_elastic(case: Scenario, tried: tuple[str, Setting]) -> RunFigures:
    task = Task(policy="elastic", make=partial(_made, *tried), estimates="progress")
    return figures_of(perform(case, task))


def trained(plan: ProofPlan, seed: int, runs: Runs) -> Trained:
    given = plan.training
    suites = [suite_named(name) for name in given.suites]
    tasks, by = tasks_of(suites, "train", given.tasks), tasks_of(suites, "validation", given.validate)
    mine = Runs(runs.executor, runs.file, run_candidate)
    return train(tasks, by, TrainSettings(budget=given.budget, seed=seed), mine)
