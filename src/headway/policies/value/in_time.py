"""Will this job meet its deadline? Asked before it runs and while it does, and answered with the smallest size that is
in time or with what would make it possible.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

from headway.core.estimates import Counts
from headway.core.snapshot import Snapshot
from headway.core.text import lasting
from headway.policies.value.deadlines import Calendar, DeadlineNeed, deviations, hopeful, most_in_time, needs


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
    give: float = 0.0
    """By how many seconds it may be earlier or later, with the confidence that was asked for."""
    remedy: str = ""
    """What would make it possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """How carefully deadlines are promised: settings of the same names of the policy `deadline`."""

    restart: float
    hopeless: float
    packing: float
    confidence: float


def in_time(snapshot: Snapshot, row: int, promises: Promises) -> Answer:
    """For a job of the snapshot, beside all other jobs. Its first reports tell where nothing is known of it."""
    rows = [*snapshot.jobs.running().tolist(), *snapshot.jobs.waiting().tolist()]
    found = needs(snapshot, rows if row in rows else [*rows, row], promises.restart)
    need = found[row]
    if math.isinf(need.deadline):
        return Answer(verdict=Verdict.YES, sentence="It has no deadline, so it cannot miss one.")
    answer = _alone(need, snapshot.now, promises) or _beside(found, need, snapshot.now, promises)
    if need.known:
        return answer
    size = f", and planned with {_size(answer.counts)}" if answer.counts else ""
    return replace(
        answer, verdict=Verdict.UNKNOWN,
        sentence="It has not shown its pace: its first reports will. Until then it is taken to need about "
        f"{lasting(need.work)}, as its deadline suggests{size}.",
        remedy="reports of its steps, or its seconds declared",
    )  # fmt: skip


def _alone(need: DeadlineNeed, now: float, promises: Promises) -> Answer | None:
    """No, where the job would be late even with the whole cluster to itself."""
    until, largest = need.deadline - now, need.counts[-1]
    chance = need.chance(until)
    if chance >= max(promises.hopeless, 1e-12):
        return None
    takes = need.seconds(len(need.counts) - 1)
    return Answer(
        verdict=Verdict.NO, done_at=now + takes, give=_give(need, takes, promises),
        sentence=f"Not possible: with all of {_size(largest)} it is done in {lasting(takes)} at the earliest; "
        f"{lasting(max(until, 0.0))} are left (chance {chance:.0%}).".replace("%", " %"),
        remedy=f"a deadline at least {takes - until:.0f} seconds later, or a larger max than {_size(largest)}",
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
    run, reserve = None, deviations(promises.confidence)
    if need.row in chosen:
        run = calendar.promise(need, need.deadline, reserve)
        reserve = 0.0 if run is None else reserve
        run = run or calendar.promise(need, need.deadline)
    if run is not None:
        size = need.counts[max(int(run.sizes.max()), 0)]
        takes = need.delay + (run.end - now - need.delay) * math.exp(-reserve * need.spread)
        give = _give(need, takes, promises)
        about = f" ± {lasting(give)}" if give >= 1.0 else ""
        return Answer(
            verdict=Verdict.YES, counts=size, done_at=now + takes, give=give,
            sentence=f"In time with {_size(size)}: done in {lasting(takes)}{about}, "
            f"{lasting(need.deadline - now - takes)} before its deadline.",
        )  # fmt: skip
    late = max(soonest - need.deadline, 0.0)
    remedy = f"a deadline at least {late:.0f} seconds later" if 0 < late < math.inf else "a smaller job, or more nodes"
    earliest = f": done in {lasting(soonest - now)} at the earliest" if math.isfinite(soonest) else ""
    return Answer(
        verdict=Verdict.NO, done_at=soonest, remedy=remedy, give=_give(need, soonest - now, promises),
        sentence=f"Not possible beside {before} jobs that are promised theirs before{earliest}; its deadline is in "
        f"{lasting(need.deadline - now)}.",
    )  # fmt: skip


def _give(need: DeadlineNeed, seconds: float, promises: Promises) -> float:
    """By how many seconds the end may be off."""
    return deviations(promises.confidence) * need.spread * max(seconds - need.delay, 0.0)


def _size(counts: Counts) -> str:
    return " + ".join(str(count) for count in counts) + (" replicas" if sum(counts) != 1 else " replica")
