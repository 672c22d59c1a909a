"""A small network from the state of the cluster to offsets of settings. Numpy only; it is trained elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headway.core.node import FloatArray
from headway.policies.value.outlook import FEATURES

HIDDEN = 6
FAR = 0.25
"""Features may leave the range of the training by this share of it; what is farther off counts as that far."""


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
        near = np.clip(features, *self._ends())
        seen = np.tanh(self.inner @ ((near - self.middle) / self.scale) + self.inner_bias)
        told: FloatArray = np.tanh(self.outer @ seen + self.outer_bias)
        return told

    def beyond(self, features: FloatArray) -> str:
        """The first feature that is farther off the training than counts, in words; empty if none is."""
        low, high = self._ends()
        found = np.flatnonzero((features < low) | (features > high))
        if not len(found):
            return ""
        number = int(found[0])
        return (
            f"{FEATURES[number]} is {features[number]:.2f}, it was trained on {self.low[number]:.2f} to "
            f"{self.high[number]:.2f}"
        )

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        slack = FAR * np.maximum(self.high - self.low, 0.1)
        return self.low - slack, self.high + slack
