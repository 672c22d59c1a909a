"""Finished runs, kept in the user's cache folder: an interrupted experiment continues where it stopped.

There is one file for each cell, seed and policy. Its name is a digest of everything that the run depends on: Headway's
source, the jobs and nodes, the policy with its settings, the seed. After any change, the run is made again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import headway
from headway.compare.scenario import Scenario
from headway.core.node import FloatArray
from headway.experiment.case import Cell, Entry, RunSize
from headway.record.results import Outcome

PARTS = ("compare", "core", "cycle", "estimates", "experiment", "jobspec", "policies", "record", "sim", "workload")
"""Packages that a run depends on."""
OLD = 30 * 86_400.0
"""Seconds after which the runs of another version are deleted."""
_COLUMNS = ("completion", "wait", "slowdown")


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder of finished runs."""

    folder: Path
    fresh: bool = False
    """Earlier runs are not used; new runs are kept."""

    def get(self, key: str) -> Outcome | None:
        """The kept run; None if there is none that can be read."""
        if self.fresh:
            return None
        try:
            said = json.loads(self._file(key).read_bytes())
            completion, wait, slowdown = (_column(said[name]) for name in _COLUMNS)
            return Outcome(said["name"], said["seed"], said["result"], completion, wait, slowdown, {})
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, key: str, found: Outcome) -> None:
        """Writes the whole run or nothing, even if the process is killed; nothing if the folder cannot be written."""
        said: dict[str, Any] = {"name": found.name, "seed": found.seed, "result": found.result}
        said |= {name: getattr(found, name).tolist() for name in _COLUMNS}
        file = self._file(key)
        beside = file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(said), encoding="utf-8")
            beside.replace(file)

    def _file(self, key: str) -> Path:
        return self.folder / source()[:16] / f"{key}.json"


def kept(*, fresh: bool = False) -> Kept:
    """The user's cache folder. Old runs of other versions are deleted from it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    found = Kept(Path(base) / "headway" / "experiments", fresh)
    (found.folder / source()[:16]).mkdir(parents=True, exist_ok=True)
    for other in found.folder.iterdir():
        if other.name != source()[:16] and time.time() - other.stat().st_mtime > OLD:
            shutil.rmtree(other, ignore_errors=True)
    return found


def key_of(of: tuple[str, Cell, RunSize], case: Scenario, entry: Entry, seed: int) -> str:
    """`of`: the experiment's name, the cell and how much is run. Other seeds do not matter."""
    name, cell, size = of
    told = (name, cell, size.jobs, size.quick, seed, entry.label, entry.policy, sorted(entry.settings.items()),
            entry.rigid, entry.estimates, content(case))  # fmt: skip
    return sha256(repr(told).encode()).hexdigest()[:32]


def content(case: Scenario) -> str:
    """A digest of the jobs, how long each takes, and the nodes."""
    told = sha256(repr((case.estimates, case.nodes)).encode())
    for job in case.trace.jobs:
        told.update(repr((job, case.trace.work(job))).encode())
    return told.hexdigest()


@cache
def source() -> str:
    """A digest of the code that runs depend on, and of the versions of Python and numpy."""
    told = sha256(repr((sys.version_info[:3], np.__version__)).encode())
    root = Path(headway.__file__).parent
    for file in sorted(file for part in PARTS for file in (root / part).rglob("*.py")):
        told.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return told.hexdigest()


def _column(values: Sequence[float]) -> FloatArray:
    return np.array(values, np.float64)
