"""What the jobs of one model have shown, user by user, and what of it is told.

Example: four users train `bert`. Three of them see a step of 0.4 s on 8 workers; the fourth reports twenty times its
steps. A user is told what its own jobs have shown; who has none is told the median of users, 0.4 s. That takes three
users: of fewer, others are told nothing. Jobs that name no user are one user's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from headway.core.node import BoolArray, FloatArray
from headway.estimates.history.durations import newest
from headway.estimates.job.pace import Guess
from headway.estimates.models.profiles import Layout
from headway.estimates.speed.model import Coefficients, Form, Setting, exchange_of, terms, with_exchange

LEAST_JOBS = 2
MEMORY = 20.0
"""After this many further jobs, an old job weighs a third."""
MOST_SIZES = 100
"""Sizes of one model that are remembered."""
MOST_USERS = 25
"""Users of one model who are remembered."""
FEW_USERS = 3
"""From this many users on, others are told the median."""
RECENT_USERS = 8
"""Only those whose jobs finished last are asked: a model may have changed since others trained it."""
SURPRISE = 0.2
"""A job whose curve is this far from what its user's jobs have shown, as a logarithm: the model may have changed."""
AFTER_SURPRISE = 1.0
"""What was shown before a surprise weighs no more than this many sizes: four such jobs replace it."""
MIN_ALONE = 0.5
"""Seconds on one worker, where each user's curve has 1. Below it the middle of terms is nobody's curve."""
TINY = 1e-12
"""Seconds: a curve without compute says nothing, and agrees with nobody."""

ALONE = Setting(Layout(1, 1, 1, 1.0))
"""One worker, and where there are servers, one beside it."""
SIZES = tuple(
    Setting(Layout(workers, workers, nodes, 1.0 / nodes, 0.0 if nodes == 1 else 2.0))
    for workers, nodes in ((1, 1), (2, 1), (4, 1), (8, 2), (16, 4), (64, 16))
)
"""Where curves are compared."""
INSIDE = np.array([size.layout.nodes == 1 for size in SIZES])
"""Those on one node. The others are compared where both were measured there."""


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
    across: float = 0.0
    """The weight of jobs that were on one node and on several: what exchange across nodes takes rests on them alone."""

    def scaled_like(self, found: Coefficients, form: Form, asked: Setting, sizes: int, across: bool = True) -> Shown:
        """After a job with these coefficients that ran at so many sizes. A step takes one second at the request."""
        at_asked = _seconds(found, form, asked)
        if at_asked <= 0:
            return self
        fresh, more = tuple(c / at_asked for c in found), sizes - 1.0
        if not math.isfinite(sum(fresh)):
            return self
        if not self.weight:
            return replace(self, coefficients=fresh, weight=more, across=more if across else 0.0)
        base = _seconds(self.coefficients, form, asked)
        surprised = self._surprised(fresh, form, across)
        known, left = (min(one, AFTER_SURPRISE) if surprised else one for one in (self.weight, self.across))
        weight, apart = min(MEMORY, known + more), min(MEMORY, left + more) if across else left
        pairs = zip(self.coefficients, fresh, strict=True)
        mixed = tuple((1 - more / weight) * old / base + more / weight * new for old, new in pairs)
        if form is Form.GANG:
            share = more / apart if across else 0.0
            mixed = with_exchange(mixed, (1 - share) * exchange_of(self.coefficients) + share * exchange_of(fresh))
        return replace(self, coefficients=mixed, weight=weight, across=apart)

    def _surprised(self, fresh: Coefficients, form: Form, across: bool) -> bool:
        curves = _curves(np.array([self.coefficients, fresh]), form)[1]
        return float(_apart(curves, np.array([self.across > 0, across]), form)[0, 1]) > SURPRISE


class JobCurve(NamedTuple):
    """How the speed of one job depended on its size."""

    user: str
    coefficients: Coefficients
    asked: Setting
    sizes: int
    """In how many settings it has trained."""
    across: bool
    """Whether it was on one node and on several."""


