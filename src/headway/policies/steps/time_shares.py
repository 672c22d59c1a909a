"""Dealing out time by shares, in rounds, as Gavel's mechanism does (Narayanan et al., OSDI 2020, section 5).

A policy of Gavel's says which share of its time each job gets on each type. Jobs then take turns: on each type those
come first that have had least of what they were given since the last programme, the fastest type first; what is left
idle goes to whoever fits. Shares are computed anew when jobs have come or gone, but not within 1,920 s, as in its
simulator. Of all shares that serve a policy's aim the ones in the middle are taken.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headway.core.job import JobId
from headway.core.node import FloatArray
from headway.policies.steps.type_rounds import Asked, Chosen, TypeRounds, fill

ROUND, PAUSE = 360.0, 1920.0
BEGUN = ROUND / 2
"""Seconds that every job counts as having had on each type since the last programme."""
Share = Callable[[Asked], FloatArray]
"""(jobs, types): shares of each job's time. Every job can run on one type at least."""


def by_shares(begin: Callable[[], Share]) -> TypeRounds:
    """The policy that deals out time by these shares. `begin` makes what computes them, which may remember."""
    return TypeRounds(ROUND, lambda: _Dealt(begin()))


class _Dealt:
    def __init__(self, share: Share) -> None:
        self.share = share
        self.at = -np.inf
        self.shares: dict[JobId, FloatArray] = {}
        self.had: dict[JobId, FloatArray] = {}
        self.trained: dict[JobId, float] = {}
        self.last: dict[JobId, int] = {}

    def __call__(self, asked: Asked) -> Chosen:
        for name, trained in zip(asked.ids, asked.trained.tolist(), strict=True):
            if name in self.last and name in self.had:
                self.had[name][self.last[name]] += trained - self.trained[name]
        self.trained = dict(zip(asked.ids, asked.trained.tolist(), strict=True))
        changed = self.shares.keys() != set(asked.ids)
        if changed and (asked.now - self.at >= PAUSE or self.shares.keys().isdisjoint(asked.ids)):
            self._deal(asked)
        chosen = list(fill(asked, self._order(asked)))
        self.last = {asked.ids[job]: kind for job, kind in chosen}
        return chosen

    def _deal(self, asked: Asked) -> None:
        shares = dict.fromkeys(asked.ids, np.zeros(len(asked.slots)))
        runs = np.flatnonzero(np.isfinite(asked.seconds).any(axis=1))
        if len(runs):
            share = self.share(asked.only(runs)).clip(0.0, 1.0)
            shares |= {asked.ids[job]: one for job, one in zip(runs.tolist(), share, strict=True)}
        self.at, self.shares = asked.now, shares
        self.had = {name: np.full(len(asked.slots), BEGUN) for name in asked.ids}

    def _order(self, asked: Asked) -> list[tuple[int, int]]:
        """Jobs and types, the fastest type first; on each, those that have had least of their share."""
        pace = 1.0 / asked.seconds
        fastest = np.argsort(-(pace / np.maximum(pace.max(axis=1, keepdims=True), 1e-300)).sum(axis=0), kind="stable")
        mine = [job for job, name in enumerate(asked.ids) if name in self.shares]
        order = []
        for kind in fastest.tolist():
            shares = {job: float(self.shares[asked.ids[job]][kind]) for job in mine if pace[job, kind] > 0}
            due = {job: share / float(self.had[asked.ids[job]][kind]) for job, share in shares.items()}
            order += [(job, kind) for job in sorted(due, key=lambda job: (-due[job], -shares[job]))]
        return order
