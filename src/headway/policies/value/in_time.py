"""Will this job meet its deadline? Asked before it runs, and answered with what would make it possible."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from headway.core.estimates import Counts
from headway.core.snapshot import Snapshot
from headway.policies.value.deadlines import Calendar, DeadlineNeed, hopeful, most_in_time, needs

TRIAL_MINUTES = 10.0
"""How long a job must run and report until its length is known."""


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
    """The min size that is in time, where there is one."""
    done_at: float = math.nan
    """When the job would be done: at that size or, where it would be late, as soon as possible. Infinite where the
    cluster cannot hold it."""
    remedy: str = ""
    """What would make it possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """How carefully deadlines are promised: settings of the same names of the policy `deadline`."""

    restart: float
    hopeless: float
    packing: float


def in_time(snapshot: Snapshot, row: int, promises: Promises) -> Answer:
    """For a job of the snapshot, beside all other jobs. Where nothing is known of the job, the answer is a trial."""
    rows = [*snapshot.jobs.running().tolist(), *snapshot.jobs.waiting().tolist()]
    found = needs(snapshot, rows if row in rows else [*rows, row], promises.restart)
    need = found[row]
    if math.isinf(need.deadline):
        return Answer(verdict=Verdict.YES, sentence="It has no deadline, so it cannot miss one.")
    if math.isnan(need.work):
        return Answer(
            verdict=Verdict.UNKNOWN,
            sentence=f"Nothing is known of how long it takes: that needs a trial of {TRIAL_MINUTES:g} minutes.",
            remedy=f"run it for {TRIAL_MINUTES:g} minutes with its steps reported, or declare its seconds",
        )
    return _alone(need, snapshot.now, promises) or _beside(found, need, snapshot.now, promises)


def _alone(need: DeadlineNeed, now: float, promises: Promises) -> Answer | None:
    """No, where the job would be late even with the whole cluster to itself."""
    until, most = need.deadline - now, need.counts[-1]
    chance = need.chance(until)
    if chance >= max(promises.hopeless, 1e-12):
        return None
    takes = need.seconds(len(need.counts) - 1)
    return Answer(
        verdict=Verdict.NO, done_at=now + takes,
        sentence=f"Alone and in its fastest size, {_size(most)}, it takes {takes:.0f} seconds; {until:.0f} are left "
        f"(chance {chance:.0%}).",
        remedy=f"a deadline at least {takes - until:.0f} seconds later, or a larger most than {_size(most)}",
    )  # fmt: skip


def _beside(found: dict[int, DeadlineNeed], need: DeadlineNeed, now: float, promises: Promises) -> Answer:
    """Beside jobs that were promised their deadline before: earlier deadlines first, as the policy plans them."""
    calendar = Calendar(now)
    others = hopeful(found.values(), now, promises.hopeless)
    chosen = most_in_time(others, now, promises.packing)
    before = 0
    for other in others:
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
    remedy = f"a deadline at least {late:.0f} seconds later" if 0 < late < math.inf else "a smaller job, or more nodes"
    return Answer(
        verdict=Verdict.NO, done_at=soonest, remedy=remedy,
        sentence=f"Beside {before} jobs that are promised theirs before, there is not enough until its deadline in "
        f"{need.deadline - now:.0f} seconds.",
    )  # fmt: skip


def _size(counts: Counts) -> str:
    return " + ".join(str(count) for count in counts) + (" replicas" if sum(counts) != 1 else " replica")
