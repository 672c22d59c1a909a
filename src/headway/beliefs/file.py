"""A file of beliefs: what finished jobs have taught, kept for the next run.

One JSON object: its version, what it was made of, how good it was, and the history. Numbers keep all their digits: a
history that is written and read again is the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from headway.beliefs.whole_file import read_whole, write_whole
from headway.core.errors import UserError
from headway.core.job import JobId, Target
from headway.estimates.history.by_user import ModelHistory, Seconds, Shown
from headway.estimates.history.change_costs import ChangeCosts, Usual, UsualSeconds
from headway.estimates.history.durations import Durations, Explained, Histogram
from headway.estimates.history.history import History
from headway.estimates.history.lengths import BINS
from headway.estimates.history.lessons import ModelOnType
from headway.estimates.job.promise import UserReliability
from headway.estimates.job.target import GRID, Reached
from headway.estimates.speed.model import Form
from headway.estimates.speed.types import TypeLesson, TypeLessons

FORMAT = "headway beliefs"
VERSION = 1
MOST_BYTES = 64 << 20
COEFFICIENTS = {Form.GANG: 6, Form.SYNC: 6}
BEFORE = {Form.GANG: 5, Form.SYNC: 6}
"""In files from before gangs had a term that grows with their workers: it is 0 then."""

Positive = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Steps = Annotated[float, msgspec.Meta(gt=0, le=1e18)]
Bin = Annotated[int, msgspec.Meta(ge=0, lt=BINS)]
Logarithm = Annotated[float, msgspec.Meta(ge=-50, le=50)]
Usually = dict[str, tuple[Positive, Logarithm, Annotated[list[Logarithm], msgspec.Meta(max_length=2)]]]
"""By model, and under the empty name of all jobs: weight and mean of the logarithm of seconds, and the newest two."""


class SourceFields(msgspec.Struct, forbid_unknown_fields=True):
    """One log or trace that was folded in."""

    name: str
    sha256: str
    jobs: int


class ShownFields(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What one user's jobs have shown of a model."""

    coefficients: list[Positive] = []
    weight: Positive = 0.0
    seconds: dict[int, tuple[Positive, float, Positive]] = {}
    across: Positive = 0.0


