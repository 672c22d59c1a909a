"""Will this job be in time? Asked before it runs, answered with what would make it possible. Pure."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from headway.core.estimates import Counts
from headway.core.snapshot import Snapshot
from headway.policies.deadline import Deadline
from headway.policies.value.deadlines import Calendar, DeadlineNeed, most_in_time, needs


class Verdict(enum.StrEnum):
    """Stable: scripts may rely on these."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    verdict: Verdict
    sentence: str
    counts: Counts = ()
    """The least satisfactory size, where there is one."""
    done_at: float = math.nan
    """When it would be done: in that size or, where it would be late, as soon as it can be."""
    remedy: str = ""
    """What would make it possible."""


def admission(policy: Deadline, snapshot: Snapshot, row: int, trial_minutes: float = 10.0) -> Answer:
    """For a job of the snapshot, beside everybody who is there. A trial is asked for where nothing is known of it."""
    rows = [*snapshot.jobs.running().tolist(), *snapshot.jobs.waiting().tolist()]
    found = needs(snapshot, rows if row in rows else [*rows, row], policy.restart)
    need = found[row]
    if math.isinf(need.deadline):
        return Answer(verdict=Verdict.YES, sentence="It has no deadline, so that it cannot miss one.")
    if math.isnan(need.work):
        return Answer(
            verdict=Verdict.UNKNOWN,
            sentence=f"Nothing is known of how long it takes: that needs a trial of {trial_minutes:g} minutes.",
            remedy=f"run it for {trial_minutes:g} minutes with its steps reported, or declare its seconds",
        )
    return _alone(need, snapshot.now, policy) or _beside(found, need, snapshot.now, policy)


def _alone(need: DeadlineNeed, now: float, policy: Deadline) -> Answer | None:
    """No, where even the whole cluster would not do."""
    until, most = need.deadline - now, need.counts[-1]
    chance = need.chance(until)
    if chance >= max(policy.hopeless, 1e-12):
        return None
    takes = need.seconds(len(need.counts) - 1)
    return Answer(
        verdict=Verdict.NO, done_at=now + takes,
        sentence=f"Alone and in its fastest size, {_size(most)}, it takes {takes:.0f} seconds; {until:.0f} are left "
        f"(chance {chance:.0%}).",
        remedy=f"a deadline at least {takes - until:.0f} seconds later, or a larger most than {_size(most)}",
    )  # fmt: skip


def _beside(found: dict[int, DeadlineNeed], need: DeadlineNeed, now: float, policy: Deadline) -> Answer:
    """Beside those who were promised already; earlier deadlines first, as the policy lays them."""
    calendar = Calendar(now)
    hopeful = [other for other in found.values() if math.isfinite(other.deadline) and not math.isnan(other.work)
               and other.chance(other.deadline - now) >= policy.hopeless]  # fmt: skip
    chosen = most_in_time(hopeful, now, policy.packing)
    before = 0
    for other in sorted(hopeful, key=lambda other: (other.deadline, other.row)):
        if other.row == need.row:
            break
        before += other.row in chosen and calendar.promise(other, other.deadline) is not None
    soonest = calendar.planned(need, len(need.counts) - 1).end
    run = calendar.promise(need, need.deadline) if need.row in chosen else None
    if run is not None:
        size = need.counts[max(int(run.sizes.max()), 0)]
        return Answer(
            verdict=Verdict.YES, counts=size, done_at=run.end,
            sentence=f"Yes, with {_size(size)}: done {need.deadline - run.end:.0f} seconds before its deadline.",
        )  # fmt: skip
    late = max(soonest - need.deadline, 0.0)
    remedy = f"a deadline at least {late:.0f} seconds later" if late > 0 else "a smaller job, or more nodes"
    return Answer(
        verdict=Verdict.NO, done_at=soonest, remedy=remedy,
        sentence=f"Beside {before} jobs that are promised theirs before, there is not enough until its deadline in "
        f"{need.deadline - now:.0f} seconds.",
    )  # fmt: skip


def _size(counts: Counts) -> str:
    return " + ".join(str(count) for count in counts) + (" replicas" if sum(counts) != 1 else " replica")
