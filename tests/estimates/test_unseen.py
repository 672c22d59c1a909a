"""The prior over scaling: fitted to profiles, carried with its spread, and used where a model has no history."""

from __future__ import annotations

import math

import pytest

from headway.core.board import Board
from headway.estimates.fit.asked import asked_setting
from headway.estimates.fit.history import History
from headway.estimates.fit.kinds import Kind, Shown
from headway.estimates.fit.speed import PRIOR_SPREAD, Form, Setting, SpeedFit
from headway.estimates.fit.unseen import errors, pooled
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.profiles import AllReduce, Layout, Profile
from headway.estimates.progress import ProgressBook
from make import a_job, a_role, some_nodes


def _gang(workers):
    return Setting(Layout(workers, 0, -(-workers // 4), 1.0))


def _speed_up(coefficients, workers):
    return SpeedFit(Form.GANG, coefficients).relative(_gang(workers), _gang(1))


def _profile(local, cross):
    return Profile(form=AllReduce(compute=1.0, local=local, local_more=0.0, cross=cross, cross_more=0.0))


def test_profiles_that_are_alike_are_found_again_with_little_spread():
    true = _profile(0.2, 0.5)
    found = pooled({"a": true, "b": _profile(0.2, 0.5000001)})[Form.GANG]
    for workers in (2, 4, 16, 64):
        told = true.form(_gang(workers).layout) / true.form(_gang(1).layout)
        assert _speed_up(found.coefficients, workers) == pytest.approx(told, rel=0.01)
    assert found.spread == 0.05


def test_the_pooled_fit_lies_between_the_models_and_its_spread_tells_them_apart():
    good, bad = _profile(0.0, 0.0), _profile(1.0, 9.0)
    found = pooled({"good": good, "bad": bad})[Form.GANG]
    assert 16 / 10 < _speed_up(found.coefficients, 16) < 16
    assert found.spread > 0.3
    assert Form.SYNC not in pooled({"good": good, "bad": bad})
    assert pooled({"good": good}) == {}, "one model says nothing of others"


def test_a_model_that_is_left_out_is_left_out_with_those_that_borrow_its_profile():
    assert pooled(BUILT_IN)[Form.GANG].models == 11
    assert pooled(BUILT_IN, {"imagenet"})[Form.GANG].models == 10
    assert pooled(BUILT_IN, {"ssd"})[Form.GANG].models == 10


def test_models_that_were_left_out_are_told_about_as_well_as_without_it():
    found = errors(BUILT_IN)
    assert found["error of unseen models"] == pytest.approx(found["error without them"], rel=0.05)
    assert found["error without them"] < 0.4


def test_the_book_uses_it_where_a_model_has_no_history_and_only_there():
    unseen = pooled(BUILT_IN)
    job = a_job(model="new", roles=[a_role(replicas=2, most=8)])
    board = Board(some_nodes(2))
    board.add(job, 0.0)
    asked = asked_setting(job, board.nodes)
    plain, told = History(), History(unseen=unseen)
    assert plain.prior(job, asked).spread == PRIOR_SPREAD
    assert told.prior(job, asked).spread == unseen[Form.GANG].spread
    speeds = [ProgressBook(history=one).annotate(board.snapshot(0.0)).estimates.speed(0, (4,)) for one in (plain, told)]
    expected = SpeedFit(Form.GANG, unseen[Form.GANG].coefficients)
    assert speeds[1] == pytest.approx(expected.relative(Setting.sized(job, (4,), 4), Setting.sized(job, (2,), 4)))
    assert speeds[0] != pytest.approx(speeds[1])
    seen = Kind((1.0, 0.0, 0.0, 0.0, 0.0, 0.0), 3.0, users={"ann": Shown((1.0, 0.0, 0.0, 0.0, 0.0, 0.0), 3.0)})
    known = History({("new", Form.GANG): seen}, unseen=unseen)
    assert known.prior(job, asked).coefficients == seen.coefficients
    learned = told.learn(job, None, asked, 60.0)
    assert learned.unseen is unseen
    assert math.isfinite(learned.durations.histograms["all",].lengths.quantile(0.5))
