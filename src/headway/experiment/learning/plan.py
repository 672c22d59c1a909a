"""The plan of the proof: a committed file. Its hash seeds what is drawn, so that a changed plan is another proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

FILE = Path(__file__).with_name("plan.json")


class PlannedWindows(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    source: str
    origin: str
    sizes: str
    validation: list[int]
    test: list[int]


class TrainingPlan(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    seeds: list[int]
    budget: int
    tasks: int
    validate: int
    suites: list[str]


class TuningPlan(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    budget: int
    windows: int


class StatisticsPlan(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    draws: int
    level: float
    steps_corrected_for: int
    slowest_share: float


class ProofPlan(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    version: int
    question: str
    jobs: int
    windows: list[PlannedWindows]
    taught_by: list[int]
    """Places of the tuning part whose jobs teach the beliefs."""
    generated: dict[str, Any]
    steps: list[str]
    training: TrainingPlan
    tuning: TuningPlan
    baselines: dict[str, list[str]]
    statistics: StatisticsPlan
    targets: dict[str, float]
    left_out: list[str]
    cost: str


@dataclass(frozen=True, slots=True)
class Window:
    source: str
    place: int
    origin: str
    sizes: str
    part: str

    @property
    def name(self) -> str:
        return f"{self.source} {self.place}"


def read_plan(file: Path = FILE) -> tuple[ProofPlan, str]:
    """The plan and the hash of its file."""
    raw = file.read_bytes()
    return msgspec.json.decode(raw, type=ProofPlan), sha256(raw).hexdigest()


def windows_of(plan: ProofPlan) -> Iterator[Window]:
    """Those of the test first: where time runs out, they are there."""
    for part in ("test", "validation"):
        for group in plan.windows:
            for place in getattr(group, part):
                yield Window(group.source, place, group.origin, group.sizes, part)


def small(plan: ProofPlan) -> ProofPlan:
    """A few generated windows and small budgets: to try the command."""
    replace = msgspec.structs.replace
    return replace(
        plan,
        windows=[PlannedWindows("generated", "generated", "chosen", [1], [7, 8])], taught_by=[1],
        generated={**plan.generated, "jobs": 20}, tuning=TuningPlan(9, 1),
        training=replace(plan.training, seeds=[1], budget=11, tasks=1, validate=1, suites=["elastic-v1"]),
        baselines={"chosen": ["elastic", "first-fit"], "fixed": []},
    )  # fmt: skip
