"""Runs of one window under some settings: what is measured, on which executor, and kept so that a second start goes on.

The file of runs has a line for each finished run: a digest of the window, the settings and Headway's version, and the
figures. A killed search finds them again, because the same seed proposes the same settings.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from headway.compare.kept_runs import RunsFile, content, source
from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.policies.headway import Headway
from headway.record.results import Outcome

SLOWEST = 0.05
"""The tail: this share of the jobs, those that took longest."""


class RunFigures(NamedTuple):
    """Of one run. All are better when smaller."""

    mean: float
    """Completion time in seconds."""
    slowest: float
    """Mean completion time of the slowest 5 %."""
    p99: float
    finish_time: float
    """p95 of finish-time fairness: completion time over what an equal share would have given."""
    worst_user: float
    """Mean slowdown of the user who has the largest."""
    unfinished: int


TAILS = ("slowest", "p99")
FAIRNESS = {"finish-time": "finish_time", "worst-user": "worst_user"}
"""Figures of fairness by the name that users give."""
Setting = tuple[tuple[str, float], ...]
"""Settings that differ from the default ones, sorted by name."""
Tried = TypeVar("Tried", bound=Hashable)
"""What is tried on windows: settings, or a network."""


def run_window(scenario: Scenario, settings: Setting) -> RunFigures:
    """One window from beginning to end under the default policy with these settings. Called in other processes."""
    task = Task(policy="headway", make=partial(_made, settings), estimates="progress")
    return figures_of(perform(scenario, task))


def _made(settings: Setting) -> Headway:
    chosen: dict[str, Any] = dict(settings)
    return Headway(**chosen)


def figures_of(done: Outcome) -> RunFigures:
    times = np.sort(done.completion[done.finished])
    if not len(times):
        worst = float("inf")
        return RunFigures(worst, worst, worst, worst, worst, len(done.completion))
    result = done.result
    users = [group["slowdown"]["mean"] for group in result["users"].values() if group["slowdown"]["mean"] is not None]
    return RunFigures(
        mean=float(times.mean()),
        slowest=float(times[-max(1, round(SLOWEST * len(times))) :].mean()),
        p99=float(result["jct"]["p99"]),
        finish_time=float(result["fairness"]["p95"]),
        worst_user=float(max(users, default=result["slowdown"]["mean"])),
        unfinished=int(len(done.completion) - len(times)),
    )


# ── all runs of a search ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Runs:
    """Makes runs, each once. `tell` is called after each with the number of runs so far."""

    executor: Executor
    file: Path | None = None
    run: Callable[[Scenario, Any], RunFigures] = run_window
    tell: Callable[[int], None] = lambda _: None
    made: int = 0
    """Runs that were needed so far, kept ones included."""
    fresh: int = 0
    """Runs that were made by this process."""
    _kept: RunsFile = field(init=False)
    _digests: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kept = RunsFile(self.file)

    def all(self, windows: Sequence[Scenario], candidates: Sequence[Tried]) -> dict[Tried, list[RunFigures]]:
        """Every candidate on every window."""
        wanted = {
            (settings, number): self._key(case, settings)
            for settings in dict.fromkeys(candidates) for number, case in enumerate(windows)
        }  # fmt: skip
        known = {key: found for key in wanted.values() if (found := self._known(key)) is not None}
        futures: dict[Future[RunFigures], str] = {}
        for (settings, number), key in wanted.items():
            if key not in known and key not in futures.values():
                futures[self.executor.submit(self.run, windows[number], settings)] = key
        self.made += len(wanted) - len(futures)
        for future in as_completed(futures):
            found = known[futures[future]] = RunFigures(*future.result())
            self._kept.put(futures[future], found._asdict())
            self.made, self.fresh = self.made + 1, self.fresh + 1
            self.tell(self.made)
        self.tell(self.made)
        return {
            settings: [known[wanted[settings, number]] for number in range(len(windows))]
            for settings in dict.fromkeys(candidates)
        }

    def _key(self, case: Scenario, settings: Hashable) -> str:
        if id(case) not in self._digests:
            self._digests[id(case)] = content(case)
        return sha256(repr((self._digests[id(case)], settings, source())).encode()).hexdigest()[:24]

    def _known(self, key: str) -> RunFigures | None:
        said = self._kept.get(key)
        if said is None or any(name not in said for name in RunFigures._fields):
            return None
        return RunFigures(**{name: said[name] for name in RunFigures._fields})
