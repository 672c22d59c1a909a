"""Durations as people say them."""

from __future__ import annotations

import pytest

from headway.core.text import lasting


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 s"), (45.2, "45 s"), (119.4, "119 s"), (119.6, "2 min"), (3500.0, "58 min"), (3599.0, "1 h"),
        (7140.0, "1 h 59 min"), (7200.0, "2 h"),
        (12_000.0, "3 h 20 min"), (172_790.0, "2 d"), (187_200.0, "2 d 4 h"), (-30.0, "-30 s"),
    ],
)  # fmt: skip
def test_a_duration_is_told_in_its_own_unit(seconds, said):
    assert lasting(seconds) == said
