"""What the book believes of each job: how long it still trains, and how fast it would be at another size.

A policy cannot tell where a belief comes from. Time left is kept as, for example, "80 seconds at 12:00, and they burn
down while the job trains", so that it changes only when something happens. Everything is computed when first asked for.
What was asked is remembered, because the log keeps only what a policy saw.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headway.core.node import BoolArray, FloatArray
from headway.core.scaling import Scaling, ScalingSource, ScalingsSource, SizeSpan

CodeArray = npt.NDArray[np.uint8]

Counts = tuple[int, ...]
"""Replicas per role, in the job's order."""
SpeedSource = Callable[[int, Counts], float]
"""Row and counts to speed, relative to the requested size."""


class Growth(enum.IntEnum):
    """How fast a job's model still improves, compared with how fast it once did."""

    UNKNOWN = 0
    PROGRESSING = 1
    WATCHING = 2
    """Slow in one interval, which may be noise."""
    CONVERGING = 3


class Basis(enum.IntEnum):
    """What a belief about time left rests on; where progress is not believed, why not."""

    NOTHING = 0
    DECLARED = 1
    HISTORY = 2
    STEPS = 3
    CURVE = 4
    SILENT = 5
    BACKWARDS = 6
    CLOCK = 7
    OVERRUN = 8
    ERRATIC = 9
    TARGET = 10
    LATE = 11

    @property
    def odd(self) -> bool:
        """The job reports, but its reports are not believed."""
        return self in _ODD

    @property
    def believed(self) -> bool:
        """Something is known of the job, and its reports are not odd."""
        return self is not Basis.NOTHING and self not in _ODD

    @property
    def own_word(self) -> bool:
        """The belief rests on the job's own reports or on what its user declared."""
        return self.believed and self is not Basis.HISTORY


_ODD = frozenset({Basis.SILENT, Basis.BACKWARDS, Basis.CLOCK, Basis.OVERRUN, Basis.ERRATIC, Basis.LATE})
_IS_ODD = np.array([basis.odd for basis in sorted(Basis)])
_IS_OWN_WORD = np.array([basis.own_word for basis in sorted(Basis)])


def odd(bases: CodeArray) -> BoolArray:
    """`Basis.odd` of a whole column."""
    found: BoolArray = _IS_ODD[bases]
    return found


def own_word(bases: CodeArray) -> BoolArray:
    """`Basis.own_word` of a whole column."""
    found: BoolArray = _IS_OWN_WORD[bases]
    return found


OVERRUN_SHARE = 0.1
"""A job that should be done by now and is not: it is expected to need this share of what it has trained."""

BASES: dict[Basis, str] = {
    Basis.NOTHING: "nothing is known: no time was declared, too few like jobs have finished and it has not reported",
    Basis.DECLARED: "as the user declared: it has not reported enough yet",
    Basis.HISTORY: "as long as like jobs took",
    Basis.STEPS: "steps left, at its measured speed",
    Basis.CURVE: "steps until its loss no longer falls, at its measured speed",
    Basis.TARGET: "steps until its target, by its metric and like jobs, at its measured speed",
    Basis.SILENT: "its reports stopped, so they are no longer believed",
    Basis.BACKWARDS: "its steps go backwards without a restart, so its reports are not believed",
    Basis.CLOCK: "its reports carry impossible times, so they are not believed",
    Basis.LATE: "its reports promised an earlier end several times, so they are not believed",
    Basis.OVERRUN: "it trains past its own total of steps, so its reports are not believed",
    Basis.ERRATIC: "its steps or their total jump out of proportion, so its reports are not believed",
}
"""The sentence for people, without numbers."""


class OnTypes(NamedTuple):
    """What is believed of one job on each type of accelerators, in the order of `Nodes.types`."""

    seconds: tuple[float, ...]
    """Seconds there for each second of `Beliefs.left`; infinite where it does not train."""
    measured: tuple[bool, ...]
    """Whether the job itself was measured there."""


TypesSource = Callable[[Sequence[int]], list[OnTypes]]
"""Rows to what is believed of these jobs on each type."""


