"""The six models of Pollux's simulator, from its published profiles, and jobs that train them epoch by epoch.

Seconds per iteration come from `placements.csv` if that placement was measured (interpolated between two batch sizes),
otherwise from all measurements by nodes, replicas and batch per replica. The progress of an iteration at a batch size
comes from the noise of the gradient in `validation-*.csv`, epoch by epoch.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.interpolate import LinearNDInterpolator

Floats = npt.NDArray[np.float64]
Spots = tuple[int, ...]
"""GPUs used on each node, in the order in which the nodes were taken."""
GPUS_PER_NODE, MOST_NODES = 4, 16
EPOCHS = {"bert": 2, "cifar10": 100, "deepspeech2": 80, "imagenet": 90, "ncf": 10, "yolov3": 50}
MOST_PER_REPLICA = {"yolov3": 8}
"""Batch per replica; for the others the largest that was measured."""
_EPSILON = 1e-8


@dataclass(frozen=True)
class Steps:
    """How a batch is divided: samples per pass, and passes before gradients are exchanged."""

    samples: int
    more: int
    """Further passes before the exchange."""

    def batch(self, replicas: int) -> int:
        return replicas * self.samples * (self.more + 1)


@dataclass(eq=False)
class Model:
    name: str
    folder: Path
    _known: dict[tuple[Spots, int], tuple[float, float]] = field(default_factory=dict)

    # ── batch sizes ─────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def validation(self) -> dict[int, dict[str, Floats]]:
        """By batch size: columns by epoch."""
        found = {}
        for path in self.folder.glob("validation-*.csv"):
            columns = _columns(path)
            found[int(path.stem.rpartition("-")[2])] = {name: np.array(values) for name, values in columns.items()}
        return dict(sorted(found.items()))

    @cached_property
    def epochs(self) -> int:
        return EPOCHS[self.name]

    @cached_property
    def least_per_replica(self) -> int:
        return int(min(self._placements["local_bsz"]))

    @cached_property
    def most_per_replica(self) -> int:
        return MOST_PER_REPLICA.get(self.name) or int(max(self._placements["local_bsz"]))

    @property
    def base_batch(self) -> int:
        return min(self.validation)

    def steps(self, replicas: int, batch: int, *, guess: bool = False) -> Steps:
        """A single replica needs two passes to measure the noise; Optimus' estimate assumes two always."""
        each = math.ceil(batch / replicas - _EPSILON)
        more = math.ceil(each / self.most_per_replica - _EPSILON) - 1
        if replicas == 1 and (guess or batch > self.base_batch):
            more = max(1, more)
        samples = math.ceil(each / (more + 1) - _EPSILON)
        return Steps(min(samples, int(max(self.validation) / (replicas * (more + 1)))), more)

    # ── seconds ─────────────────────────────────────────────────────────────────────────────────────────

    def seconds(self, spots: Spots, steps: Steps) -> float:
        """One iteration."""
        step, sync = self._measured(spots, steps.samples)
        return step + (step - sync) * steps.more

    def _measured(self, spots: Spots, samples: int) -> tuple[float, float]:
        """Step and exchange of one pass. Nodes form a ring: where it begins does not matter."""
        ring = min(spots[i:] + spots[:i] for i in range(len(spots)))
        known = self._known.get((ring, samples))
        if known is None:
            known = self._known[ring, samples] = self._look_up(ring, samples)
        return known

    def _look_up(self, ring: Spots, samples: int) -> tuple[float, float]:
        rows = np.flatnonzero(np.array(self._placements["placement"]) == int("".join(map(str, ring))))
        if len(rows):
            sizes = np.array(self._placements["local_bsz"])[rows]
            order = np.argsort(sizes, kind="stable")
            columns = (np.array(self._placements[name])[rows][order] for name in ("step_time", "sync_time"))
            step, sync = (float(np.interp(samples, sizes[order], column)) for column in columns)
        else:
            step, sync = self._between([(min(len(ring), MOST_NODES), sum(ring), samples)])[0]
        if math.isnan(step + sync):
            raise ValueError(f"{self.name}: nothing near {ring} with {samples} samples a replica was measured")
        return float(step), float(sync)

    @cached_property
    def _placements(self) -> dict[str, list[float]]:
        return _columns(self.folder / "placements.csv")

    @cached_property
    def _between(self) -> Any:
        groups: dict[tuple[int, int, float], list[tuple[float, float]]] = defaultdict(list)
        rows = zip(*(self._placements[name] for name in ("placement", "local_bsz", "step_time", "sync_time")),
                   strict=True)  # fmt: skip
        for placement, size, step, sync in rows:
            digits = [int(digit) for digit in str(int(placement))]
            groups[len(digits), sum(digits), size].append((step, sync))
        points = [(*key, *np.mean(groups[key], axis=0)) for key in sorted(groups)]
        more = _columns(self.folder / "scalability.csv")
        names = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        points += list(zip(*(more[name] for name in names), strict=True))
        table = np.array(points)
        return LinearNDInterpolator(table[:, :3], table[:, 3:])

    # ── epochs ──────────────────────────────────────────────────────────────────────────────────────────

    @cache  # noqa: B019  six models that live as long as the process
    def iterations(self, batch: int) -> Floats:
        """Of each epoch at this batch size: its progress, at the base batch size, by the gain of the larger one."""
        ends = np.array([min(v["progress"][epoch] for v in self.validation.values()) for epoch in range(self.epochs)])
        square, variance = (self._at(batch, name) for name in ("grad_sqr", "grad_var"))
        gain = (variance + square) / (variance / (batch / self.base_batch) + square)
        counted: Floats = np.diff(ends, prepend=0.0) / gain
        return counted

    @cache  # noqa: B019  six models that live as long as the process
    def recorded_iterations(self, batch: int) -> Floats:
        """By the end of each epoch in the recorded training at this batch size."""
        return self._at(batch, "iteration")

    def _at(self, batch: int, name: str) -> Floats:
        """A column, interpolated between the nearest recorded batch sizes."""
        lower = max(size for size in self.validation if size <= batch)
        upper = min(size for size in self.validation if size >= batch)
        low, high = (self.validation[size][name][: self.epochs] for size in (lower, upper))
        share = (batch - lower) / (upper - lower) if upper > lower else 0.0
        between: Floats = (1.0 - share) * low + share * high
        return between


