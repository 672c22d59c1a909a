"""Seconds per step by workers, parameter servers, cpu, accelerator and placement, fitted to measurements.

Every form is a sum of terms with coefficients that may not be negative. So a fit is one non-negative least-squares
problem on relative errors. It starts from a prior (the history of the model, or Amdahl's law), scaled to the
measurements, and leaves the prior as measurements at other sizes come in. With w workers and p parameter servers:

    gang    c0/w + c1/(w·cpu) + c2 + [one node, w > 1]·c3/w + [several nodes]·c4/w + c5·(w - 1)   all-reduce
    sync    c0/w + c1/(w·cpu) + c2 + c3·w/p + c4·w + c5·p                       after Optimus

c0 is compute on the requested accelerator; it shrinks on a faster one. c1 is the part that more cpu speeds up, as in
Amdahl's law, with cpu relative to the request. c2 is what no replica divides, such as the exchange that grows with each
further replica of a gang. c5 is exchange that outgrows what replicas save: with it a gang becomes slower beyond some
size. Exchange inside a node costs half of exchange across nodes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import mul

import numpy as np

from headway.core.job import Job, computes
from headway.core.node import FloatArray, Nodes
from headway.core.placement import Placement
from headway.core.quantity import CPU
from headway.core.scaling import Scaling, SizeSpan
from headway.estimates.models.profiles import Layout
from headway.estimates.speed.accelerators import relative_speed, type_at

INSIDE = 0.5
PRIOR_SPREAD = 0.3
"""How far a term's share of a step may be from the prior's, as a share of the step (standard deviation)."""
ACROSS = 4
"""The number of the term for exchange across nodes, in gangs."""

Coefficients = tuple[float, ...]


class Form(enum.Enum):
    GANG = "gang"
    SYNC = "sync"

    @classmethod
    def of(cls, job: Job) -> Form:
        roles = job.roles
        gang = computes(roles[0].name) if len(roles) == 1 else all(computes(role.name) for role in roles)
        return cls.GANG if gang else cls.SYNC


@dataclass(frozen=True, slots=True)
class Setting:
    """The part of a job's configuration that matters to its speed."""

    layout: Layout
    cpu: float = 1.0
    """Cores per worker, relative to the request."""
    accelerator: float = 1.0
    """Relative speed of the slowest worker's accelerator type."""
    on: str = field(default="", compare=False)
    """That type, where it is known and all workers are on it. It says whose history tells the speed; terms do not
    depend on it.
    """

    @classmethod
    def of(cls, job: Job, placement: Placement, nodes: Nodes) -> Setting:
        return cls(
            Layout.of(job, placement), _cpu(job, placement, nodes), relative_speed(job, placement, nodes),
            type_at(job, placement, nodes),
        )  # fmt: skip

    @classmethod
    def sized(cls, job: Job, counts: tuple[int, ...], per_node: int = 0) -> Setting:
        """These replicas per role in the best place; otherwise as requested."""
        return cls(Layout.sized(job, counts, per_node))

    def on_type(self, kind: str) -> Setting:
        """The same on accelerators of this type; empty: of a type that is not known."""
        return self if kind == self.on else replace(self, on=kind)


def _cpu(job: Job, placement: Placement, nodes: Nodes) -> float:
    if placement.requests is None or CPU not in nodes.kinds:
        return 1.0
    kind, factors = nodes.kinds.index(CPU), [1.0]
    for role, vector in zip(job.roles, placement.requests, strict=True):
        if vector is not None and computes(role.name) and role.amount(CPU):
            held = vector[kind] - dict(role.overhead).get(CPU, 0)
            factors.append(max(1, held) / role.amount(CPU))
    return min(factors[1:], default=1.0)


def terms(form: Form, setting: Setting) -> tuple[float, ...]:
    layout = setting.layout
    w, p = max(1, layout.workers), max(1, layout.servers)
    compute = (1.0 / (w * setting.accelerator), 1.0 / (w * max(1e-3, setting.cpu)), 1.0)
    if form is Form.GANG:
        crosses = layout.nodes > 1
        return (*compute, float(w > 1 and not crosses) / w, float(crosses) / w, w - 1.0)
    far = 1.0 - (1.0 - INSIDE) * layout.local
    return (*compute, layout.distance(INSIDE) * w / p, far * w, float(p))


