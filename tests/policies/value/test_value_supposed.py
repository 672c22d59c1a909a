"""What a job with a deadline is supposed to take before it has shown its pace."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.estimates import Basis, Beliefs, Estimates
from headway.policies.deadline import Deadline
from headway.policies.headway import Headway
from headway.policies.value.supposed import supposed
from make import a_job, a_snapshot, decided, running, some_nodes


def believing(snapshot, left, spread, basis):
    beliefs = Beliefs(
        np.array([left]), np.array([snapshot.now]), np.array([False]), np.array([spread]), np.zeros(1, np.uint8),
        np.zeros(1), np.array([int(basis)], np.uint8),
    )  # fmt: skip
    return snapshot.with_estimates(Estimates(lambda: beliefs, lambda _row, counts: float(counts[0])))


WAITS = a_snapshot(a_job("a", 1, max=4, deadline=1000.0), nodes=some_nodes(1, gpus=4), now=0.0)


@pytest.mark.parametrize(
    ("left", "spread", "basis", "low", "high"),
    [
        (np.nan, np.nan, Basis.NOTHING, 499.0, 501.0),
        (20_000.0, 2.0, Basis.HISTORY, 500.0, 825.0),
        (20.0, 2.0, Basis.HISTORY, 300.0, 500.0),
        (200.0, 0.1, Basis.HISTORY, 200.0, 200.0),
        (200.0, 0.02, Basis.STEPS, 200.0, 200.0),
        (20_000.0, np.nan, Basis.DECLARED, 20_000.0, 20_000.0),
    ],
)
def test_a_deadline_is_weighed_with_what_is_believed(left, spread, basis, low, high):
    """Vague similar jobs say little, and never more than who gave the deadline; sharp ones and the user say all."""
    found = supposed(believing(WAITS, left, spread, basis))
    assert low <= found.left[0] <= high
    assert found.known[0] == (basis is not Basis.NOTHING and not spread > 0.3)


def test_without_a_deadline_nothing_is_supposed():
    snapshot = a_snapshot(a_job("a", 1, max=4), nodes=some_nodes(1, gpus=4), now=0.0)
    assert np.isnan(supposed(believing(snapshot, np.nan, np.nan, Basis.NOTHING)).left[0])


@pytest.mark.parametrize("policy", [Deadline(), Headway()], ids=["deadline", "headway"])
def test_a_job_of_which_only_the_deadline_is_known_starts_larger_the_less_is_left_of_it(policy):
    sizes = []
    for now in (0.0, 400.0, 700.0):
        snapshot = a_snapshot(a_job("a", 1, max=4, deadline=1000.0), nodes=some_nodes(1, gpus=4), now=now)
        plan = policy(believing(snapshot, np.nan, np.nan, Basis.NOTHING))
        sizes.append(sum(plan.decisions[0].placement.counts))
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


@pytest.mark.parametrize("policy", [Deadline(), Headway()], ids=["deadline", "headway"])
def test_a_running_job_that_turns_out_to_be_long_grows_for_its_deadline(policy):
    job = running(a_job("a", 1, max=4, deadline=1000.0), [0], since=0.0)
    snapshot = a_snapshot(job, a_job("b", 1), nodes=some_nodes(1, gpus=4), now=200.0, left={"a": 1500.0, "b": 9e4},
                          speed=lambda _job, counts: float(counts[0]))  # fmt: skip
    assert decided(policy(snapshot)).get("a") == "scale"
