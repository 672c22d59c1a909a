"""On which type of accelerators jobs with deadlines are to run now, so that most are in time.

Example: a job takes 1,000 seconds on a V100 and 5,000 on a K80, and has 4,000 left. It is planned on a V100 alone. With
6,000 left it is planned on a K80 where V100s are dear, because jobs with deadlines want more of them than there is.

Each type has a calendar of its own. The earliest deadline is planned first: where the job runs, if it is in time there;
else on the type that costs least, by prices at which these jobs would load all types equally.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot
from headway.policies.value.deadlines import Calendar, DeadlineNeed, PlannedRun, deviations, hopeful, most_in_time
from headway.policies.value.lists import Demand, Types, prices
from headway.policies.value.supposed import Supposed, supposed
from headway.policies.value.times import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineTerms:
    """The settings that matter here."""

    share: float
    """Of each type, for jobs with deadlines; more where a larger part of what is asked for is theirs."""
    confidence: float
    restart: float
    margin: float
    hopeless: float
    packing: float


def types_in_time(
    snapshot: Snapshot, rows: Rows, demand: Demand, times: FloatArray, bound: BoolArray, terms: DeadlineTerms
) -> Types:
    """By job of the demand: the type on which it is to run now; -1 where it has no deadline, would be late or has its
    turn later.

    `times`: (jobs, types), seconds for each second left. `bound`: jobs that hold their room until they end.
    """
    found, deadline = np.full(len(rows), -1), snapshot.jobs.deadline[rows]
    if not np.isfinite(deadline).any():
        return found
    left, spread, known = supposed(snapshot)
    told = Supposed(left[rows], spread[rows], known[rows])
    seconds = np.where(demand.fits, np.maximum(told.left[:, None] * times, 1.0), np.inf)
    dated = (np.isfinite(deadline) & ~np.isnan(told.left) & ~(bound & (demand.at >= 0))).nonzero()[0]
    if not len(dated):
        return found
    room = max(terms.share, float(demand.width[dated].sum() / demand.width.sum()))
    price = prices(demand.only(dated))
    needs = [
        DeadlineNeed(
            job, [(kind,) for kind in kinds], price[kinds] * demand.width[job], 1.0 / seconds[job, kinds], 1.0,
            float(told.spread[job]), 0.0 if demand.at[job] >= 0 else terms.restart, float(deadline[job]),
            bool(told.known[job]),
        )
        for job in dated.tolist()
        if (kinds := _worthwhile(price, seconds[job]))
    ]  # fmt: skip
    candidates = hopeful(needs, snapshot.now, terms.hopeless)
    feasible = most_in_time(candidates, snapshot.now, terms.packing * room)
    plan = _Plan(snapshot.now, demand, seconds, terms, _calendars(snapshot.now, demand, seconds, bound, room))
    for need in candidates:
        if need.row in feasible:
            kinds = np.argsort(price * seconds[need.row], kind="stable").tolist()
            here = int(demand.at[need.row])
            promised = plan.promise(need, [here] if here >= 0 else []) or plan.promise(need, kinds)
            if promised is not None and promised[1].now >= 0:
                found[need.row] = promised[0]
    for need in candidates:
        if found[need.row] >= 0:
            found[need.row] = plan.faster(need, int(found[need.row]))
    return found


def _worthwhile(price: FloatArray, seconds: FloatArray) -> list[int]:
    """Types that are faster than every cheaper one, the cheapest first."""
    kinds = list[int]()
    for kind in np.argsort(price, kind="stable").tolist():
        if seconds[kind] < min((seconds[cheaper] for cheaper in kinds), default=np.inf):
            kinds.append(kind)
    return kinds


def _calendars(now: float, demand: Demand, seconds: FloatArray, bound: BoolArray, room: float) -> list[Calendar]:
    """By type: the time ahead, less what jobs hold that nobody may stop. `room` is rounded up to an accelerator."""
    calendars = []
    for kind, slots in enumerate(demand.slots.tolist()):
        calendar = Calendar(now)
        for job in (bound & (demand.at == kind)).nonzero()[0].tolist():
            left = seconds[job, kind]
            calendar.take(demand.width[job] / slots, now + (3600.0 if np.isnan(left) else float(left)))
        most = np.ceil(room * slots) / slots
        calendar.left = [min(one, most) for one in calendar.left]
        calendars.append(calendar)
    return calendars


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    now: float
    demand: Demand
    seconds: FloatArray
    terms: DeadlineTerms
    calendars: list[Calendar]

    def promise(self, need: DeadlineNeed, kinds: list[int]) -> tuple[int, PlannedRun] | None:
        """The first of these types on which the job is in time, as surely as is possible on any of them."""
        careful, reserve = self._careful(need)
        for until, more in ((careful, reserve), (careful, 0.0), (need.deadline, 0.0)):
            for kind in kinds:
                run = self.calendars[kind].promise(self._on(need, kind), until, more)
                if run is not None:
                    return kind, run
        return None

    def faster(self, need: DeadlineNeed, kind: int) -> int:
        """Another type that nobody with a deadline needs now, where that saves two restarts; else the same."""
        took = self.seconds[need.row]
        saves = took[kind] - took - 2.0 * self.terms.restart
        for other in np.argsort(took, kind="stable").tolist():
            there, calendar = self._on(need, other), self.calendars[other]
            if saves[other] > 0.0 and calendar.planned(there, 0).now >= 0:
                return other if calendar.promise(there, *self._careful(need)) else kind
        return kind

    def _careful(self, need: DeadlineNeed) -> tuple[float, float]:
        """With time in reserve, and more work than it is taken to be."""
        until = self.now + (need.deadline - self.now) * (1.0 - self.terms.margin)
        return until, deviations(self.terms.confidence)

    def _on(self, need: DeadlineNeed, kind: int) -> DeadlineNeed:
        """The same on one type, as a share of it."""
        share, here = self.demand.width[need.row] / self.demand.slots[kind], self.demand.at[need.row] == kind
        return DeadlineNeed(
            need.row, [(kind,)], np.array([share]), np.ones(1), float(self.seconds[need.row, kind]), need.spread,
            0.0 if here else self.terms.restart, need.deadline, need.known,
        )  # fmt: skip
