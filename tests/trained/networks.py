"""Networks for tests."""

from __future__ import annotations

import numpy as np

from headway.policies.network import HIDDEN, SettingsNetwork
from headway.policies.value.outlook import FEATURES

KNOBS = ("trial", "width_weight", "restart", "cool_down", "favour")


def a_network(strength: float = 1.0, *, high: float = 50.0, knobs: tuple[str, ...] = KNOBS) -> SettingsNetwork:
    """Drawn, the same each time; `strength` 0 leaves it without outer weights."""
    chance = np.random.default_rng(3)
    width = len(FEATURES)
    return SettingsNetwork(
        knobs, np.zeros(width), np.ones(width), np.zeros(width), np.full(width, high),
        chance.normal(size=(HIDDEN, width)), chance.normal(size=HIDDEN),
        strength * chance.normal(size=(len(knobs), HIDDEN)), strength * chance.normal(size=len(knobs)),
    )  # fmt: skip
