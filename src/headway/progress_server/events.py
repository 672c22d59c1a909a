"""What training scripts say, once their words have been made sense of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.core.job import JobId, Target


@dataclass(frozen=True, slots=True)
class Speaker:
    """The replica that speaks. The attempt tells whether it is one that we have already given up."""

    job: JobId
    role: str
    index: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Connected(Speaker):
    can_save: bool
    total_steps: int | None


@dataclass(frozen=True, slots=True)
class Reported(Speaker):
    step: int
    loss: float | None
    total_steps: int | None
    values: Mapping[str, float] = field(default_factory=dict)
    """What else it told, by name; finite numbers only."""

    def metric(self, target: Target | None) -> float | None:
        """What the job's target is about, if this report tells it."""
        if target is None:
            return None
        return self.values.get(target.metric, self.loss if target.metric == "loss" else None)


@dataclass(frozen=True, slots=True)
class Saved(Speaker):
    request: int | None
    """The request that this answers; None for a checkpoint that the script made by itself."""
    step: int


@dataclass(frozen=True, slots=True)
class SaveFailed(Speaker):
    request: int
    why: str


@dataclass(frozen=True, slots=True)
class Done(Speaker):
    step: int


@dataclass(frozen=True, slots=True)
class Disconnected(Speaker):
    """The connection ended, for whatever reason."""


Event = Connected | Reported | Saved | SaveFailed | Done | Disconnected
