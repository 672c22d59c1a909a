"""Real training curves that end at a target: MLPerf logs and the validation curves published with Pollux."""

from __future__ import annotations

import csv
import gzip
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from headway.core.errors import UserError
from headway.estimates.evaluate import Way

TARGETS: Mapping[str, float] = {
    "resnet": 0.759, "ssd": 0.23, "maskrcnn": 0.377, "gnmt": 0.24, "transformer": 0.25, "dlrm": 0.8025, "rnnt": 0.058,
    "unet3d": 0.908, "bert": 0.712, "v1.0/bert": 0.72,
}  # fmt: skip
"""The quality at which a benchmark stops, by name; a later round may have another."""
POLLUX_SHARE = 0.98
"""Pollux's curves run for a number of epochs. Their target here is this share of the way from first to best value."""


def read_ways(folder: Path) -> list[Way]:
    """Every curve below a folder of traces that reaches its target after three values or more."""
    return [*_mlperf(folder / "mlperf"), *_pollux(folder / "pollux" / "profiles")]


def made_up_ways(seed: int) -> list[Way]:
    """Six synthetic models of different shape, twelve runs each, for use without traces."""
    chance = random.Random(seed)  # noqa: S311  a simulation, not a secret
    shapes: dict[str, Callable[[float], float]] = {
        "inverse": lambda u: 1.0 - 1.0 / (1.0 + 12.0 * u),
        "exponential": lambda u: 1.0 - math.exp(-4.0 * u),
        "root": math.sqrt,
        "logarithm": lambda u: math.log1p(200.0 * u),
        "straight": lambda u: u,
        "two drops": lambda u: 0.6 * (1 - math.exp(-8 * u)) + 0.2 * (u > 0.5) + 0.2 * (u > 0.8),
    }
    ways = []
    for name, shape in shapes.items():
        for run in range(12):
            length, end = 3600.0 * chance.lognormvariate(0.0, 0.08), shape(1.0)
            points = [
                (length * i / 60, 0.8 * shape(i / 60) / end * (1 + chance.gauss(0.0, 0.01))) for i in range(1, 90)
            ]
            way = _way(f"made up {name}", f"{name}/{run // 6}", points, 0.8)
            ways += [way] if way is not None else []
    return ways


def _mlperf(folder: Path) -> Iterator[Way]:
    runs, curves = folder / "runs.csv.gz", folder / "eval_curves.csv.gz"
    if not (runs.exists() and curves.exists()):
        return
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in _rows(curves):
        at, value = _number(curves, row, "elapsed_s"), _number(curves, row, "metric")
        if at > 0 and math.isfinite(value):
            points[row["run_id"]].append((at, value))
    for row in _rows(runs):
        name = row["benchmark"]
        target = TARGETS.get(f"{row['round']}/{name}", TARGETS.get(name))
        seen = sorted(points.get(row["run_id"], ()))
        if row["status"] != "success" or target is None or not seen:
            continue
        if max(value for _, value in seen) > 1.5 and name in ("gnmt", "transformer"):
            target *= 100.0
        like = (row["round"], name, row["system"], row["global_batch_size"])
        way = _way(f"mlperf {name}", "/".join(like), seen, target)
        if way is not None:
            yield way


def _pollux(folder: Path) -> Iterator[Way]:
    for path in sorted(folder.glob("*/validation-*.csv")):
        points = [(_number(path, row, "iteration"), _number(path, row, "metric")) for row in _rows(path)]
        if len(points) < 4:
            continue
        values = [value for _, value in points]
        best = min(values) if values[-1] < values[0] else max(values)
        target = values[0] + POLLUX_SHARE * (best - values[0])
        way = _way(f"pollux {path.parent.name}", f"{path.parent.name}/{path.stem}", points, target)
        if way is not None:
            yield way


def _way(model: str, like: str, points: list[tuple[float, float]], target: float) -> Way | None:
    """Cut where the target is first reached."""
    falls = target < points[0][1]
    end = next((n for n, (_, value) in enumerate(points) if (value <= target if falls else value >= target)), None)
    return Way(model, like, tuple(points[: end + 1]), target) if end is not None and end >= 2 else None


def _rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="") as file:
            yield from csv.DictReader(file)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error


def _number(path: Path, row: Mapping[str, str], field: str) -> float:
    text = row.get(field)
    if text is None:
        raise UserError(f"{path}: field {field}: the column is missing")
    try:
        return float(text) if text else math.nan
    except ValueError as error:
        raise UserError(f"{path}: field {field}: must be a number, is {text!r}") from error
