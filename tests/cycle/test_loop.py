"""One cycle: the policy decides, the check refuses, the log is told before the cluster acts."""

from __future__ import annotations

from headway.core.job import JobId
from headway.core.placement import Placement
from headway.core.plan import Plan, Start
from headway.cycle.loop import decide, run
from headway.estimates.plain_books import NoEstimates
from make import a_job, a_snapshot


def test_decide_takes_out_what_breaks_a_rule_and_keeps_the_rest():
    snapshot = a_snapshot(a_job("a"), a_job("b", gpus=3))
    bad, good = Start(JobId("b"), Placement(((0,),))), Start(JobId("a"), Placement(((0,),)))
    decided = decide(lambda _: Plan((bad, good), 7.0), snapshot)
    assert decided.plan == Plan((good,), 7.0)
    assert [refusal.decision for refusal in decided.refusals] == [bad]


def test_a_plan_is_observed_before_it_is_applied():
    told = []

    class Once:
        def next_snapshot(self):
            return None if told else a_snapshot(a_job("a"))

        def apply(self, plan):
            told.append(("applied", plan))

    plan = Plan((Start(JobId("a"), Placement(((0,),))),))
    run(Once(), lambda _: plan, NoEstimates(), lambda decided: told.append(("observed", decided.plan)))
    assert told == [("observed", plan), ("applied", plan)]
