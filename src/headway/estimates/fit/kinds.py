"""What the jobs of one model have shown, user by user, and what of it is told to others.

Example: four users train `bert`. Three of them see a step of 0.4 s on 8 workers; the fourth reports twenty times its
steps. Others are told 0.4 s: from three users on, only what agrees with the one in the middle counts, and no user
counts for more than the middle one does. So one user can move what others are told by a few percent only. A user whose
own jobs have shown the speed is told that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headway.core.node import BoolArray, FloatArray
from headway.estimates.fit.duration import newest
from headway.estimates.fit.pace import Guess
from headway.estimates.fit.speed import Coefficients, Form, Setting, terms
from headway.estimates.models.profiles import Layout

LEAST_JOBS = 2
MEMORY = 20.0
"""After this many further jobs, an old job weighs a third."""
MOST_SIZES = 100
"""Sizes of one model that are remembered."""
MOST_USERS = 25
"""Users of one model who are remembered."""
FEW_USERS = 3
"""From this many users on, what does not agree with the middle does not count."""
FAR = 0.15
"""Beyond this distance from the middle, as a logarithm, users do not agree."""
TINY = 1e-12
"""Seconds: a curve without compute says nothing, and agrees with nobody."""

ALONE = Setting(Layout(1, 1, 1, 1.0))
"""One worker, and where there are servers, one beside it."""
SIZES = tuple(
    Setting(Layout(workers, workers, nodes, 1.0 / nodes, 0.0 if nodes == 1 else 2.0))
    for workers, nodes in ((1, 1), (2, 1), (4, 1), (8, 2), (16, 4), (64, 16))
)
"""Where curves are compared."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds per step at one size: mean and variance of the logarithm."""

    count: float = 0.0
    mean: float = 0.0
    square: float = 0.0

    def add(self, seconds: float) -> Seconds:
        keep = 1.0 - 1.0 / MEMORY
        count = keep * self.count + 1.0
        off = math.log(seconds) - self.mean
        mean = self.mean + off / count
        return Seconds(count, mean, keep * self.square + off * (math.log(seconds) - mean))

    def guess(self) -> Guess | None:
        if self.count < LEAST_JOBS - 0.5:
            return None
        spread = math.sqrt((self.square + 0.05) / self.count)
        return Guess(math.exp(self.mean), max(0.05, spread))


@dataclass(frozen=True, slots=True)
class Shown:
    """What the jobs of one user have shown of one model."""

    coefficients: Coefficients = ()
    weight: float = 0.0
    seconds: Mapping[int, Seconds] = field(default_factory=dict)
    """By requested workers."""

    def scaled_like(self, found: Coefficients, form: Form, asked: Setting, sizes: int) -> Shown:
        """After a job with these coefficients that ran at so many sizes. A step takes one second at the request."""
        at_asked = _seconds(found, form, asked)
        if at_asked <= 0:
            return self
        fresh = tuple(c / at_asked for c in found)
        if not self.weight:
            return replace(self, coefficients=fresh, weight=sizes - 1.0)
        base = _seconds(self.coefficients, form, asked)
        weight = min(MEMORY, self.weight + sizes - 1.0)
        share = (sizes - 1.0) / weight
        pairs = zip(self.coefficients, fresh, strict=True)
        return replace(self, coefficients=tuple((1 - share) * old / base + share * new for old, new in pairs),
                       weight=weight)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one model and form: what is told of them, and what each user's jobs have shown."""

    coefficients: Coefficients = ()
    weight: float = 0.0
    seconds: Mapping[int, Seconds] = field(default_factory=dict)
    """By requested workers."""
    users: Mapping[str, Shown] = field(default_factory=dict)

    def scaled_like(self, user: str, found: Coefficients, form: Form, asked: Setting, sizes: int) -> Kind:
        """After a job of this user with these coefficients."""
        own = self.users.get(user, Shown()).scaled_like(found, form, asked, sizes)
        users = newest(self.users, {user: own}, MOST_USERS)
        coefficients, weight = agreed([one for one in users.values() if one.weight], form)
        return replace(self, coefficients=coefficients, weight=weight, users=users)

    def took(self, user: str, workers: int, seconds: float) -> Kind:
        """After a job of this user whose steps took this long at the size it asked for."""
        own = self.users.get(user, Shown())
        mine = own.seconds.get(workers, Seconds()).add(seconds)
        own = replace(own, seconds=newest(own.seconds, {workers: mine}, MOST_SIZES))
        users = newest(self.users, {user: own}, MOST_USERS)
        told = agreed_seconds([one.seconds[workers] for one in users.values() if workers in one.seconds])
        return replace(self, seconds=newest(self.seconds, {workers: told}, MOST_SIZES), users=users)

    def sizes(self, user: str) -> set[int]:
        """Sizes for which jobs asked, whose pace may be known to this user."""
        own = self.users.get(user) if user else None
        return {*self.seconds, *(own.seconds if own is not None else ())}

    def step(self, user: str, workers: int) -> Guess | None:
        """Seconds per step at this size: of the user's own jobs, else as users agree."""
        own = self.users.get(user) if user else None
        guess = own.seconds[workers].guess() if own is not None and workers in own.seconds else None
        if guess is not None:
            return guess
        told = self.seconds.get(workers)
        return None if told is None else told.guess()


def agreed(shown: Sequence[Shown], form: Form) -> tuple[Coefficients, float]:
    """What users agree on, and how much it rests on. One user alone is believed as it is."""
    if len(shown) <= 1:
        return (shown[0].coefficients, shown[0].weight) if shown else ((), 0.0)
    table = np.array([one.coefficients for one in shown])
    table /= np.maximum(table @ np.array(terms(form, ALONE))[:, None], TINY)
    curves = np.log(np.maximum(table @ np.array([terms(form, size) for size in SIZES]).T, TINY))
    apart: FloatArray = np.abs(curves[:, None] - curves[None]).max(axis=2)
    near = _near(apart)
    weight = _capped(np.array([one.weight for one in shown])[near])
    mixed = weight @ table[near] / weight.sum()
    return tuple(mixed.tolist()), min(MEMORY, float(weight.sum()))


def agreed_seconds(shown: Sequence[Seconds]) -> Seconds:
    """The same of seconds per step. Where users differ, the spread says so."""
    if len(shown) == 1:
        return shown[0]
    means = np.array([one.mean for one in shown])
    near = _near(np.abs(means[:, None] - means[None]))
    kept = [one for one, counts in zip(shown, near.tolist(), strict=True) if counts]
    weight, means = _capped(np.array([one.count for one in kept])), means[near]
    count = float(weight.sum())
    mean = float(weight @ means) / count
    inside = sum(one.square * share / one.count for one, share in zip(kept, weight.tolist(), strict=True))
    return Seconds(min(MEMORY, count), mean, (inside + float(weight @ (means - mean) ** 2)) * min(1.0, MEMORY / count))


def _near(apart: FloatArray) -> BoolArray:
    """Which agree with the one in the middle; all, where there are too few to say who is odd."""
    if len(apart) < FEW_USERS:
        return np.ones(len(apart), np.bool_)
    middle = int(np.median(apart, axis=1).argmin())
    near: BoolArray = apart[middle] <= FAR
    return near


def _capped(weight: FloatArray) -> FloatArray:
    return np.minimum(weight, np.median(weight))


def _seconds(coefficients: Coefficients, form: Form, setting: Setting) -> float:
    return sum(c * x for c, x in zip(coefficients, terms(form, setting), strict=True))
