"""A small network from the state of the cluster to offsets of settings. Numpy only; it is trained elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headway.core.node import FloatArray
from headway.policies.value.outlook import FEATURES

HIDDEN = 6
FAR = 0.25
"""Features may leave the range of the training by this share of it."""


def _zeros(*shape: int) -> FloatArray:
    found: FloatArray = np.zeros(shape)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class SettingsNetwork:
    """tanh(outer · tanh(inner · x + inner_bias) + outer_bias), with x the features relative to the training's.

    Without weights the offsets are zero: exactly the default settings.
    """

    knobs: tuple[str, ...] = ()
    """Settings that it turns, in the order of its outputs."""
    middle: FloatArray = field(default_factory=lambda: _zeros(len(FEATURES)))
    scale: FloatArray = field(default_factory=lambda: _zeros(len(FEATURES)) + 1.0)
    low: FloatArray = field(default_factory=lambda: _zeros(len(FEATURES)))
    """The least of each feature that it was trained on."""
    high: FloatArray = field(default_factory=lambda: _zeros(len(FEATURES)))
    inner: FloatArray = field(default_factory=lambda: _zeros(HIDDEN, len(FEATURES)))
    inner_bias: FloatArray = field(default_factory=lambda: _zeros(HIDDEN))
    outer: FloatArray = field(default_factory=lambda: _zeros(0, HIDDEN))
    outer_bias: FloatArray = field(default_factory=lambda: _zeros(0))

    @property
    def silent(self) -> bool:
        """Whether it says zero whatever it sees."""
        return not self.outer.any() and not self.outer_bias.any()

    def offsets(self, features: FloatArray) -> FloatArray:
        """One per setting, from -1 to 1."""
        seen = np.tanh(self.inner @ ((features - self.middle) / self.scale) + self.inner_bias)
        told: FloatArray = np.tanh(self.outer @ seen + self.outer_bias)
        return told

    def outside(self, features: FloatArray) -> int | None:
        """The number of the first feature that leaves what it was trained on; None if none does."""
        slack = FAR * np.maximum(self.high - self.low, 0.1)
        found = np.flatnonzero((features < self.low - slack) | (features > self.high + slack))
        return int(found[0]) if len(found) else None

    def beyond(self, features: FloatArray) -> str:
        """That feature in words; empty if none leaves it."""
        number = self.outside(features)
        if number is None:
            return ""
        return (
            f"{FEATURES[number]} is {features[number]:.2f}, it was trained on {self.low[number]:.2f} to "
            f"{self.high[number]:.2f}"
        )
