"""Moving running jobs to emptier nodes."""

from __future__ import annotations

import pytest

from headway.core.check import check
from headway.core.draft import Draft
from headway.core.estimates import Basis
from headway.core.job import Can
from headway.core.plan import Move
from headway.policies.migration import Migration
from headway.policies.steps.relocate import Relocation, relocate, verdict, why_not
from headway.policies.value.neighbours import tenancy
from make import decided
from shared_cpu import FAST, NOW, seen, up


def moves(snapshot, **settings):
    plan = Migration(**settings)(snapshot)
    assert check(snapshot, plan) == ()
    return {decision.job: decision.placement.nodes[0][0] for decision in plan.decisions if isinstance(decision, Move)}


def test_the_slow_one_leaves_the_fast_one_for_an_empty_node():
    """Both have 600 s left at half a node each: apart both are done after 300 s, one of them 10 s later."""
    snapshot = seen(up("fast", 0), up("slow", 0), left={"fast": 600, "slow": 600}, growth={"fast": FAST})
    assert moves(snapshot) == {"slow": 1}
    proposal = relocate(Draft(snapshot), Relocation())
    assert proposal is not None
    assert proposal.slow
    assert proposal.saved == pytest.approx(300 + 290)
    assert proposal.losers == ()


def test_who_loses_is_told():
    entries = [up("a", 0), up("b", 0), up("c", 0), up("there", 1)]
    snapshot = seen(*entries, left={"a": 900, "b": 900, "c": 900, "there": 100})
    assert moves(snapshot) == {}
    draft = Draft(snapshot)
    proposal = relocate(draft, Relocation(harm=2.0))
    assert proposal is not None
    assert proposal.losers == (("there", pytest.approx(90.0)),)
    assert decided(draft.plan()) == {proposal.job: "move"}


def test_a_verdict_says_where_to_and_who_loses_or_why_not():
    snapshot = seen(up("fast", 0), up("slow", 0), left={"fast": 600, "slow": 600}, growth={"fast": FAST})
    assert verdict(snapshot, 1, Relocation()) == "moves to n1: saves 590 s over all jobs; nobody loses"
    assert verdict(snapshot, 0, Relocation()) == "stays: no move of it would save enough now"
    silent = seen(up("a", 0), up("b", 0), left={"a": 600, "b": 600}, basis={"a": Basis.SILENT})
    assert "nothing that is believed" in verdict(silent, 0, Relocation())


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"touched": NOW - 59}, "rests for 1 more seconds"),
        ({"stops": 3}, "interrupted 3 times"),
        ({"can": Can.STOP}, "may not be moved"),
        ({"checkpoints": False}, "cannot save"),
    ],
)
def test_why_a_job_is_not_moved(columns, sentence):
    snapshot = seen(up("fast", 0, touched=NOW), up("slow", 0, **columns), left={"fast": 600, "slow": 600})
    assert moves(snapshot) == {}
    draft = Draft(snapshot)
    found = tenancy(draft, 1.0)
    assert found is not None
    assert sentence in why_not(draft, found.on[0][1], Relocation())
