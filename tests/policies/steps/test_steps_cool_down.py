"""The cool-down after a decision."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.draft import Draft
from headway.core.estimates import Beliefs, Estimates
from headway.policies.steps.cool_down import all_cool_at, cool_at, rested, rested_on
from headway.policies.value.terms import Terms
from make import a_job, a_snapshot, running


def touched(at, now, since=0.0):
    return a_snapshot(running(a_job("a"), [0], touched=at, since=since), now=now)


@pytest.mark.parametrize(
    ("why", "at", "now", "may", "until"),
    [
        ("too soon", 90.0, 100.0, False, 150.0),
        ("at the very end", 40.0, 100.0, True, np.inf),
        ("long ago", 0.0, 100.0, True, np.inf),
        ("never touched", -np.inf, 100.0, True, np.inf),
    ],
)
def test_a_job_rests_and_the_plan_asks_to_be_called(why, at, now, may, until):
    draft = Draft(touched(at, now))
    assert rested(draft, 0, 60.0) is may, why
    assert draft.plan().until == until
    assert cool_at(draft.snapshot, 0, 60.0) == at + 60.0 == all_cool_at(draft.snapshot, np.arange(1), 60.0)[0]


def test_what_has_trained_long_is_changed_rarely_where_beliefs_change():
    terms, snapshot = Terms(cool_down=10.0, cool_down_share=0.1), touched(1000.0, 1050.0)
    assert rested_on(Draft(snapshot), 0, terms), "a plain book does not change its mind"
    one = np.ones(1)
    rich = Beliefs(one, one, one > 0, one, np.zeros(1, np.uint8), one, np.ones(1, np.uint8))
    learnt = snapshot.with_estimates(Estimates(lambda: rich, lambda *_: 1.0))
    assert not rested_on(Draft(learnt), 0, terms), "a tenth of 1000 seconds"
    assert rested_on(Draft(learnt), 0, terms, for_others=True)
