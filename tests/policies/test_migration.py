"""migration: worked examples, who may be moved, who loses, and what happens where nobody is believed."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.check import check
from headway.core.draft import Draft
from headway.core.estimates import Basis, Beliefs, Estimates, Growth
from headway.core.job import Can
from headway.core.placement import Placement
from headway.core.plan import Move, Start
from headway.core.states import State
from headway.estimates.models.scaling import plain_speed
from headway.estimates.models.sharing import Claim
from headway.policies.baselines.balanced import balanced
from headway.policies.baselines.flowcon import FlowCon
from headway.policies.baselines.spread import spread
from headway.policies.migration import Migration, in_turn_pays
from headway.policies.steps.relocate import Relocation, relocate, verdict, why_not
from headway.policies.value.neighbours import tenancy
from make import a_board, a_job, a_role, amounts, decided, flying, running, some_nodes, waiting

NOW = 1000.0
SLOW, FAST = Growth.CONVERGING, Growth.PROGRESSING


def shared(name, *, limit=8.0, **more):
    """One replica that is promised a tenth of a core and uses what there is."""
    role = a_role(cpu=0.1, memory=256, limit=amounts(cpu=limit))
    return a_job(name, roles=[role], **more)


def up(name, node, **columns):
    more = {key: columns.pop(key) for key in ("limit", "can", "checkpoints") if key in columns}
    return running(shared(name, **more), [node], **({"since": 0.0, "touched": 0.0} | columns))


def seen(*entries, left, nodes=2, growth=(), basis=(), used=()):
    """Left: seconds at present by name; all are believed and slow unless it is said."""
    table = some_nodes(nodes, gpus=0, cpu=8, memory=65536)
    board = a_board(entries, table, NOW)
    for row, cores in dict(used).items():
        board.uses(row, cores)
    snapshot = board.snapshot(NOW)
    jobs = snapshot.jobs
    names = [jobs.job(row).id for row in range(jobs.count)]
    kinds, bases = dict(growth), dict(basis)
    beliefs = Beliefs(
        np.array([dict(left).get(name, np.nan) for name in names], float), np.full(jobs.count, NOW), jobs.training(),
        np.full(jobs.count, 0.1), np.array([kinds.get(name, SLOW) for name in names], np.uint8),
        np.zeros(jobs.count), np.array([bases.get(name, Basis.STEPS) for name in names], np.uint8),
    )  # fmt: skip
    return snapshot.with_estimates(Estimates(lambda: beliefs, lambda row, counts: plain_speed(jobs.job(row), counts)))


def moves(snapshot, **settings):
    plan = Migration(**settings)(snapshot)
    assert check(snapshot, plan) == ()
    return {decision.job: decision.placement.nodes[0][0] for decision in plan.decisions if isinstance(decision, Move)}


# ── worked examples ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_slow_one_leaves_the_fast_one_for_an_empty_node():
    """Both have 600 s left at half a node each: apart both are done after 300 s, one of them 10 s later."""
    snapshot = seen(up("fast", 0), up("slow", 0), left={"fast": 600, "slow": 600}, growth={"fast": FAST})
    assert moves(snapshot) == {"slow": 1}
    proposal = relocate(Draft(snapshot), Relocation())
    assert proposal is not None
    assert proposal.slow
    assert proposal.saved == pytest.approx(300 + 290)
    assert proposal.losers == ()


def test_of_slow_ones_the_soonest_done_leaves_first():
    snapshot = seen(
        up("long", 0),
        up("short", 0),
        up("fast", 0),
        left={"long": 900, "short": 300, "fast": 60},
        growth={"fast": FAST},
    )
    assert moves(snapshot) == {"short": 1}


def test_a_fast_one_moves_where_nobody_else_can():
    snapshot = seen(up("one", 0), up("two", 0), left={"one": 900, "two": 300}, growth={"one": FAST, "two": FAST})
    assert moves(snapshot) == {"two": 1}


def test_to_the_node_with_fewest_jobs_and_then_fewest_fast():
    crowd = [up(f"c{number}", 0) for number in range(6)]
    entries = [*crowd, up("fast", 1), up("slow", 2)]
    left = {f"c{number}": 6000.0 for number in range(6)} | {"fast": 60.0, "slow": 60.0}
    growth = {"fast": FAST}
    assert moves(seen(*entries, left=left, growth=growth, nodes=4)) == {"c0": 3}
    assert moves(seen(*entries, left=left, growth=growth, nodes=3), harm=2.0) == {"c0": 2}


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


def test_a_job_that_uses_less_than_its_part_is_no_neighbour_to_flee():
    entries = [up("idle", 0), up("works", 0)]
    snapshot = seen(*entries, left={"idle": 600, "works": 600}, used={0: 0.1, 1: 7.9})
    assert moves(snapshot) == {}


def test_what_others_are_seen_to_use_is_what_a_job_is_expected_to_use():
    """One that is alone uses two of eight cores, so that four on the other node are not in each other's way."""
    entries = [*(up(name, 0) for name in "abcd"), up("alone", 1)]
    left = dict.fromkeys((*"abcd", "alone"), 600.0)
    used = dict.fromkeys(range(4), 1.9)
    assert moves(seen(*entries, left=left, used=used | {4: 7.9}), harm=2.0) == {"a": 1}
    assert moves(seen(*entries, left=left, used=used | {4: 2.0}), harm=2.0) == {}


