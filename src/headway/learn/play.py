"""One episode of an environment: who decides until the agent is asked, what was earned meanwhile, when it is over.

All three environments are made of a `Play`, a sight and a way to read actions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from headway.compare.perform import Task
from headway.compare.scenario import Scenario
from headway.core.draft import Draft
from headway.core.errors import UserError
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.learn.episode import BaseCourse, Episode, course_of
from headway.learn.line import WaitingLine
from headway.learn.rewards import JobSeconds, Reward
from headway.learn.sight import Sight
from headway.learn.suites import PARTS, Suite, suite_named
from headway.policies.baselines.fifo import first_fit

OPTIONS = ("task", "scenario", "world_seed", "warm_up", "warm_up_policy", "log", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What all episodes of an environment share: the arguments of `gymnasium.make`."""

    suite: Suite | str = "fixed-v1"
    part: str = "train"
    """`train`, `validation` or `test`."""
    estimates: str = "progress"
    """Where beliefs come from: progress, declared, linear or none."""
    reward: Reward = field(default_factory=JobSeconds)
    warm_up: float = 0.25
    """The agent takes over when this share of the jobs has arrived: episodes start busy. Until it is first asked,
    `warm_up_policy` decides."""
    warm_up_policy: Policy = first_fit
    horizon: float = math.inf
    """Seconds of virtual time after the handover at which an episode is truncated."""

    def __post_init__(self) -> None:
        if not 0 <= self.warm_up <= 1:
            raise UserError(f"warm_up {self.warm_up}: give a share of the jobs, from 0 to 1")
        if not self.horizon > 0:
            raise UserError(f"horizon {self.horizon}: give seconds above 0")

    def begin(self, random: np.random.Generator, options: dict[str, Any] | None) -> Play:
        """Draws the task and begins it. All randomness comes from the generator."""
        chosen = dict(options or {})
        wrong = next((name for name in chosen if name not in OPTIONS), None)
        if wrong is not None:
            raise UserError(f"options {wrong}: there are the options {', '.join(OPTIONS)}")
        suite = suite_named(self.suite) if isinstance(self.suite, str) else self.suite
        if self.part not in PARTS:
            raise UserError(f"part {self.part}: choose one of {', '.join(PARTS)}")
        drawn, seed = int(random.integers(suite.sizes[self.part])), int(random.integers(2**31))
        number = int(chosen.get("task", drawn))
        scenario: Scenario = chosen.get("scenario") or suite.scenario(self.part, number)
        warm = replace(
            self, warm_up=float(chosen.get("warm_up", self.warm_up)),
            warm_up_policy=chosen.get("warm_up_policy", self.warm_up_policy),
        )  # fmt: skip
        policy = warm.warm_up_policy
        task = Task(
            policy=str(chosen.get("name", "agent")), make=lambda: policy, estimates=self.estimates,
            seed=int(chosen.get("world_seed", seed)),
        )  # fmt: skip
        log = chosen.get("log")
        about = {"task": number, "part": self.part, "suite": suite.name, "world_seed": task.seed}
        return Play(warm, scenario, task, None if log is None else Path(log), about)


class Play:
    """`earned` is the reward since it was last taken; `snapshot` is None when nothing is left to decide."""

    def __init__(self, rules: Rules, scenario: Scenario, task: Task, log: Path | None, about: dict[str, Any]) -> None:
        self.rules, self.scenario, self.task, self.about = rules, scenario, task, about
        self.episode = self._handed_over(Episode(scenario, task, log))
        self.began = self.episode.now
        self._horizon = self.began + rules.horizon
        self.earned = 0.0
        self._meter = rules.reward.begin(self._run_from_here)
        self._view: Sight | None = None
        self.line = WaitingLine()
        """The jobs that wait and about which the draft has not decided."""
        self.draft: Draft
        """The plan of the present cycle, as far as it is made. There is none once nothing is left to decide."""
        self.over = False
        """Nothing is left to decide, or the horizon is reached."""
        self._open_cycle()

    def _handed_over(self, episode: Episode) -> Episode:
        """Decides by the warm-up's policy until enough jobs have arrived."""
        wanted = self.rules.warm_up * len(self.scenario.trace.jobs)
        while episode.bare is not None and arrived(episode.bare) < wanted:
            episode.carry_out(self.rules.warm_up_policy)
        return episode

    def _run_from_here(self, policy: Policy) -> BaseCourse:
        return course_of(self._handed_over(Episode(self.scenario, self.task)), policy)

    @property
    def snapshot(self) -> Snapshot | None:
        """With the estimates that the log keeps, for policies."""
        return self.episode.snapshot

    @property
    def view(self) -> Sight:
        """What may be seen in this cycle."""
        if self._view is None:
            self._view = Sight(self.episode.seen(), self.line)
        return self._view

    @property
    def finished(self) -> int:
        """Jobs that are over."""
        snapshot = self.episode.bare
        return 0 if snapshot is None else arrived(snapshot) - self.episode.jobs

    @property
    def terminated(self) -> bool:
        return self.episode.bare is None and not self.episode.jobs

    @property
    def truncated(self) -> bool:
        """The horizon is reached, or jobs are left that nothing can start."""
        return self.over and not self.terminated

    @property
    def may_wait(self) -> bool:
        return may_wait(self.draft)

    def close_cycle(self, policy: Policy | None = None) -> None:
        """Carries out the draft, or what the policy decides instead, and goes on to the next cycle."""
        episode = self.episode
        span = episode.carry_out_legal(self.draft.plan()) if policy is None else episode.carry_out(policy)
        self.earned += self._meter(span)
        self._open_cycle()

    def take_earned(self) -> float:
        earned, self.earned = self.earned, 0.0
        return earned

    def _open_cycle(self) -> None:
        episode, self._view = self.episode, None
        snapshot = episode.bare
        self.over = snapshot is None or snapshot.now >= self._horizon
        if snapshot is None:
            return
        self.draft = Draft(snapshot)
        self.line.note(snapshot)
        if self.over:
            episode.close()


def may_wait(draft: Draft) -> bool:
    """Waiting is no choice while nothing runs or begins: time would not go on."""
    return bool(draft.snapshot.placements or draft.snapshot.flights or draft.decided_rows())


def arrived(snapshot: Snapshot) -> int:
    """Jobs that have ever arrived: rows may be renumbered, arrival numbers are not."""
    jobs = snapshot.jobs
    return jobs.serial_of(jobs.count - 1) + 1 if jobs.count else 0
