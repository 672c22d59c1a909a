"""Says of gangs that wait why they wait, with numbers: in their status, or in the condition of a foreign pod.

The first reason of a wait is said at once. Another reason is said as soon as the budget allows, to those first whose
turn is longest ago; likewise, for the first time, when it is expected to start. Other numbers and times are said of one
gang at most once in a while, and less often where many wait. So only a few are told a second, whatever number waits and
whatever changes for all of them.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from headway.core.job import JobId
from headway.core.plan import Plan
from headway.core.reason import Code, Reasons
from headway.core.snapshot import Snapshot
from headway.core.text import clean
from headway.kube.gangs.fault import FAULT, sentence
from headway.kube.gangs.gang import Expected, Gang
from headway.kube.gangs.messages import Explained, LookedAt
from headway.kube.intake.spec import job_id
from headway.kube.pods.conditions import NEIGHBOURS_REFUSE, QUOTA_USED, camel
from headway.kube.settings import Explain, KubeSettings
from headway.kube.views.foreseen import Foreseen, moved

MAX_LOOKED_AT = 200
"""Waiting gangs per cycle of which the reason is asked, each in its turn. A long queue must not slow decisions down."""
MAX_EXPLAINED = 20
"""Of these, gangs that are told."""
MANY = 500
"""Where more wait than this, their numbers are told less often."""
MAX_NAMED = 5
"""Jobs that hold the room, by name."""
MAX_SAYINGS, LONGEST_SAYING = 8, 300
SAYING_SECONDS, SAYING_SHARE = 0.1, 0.05
"""The policy is asked for so many seconds at once, and for this share of the time."""
WHYS_PER_SECOND = 4.0
"""Of gangs that were told why they wait, and are told otherwise."""
UNTOLD_SECONDS = MAX_EXPLAINED / WHYS_PER_SECOND
"""While some are yet to be told when they start, others are told after this."""
WHYS = frozenset(camel(code) for code in Code) | {QUOTA_USED, NEIGHBOURS_REFUSE, FAULT}
"""Reasons that say why a gang waits. Any other says what became of it before."""


@dataclass(slots=True)
class Explaining:
    """Who is told next. `following` finds a gang by its job's id."""

    settings: KubeSettings
    again: float = math.inf
    """When others are to be told when they start, though nothing happens until then."""
    _allowance: float = MAX_EXPLAINED
    _at: float = -math.inf

    def explain(
        self, following: Callable[[JobId], Gang | None], snapshot: Snapshot, plan: Plan, now: float,
        foreseen: Foreseen,
    ) -> Iterator[tuple[str, Explained | LookedAt]]:  # fmt: skip
        """By uid, what gangs are to be told."""
        waiting = [gang for row in snapshot.jobs.waiting() if (gang := following(snapshot.jobs.job(int(row)).id))]
        waiting = [gang for gang in waiting if gang.waits and not gang.frozen.why]
        self.again = math.inf
        if not waiting:
            return
        new = (gang for gang in waiting if foreseen and gang.expected is None)
        untold = {gang.uid for gang in new if _expected(gang, foreseen)}
        every = self.settings.progress_seconds * max(1.0, len(waiting) / MANY)
        reasons, beyond, left = Reasons(snapshot, plan), self.settings.quotas(snapshot), MAX_EXPLAINED
        self._allowance = min(MAX_EXPLAINED, self._allowance + WHYS_PER_SECOND * min(60.0, now - self._at))
        self._at = now
        for gang in heapq.nsmallest(MAX_LOOKED_AT, waiting, key=_turn):
            reason, message, helps = _reason(gang, snapshot, reasons, beyond)
            known, said, expected = gang.wanted.reason, gang.wanted.message, _expected(gang, foreseen)
            anew = moved(gang.expected, expected, now)
            differs = bool(reason) and (anew or (reason, message) != (known, said))
            if differs and known in WHYS:
                at_once = reason != known or (anew and gang.expected is None)
                if self._allowance < 1.0 and at_once:
                    continue  # it keeps its turn
                differs = at_once or (self._allowance >= 1.0 and now - gang.explained_at >= every)
                self._allowance -= differs
            yield gang.uid, LookedAt(now)
            if differs:
                yield gang.uid, Explained(reason, message, now, helps, expected)
                untold.discard(gang.uid)
                left -= 1
            if left == 0:
                break
        self.again = now + UNTOLD_SECONDS if untold else math.inf


def _expected(gang: Gang, foreseen: Foreseen) -> Expected | None:
    """Pods of others do not show it."""
    return None if gang.is_foreign else foreseen.get(gang.job.id)


def _turn(gang: Gang) -> tuple[bool, float]:
    return gang.wanted.reason in WHYS, gang.looked_at


def _reason(
    gang: Gang, snapshot: Snapshot, reasons: Reasons, beyond: Callable[[int], str]
) -> tuple[str, str, tuple[str, ...]]:
    """Nothing if it starts now. What its queue may hold comes first: more nodes would not help then."""
    try:
        found = reasons.of(gang.job.id)
        if found.code is Code.STARTS_NOW:
            return "", "", ()
        if full := beyond(snapshot.jobs.row_of[gang.job.id]):
            return QUOTA_USED, full, ()
        helps = [f"held by: {_holders(gang, found.blocked_by)}"] if found.blocked_by else []
        helps += [f"helps: {found.remedy}"] if found.remedy else []
        return camel(found.code), found.sentence, tuple(helps)
    except Exception as error:  # noqa: BLE001  why it waits matters less than that all others go on
        return FAULT, sentence("say why this job waits", error), ()


def _holders(gang: Gang, others: Iterable[JobId]) -> str:
    """Jobs of its own namespace by name. Who is in another namespace is nobody's business here."""
    inside = job_id(gang.meta.namespace, "")
    own = [one for one in others if one.rpartition("/")[0] == inside.rpartition("/")[0]]
    elsewhere = sum(1 for _ in others) - len(own)
    named = [*own[:MAX_NAMED], *([f"{len(own) - MAX_NAMED} more"] if len(own) > MAX_NAMED else [])]
    named += [f"{elsewhere} job{'s' if elsewhere > 1 else ''} of other namespaces"] if elsewhere else []
    return ", ".join(named)


@dataclass(slots=True)
class PolicySays:
    """What the policy says about single jobs, for their status. It may be asked for a small share of the time only: a
    long queue must not slow decisions down. A status that is written without it keeps what it said before.
    """

    explain: Explain
    _allowance: float = SAYING_SECONDS
    _at: float = -math.inf

    def of(self, gang: Gang, snapshot: Snapshot | None, now: float) -> list[str] | None:
        """None if there is no time to ask, or nobody to be asked about."""
        row = None if snapshot is None else snapshot.jobs.row_of.get(gang.job.id)
        if snapshot is None or row is None or row >= snapshot.jobs.count:
            return None
        self._allowance = min(SAYING_SECONDS, self._allowance + SAYING_SHARE * (now - max(self._at, now - 60.0)))
        self._at = now
        if self._allowance <= 0.0 or snapshot.jobs.state_of(row) is not gang.state:
            return None
        began = time.perf_counter()
        said = self.explain(snapshot, row)
        self._allowance -= time.perf_counter() - began
        return [clean(f"{topic}: {saying}", LONGEST_SAYING) for topic, saying in said[:MAX_SAYINGS]]