@dataclass
class Work:
    """One job of a workload: a model, trained at one batch size, and its progress, epoch by epoch."""

    model: Model
    batch: int
    replicas: int
    whole: bool
    """Whether every epoch takes whole seconds."""
    spots: Spots = ()
    """Where it is, or was last."""
    trained: float = 0.0
    """Seconds, when it came there."""
    epoch: int = 0
    ahead: float = 1.0
    """Share of that epoch which was still to come then."""
    _epochs: dict[Spots, Floats] = field(default_factory=dict)
    _guesses: dict[int, float] = field(default_factory=dict)

    def epochs(self, spots: Spots) -> Floats:
        """Seconds of each epoch on this placement."""
        known = self._epochs.get(spots)
        if known is None:
            replicas = sum(spots)
            steps = self.model.steps(replicas, self.batch)
            known = self.model.seconds(spots, steps) * self.model.iterations(steps.batch(replicas))
            self._epochs[spots] = known
        return known

    def guessed(self, replicas: int) -> float:
        """Seconds per iteration as Optimus estimates them."""
        known = self._guesses.get(replicas)
        if known is None:
            known = self.model.seconds(packed(replicas), self.model.steps(replicas, self.batch, guess=True))
            self._guesses[replicas] = known
        return known

    def after(self, trained: float) -> tuple[int, float]:
        """The epoch after this many seconds of training, and the share of that epoch that is left."""
        seconds, epoch, ahead = trained - self.trained, self.epoch, self.ahead
        while self.spots and epoch < self.model.epochs:
            left = ahead * float(self.epochs(self.spots)[epoch])
            if seconds + 1e-9 < left:
                return epoch, ahead * (1.0 - max(0.0, seconds) / left)
            seconds -= round(left) if self.whole else left
            epoch, ahead = epoch + 1, 1.0
        return epoch, ahead

    def go_on(self, spots: Spots, trained: float) -> float:
        """Continues on this placement; returns the seconds until the end."""
        self.epoch, self.ahead = self.after(trained)
        self.spots, self.trained = spots, trained
        left = (
            self.epochs(spots)[self.epoch :]
            * np.append(self.ahead, np.ones(self.model.epochs))[: self.model.epochs - self.epoch]
        )
        return float((np.round(left) if self.whole else left).sum())

    def iterations_left(self, trained: float) -> float:
        """Recorded iterations from the last whole epoch to the end."""
        epoch, last = self.after(trained)[0], self.model.epochs - 1
        recorded = self.model.recorded_iterations(self.batch)
        return 1.0 if last <= epoch else float(recorded[last] - recorded[epoch])


def packed(replicas: int) -> Spots:
    """On as few nodes as possible."""
    whole, rest = divmod(replicas, GPUS_PER_NODE)
    return (GPUS_PER_NODE,) * whole + ((rest,) if rest else ())


def _columns(path: Path) -> dict[str, list[float]]:
    columns: dict[str, list[float]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                columns[name].append(float(value))
    return columns
