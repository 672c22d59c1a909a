"""The gang rule: facts about the replicas of a job in, a verdict out. Pure; the same rule for every cluster.

Example: a job has one `ps` and two `worker` replicas. One worker ends with exit code 0: the gang goes on. The second
ends with 0, too: the job has succeeded, and the `ps`, which never ends by itself, is ended after the grace time. A
worker that is killed by SIGKILL is a loss: the gang starts again from its checkpoint. A worker that ends with exit code
1 fails the job. docs/gangs.md has the table of cases; tests/gang_cases.py runs it against all three clusters.
"""

from __future__ import annotations

import enum
import math
import signal
import statistics
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from headway.core.job import Job, JobId
from headway.core.plan import Action, Stop
from headway.core.text import lasting

ReplicaKey = tuple[str, int]
"""Role and index: which replica of a job."""
GRACE_SECONDS = 10.0
"""How long the other replicas may go on after the job has succeeded."""
SETTLE_SECONDS = 2.0
"""How long the rule waits after a replica failed: if another replica is lost meanwhile, that is the cause."""
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_BACK_OFF_SECONDS = 60.0


# ── how one replica ended ───────────────────────────────────────────────────────────────────────────────────

_SIGNALLED = 128
"""A program that is killed by signal N has exit code 128 + N, as in a shell."""
LOSS_SIGNALS = frozenset({
    signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
})  # fmt: skip
"""Signals that others send: a loss. Death by another signal (SEGV, ABRT, …) is the program's own fault."""


class Phase(enum.Enum):
    PENDING = "pending"
    """It does not run yet."""
    UP = "up"
    DONE = "done"
    """Its program ended well."""
    FAILED = "failed"
    """Its program ended by its own fault."""
    LOST = "lost"
    """It was killed, evicted, or its node is gone: not its program's fault."""
    REFUSED = "refused"
    """Its node would not run it."""


def phase_of_exit(code: int, *, out_of_memory: bool = False) -> Phase:
    """What an exit code means. Codes 1 to 128, 255 and unknown ones are the script's own fault."""
    if out_of_memory:
        return Phase.FAILED
    if code == 0:
        return Phase.DONE
    return Phase.LOST if code - _SIGNALLED in LOSS_SIGNALS else Phase.FAILED


def exit_sentence(name: str, code: int) -> str:
    """Example: `worker-1 was killed by signal 9 (SIGKILL)`."""
    number = code - _SIGNALLED
    if 0 < number < signal.NSIG and number in set(signal.Signals):
        return f"{name} was killed by signal {number} ({signal.Signals(number).name})"
    return f"{name} ended with exit code {code}"


# ── the gang ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ReplicaFact:
    """One replica as its cluster sees it now."""

    role: str
    index: int
    phase: Phase
    ended_at: float = 0.0
    """On the cluster's clock; of a replica that is over."""
    why: str = ""
    """Why it ended, in a sentence."""
    is_cause: bool = False
    """It is the cause why others ended: it ran out of memory."""
    settle: float = SETTLE_SECONDS
    """How long its failure may still turn out to follow from the loss of another."""

    @property
    def is_sound(self) -> bool:
        """It counts towards a whole gang."""
        return self.phase in (Phase.PENDING, Phase.UP, Phase.DONE)

    @property
    def is_over(self) -> bool:
        return self.phase not in (Phase.PENDING, Phase.UP)


class GangState(enum.Enum):
    WHOLE = "whole"
    """All replicas are up, or have ended well."""
    WAIT = "wait"
    """Some replicas are not up yet. Or one has ended, and the rule waits until `until` for the others."""
    DONE = "done"
    """The job has succeeded; replicas that still run are to be ended."""
    FAILED = "failed"
    LOST = "lost"
    """The gang starts again from its checkpoint, unless that happens too often."""


@dataclass(frozen=True, slots=True)
class GangVerdict:
    state: GangState
    why: str = ""
    until: float = math.inf
    """When to judge again even if nothing changes."""