class Beliefs(NamedTuple):
    """Columns by row. `left` is NaN where nothing is known. A plain book has only the first three columns."""

    left: FloatArray
    """Seconds of training left at the present size, or at the requested size while the job waits; as of `at`."""
    at: FloatArray
    burning: BoolArray
    spread: FloatArray | None = None
    """Standard deviation of `left` as a share of it; NaN where it is unknown."""
    growth: CodeArray | None = None
    """`Growth`."""
    growth_since: FloatArray | None = None
    basis: CodeArray | None = None
    """`Basis`."""

    @property
    def rich(self) -> bool:
        """Whether the book has more than times: it has all four further columns or none."""
        return self.spread is not None


SentenceSource = Callable[[int, Basis, float], str]
"""Row, basis and the moment to a sentence for people."""
RowBelief = Callable[[int], tuple[float, float, bool]]
"""Row to seconds left, the moment as of which, and whether they burn down."""


def says_basis(_row: int, basis: Basis, _now: float) -> str:
    """The basis and no more."""
    return BASES[basis]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the book believes of one job, to show to people."""

    left: float
    """Seconds of training left; NaN where nothing is known."""
    spread: float
    """Standard deviation of `left` as a share of it; NaN where it is unknown."""
    basis: Basis
    sentence: str
    """What the belief rests on."""


class Estimates:
    """What a book writes into a snapshot. Computed when first asked for."""

    __slots__ = (
        "_beliefs", "_scaling", "_scalings", "_sentence", "_source", "_speed",
        "_types", "asked_scalings", "asked_speeds", "asked_types", "of_row", "sizes",
    )  # fmt: skip

    def __init__(
        self,
        source: Callable[[], Beliefs] | None = None,
        speed: SpeedSource | None = None,
        sentence: SentenceSource = says_basis,
        scaling: ScalingSource | None = None,
        scalings: ScalingsSource | None = None,
        of_row: RowBelief | None = None,
    ) -> None:
        self._source, self._speed = source, speed
        self._types: TypesSource | None = None
        self._sentence = sentence
        self._scaling = scaling
        self._scalings = scalings
        self.of_row = of_row
        """Of a plain book whose belief about a job follows from its row alone: that belief, without the columns. It
        changes only when the row does."""
        self.sizes: object = None
        """What the book keeps of sizes from cycle to cycle (`estimates.sizes`)."""
        self._beliefs: Beliefs | None = None
        self.asked_speeds: dict[tuple[int, Counts], float] = {}
        """By row and counts: the speeds that were asked for so far."""
        self.asked_scalings: dict[int, Scaling] = {}
        """By row: the same for whole tables of sizes."""
        self.asked_types: dict[int, OnTypes] = {}
        """By row: the same for types of accelerators."""

    @property
    def tells_types(self) -> bool:
        """Whether it is believed how long a job takes on each type of accelerators."""
        return self._types is not None

    @property
    def known(self) -> bool:
        return self._source is not None

    @property
    def asked(self) -> bool:
        """Whether the time left was asked for."""
        return self._beliefs is not None

    @property
    def beliefs(self) -> Beliefs:
        if self._beliefs is None:
            assert self._source is not None, "there are no estimates: choose a book with --estimates"
            self._beliefs = self._source()
        return self._beliefs

    def left(self, now: float) -> FloatArray:
        """By row: seconds of training left, never below zero; NaN where nothing is known."""
        beliefs = self.beliefs
        left: FloatArray = np.maximum(beliefs.left - np.where(beliefs.burning, now - beliefs.at, 0.0), 0.0)
        return left

    def left_of(self, rows: npt.NDArray[np.intp], now: float) -> FloatArray:
        """The same for these rows only, in their order."""
        beliefs = self.beliefs
        left: FloatArray = beliefs.left[rows]
        burns = beliefs.burning[rows].nonzero()[0]
        if len(burns) == len(rows):
            left -= now - beliefs.at[rows]
        elif len(burns):
            left[burns] -= now - beliefs.at[rows[burns]]
        return np.maximum(left, 0.0, out=left)

    def spread(self) -> FloatArray:
        """By row: standard deviation of time left as a share of it; NaN where it is unknown."""
        spread = self.beliefs.spread
        return np.full(len(self.beliefs.left), np.nan) if spread is None else spread

    def growth(self) -> tuple[CodeArray, FloatArray]:
        """By row: `Growth`, and since when."""
        beliefs = self.beliefs
        if beliefs.growth is None or beliefs.growth_since is None:
            return np.zeros(len(beliefs.left), np.uint8), np.full(len(beliefs.left), np.nan)
        return beliefs.growth, beliefs.growth_since

    def basis(self, row: int) -> Basis:
        """What the belief about this job rests on; `BASES` has the sentence."""
        beliefs = self.beliefs
        if beliefs.basis is not None:
            return Basis(int(beliefs.basis[row]))
        return Basis.DECLARED if np.isfinite(beliefs.left[row]) else Basis.NOTHING

    def of(self, row: int, now: float) -> Estimate:
        """What is believed of one job, to show to people.

        Ask after the cycle's log line was written: the log keeps the beliefs of cycles in which they were asked for.
        """
        if self._source is None:
            return Estimate(np.nan, np.nan, Basis.NOTHING, "there are no estimates: choose a book with --estimates")
        beliefs, basis = self.beliefs, self.basis(row)
        burnt = now - beliefs.at.item(row) if beliefs.burning[row] else 0.0
        left = beliefs.left.item(row) - burnt
        spread = np.nan if beliefs.spread is None else beliefs.spread.item(row)
        return Estimate(left if np.isnan(left) else max(0.0, left), spread, basis, self._sentence(row, basis, now))

    def speed(self, row: int, counts: Counts) -> float:
        """How fast the job would train with these replicas per role, relative to the requested size."""
        asked = (row, counts)
        known = self.asked_speeds.get(asked)
        if known is None:
            assert self._speed is not None, "there are no estimates: choose a book with --estimates"
            known = self.asked_speeds[asked] = float(self._speed(row, counts))
        return known

    def scaling(self, row: int, span: SizeSpan) -> Scaling:
        """How fast a job of one role would be at all its sizes, at once."""
        known = self.asked_scalings.get(row)
        if known is None or len(known.speeds) <= span.max:
            known = self.asked_scalings[row] = self._all_sizes(row, span)
        return known

    def scalings(self, rows: Sequence[int], spans: Sequence[SizeSpan]) -> list[Scaling]:
        """The same for several jobs."""
        asked = self.asked_scalings
        if not asked and self._scalings is not None:
            found = self._scalings(rows, spans)
            asked.update(zip(rows, found, strict=True))
            return found
        missing = [(row, span) for row, span in zip(rows, spans, strict=True) if row not in asked]
        if missing and self._scalings is not None:
            new = [row for row, _ in missing]
            asked.update(zip(new, self._scalings(new, [span for _, span in missing]), strict=True))
        known = map(asked.get, rows)
        return [one if one is not None and len(one.speeds) > span.max else self.scaling(row, span)
                for row, span, one in zip(rows, spans, known, strict=True)]  # fmt: skip

    def on_types(self, rows: Sequence[int]) -> list[OnTypes]:
        """How long these jobs take on each type of accelerators."""
        asked = self.asked_types
        missing = [row for row in rows if row not in asked]
        if missing:
            assert self._types is not None, "this book does not tell types of accelerators apart"
            asked.update(zip(missing, self._types(missing), strict=True))
        return [asked[row] for row in rows]

    def with_sizes(self, sizes: object) -> Estimates:
        """For the book that makes them: these estimates, with what the book keeps of sizes."""
        self.sizes = sizes
        return self

    def with_types(self, types: TypesSource | None) -> Estimates:
        """The same for what it believes of types of accelerators; None: it believes nothing of them."""
        self._types = types
        return self

    def _all_sizes(self, row: int, span: SizeSpan) -> Scaling:
        if self._scaling is not None:
            return self._scaling(row, span)
        assert self._speed is not None, "there are no estimates: choose a book with --estimates"
        speed = self._speed
        return Scaling.asked_one_by_one(lambda count: speed(row, (count,)), span)


NO_ESTIMATES = Estimates()
"""The estimates of a snapshot into which no book has written."""
