"""A user is told what its own jobs have shown, others the median of users: from three on, one does not decide it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headway.estimates.history.by_user import MEMORY, MOST_USERS, ModelHistory, Seconds, told_seconds
from headway.estimates.models.profiles import Layout
from headway.estimates.speed.model import Form, Setting, SpeedFit, gang_setting

TRUE = (0.03, 0.97, 0.05, 0.1, 0.5, 0.0)
ASKED = Setting(Layout(4, 0, 1, 1.0))
LARGE = Setting(Layout(32, 0, 8, 1.0))
HONEST = ("ann", "bob", "cyd")
numbers = some.floats(0, 10, allow_subnormal=False)


def _kind(lies, seconds=1.0, liars=("mal",)):
    """Jobs of three honest users and of liars, by turns."""
    kind = ModelHistory()
    for _ in range(10):
        for user in HONEST:
            kind = kind.scaled_like(user, TRUE, Form.GANG, ASKED, 2).took(user, 4, 1.0)
        for user in liars:
            kind = kind.scaled_like(user, lies, Form.GANG, ASKED, 2).took(user, 4, seconds)
    return kind


def _speed(kind):
    return SpeedFit(Form.GANG, kind.coefficients).relative(LARGE, ASKED)


@given(
    some.tuples(*[numbers] * 6).filter(lambda found: sum(found) > 0.01),
    some.floats(1e-3, 1e3),
)
def test_one_lying_user_among_four_moves_others_by_at_most_five_percent(lies, seconds):
    honest, lied = _kind(TRUE, 1.0, ()), _kind(lies, seconds)
    assert abs(math.log(_speed(lied) / _speed(honest))) <= 0.05
    assert abs(math.log(lied.step("dan", 4).seconds / honest.step("dan", 4).seconds)) <= 0.05


@given(
    some.lists(
        some.tuples(*[numbers] * 6).filter(lambda one: sum(one[:3]) > 0.01),
        min_size=3,
        max_size=6,
    )
)
def test_what_is_told_is_a_curve_whatever_users_have_shown(shown):
    kind = ModelHistory()
    for number, coefficients in enumerate(shown):
        kind = kind.scaled_like(f"u{number}", coefficients, Form.GANG, ASKED, 3, across=number % 2 == 0)
    assert all(math.isfinite(one) and one >= 0 for one in kind.coefficients)
    assert SpeedFit(Form.GANG, kind.coefficients).seconds(ASKED) > 0
    assert math.isfinite(_speed(kind))


def test_users_of_whom_each_has_shown_another_term_are_still_told_as_a_curve():
    """The middle of each term alone would be nothing at all."""
    kind = ModelHistory()
    for number in range(3):
        coefficients = tuple(float(term == number) for term in range(6))
        kind = kind.scaled_like(f"u{number}", coefficients, Form.GANG, gang_setting(1, 4), 3)
    assert SpeedFit(Form.GANG, kind.coefficients).seconds(gang_setting(1, 4)) == pytest.approx(1.0, abs=0.5)


def test_without_agreement_such_a_lie_moves_them_far():
    """What was believed before: the mean over all jobs."""
    mixed = Seconds()
    for _ in range(10):
        for seconds in (1.0, 1.0, 1.0, 0.05):
            mixed = mixed.add(seconds)
    assert mixed.guess().seconds < 0.6


def test_a_user_is_told_what_its_own_jobs_have_shown():
    kind = _kind(TRUE, 20.0)
    assert kind.step("mal", 4).seconds == pytest.approx(20.0)
    assert kind.step("ann", 4).seconds == pytest.approx(1.0)


def test_a_user_is_told_how_its_own_jobs_scale():
    lies = (*TRUE[:2], 1.0, *TRUE[3:])
    kind = _kind(lies)
    assert kind.scaling("mal") is kind.users["mal"]
    assert kind.scaling("dan") is kind
    assert _speed(kind.scaling("mal")) < 0.5 * _speed(kind.scaling("dan"))


def _shown(*seconds):
    return [Seconds().add(one).add(one) for one in seconds]


def test_fewer_than_three_users_tell_others_nothing():
    assert told_seconds(_shown(1.0)).guess() is None
    assert told_seconds(_shown(1.0, 1.0)).guess() is None
    kind = ModelHistory().scaled_like("ann", TRUE, Form.GANG, ASKED, 2).scaled_like("bob", TRUE, Form.GANG, ASKED, 2)
    assert kind.scaling("cyd").weight == 0.0
    assert kind.scaling("ann").weight == 1.0


def test_jobs_that_name_no_user_are_one_users():
    kind = ModelHistory().scaled_like("", TRUE, Form.GANG, ASKED, 2).took("", 4, 1.0).took("", 4, 1.0)
    assert kind.scaling("").weight == 1.0
    assert kind.step("", 4).seconds == pytest.approx(1.0)


def test_the_more_users_differ_the_less_sure_is_what_is_told():
    agree, differ = (told_seconds(_shown(*seconds)).guess() for seconds in ((0.98, 1.0, 1.02), (0.1, 1.0, 10.0)))
    assert agree.seconds == differ.seconds == pytest.approx(1.0)
    assert agree.spread < 0.2
    assert differ.spread > 1.0


OTHER = (*TRUE[:2], 1.0, *TRUE[3:])


def _taught(kind, coefficients, jobs):
    for _ in range(jobs):
        for user in HONEST:
            kind = kind.scaled_like(user, coefficients, Form.GANG, ASKED, 2)
    return kind


def test_a_model_that_scales_otherwise_from_now_on_is_learned_anew_by_a_few_jobs():
    new = _taught(ModelHistory(), OTHER, 1)
    changed = _taught(_taught(ModelHistory(), TRUE, 30), OTHER, 5)
    assert abs(math.log(_speed(changed) / _speed(new))) < 0.1
    assert abs(math.log(_speed(_taught(ModelHistory(), TRUE, 1)) / _speed(new))) > 1.0, "they differ much"


def test_one_odd_job_does_not_replace_what_many_have_shown():
    odd = _taught(ModelHistory(), TRUE, 30).scaled_like("ann", OTHER, Form.GANG, ASKED, 2)
    assert abs(math.log(_speed(odd) / _speed(_taught(ModelHistory(), TRUE, 1)))) < 0.05


def test_what_is_kept_of_users_is_bounded():
    kind = ModelHistory()
    for number in range(3 * MOST_USERS):
        kind = kind.scaled_like(f"u{number}", TRUE, Form.GANG, ASKED, 3).took(f"u{number}", 4, 1.0)
    assert len(kind.users) == MOST_USERS
    assert kind.weight <= MEMORY
    assert kind.seconds[4].count <= MEMORY
