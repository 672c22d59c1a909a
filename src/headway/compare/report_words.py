"""Numbers as words, and the few sentences that a reader in a hurry takes home."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Told(Protocol):
    @property
    def rows(self) -> Any: ...
    @property
    def baseline(self) -> str: ...
    @property
    def bounds(self) -> Mapping[str, Any]: ...


_UNITS = ((120.0, "s", 1.0), (7200.0, "min", 60.0), (172_800.0, "h", 3600.0), (float("inf"), "d", 86_400.0))


def duration(seconds: float | None) -> str:
    """In the unit that a person would choose, three digits."""
    return in_one_unit([seconds])(seconds)


def in_one_unit(values: Sequence[float | None]) -> Callable[[float | None], str]:
    """Says durations in the unit that suits the middle one, so that a column can be compared by eye."""
    known = sorted(abs(value) for value in values if value is not None) or [0.0]
    middle = known[len(known) // 2]
    _, unit, divisor = next(entry for entry in _UNITS if middle < entry[0])
    return lambda seconds: "" if seconds is None else f"{_digits(seconds / divisor)} {unit}"


def _digits(value: float) -> str:
    if value and abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}".replace("%", " %")


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def interval(pair: list[float] | None, say: Any) -> str:
    return "" if pair is None else f"{say(pair[0])} to {say(pair[1])}"


def takeaways(told: Told) -> list[str]:
    rows = [row for row in told.rows if row["jct"]["mean"] is not None]
    if not rows:
        return ["No job finished."]
    most = max(row["finished"] for row in rows)
    best = min((row for row in rows if row["finished"] == most), key=lambda row: row["jct"]["mean"])
    said = [_best(best, told.baseline, several=len(rows) > 1), *_bounds(best, told.bounds)]
    if len(rows) > 1 and best["policy"] != told.baseline:
        worse = best["worse"]
        factor = worse["factor"]["p50"]
        much = f", half of them by {factor:.2f} times or more" if factor else ""
        said.append(f"Under {best['policy']}, {percent(worse['share'])} of jobs took longer than under "
                    f"{told.baseline}{much}; {percent(worse['better'])} were done sooner.")  # fmt: skip
    asked = [row for row in rows if row["deadlines"]["total"]]
    if asked:
        first = max(asked, key=lambda row: row["deadlines"]["met"])
        met = first["deadlines"]
        said.append(f"{first['policy']} meets {count(met['met'])} of {count(met['total'])} deadlines"
                    + (", the most." if len(asked) > 1 else "."))  # fmt: skip
    left = [
        f"{row['policy']} ({count(row['jobs'] - row['finished'])})" for row in rows if row["finished"] < row["jobs"]
    ]
    if left:
        said.append(f"Not every job finished under {', '.join(left)}: times there are of the finished ones only.")
    return said


def _best(best: Mapping[str, Any], baseline: str, *, several: bool) -> str:
    mean, ci = duration(best["jct"]["mean"]), best["ci"]
    if not several:
        return f"{best['policy']}: mean completion time {mean}, median {duration(best['jct']['p50'])}."
    if best["policy"] == baseline:
        return f"{best['policy']}, the baseline, has the lowest mean completion time: {mean}."
    spread = interval(ci.get("baseline"), times)
    return (
        f"{best['policy']} has the lowest mean completion time: {mean}, which is {times(best['ratio']['baseline'])} of "
        f"{baseline}'s" + (f" (95 % interval {spread})." if spread else ".")
    )


def _bounds(best: Mapping[str, Any], bounds: Mapping[str, Any]) -> list[str]:
    said = []
    ratio = best["ratio"]
    if bounds.get("clairvoyant") and ratio["clairvoyant"]:
        said.append(f"That is {times(ratio['clairvoyant'])} times the best clairvoyant policy "
                    f"({bounds['clairvoyant']['policy']} with true remaining times).")  # fmt: skip
    if bounds.get("area") and ratio["area"]:
        said.append(f"It is {times(ratio['area'])} times the area bound, {duration(bounds['area']['jct'])}, "
                    "below which no policy's mean can be.")  # fmt: skip
    return said