@dataclass(frozen=True, slots=True)
class ModelHistory:
    """Jobs of one model and form: what is told of them, and what each user's jobs have shown."""

    coefficients: Coefficients = ()
    weight: float = 0.0
    seconds: Mapping[int, Seconds] = field(default_factory=dict)
    """By requested workers."""
    users: Mapping[str, Shown] = field(default_factory=dict)
    across: float = 0.0
    """The weight of jobs that were on one node and on several."""

    def scaled_like(
        self, user: str, found: Coefficients, form: Form, asked: Setting, sizes: int, across: bool = True
    ) -> ModelHistory:
        """After a job of this user with these coefficients. `across`: it was on one node and on several."""
        return self.scaled_by([JobCurve(user, found, asked, sizes, across)], form)

    def scaled_by(self, jobs: Iterable[JobCurve], form: Form) -> ModelHistory:
        """After several jobs."""
        users = self.users
        for user, found, asked, sizes, across in jobs:
            own = users.get(user, Shown()).scaled_like(found, form, asked, sizes, across)
            users = newest(users, {user: own}, MOST_USERS)
        told = told_of([one for one in users.values() if one.weight][-RECENT_USERS:], form)
        return replace(self, coefficients=told.coefficients, weight=told.weight, across=told.across, users=users)

    def took(self, user: str, workers: int, seconds: float) -> ModelHistory:
        """After a job of this user whose steps took this long at the size it asked for."""
        own = self.users.get(user, Shown())
        mine = own.seconds.get(workers, Seconds()).add(seconds)
        own = replace(own, seconds=newest(own.seconds, {workers: mine}, MOST_SIZES))
        users = newest(self.users, {user: own}, MOST_USERS)
        recent = [one.seconds[workers] for one in users.values() if workers in one.seconds][-RECENT_USERS:]
        told = told_seconds(recent)
        return replace(self, seconds=newest(self.seconds, {workers: told}, MOST_SIZES), users=users)

    def scaling(self, user: str) -> Shown | ModelHistory:
        """How the model scales: by the user's own jobs, else by the median of users."""
        own = self.users.get(user)
        return self if own is None or not own.weight else own

    @property
    def at_several(self) -> bool:
        """Whether any user's jobs have shown how the model scales."""
        return bool(self.weight) or any(one.weight for one in self.users.values())

    def sizes(self, user: str) -> set[int]:
        """Sizes for which jobs asked, whose pace may be known to this user."""
        own = self.users.get(user)
        return {*self.seconds, *(own.seconds if own is not None else ())}

    def step(self, user: str, workers: int) -> Guess | None:
        """Seconds per step at this size: of the user's own jobs, else the median of users."""
        own = self.users.get(user)
        guess = own.seconds[workers].guess() if own is not None and workers in own.seconds else None
        if guess is not None:
            return guess
        told = self.seconds.get(workers)
        return None if told is None else told.guess()


def told_of(shown: Sequence[Shown], form: Form) -> Shown:
    """How a model scales: the median of three users or more, term by term, and how much it rests on."""
    if len(shown) < FEW_USERS:
        return Shown()
    table = _curves(np.array([one.coefficients for one in shown]), form)[0]
    weight, across = (np.array([getattr(one, name) for one in shown]) for name in ("weight", "across"))
    mixed = _median(table)
    if _seconds(mixed, form, ALONE) < MIN_ALONE:
        mixed = tuple((weight @ table / weight.sum()).tolist())
    left = across > 0
    if form is Form.GANG and left.any():
        exchange = np.array([[exchange_of(one)] for one in table[left].tolist()])
        mixed = with_exchange(mixed, _median(exchange)[0])
    return Shown(mixed, min(MEMORY, float(weight.sum())), across=min(MEMORY, float(across.sum())))


def told_seconds(shown: Sequence[Seconds]) -> Seconds:
    """Of seconds per step: the same. The more users differ, the less sure it is."""
    if len(shown) < FEW_USERS:
        return Seconds()
    count, means = np.array([one.count for one in shown]), np.array([one.mean for one in shown])
    mean = float(np.median(means))
    total = float(count.sum())
    square = sum(one.square for one in shown) + float(count @ (means - mean) ** 2)
    return Seconds(min(MEMORY, total), mean, square * min(1.0, MEMORY / total))


def _curves(table: FloatArray, form: Form) -> tuple[FloatArray, FloatArray]:
    """Coefficients, scaled to one second per step on one worker, and logarithms of the seconds at some sizes."""
    alone, sizes = _compared(form)
    scaled = table / np.maximum(table @ alone, TINY)
    return scaled, np.log(np.maximum(scaled @ sizes, TINY))


@cache
def _compared(form: Form) -> tuple[FloatArray, FloatArray]:
    """The terms of one worker, and of the sizes where curves are compared."""
    return np.array(terms(form, ALONE))[:, None], np.array([terms(form, size) for size in SIZES]).T


def _apart(curves: FloatArray, across: BoolArray, form: Form) -> FloatArray:
    """How far curves are from each other. Sizes on several nodes count where both were measured there."""
    off: FloatArray = np.abs(curves[:, None] - curves[None])
    if form is Form.GANG:
        off *= INSIDE | (across[:, None] & across[None])[:, :, None]
    found: FloatArray = off.max(axis=2)
    return found


def _median(table: FloatArray) -> Coefficients:
    """Column by column."""
    return tuple(np.median(table, axis=0).tolist())


def _seconds(coefficients: Coefficients, form: Form, setting: Setting) -> float:
    return sum(c * x for c, x in zip(coefficients, terms(form, setting), strict=True))
