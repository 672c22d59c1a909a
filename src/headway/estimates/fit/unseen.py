"""What to believe of a model's scaling that nobody has seen here: one fit to all published profiles, and its spread.

Example: of eleven profiles of gangs, some reach 11 times the speed on 16 replicas, others 4 times. The pooled curve is
the geometric mean of them, and the spread says how far a model may be from it. Amdahl's law, which is believed where
there is no such fit, is about the request: it says 6.4 times to one who asks for 1, and 14.5 to one who asks for 16.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from headway.core.node import FloatArray
from headway.estimates.fit.least_squares import NormalEquations
from headway.estimates.fit.prior import PARALLEL_CPU, plain_prior
from headway.estimates.fit.speed import (
    Coefficients,
    Form,
    Setting,
    SpeedFit,
    terms,
)
from headway.estimates.models.profiles import AllReduce, Layout, Profile, ProfileForm, Servers

WORKERS = (1, 2, 4, 8, 16, 32, 64)
PER_NODE = (4, 8)
ASKED = (1, 4, 16)
CPU_TERM = 1


@dataclass(frozen=True, slots=True)
class Unseen:
    """Coefficients of one form: one second per step on one worker."""

    coefficients: Coefficients
    spread: float
    """How far a term's share of a step is from the pooled one, as a share of the step (standard deviation)."""
    models: int
    """Profiles that it was fitted to."""

    def at(self, form: Form, asked: Setting) -> Coefficients:
        """The same with one second per step at the requested size."""
        seconds = sum(c * x for c, x in zip(self.coefficients, terms(form, asked), strict=True))
        return tuple(c / seconds for c in self.coefficients) if seconds > 0 else plain_prior(form, asked)


def pooled(profiles: Mapping[str, Profile], without: Collection[str] = ()) -> dict[Form, Unseen]:
    """One fit for each form that has at least two profiles. `without`: models that are left out."""
    found = {}
    for form in Form:
        kept = _of_form(profiles, form, without)
        if len(kept) >= 2:
            found[form] = _pooled(form, kept)
    return found


def errors(profiles: Mapping[str, Profile]) -> dict[str, float]:
    """|log(told / true)| of speeds relative to the requested size, in the mean over sizes and requests: of each gang by
    the fit to all others, and by what is believed without it (`plain_prior`).
    """
    told, plain = list[float](), list[float]()
    for name, form in _of_form(profiles, Form.GANG, ()).items():
        others = pooled(profiles, {name}).get(Form.GANG)
        if others is None:
            return {}
        for asked in ASKED:
            wanted = Setting(Layout(asked, 0, -(-asked // PER_NODE[0]), 1.0))
            true = np.log([form(layout) / form(wanted.layout) for layout in _layouts(Form.GANG)])
            told.append(_error(true, others.coefficients, wanted))
            plain.append(_error(true, plain_prior(Form.GANG, wanted), wanted))
    return {"error of unseen models": round(float(np.mean(told)), 4),
            "error without them": round(float(np.mean(plain)), 4)} if told else {}  # fmt: skip


# ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────


def _of_form(profiles: Mapping[str, Profile], form: Form, without: Collection[str]) -> dict[str, ProfileForm]:
    """By model, each measured form once: some models borrow another's."""
    left_out = [profiles[name].form for name in without if name in profiles]
    found: dict[str, ProfileForm] = {}
    for name, profile in profiles.items():
        known = profile.form in found.values() or profile.form in left_out
        if form_of(profile.form) is form and not known:
            found[name] = profile.form
    return found


def form_of(profile: ProfileForm) -> Form | None:
    """A form with servers in which nothing depends on servers was measured without any: it is that of a gang."""
    if isinstance(profile, AllReduce) or (isinstance(profile, Servers) and profile.c == 0.0 and profile.e == 0.0):
        return Form.GANG
    return Form.SYNC if isinstance(profile, Servers) else None


def _layouts(form: Form) -> list[Layout]:
    if form is Form.GANG:
        return [Layout(count, 0, -(-count // size), 1.0) for size in PER_NODE for count in WORKERS]
    return [
        Layout.on([number // size for number in range(count)], [number % -(-count // size) for number in range(served)])
        for size in PER_NODE for count in WORKERS[:5] for served in sorted({max(1, count // 2), count})
    ]  # fmt: skip


def _pooled(form: Form, models: Mapping[str, ProfileForm]) -> Unseen:
    layouts = _layouts(form)
    x = np.array([terms(form, Setting(layout)) for layout in layouts])
    x[:, CPU_TERM] = 0.0  # profiles say nothing of cpu; the compute is split afterwards
    seconds = [_seconds(one, layouts) for one in models.values()]
    whole = _fitted(x, np.exp(np.mean(np.log(seconds), axis=0)))
    off = [_shares(x, y, _fitted(x, y)) - _shares(x, y, whole) for y in seconds]
    spread = math.sqrt(float(np.mean(np.square(off)[:, x.any(axis=0)])))
    return Unseen(_with_cpu(whole), round(max(0.05, spread), 4), len(models))


def _seconds(form: ProfileForm, layouts: list[Layout]) -> FloatArray:
    """Per unit of work, relative to the first layout: one worker."""
    found: FloatArray = np.array([1.0 / form(layout) for layout in layouts])
    found /= found[0]
    return found


def _fitted(x: FloatArray, seconds: FloatArray) -> FloatArray:
    equations = NormalEquations(x.shape[1])
    for terms_here in (x / seconds[:, None]).tolist():
        equations.add(terms_here, 1.0)
    return np.array(equations.solved())


def _shares(x: FloatArray, y: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Each term's share of a step, where that is largest."""
    shares: FloatArray = (x * coefficients / y[:, None]).max(axis=0)
    return shares


def _with_cpu(coefficients: FloatArray) -> Coefficients:
    split = coefficients.tolist()
    split[0], split[CPU_TERM] = split[0] * (1 - PARALLEL_CPU), split[0] * PARALLEL_CPU
    return tuple(split)


def _error(true: FloatArray, coefficients: Coefficients, asked: Setting) -> float:
    fitted = SpeedFit(Form.GANG, coefficients)
    told = np.log([fitted.relative(Setting(layout), asked) for layout in _layouts(Form.GANG)])
    return float(np.abs(told - true).mean())