def judge(
    job: Job, wanted: Mapping[str, int], members: Iterable[ReplicaFact], now: float, *,
    starting: bool = False, grace: float = GRACE_SECONDS,
) -> GangVerdict:  # fmt: skip
    """The verdict on a gang.

    `wanted`: the number of replicas of each role that make it whole. While it starts, some may be missing.
    """
    present = list(members)
    ended_at = succeeded_at(job, wanted, present)
    if ended_at is not None:
        if all(member.is_over for member in present) or now >= ended_at + grace:
            return GangVerdict(GangState.DONE)
        return GangVerdict(GangState.WAIT, until=ended_at + grace)
    missing = "" if starting else _missing(wanted, present)
    if missing or starting:
        cause = _cause(present)
        if cause is not None:
            return _blamed(cause, present, now)
    if missing:
        return GangVerdict(GangState.LOST, missing)
    whole = not _missing(wanted, present) and all(member.phase is not Phase.PENDING for member in present)
    return GangVerdict(GangState.WHOLE if whole else GangState.WAIT)


def _blamed(cause: ReplicaFact, members: list[ReplicaFact], now: float) -> GangVerdict:
    """A loss counts at once. A failure may follow from a loss that is not seen yet: it counts after a pause."""
    if cause.phase is Phase.LOST:
        return GangVerdict(GangState.LOST, cause.why)
    until = cause.ended_at + cause.settle
    if cause.is_cause or now >= until or all(member.is_over for member in members):
        return GangVerdict(GangState.FAILED, cause.why)
    return GangVerdict(GangState.WAIT, until=until)


def succeeded_at(job: Job, wanted: Mapping[str, int], members: Iterable[ReplicaFact]) -> float | None:
    """When the job succeeded by its `success` rule; None if it has not."""
    roles, done = success_roles(job), [member for member in members if member.phase is Phase.DONE]
    ended = [member for member in done if member.role in roles]
    if job.success.any_replica:
        return min((member.ended_at for member in ended), default=None)
    counted = [role for role in roles if wanted.get(role, 0) > 0]
    if not counted or any(sum(member.role == role for member in ended) < wanted[role] for role in counted):
        return None
    return max(member.ended_at for member in ended)


def success_roles(job: Job) -> tuple[str, ...]:
    """The roles that decide success: those the job names, else `chief` or `master`, else those no role comes after."""
    if job.success.roles:
        return job.success.roles
    names = tuple(role.name for role in job.roles)
    leader = next((name for name in ("chief", "master") if name in names), None)
    if leader is not None:
        return (leader,)
    followed = {name for role in job.roles for name in role.after}
    return tuple(name for name in names if name not in followed)


def _missing(wanted: Mapping[str, int], members: list[ReplicaFact]) -> str:
    for role, count in wanted.items():
        there = sum(member.is_sound and member.role == role for member in members)
        if there < count:
            return f"{count - there} of {count} replicas of role {role!r} disappeared"
    return ""


def _cause(members: list[ReplicaFact]) -> ReplicaFact | None:
    """The replica that is the cause: one out of memory, else a lost one (others fail without it), else a failed one."""
    failed = [member for member in members if member.phase is Phase.FAILED]
    lost = [member for member in members if member.phase is Phase.LOST]
    causes = [member for member in failed if member.is_cause]
    return next(iter([*causes, *lost, *failed]), None)


# ── how often it may start again ────────────────────────────────────────────────────────────────────────────


def back_off_seconds(refusals: int) -> float:
    """Seconds from the last of N refused starts in a row to the next start: 1, 2, 4, … 60."""
    return min(2.0 ** (min(refusals, 32) - 1), LONGEST_BACK_OFF_SECONDS)


def ask_again_at(decision: Action, refused: int, last: float, now: float) -> float:
    """When a change may begin that the job refused `refused` times in a row, the last time at `last`.

    Example: a job that cannot save is asked again after 1, 2, 4, … 30 seconds. Without this pause a policy, which sees
    the job run, would ask again at once.
    """
    final = isinstance(decision, Stop) and decision.because.is_final
    if not refused or final or now < last:  # now < last: the clock was set back
        return now
    return max(now, last + min(2.0 ** (refused - 1), LONGEST_PAUSE_SECONDS))


# ── saving ──────────────────────────────────────────────────────────────────────────────────────────────────


def to_ask(
    savers: AbstractSet[ReplicaKey], connected: AbstractSet[ReplicaKey], present: AbstractSet[ReplicaKey]
) -> frozenset[ReplicaKey]:
    """The replicas to ask for a checkpoint: those that can save and are connected.

    Empty until every present replica that can save is connected: no part of the checkpoint may be missing.
    """
    return frozenset(connected & present) if connected >= savers & present else frozenset()


