"""Spread, balanced and FlowCon."""

from __future__ import annotations

from headway.core.check import check
from headway.policies.baselines.balanced import balanced
from headway.policies.baselines.flowcon import FlowCon
from headway.policies.baselines.spread import spread
from make import a_job, a_role, decided, running, waiting
from shared_cpu import FAST, seen, shared, up


def test_spread_goes_by_number_and_balanced_by_shares():
    entries = [up("a", 0), up("b", 0), waiting(shared("new"))]
    assert decided(spread(seen(*entries, left={}))) == {"new": "start"}
    assert spread(seen(*entries, left={})).decisions[0].placement.nodes == ((1,),)
    lopsided = running(a_job("cpu", roles=[a_role(cpu=4, memory=256)]), [0])
    heavy = running(a_job("memory", roles=[a_role(cpu=0.1, memory=32768)]), [1])
    new = waiting(a_job("new", roles=[a_role(cpu=0.1, memory=32768)]))
    assert balanced(seen(lopsided, heavy, new, left={})).decisions[0].placement.nodes == ((0,),)
    assert spread(seen(lopsided, up("x", 0), heavy, new, left={})).decisions[0].placement.nodes == ((1,),)


def test_flowcon_gives_converging_jobs_their_floor_and_the_rest_to_the_others():
    """Of two jobs the converging one has a quarter, the other three quarters: three times the request."""
    snapshot = seen(up("fast", 0), up("slow", 0), left={}, growth={"fast": FAST})
    plan = FlowCon()(snapshot)
    assert check(snapshot, plan) == ()
    assert [(decision.job, decision.cpu) for decision in plan.decisions] == [("fast", 300)]
    assert FlowCon()(seen(up("a", 0), up("b", 0), left={})).decisions == ()