class KindFields(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What the jobs of one model have shown, on accelerators of all types together or of one."""

    model: str
    form: Form
    coefficients: list[Positive] = []
    weight: Positive = 0.0
    seconds: dict[int, tuple[Positive, float, Positive]] = {}
    users: dict[str, ShownFields] = {}
    accelerator: str = ""
    across: Positive = 0.0


class DurationFields(msgspec.Struct, forbid_unknown_fields=True):
    kind: list[str | int]
    count: int
    weights: dict[Bin, Positive]


class ReachedFields(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    metric: str
    value: float
    higher: bool
    lengths: list[Steps]
    shapes: list[list[float]]


class BeliefsFields(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    headway: str = ""
    made_of: list[SourceFields] = []
    scores: dict[str, float | int | None] = {}
    until: float = 0.0
    """In the state of a live run: the run's time up to which its finished jobs are folded in."""
    kinds: list[KindFields] = []
    durations: list[DurationFields] = []
    explained: dict[str, tuple[float, Positive]] = {}
    """What kinds of jobs have explained of lengths, by what they go by; the share is the first over the second."""
    targets: list[ReachedFields] = []
    unseen: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    """In files of earlier versions; it is read over."""
    promises: dict[str, tuple[Positive, float]] = {}
    """By user: what the promises of finished jobs were worth."""
    starts: Usually = {}
    """From the decision until the job ran."""
    stops: Usually = {}
    """From the decision until the job was down."""
    on_types: dict[str, dict[str, tuple[str, dict[str, Logarithm]]]] | msgspec.UnsetType = msgspec.UNSET
    """By model and job: its user, and the logarithm of its seconds per step on each type of accelerators."""


@dataclass(frozen=True, slots=True)
class LearnedBeliefs:
    """A history and where it is from."""

    history: History = History()
    made_of: tuple[SourceFields, ...] = ()
    scores: tuple[tuple[str, float | int | None], ...] = ()
    until: float = 0.0
    name: str = ""
    """The file's name and the begin of its hash, as logs name it; empty where there is no file."""


NO_BELIEFS = LearnedBeliefs()


def write_beliefs(path: Path, beliefs: LearnedBeliefs, headway: str = "", *, private: bool = False) -> None:
    """Writes the file in one step: a reader sees the old one or the new one."""
    history = beliefs.history
    fields = BeliefsFields(
        FORMAT, VERSION, headway, list(beliefs.made_of), dict(beliefs.scores), beliefs.until,
        [_kind_fields((*key, ""), kind) for key, kind in history.kinds.items()]
        + [_kind_fields(key, kind) for key, kind in history.types.items()],
        [DurationFields(list(kind), found.count, dict(found.weights))  # type: ignore[arg-type]
         for kind, found in history.durations.histograms.items()],
        {name: (one.both, one.square) for name, one in history.durations.explained.items()},
        [
            ReachedFields(model, target.metric, target.value, target.higher, list(found.lengths),
                         [shape.tolist() for shape in found.shapes])
            for (model, target), found in history.targets.items()
        ],
        msgspec.UNSET,
        {user: (trust.count, trust.mean) for user, trust in history.users.items()},
        _usually(history.costs.starts), _usually(history.costs.stops),
        {model: {job: (one.user, dict(one.paces)) for job, one in jobs.items()}
         for model, jobs in history.on_types.by_model.items()} or msgspec.UNSET,
    )  # fmt: skip
    write_whole(path, msgspec.json.format(msgspec.json.encode(fields), indent=1), private=private)


def read_beliefs(path: Path) -> LearnedBeliefs:
    """Raises a UserError with one sentence where the file does not fit."""
    raw = read_whole(path, MOST_BYTES, "a file of beliefs")
    try:
        fields = msgspec.json.decode(raw, type=BeliefsFields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = " ".join(str(error).split())[:300]
        raise UserError(f"{path}: is not a file of beliefs: {why}; make one with `headway learn beliefs`") from error
    if (fields.format, fields.version) != (FORMAT, VERSION):
        raise UserError(
            f"{path}: field version: is {fields.format!r} version {fields.version}; this headway reads "
            f"{FORMAT!r} version {VERSION}"
        )
    try:
        history = _history(fields)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    name = f"{path.name} {hashlib.sha256(raw).hexdigest()[:12]}"
    return LearnedBeliefs(history, tuple(fields.made_of), tuple(fields.scores.items()), fields.until, name)


def is_beliefs(path: Path) -> bool:
    """Whether it is a file of beliefs that this Headway reads."""
    try:
        read_beliefs(path)
    except UserError:
        return False
    return True


# ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────


def _kind_fields(key: ModelOnType, kind: ModelHistory) -> KindFields:
    model, form, accelerator = key
    users = {user: ShownFields(*_shown_fields(one), one.across) for user, one in kind.users.items()}
    return KindFields(model, form, *_shown_fields(kind), users, accelerator, kind.across)


def _usually(usual: Usual) -> Usually:
    return {model: (one.weight, one.mean, list(one.last)) for model, one in usual.items()}


def _usual(fields: Usually) -> Usual:
    return {model: UsualSeconds(weight, mean, tuple(last)) for model, (weight, mean, last) in fields.items()}


def _shown_fields(shown: ModelHistory | Shown) -> tuple[list[float], float, dict[int, tuple[float, float, float]]]:
    seconds = {workers: (one.count, one.mean, one.square) for workers, one in shown.seconds.items()}
    return list(shown.coefficients), shown.weight, seconds


def _history(fields: BeliefsFields) -> History:
    kinds, types, targets = {}, {}, {}
    durations: dict[tuple[object, ...], Histogram] = {}
    for number, one in enumerate(fields.kinds):
        kind = _kind(f"field kinds[{number}]", one)
        if one.accelerator:
            types[one.model, one.form, one.accelerator] = kind
        else:
            kinds[one.model, one.form] = kind
    for number, two in enumerate(fields.durations):
        _check(0 < len(two.kind) < 6 and two.count >= 0, f"field durations[{number}]", "is no kind of job")
        weights: dict[int, float] = dict(two.weights)
        _check(0 < sum(weights.values()) < math.inf, f"field durations[{number}].weights", "must not all be 0")
        durations[tuple(two.kind)] = Histogram(two.count, weights)
    for number, three in enumerate(fields.targets):
        targets[three.model, Target(metric=three.metric, value=three.value, higher=three.higher)] = _reached(
            f"field targets[{number}]", three
        )
    users = {user: UserReliability(*numbers) for user, numbers in fields.promises.items()}
    explained = {name: Explained(*numbers) for name, numbers in fields.explained.items()}
    costs = ChangeCosts(_usual(fields.starts), _usual(fields.stops))
    shown = fields.on_types or {}
    on_types = TypeLessons.of(
        (model, JobId(job), TypeLesson(*told)) for model, jobs in shown.items() for job, told in jobs.items()
    )
    return History(kinds, Durations(durations, explained), targets, users, types=types, on_types=on_types, costs=costs)


def _kind(where: str, fields: KindFields) -> ModelHistory:
    users = {
        user: Shown(*_numbers(f"{where}.users.{user}", fields.form, one), one.across)
        for user, one in fields.users.items()
    }
    return ModelHistory(*_numbers(where, fields.form, fields), users, fields.across)


def _numbers(
    where: str, form: Form, fields: KindFields | ShownFields
) -> tuple[tuple[float, ...], float, dict[int, Seconds]]:
    found = _coefficients(where, form, fields.coefficients) if fields.coefficients else ()
    _check(bool(fields.coefficients) or not fields.weight, f"{where}.weight", "must be 0 without coefficients")
    _check(all(workers > 0 for workers in fields.seconds), f"{where}.seconds", "must be by one worker or more")
    seconds = {workers: Seconds(*numbers) for workers, numbers in fields.seconds.items()}
    return found, fields.weight, seconds


def _coefficients(where: str, form: Form, told: Sequence[float]) -> tuple[float, ...]:
    wanted, found = COEFFICIENTS[form], tuple(told)
    if len(found) == BEFORE[form]:
        found = (*found, *[0.0] * (wanted - len(found)))
    _check(
        len(found) == wanted and sum(found) > 0,
        f"{where}.coefficients", f"must be {wanted} numbers of 0 or more that are not all 0",
    )  # fmt: skip
    return found


def _reached(where: str, fields: ReachedFields) -> Reached:
    _check(math.isfinite(fields.value), f"{where}.value", "must be a number")
    _check(all(len(shape) == GRID for shape in fields.shapes), f"{where}.shapes", f"must have {GRID} numbers each")
    shapes: tuple[Any, ...] = tuple(np.array(shape, dtype=np.float64) for shape in fields.shapes)
    return Reached(tuple(fields.lengths), shapes)


def _check(good: bool, where: str, why: str) -> None:
    if not good:
        raise ValueError(f"{where}: {why}")