@dataclass(frozen=True, slots=True)
class StepsSeen:
    """How far the last start of a job came, by its reports: what was lost is told when it goes on."""

    first: tuple[int, float] = (-1, 0.0)
    """Step, and when it was reported; -1: none."""
    last: tuple[int, float] = (-1, 0.0)
    over: bool = False
    """The job has stopped since; the next report is of another start."""

    def reported(self, step: int, at: float) -> StepsSeen:
        if self.over or self.last[0] < 0:
            return StepsSeen((step, at), (step, at))
        return replace(self, last=(step, at)) if step >= self.last[0] else self

    def stopped(self) -> StepsSeen:
        return self if self.over else replace(self, over=True)

    def sentence(self, first: int) -> str:
        """Of a start whose first reported step is this; empty if none came before it."""
        if self.last[0] < 0:
            return ""
        lost = max(0, self.last[0] - first + 1)
        goes_on = f"it goes on from step {first - 1}" if first > 1 else "it starts again at its first step"
        if not lost:
            return goes_on
        steps, seconds = self.last[0] - self.first[0], self.last[1] - self.first[1]
        took = f" ({lasting(seconds / steps * lost)})" if steps > 0 else ""
        return f"{goes_on}; {lost} step{'s' if lost > 1 else ''}{took} {'were' if lost > 1 else 'was'} lost"


SAVE_SHARE = 0.02
"""At most this share of a job's time goes into saves that are asked for by time."""


def save_interval(every: float, cost: float) -> float:
    """Seconds of training between two saves that are asked for by time; infinite where none are.

    Example: `every` is 600 seconds. A save that was measured to take 12 seconds is asked for every 600, one that takes
    60 every 2,940: saving then takes 2 % of the time.
    """
    return max(every, cost * (1.0 / SAVE_SHARE - 1.0)) if every > 0 else math.inf


@dataclass(frozen=True, slots=True)
class SaveTurn:
    """A job that may be asked to save now, because it trains and all that can save are connected."""

    job: JobId
    disk: str
    """Where its checkpoint is."""
    every: float
    since: float
    """When its attempt began, it last saved or was last asked: the latest of them. Changes of size do not count."""
    took: Sequence[float] = ()
    """Seconds that its last saves took."""

    @property
    def due(self) -> float:
        """The middle of its last saves counts: one that found the disk busy is no measure."""
        cost = statistics.median_low(self.took) if self.took else 0.0
        return self.since + save_interval(self.every, cost)


def due_saves(turns: Iterable[SaveTurn], busy: AbstractSet[str], now: float) -> list[JobId]:
    """Who is asked to save now: of each disk the one that is overdue for longest, none of a disk that is busy."""
    chosen: dict[str, JobId] = {}
    for turn in sorted(turns, key=lambda turn: (turn.due, turn.job)):
        if turn.due <= now and turn.disk not in busy:
            chosen.setdefault(turn.disk, turn.job)
    return list(chosen.values())


@dataclass(frozen=True, slots=True)
class SaveRound:
    """One request to save, and what the replicas answered. An answer to an earlier request changes nothing."""

    request: int = 0
    asked: frozenset[ReplicaKey] = frozenset()
    """Replicas, not connections: two trackers in one replica save once."""
    saved: frozenset[ReplicaKey] = frozenset()
    failed: str = ""

    def next(self) -> SaveRound:
        """The next request, to which no replica has answered."""
        return SaveRound(self.request + 1)

    def answered(self, replica: ReplicaKey, request: int | None, error: str | None = None) -> SaveRound:
        """With the answer of a replica; `error` is None if it saved.

        A checkpoint that a script makes by itself (request None) does not count.
        """
        if request != self.request or replica not in self.asked:
            return self
        if error is not None:
            return replace(self, failed=error or "it gave no reason")
        return replace(self, saved=self.saved | {replica})

    @property
    def is_open(self) -> bool:
        """Whether it was asked for, and is neither answered by all nor failed."""
        return bool(self.asked) and not self.failed and not self.is_complete

    @property
    def is_complete(self) -> bool:
        return bool(self.asked) and self.saved >= self.asked
