"""When jobs start and end, as ranges that hold four outcomes of five: from many possible futures."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import numpy as np

from headway.core.job import JobId
from headway.core.node import FloatArray
from headway.core.policy import Policy
from headway.core.states import State
from headway.estimates.history.change_costs import ALL, ChangeCosts, Usual
from headway.forecast.ahead import Times, ahead, draw
from headway.forecast.present import Present
from headway.forecast.times import Eta, Forecast, Range
from headway.sim.world import Costs

DRAWS = 40
"""Futures of which a range is made, if the time allows."""
FIRST_DRAWS = 8
"""The same for the first look of a run, of which least is known: the next one comes soon."""
BUDGET_SECONDS = 1.5
"""How long a command looks ahead."""
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9


def forecast(
    present: Present, policy: Policy, *, safe: Policy | None = None, draws: int = DRAWS,
    budget: float = BUDGET_SECONDS, clock: Callable[[], float] = time.monotonic,
) -> Forecast:  # fmt: skip
    """One pass at least, and further ones up to `draws` as long as `budget` seconds of this clock are not over.

    The first pass takes the middle of what is believed. It counts only where there is no time for others.
    """
    until, chance = clock() + budget, np.random.default_rng(0)
    found = [ahead(present, policy, draw(present, None), safe)]
    while len(found) <= draws and clock() < until:
        times = ahead(present, policy, draw(present, chance), safe, lambda: clock() > until)
        if clock() <= until:
            found.append(times)
    return _summary(present, found[1:] if len(found) > 1 else found)


def _summary(present: Present, found: list[Times]) -> Forecast:
    jobs, etas = present.jobs, dict[JobId, Eta]()
    waits = {jobs.job(row).id: jobs.state_of(row) in (State.WAITING, State.STARTING) for row in range(jobs.count)}
    waits |= {job.id: True for job in present.to_come}
    ends = np.array([[times.ends.get(job, np.inf) for job in waits] for times in found])
    starts = np.array([[times.starts.get(job, np.inf) for job in waits] for times in found])
    for number, (job, waiting) in enumerate(waits.items()):
        etas[job] = Eta(_range(starts[:, number]) if waiting else None, _range(ends[:, number]))
    return Forecast(present.snapshot.now, etas, _range(ends.max(axis=1)) if waits else None, len(found))


def _range(moments: FloatArray) -> Range:
    low, mid, high = np.quantile(moments, (LOW, MIDDLE, HIGH), method="inverted_cdf").tolist()
    return Range(low, mid, high)


def usual_costs(seen: ChangeCosts, start: float, save: float) -> Costs:
    """What starts and stops usually take, as far as that was seen; else as given."""
    begins = _usually(seen.starts, start)
    return Costs(start=begins, scale=begins, save=_usually(seen.stops, save), resize=1.0)


def _usually(usual: Usual, untold: float) -> float:
    seconds = usual[ALL].seconds if ALL in usual else None
    return untold if seconds is None else seconds


class Background:
    """Looks ahead in a thread, again and again, at most a small share of the time. Whoever decides never waits for it.

    Its policy must be its own: another object than the one that decides.
    """

    SHARE = 0.05
    """Of one core."""
    EVERY = 2.0
    BUDGET = 20.0
    """Seconds of the processor for the ranges of a long queue: on a machine that trains, others take most of them."""

    def __init__(
        self, policy: Callable[[], Policy], safe: Policy | None = None, told: Callable[[], None] = lambda: None
    ) -> None:
        """`told` is called in the thread, each time it has looked."""
        self._make, self._safe, self._told = policy, safe, told
        self._policy: Policy | None = None
        self._thread: threading.Thread | None = None
        self._next, self._looks = 0.0, False
        self.newest: Forecast | None = None

    @property
    def due(self) -> bool:
        """Whether it would look at another present now."""
        return self.due_in == 0.0

    @property
    def due_in(self) -> float:
        """Seconds until it would look at another present; infinite while it looks."""
        return math.inf if self._looks else max(0.0, self._next - time.monotonic())

    def look(self, present: Callable[[], Present]) -> None:
        """Begins to look ahead, if that is due. `present` is asked at once, in the caller's thread. Where no thread can
        be started now, it is due again later.
        """
        if self.due:
            found = present()
            self._looks = True
            self._thread = threading.Thread(target=self._run, args=(found,), name="headway-eta", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._next, self._looks = time.monotonic() + self.EVERY, False

    def _run(self, present: Present) -> None:
        began = time.thread_time()
        try:
            self._policy = self._policy or self._make()
            draws = FIRST_DRAWS if self.newest is None else DRAWS
            self.newest = forecast(
                present, self._policy, safe=self._safe, draws=draws, budget=self.BUDGET, clock=time.thread_time
            )
        except Exception:  # noqa: BLE001  a policy may be anyone's; a run goes on without a forecast
            self.newest = None
        self._next = time.monotonic() + max(self.EVERY, (time.thread_time() - began) / self.SHARE)
        self._looks = False
        self._told()
