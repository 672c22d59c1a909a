"""Real training curves that end at a target: MLPerf logs and the validation curves published with Pollux."""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from headway.core.errors import UserError
from headway.predict.evaluate import Way

TARGETS: Mapping[str, float] = {
    "resnet": 0.759, "ssd": 0.23, "maskrcnn": 0.377, "gnmt": 0.24, "transformer": 0.25, "dlrm": 0.8025, "rnnt": 0.058,
    "unet3d": 0.908, "bert": 0.712, "v1.0/bert": 0.72,
}  # fmt: skip
"""The quality at which a benchmark stops, by name; a later round may have another."""
POLLUX_SHARE = 0.98
"""Pollux's curves run for a number of epochs. Their target here: so much of the way from first value to best."""


def read_ways(folder: Path) -> list[Way]:
    """Every curve below a folder of traces that reaches its target after three values or more."""
    return [*_mlperf(folder / "mlperf"), *_pollux(folder / "pollux" / "profiles")]


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
        raise UserError(f"{path}: field {field}: there is no such column")
    try:
        return float(text) if text else math.nan
    except ValueError as error:
        raise UserError(f"{path}: field {field}: a number is needed, not {text!r}") from error
