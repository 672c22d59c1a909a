"""Finished live runs, kept: who was interrupted goes on where it stopped."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headway.compare.scenario import Scenario
from headway.experiment.native.contenders import Contender
from headway.experiment.native.live import How, LiveResult
from headway.experiment.native.slices import Slice, renamed
from headway.lab import RELEASE


@dataclass(frozen=True, slots=True)
class LiveRun:
    """Which run, and how."""

    slice: Slice
    name: str
    """Of the contender."""
    jobs: int
    repeat: int = 1
    times: float = 0.0
    """So many times as fast as the machine's clock; 0: time stands while the scheduler works."""
    release: str = RELEASE

    @property
    def key(self) -> str:
        parts = [self.slice.name, self.name, f"{self.jobs} jobs", f"repeat {self.repeat}", self.release]
        return "-".join([*parts, *([f"{self.times:g}x"] if self.times else [])]).replace(" ", "_")


class LiveRuns:
    """A folder of finished runs. One of another version of Headway is used as well, and that is told."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self._folder, self._fresh = folder, fresh
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, run: LiveRun) -> LiveResult | None:
        if self._fresh:
            return None
        try:
            said = json.loads(self._file(run).read_bytes())
            arrays = {name: np.array(said[name], np.float64) for name in ("completion", "finished", "half")}
            return LiveResult(**{"cut": False, **said, **arrays, "decided": tuple(said["decided"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, run: LiveRun, found: LiveResult) -> None:
        said = {name: getattr(found, name) for name in LiveResult.__slots__}
        said |= {name: said[name].tolist() for name in ("completion", "finished", "half")}
        file = self._file(run)
        beside = file.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(said), encoding="utf-8")
        beside.replace(file)

    def log(self, run: LiveRun) -> Path:
        """Where Headway's own log of the run is kept."""
        return self._folder / f"{run.key}.log"

    def _file(self, run: LiveRun) -> Path:
        return self._folder / f"{run.key}.json"


def case_of(run: LiveRun, contender: Contender) -> Scenario:
    """The slice as this contender gets it, live and in virtual time, with what it begins with."""
    case = contender.case(renamed(run.slice.case(run.jobs)))
    return replace(case, beliefs=contender.beliefs(run.slice.source))


def how_of(run: LiveRun, runs: LiveRuns) -> How:
    return How(run.times, run.release, runs.log(run))
