"""What is expected of a job, whatever is known of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.policies.value.expected import cheapest_try


def test_what_a_try_costs():
    def one(median, spread, trained=0.0, told=True):
        columns = (np.array([one]) for one in (median, spread, trained))
        return float(cheapest_try(*columns, 60.0, told=np.array([told]))[0])

    assert one(1000.0, 0.01) == pytest.approx(1060.0, rel=0.05)
    assert one(1000.0, 2.0) < 500.0 < one(1000.0, 0.5)
    assert one(4000.0, 2.0) > one(1000.0, 2.0)
    assert one(math.nan, math.nan, 5000.0) > one(math.nan, math.nan, 10.0)
    assert one(1000.0, 1.0, told=False) > one(1000.0, 1.0)
