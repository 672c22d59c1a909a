"""Feedback improves decisions: small windows of our own, with beliefs carried on, reset and frozen."""

from __future__ import annotations

import pytest

from headway.estimates.history.history import History
from headway.estimates.job.doubt import Doubt
from headway.estimates.job.promise import UserReliability
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.learning.curve import course, drawn, own_windows, swapped
from headway.experiment.learning.liar import largest_user, moved_by
from headway.experiment.learning.window_run import learning_run
from headway.policies.headway import Headway
from make import a_job


@pytest.fixture(scope="module")
def windows():
    return own_windows(3, 25)


def test_carried_beliefs_shorten_later_windows_and_the_first_is_the_same(windows):
    carried, reset = (course(windows, "as they are", arm) for arm in ("carried", "reset"))
    assert carried.means[0] == reset.means[0]
    assert sum(carried.means[1:]) < 0.97 * sum(reset.means[1:])


def test_frozen_beliefs_learn_nothing(windows):
    _, first = learning_run(windows[0], Headway, History())
    _, after = learning_run(windows[1], Headway, first, frozen=True)
    assert after == first
    _, more = learning_run(windows[1], Headway, first)
    assert more.durations.histograms["all",].count > first.durations.histograms["all",].count


def test_one_lying_tenant_moves_what_others_are_told_by_at_most_five_percent(monkeypatch):
    windows = own_windows(4, 25)
    assert largest_user(windows) == "u0"
    assert max(one.max for one in moved_by(windows)) <= 0.05
    monkeypatch.setattr(Doubt, "strike", lambda self, _: self)
    monkeypatch.setattr(UserReliability, "broken", False)
    assert max(one.max for one in moved_by(windows)) > 0.05, "the lies are told, and would be believed"


def test_profiles_are_swapped_between_those_that_scale_and_those_that_do_not():
    found = swapped(BUILT_IN, {"imagenet", "ncf", "bert", "unknown"})
    assert found["imagenet"] is BUILT_IN["ncf"]
    assert found["ncf"] is BUILT_IN["imagenet"]
    assert found["bert"] is BUILT_IN["bert"]
    assert found["yolov3"] is BUILT_IN["yolov3"]


def test_scaling_is_drawn_by_the_name_of_the_job():
    values = [drawn(a_job(f"j{number}")) for number in range(300)]
    assert -1.0 <= min(values) < -0.9
    assert 0.9 < max(values) <= 1.0
    assert drawn(a_job("j7")) == values[7]
