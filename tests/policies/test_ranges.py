"""Every number that can be set says which values make sense."""

from __future__ import annotations

import math

import pytest

from headway.policies.knobs import KNOBS
from headway.policies.ranges import Range
from headway.policies.registry import POLICIES, ranges_of, settings_of

MAY_BE_NEGATIVE = {"other_users"}


def _numbers(name):
    return {key: value for key, value in settings_of(name).items() if type(value) in (int, float)}


@pytest.mark.parametrize("name", POLICIES)
def test_every_number_of_every_policy_has_a_range_that_holds_its_default(name):
    ranges = ranges_of(name)
    assert set(ranges) == set(_numbers(name)), "write Seconds, Share, Factor, Count or Priority in place of float"
    assert [key for key, value in _numbers(name).items() if ranges[key].refusal(value)] == []
    assert {key for key, one in ranges.items() if not one.refusal(-1.0)} <= MAY_BE_NEGATIVE


def test_what_may_be_turned_is_within_its_range():
    ranges = ranges_of("headway")
    assert [knob.name for knob in KNOBS if any(map(ranges[knob.name].refusal, (knob.min, knob.max)))] == []


def test_a_range_says_what_it_holds():
    assert Range(0.0).refusal(-1.0) == "must be 0 or more"
    assert Range(0.0, 1.0).refusal(math.inf) == "must be from 0 to 1"
    assert Range(0.0, above=True).refusal(0.0) == "must be above 0"
    assert Range(0.0).refusal(math.nan) == Range(-math.inf).refusal(math.nan) == "give a number"
    assert not Range(-math.inf).refusal(-1e9)
