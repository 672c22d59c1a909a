"""Model profiles read from a folder of published measurements. Built-in profiles serve for all other models.

Reads `pollux/profiles/<model>/placements.csv`, `dl2/ps_worker_speed.csv`, `elasticflow/throughputs_A100/*.csv` and
`gavel/simulation_throughputs.json.gz` below the folder, in the formats of their authors.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from headway.core.errors import UserError
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.profiles import MeasuredProfile, Profile

Points = dict[tuple[int, int], float]


def load_profiles(folder: Path) -> Mapping[str, Profile]:
    """The built-in profiles, replaced by measured ones where the folder has them."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; give one with measured profiles")
    profiles = dict(BUILT_IN)
    for read in (_pollux, _dl2, _elasticflow, _gavel):
        for model, (points, by_servers) in read(folder).items():
            form = MeasuredProfile(points, by_servers)
            known = profiles.get(model)
            profiles[model] = Profile(form=form) if known is None else replace(known, form=form, error=0.0)
    return profiles


Found = dict[str, tuple[Points, bool]]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def _number(path: Path, row: Mapping[str, str], field: str) -> float:
    try:
        return float(row[field])
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: field {field}: must be a number, is {row.get(field)!r}") from error


def _pollux(folder: Path) -> Found:
    """Speed by workers and nodes, at the median of the measured batch sizes per replica."""
    found: Found = {}
    for path in sorted(folder.glob("pollux/profiles/*/placements.csv")):
        rows = _rows(path)
        batches = sorted({_number(path, row, "local_bsz") for row in rows})
        wanted = batches[len(batches) // 2] if batches else 0.0
        times: dict[tuple[int, int], list[float]] = defaultdict(list)
        for row in rows:
            seconds = _number(path, row, "step_time")
            if _number(path, row, "local_bsz") == wanted and seconds > 0:
                digits = [int(digit) for digit in row["placement"]]
                times[sum(digits), len(digits)].append(seconds)
        if times:
            found[path.parent.name] = ({key: key[0] / median(seconds) for key, seconds in times.items()}, False)
    return found


def _dl2(folder: Path) -> Found:
    """Speed by workers and parameter servers."""
    path = folder / "dl2" / "ps_worker_speed.csv"
    found: dict[str, Points] = defaultdict(dict)
    for row in _rows(path) if path.exists() else ():
        speed = _number(path, row, "speed_steps_sum")
        if speed > 0:
            model = row["model"].removesuffix("-classification")
            found[model][int(_number(path, row, "num_worker")), int(_number(path, row, "num_ps"))] = speed
    return {model: (points, True) for model, points in found.items()}


def _elasticflow(folder: Path) -> Found:
    """Iterations per second at the largest batch, with eight accelerators per node."""
    found: Found = {}
    for path in sorted(folder.glob("elasticflow/throughputs_A100/*.csv")):
        rows = _rows(path)
        points = {
            (int(count), -(-int(count) // 8)): float(speed)
            for count, speed in (rows[-1] if rows else {}).items()
            if count.isdigit() and speed and float(speed) > 0
        }
        if points and path.stem not in _IN_POLLUX:
            found[path.stem] = (points, False)
    return found


_IN_POLLUX = ("bert", "deepspeech2")
"""Models that Pollux measured by placement, which says more."""


def _gavel(folder: Path) -> Found:
    """Steps per second of whole gangs on V100, consolidated and spread out, at the first listed batch size.

    A model's name is `gavel-` and Gavel's own name in lower case, without the batch size.
    """
    path = folder / "gavel" / "simulation_throughputs.json.gz"
    if not path.exists():
        return {}
    try:
        with gzip.open(path) as file:
            table = json.load(file)
        speeds: dict[str, Points] = defaultdict(dict)
        for suffix, spread in (("v100", False), ("v100_unconsolidated", True)):
            for job, values in table[suffix].items():
                name = re.match(r"\('([^'(]+?)(?: \(batch size (\d+)\))?', (\d+)\)", job)
                if name and values["null"] > 0:
                    scale = int(name.group(3))
                    nodes = scale if spread else -(-scale // 4)
                    speeds[f"gavel-{name.group(1).lower()}"].setdefault((scale, nodes), values["null"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is not a table of throughputs: {error}") from error
    return {model: (points, False) for model, points in speeds.items()}