@dataclass(frozen=True, slots=True)
class Observation:
    setting: Setting
    seconds: float
    """Per step."""
    spread: float
    """Standard deviation, as a share."""
    _rounded: Observation | None = field(default=None, init=False, repr=False, compare=False)

    def rounded(self) -> Observation:
        """To a hundredth, so that not every report causes a new fit. Computed once."""
        if self._rounded is None:
            seconds, spread = math.exp(round(math.log(self.seconds), 2)), max(0.01, round(self.spread, 2))
            object.__setattr__(self, "_rounded", Observation(self.setting, seconds, spread))
        assert self._rounded is not None
        return self._rounded


@dataclass(frozen=True, slots=True)
class SpeedFit:
    form: Form
    coefficients: Coefficients
    prior_spread: float = PRIOR_SPREAD

    def seconds(self, setting: Setting) -> float:
        """Per step."""
        total: float = sum(map(mul, self.coefficients, terms(self.form, setting)))
        return total

    def relative(self, setting: Setting, asked: Setting) -> float:
        """Speed in a setting, relative to the requested setting."""
        seconds = self.seconds(setting)
        return self.seconds(asked) / seconds if seconds > 0 else 0.0


def exchange_of(gang: Sequence[float]) -> float:
    """What exchange across nodes adds to the compute of a gang with these coefficients, as a share of it."""
    compute = gang[0] + gang[1]
    return gang[ACROSS] / compute if compute > 0 else 0.0


def with_exchange(gang: Sequence[float], exchange: float) -> Coefficients:
    """The same gang with another exchange across nodes."""
    return (*gang[:ACROSS], exchange * (gang[0] + gang[1]), *gang[ACROSS + 1 :])


def scaling(form: Form, coefficients: Coefficients, job: Job, span: SizeSpan) -> Scaling:
    """`SpeedFit.relative` at all sizes of a job of one role at once."""
    if form is Form.GANG:
        return _gang_scaling(coefficients, job.roles[0].replicas, span)
    fitted, per_node = SpeedFit(form, coefficients), span.per_node
    asked = Setting.sized(job, (job.roles[0].replicas,), per_node)
    return Scaling.asked_one_by_one(lambda count: fitted.relative(Setting.sized(job, (count,), per_node), asked), span)


@lru_cache(maxsize=20_000)
def _gang_scaling(coefficients: Coefficients, asked: int, span: SizeSpan) -> Scaling:
    """The same for a gang: term by term, in the same order as in `terms`, so that no number differs."""
    per_node, divided, inside, across, more = span.per_node, *_gang_terms(span)
    seconds: FloatArray = coefficients[0] * divided
    seconds += coefficients[1] * divided
    seconds += coefficients[2]
    seconds += coefficients[3] * inside
    seconds += coefficients[4] * across
    seconds += coefficients[5] * more
    at_asked = sum(map(mul, coefficients, _terms_at(asked, gang_setting(asked, per_node).layout.nodes)))
    speeds = np.divide(at_asked, seconds, out=np.zeros(len(seconds)), where=seconds > 0).tolist()
    return Scaling([*[0.0] * span.min, *speeds[span.min :]], _apart(coefficients, per_node))


def _apart(coefficients: Coefficients, per_node: int) -> float:
    """The factor in speed where as many as fit on a node are on several."""
    if per_node < 2:
        return 1.0
    one, several = (sum(map(mul, coefficients, _terms_at(per_node, nodes))) for nodes in (1, 2))
    return min(1.0, one / several) if several > 0 else 1.0


@lru_cache(maxsize=20_000)
def _terms_at(workers: int, nodes: int) -> tuple[float, ...]:
    return terms(Form.GANG, Setting(Layout(workers, 0, nodes, 1.0)))


@lru_cache(maxsize=2_000)
def _gang_terms(span: SizeSpan) -> tuple[FloatArray, ...]:
    """By number of workers in the best place: the terms of c0 and c1, of c3, of c4, and of c5."""
    count = np.arange(span.max + 1)
    workers = np.maximum(1.0, count)
    crosses = count > (span.per_node or span.max)
    return 1.0 / workers, ((count > 1) & ~crosses) / workers, crosses / workers, workers - 1.0


@lru_cache(maxsize=20_000)
def gang_setting(workers: int, per_node: int) -> Setting:
    """A gang of this many workers in the best place."""
    return Setting(Layout(workers, 0, max(1, -(-workers // (per_node or max(1, workers)))), 1.0))


def left_a_node(seen: Sequence[Observation]) -> bool:
    """Whether these are measurements on one node and on several: then they tell what exchange across nodes takes."""
    nodes = [one.setting.layout.nodes for one in seen]
    return bool(nodes) and min(nodes) == 1 and max(nodes) > 1


def at_several(seen: Sequence[Observation]) -> bool:
    """Whether these are measurements of at least two settings."""
    return any(one.setting != seen[0].setting for one in seen)
