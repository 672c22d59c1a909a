"""Which nodes count as lost: after a while, and none while so many are silent that the fault is elsewhere."""

from __future__ import annotations

import math

import pytest

from headway.kube.store.health import FEW, GONE_SECONDS, SHARE, NodeHealth


def a_health(count: int, silent: int, at: float = 0.0) -> NodeHealth:
    health = NodeHealth(lost_after=60.0)
    for number in range(count):
        health.see(f"n{number}", at, ready=number >= silent)
    return health


def names(*numbers: int) -> set[str]:
    return {f"n{number}" for number in numbers}


@pytest.mark.parametrize(
    ("count", "silent", "brakes"),
    [
        (1, 1, True),  # all
        (2, 1, False),
        (2, 2, True),
        (3, 2, False),  # fewer than three
        (4, 3, True),
        (5, 3, True),  # three are 60 %
        (6, 3, False),  # three are 50 %
        (100, 54, False),
        (100, 55, True),
        (100, 0, False),
    ],
)
def test_none_is_lost_while_all_or_three_and_55_percent_are_silent(count, silent, brakes):
    assert (FEW, SHARE) == (3, 0.55)
    health = a_health(count, silent)
    assert health.brakes() is brakes
    assert health.gone(1e6) == (frozenset() if brakes else names(*range(silent)))
    assert health.doubtful(1e6) == (names(*range(silent)) if brakes else frozenset()), "they are doubted as long"


def test_a_silent_node_is_lost_after_a_minute_of_its_own():
    health = a_health(9, 1)
    health.see("n1", 30.0, ready=False)
    health.see("n0", 50.0, ready=False)
    assert (health.gone(59.9), health.doubtful(59.9)) == (set(), names(0, 1))
    assert (health.gone(60.0), health.doubtful(60.0)) == (names(0), names(1)), "it was silent all the time"
    assert health.gone(90.0) == names(0, 1)
    health.see("n0", 91.0, ready=True)
    assert health.gone(91.0) == names(1)
    health.see("n0", 92.0, ready=False)
    assert health.gone(93.0) == names(1), "its minute begins anew"


def test_a_node_whose_object_is_gone_is_lost_after_forty_seconds_also_while_the_brake_holds():
    assert GONE_SECONDS == 40.0
    health = a_health(4, 3)
    health.lose("n3", 100.0)
    assert health.brakes()
    assert (health.gone(139.9), health.gone(140.0)) == (set(), names(3))
    assert health.doubtful(139.9) == names(0, 1, 2, 3)
    health.see("n3", 141.0, ready=True)
    assert health.gone(141.0) == set(), "it came back under its name"


def test_a_node_that_is_deleted_while_silent_gets_the_time_of_a_deleted_one():
    health = a_health(9, 1)
    health.lose("n0", 50.0)
    assert (health.gone(60.0), health.gone(90.0)) == (set(), names(0))
    health.lose("n0", 80.0)
    assert health.gone(90.0) == names(0), "a second deletion begins nothing anew"


def test_nodes_that_only_allocations_name_are_absent_from_then_on():
    health = a_health(2, 0)
    health.named(["n0", "never", ""], 10.0)
    assert health.doubtful(10.0) == {"never"}
    health.named(["never"], 40.0)
    assert health.gone(50.0) == {"never"}
    health.forget(["never"])
    assert (health.gone(99.0), health.doubtful(99.0)) == (set(), set())


def test_it_is_known_when_another_node_may_be_lost():
    health = a_health(9, 1)
    health.see("n1", 30.0, ready=False)
    health.lose("n2", 35.0)
    assert [health.next(now) for now in (0.0, 60.0, 75.0, 90.0)] == [60.0, 75.0, 90.0, math.inf]
    assert a_health(3, 0).next(0.0) == math.inf


def test_that_the_brake_ends_is_seen_with_the_next_node():
    health = a_health(4, 3)
    assert health.gone(100.0) == set()
    health.see("n2", 101.0, ready=True)
    assert health.gone(101.0) == names(0, 1)
