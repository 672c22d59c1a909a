"""How fast accelerator types are beside each other, for models of which nothing is known."""

from __future__ import annotations

from collections.abc import Mapping

RELATIVE_SPEED: Mapping[str, float] = {
    "k80": 0.36, "t4": 1.0, "p100": 1.31, "v100": 1.70, "a100": 2.08, "rtx2080ti": 1.29, "rtx6000": 1.67,
}  # fmt: skip
"""One replica against one on a T4: geometric means over five models that Sia's authors measured (v100, a100 and the two
rtx) and over 21 that Gavel's authors measured (k80, p100 against v100). Single models differ by up to 2.1 times."""