# ── who may be moved, and when ──────────────────────────────────────────────────────────────────────────────


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


def test_never_when_it_costs_more_than_it_saves():
    """Apart they save 15 + 5 seconds; the move costs 10, and twice that must be saved."""
    assert moves(seen(up("a", 0), up("b", 0), left={"a": 30, "b": 30})) == {"a": 1}
    assert moves(seen(up("a", 0), up("b", 0), left={"a": 28, "b": 28})) == {}
    assert moves(seen(up("a", 0), up("b", 0), left={"a": 600, "b": 600}), restart=300.0) == {}


def test_each_further_move_must_save_twice_as_much():
    entries = [up("a", 0, stops=1, touched=NOW - 90), up("b", 0, touched=NOW)]
    assert moves(seen(*entries, left={"a": 49, "b": 49})) == {}
    assert moves(seen(*entries, left={"a": 51, "b": 51})) == {"a": 1}


def test_one_move_a_round():
    entries = [up("a", 0), up("b", 0), up("c", 0), up("moved", 1, stops=1, touched=NOW - 9)]
    left = {"a": 900, "b": 900, "c": 900, "moved": 900}
    assert moves(seen(*entries, left=left, nodes=4)) == {}
    assert moves(seen(*entries, left=left, nodes=4), round=8.0) == {"a": 2}
    going = flying(shared("going"), State.MOVING, at=Placement(((1,),)), towards=Placement(((2,),)), since=NOW)
    assert moves(seen(up("a", 0), up("b", 0), going, left={"a": 900, "b": 900}, nodes=4)) == {}


def test_it_looks_again_while_jobs_share_and_only_then():
    assert Migration()(seen(up("a", 0), up("b", 0), left={})).until == NOW + 10.0
    assert Migration()(seen(up("a", 0), up("b", 1), left={})).until == float("inf")


def test_nothing_is_shared_where_nobody_may_use_more_than_he_asked_for():
    snapshot = seen(up("a", 0, limit=0.1), up("b", 0, limit=0.1), left={"a": 600, "b": 600})
    assert moves(snapshot) == {}


# ── where newcomers start ───────────────────────────────────────────────────────────────────────────────────


def _where(snapshot, **settings):
    plan = Migration(**settings)(snapshot)
    return {decision.job: decision.placement.nodes[0][0] for decision in plan.decisions if isinstance(decision, Start)}


def test_newcomers_spread_until_there_is_a_crowd():
    one = seen(up("a", 0), waiting(shared("new")), left={"a": 600})
    assert _where(one) == {"new": 1}
    four = [up("a", 0), up("b", 0), up("c", 0), up("d", 1), waiting(shared("new"))]
    assert _where(seen(*four, left=dict.fromkeys("abcd", 600.0)), crowd=3.0) == {"new": 1}
    assert _where(seen(*four, left=dict.fromkeys("abcd", 600.0)), crowd=2.0) == {"new": 0}
    unlike = {"a": 600.0, "b": 60.0, "c": 60.0, "d": 9000.0}
    assert _where(seen(*four, left=unlike), crowd=2.0) == {"new": 1}, "a short one would wait for long ones"


def test_newcomers_spread_where_jobs_would_not_leave_again():
    entries = [up("a", 0), up("b", 0), up("c", 0), up("d", 1), waiting(shared("new"))]
    left = dict.fromkeys("abcd", 600.0)
    assert _where(seen(*entries, left=left)) == {"new": 0}
    assert _where(seen(*entries, left=left), most_moves=0) == {"new": 1}
    soon = dict.fromkeys("abcd", 30.0)
    assert _where(seen(*entries, left=soon)) == {"new": 1}, "they are done before moves could reach all nodes"
    for basis in (Basis.SILENT, Basis.BACKWARDS, Basis.CLOCK, Basis.OVERRUN, Basis.ERRATIC):
        garbage = seen(*entries, left=left, basis=dict.fromkeys("abcd", basis))
        assert Migration()(garbage).decisions == spread(garbage).decisions


def test_without_any_estimates_it_is_plain_spreading():
    entries = [up("a", 0), up("b", 0), up("c", 0), up("d", 1), waiting(shared("new"))]
    board = a_board(entries, some_nodes(2, gpus=0, cpu=8, memory=65536), NOW)
    snapshot = board.snapshot(NOW)
    assert Migration()(snapshot).decisions == spread(snapshot).decisions


@pytest.mark.parametrize(
    ("limit", "each", "parallel", "pays"),
    [
        (8000, 2.0, 1.0, True),  # together both end after 2; in turn after 1 and 2
        (8000, 1.0, 1.0, False),
        (2000, 4.0, 1.0, False),  # four of two cores each: nobody is in another's way
        (2000, 16.0, 1.0, True),
        (2000, 2.0, 1.0, False),  # fewer than would fit beside each other
        (8000, 2.0, 0.97, False),  # a second core brings little: sharing is better
    ],
)
def test_in_turn_or_together(limit, each, parallel, pays):
    assert in_turn_pays(Claim(100, limit), 8000.0, each, parallel) is pays


# ── the baselines ───────────────────────────────────────────────────────────────────────────────────────────


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
