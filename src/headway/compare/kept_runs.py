"""Finished runs, kept: who was interrupted continues where it stopped, and nothing else is taken for a run.

A run is known by a digest of everything that it depends on: all of Headway's source (`source`), the jobs and nodes
(`content`), the policy with its settings, the seed. After any change the run is made again. `KeptRuns` is a folder with
a file for each run, for experiments; `RunsFile` one file with a line for each, which users name (`headway tune`).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import headway
from headway.compare.scenario import Scenario
from headway.core.errors import UserError
from headway.core.node import FloatArray
from headway.record.results import Outcome

OLD = 30 * 86_400.0
"""Seconds after which the runs of another version are deleted."""
BEGINS = '{"run"'
"""How a file of finished runs begins."""
_COLUMNS = ("completion", "wait", "slowdown")


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """A folder of finished runs."""

    folder: Path
    fresh: bool = False
    """Earlier runs are not used; new runs are kept."""

    @classmethod
    def of_user(cls, *, fresh: bool = False) -> KeptRuns:
        """The user's cache folder. Old runs of other versions are deleted from it."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        found = cls(Path(base) / "headway" / "experiments", fresh)
        (found.folder / source()[:16]).mkdir(parents=True, exist_ok=True)
        for other in found.folder.iterdir():
            if other.name != source()[:16] and time.time() - other.stat().st_mtime > OLD:
                shutil.rmtree(other, ignore_errors=True)
        return found

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


class RunsFile:
    """Figures of finished runs by key, a line each; in memory only where no file is named."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._known: dict[str, Mapping[str, Any]] = {}
        if path is None or not path.exists():
            return
        text = path.read_text(encoding="utf-8", errors="replace")
        if text and not text.startswith(BEGINS):
            raise UserError(f"{path}: is not a file of finished runs; name another as --state, or remove it")
        for line in text.splitlines():
            with suppress(ValueError, KeyError, TypeError):  # a line that a kill has cut
                said = json.loads(line)
                self._known[said.pop("run")] = said
        if text and not text.endswith("\n"):
            self._append("\n")

    def get(self, key: str) -> Mapping[str, Any] | None:
        return self._known.get(key)

    def put(self, key: str, figures: Mapping[str, Any]) -> None:
        self._known[key] = figures
        self._append(json.dumps({"run": key, **figures}) + "\n")

    def _append(self, text: str) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)


def content(case: Scenario) -> str:
    """A digest of the jobs, how long each takes, the nodes, the world, and what is believed at the start."""
    told = sha256(repr((case.estimates, case.nodes, case.beliefs.name, _name(case.world))).encode())
    for job in case.trace.jobs:
        told.update(repr((job, case.trace.work(job))).encode())
    return told.hexdigest()


@cache
def source() -> str:
    """A digest of all of Headway's files, and of the versions of Python and numpy."""
    return source_of(Path(headway.__file__).parent)


def source_of(root: Path) -> str:
    told = sha256(repr((sys.version_info[:3], np.__version__)).encode())
    for file in sorted(root.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            told.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return told.hexdigest()


def _name(made: object) -> object:
    """A function and what it is given, the same in every process."""
    if isinstance(made, partial):
        return (
            _name(made.func),
            [_name(one) for one in made.args],
            sorted((k, _name(v)) for k, v in made.keywords.items()),
        )
    return f"{made.__module__}.{made.__qualname__}" if callable(made) and hasattr(made, "__qualname__") else repr(made)


def _column(values: Sequence[float]) -> FloatArray:
    return np.array(values, np.float64)
