"""Sizes of jobs and shares of the cluster."""

from __future__ import annotations

import numpy as np
import pytest

from headway.policies.value.sizes import first_within, shares
from make import a_job, a_role, a_snapshot, some_nodes


def test_shares_and_who_fits_into_one():
    snapshot = a_snapshot(a_job("a", 2), a_job("b", roles=[a_role(cpu=6)]), nodes=some_nodes(2, gpus=4, cpu=8))
    assert shares(snapshot, np.arange(2)) == pytest.approx([0.25, 0.375])
    worth, share = np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.1, 0.2])
    assert first_within(worth, share, 0.7, np.ones(3, bool)).tolist() == [True, False, True]
    assert first_within(worth, share, 0.1, np.ones(3, bool)).tolist() == [True, False, False], "at least one"
    assert not first_within(worth, share, 0.0, np.ones(3, bool)).any()
