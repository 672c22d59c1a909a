"""migration: worked examples, who may be moved, who loses, and what happens where nobody is believed."""

from __future__ import annotations

import pytest

from headway.core.check import check
from headway.core.estimates import Basis
from headway.core.placement import Placement
from headway.core.plan import Move, Start
from headway.core.states import State
from headway.estimates.models.sharing import Claim
from headway.policies.baselines.spread import spread
from headway.policies.migration import Migration, in_turn_pays
from make import a_board, flying, some_nodes, waiting
from shared_cpu import FAST, NOW, seen, shared, up


def moves(snapshot, **settings):
    plan = Migration(**settings)(snapshot)
    assert check(snapshot, plan) == ()
    return {decision.job: decision.placement.nodes[0][0] for decision in plan.decisions if isinstance(decision, Move)}


# ── worked examples ─────────────────────────────────────────────────────────────────────────────────────────


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


def test_without_growth_the_soonest_done_moves_and_else_any():
    entries = [up(name, 0) for name in ("slow", "fast", "long")]
    told = seen(*entries, left={"slow": 300, "fast": 200, "long": 900}, growth={"fast": FAST})
    assert moves(told) == {"slow": 1}
    assert moves(told, growth=False) == {"fast": 1}
    assert set(moves(told, growth=False, soonest=False)) <= {"slow", "fast", "long"}
    assert set(moves(told, soonest=False)) <= {"slow", "long"}, "of slow ones any"


def test_where_nothing_is_shared_it_says_so():
    snapshot = seen(up("a", 0, limit=0.1), up("b", 0, limit=0.1), left={"a": 600, "b": 600})
    assert moves(snapshot) == {}
    assert "no job may use more cpu than it holds (field limit)" in Migration().explain(snapshot, 0)["move"]


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
    assert _where(seen(*entries, left=left), max_moves=0) == {"new": 1}
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
