"""A status holds the whole intent and comes back unchanged; it shows the estimate that policies see."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.estimates import Basis, Estimate
from headway.core.restarts import Losses
from headway.core.states import State
from headway.kube.api.objects import unix
from headway.kube.gangs.intent import Intent, RoleAllocation
from headway.kube.values import replace
from headway.kube.views.foreseen import between, moved
from headway.kube.views.status import TrainingProgress, progress_status, status_of
from headway.kube.views.status_read import read_status, without_nodes

names = st.sampled_from(["ps", "chief", "worker"])
shares = st.builds(
    RoleAllocation, names, st.tuples() | st.tuples(st.just("n1")) | st.tuples(st.just("n1"), st.just("n2")),
    st.just((("cpu", 500),)),
)  # fmt: skip
losses = st.builds(Losses, st.lists(st.floats(1, 9), min_size=1).map(tuple), st.integers(-1, 99))
intents = st.builds(
    Intent, state=st.sampled_from(State), attempt=st.integers(0, 9), allocation=st.tuples(shares),
    target=st.tuples(shares), since=st.floats(1, 1e10), until=st.sampled_from([float("inf"), 5.5]),
    draining=st.booleans(), saved=st.booleans(), losses=losses, refusals=st.integers(0, 9),
    reason=st.text(max_size=5),
)  # fmt: skip


@given(intents)
def test_an_intent_is_read_back_as_it_was_written(intent):
    columns = {"stops": 2.0, "touched": 5.0}
    status = status_of(intent, columns, {("w", 1)}, began=1000.0)
    status["progress"] = progress_status(TrainingProgress(7), None, 5.0, 1000.0)
    text = json.dumps({key: value for key, value in status.items() if value is not None})
    read = read_status(text.encode(), began=1000.0)
    assert (read.columns, read.step, read.savers) == (columns, 7, {("w", 1)})
    for moment in ("since", "until"):
        assert getattr(read.intent, moment) == pytest.approx(getattr(intent, moment))
    assert read.intent.losses.times == pytest.approx(intent.losses.times)
    assert replace(read.intent, since=intent.since, until=intent.until, losses=intent.losses) == without_nodes(intent)
    assert status["since"] == intent.since + 1000.0, "people and other programs read Unix time"


def test_an_intent_that_lacks_what_it_needs_is_taken_down():
    broken = status_of(Intent(state=State.STARTING, since=1.0), {}, (), 0.0)
    assert read_status(json.dumps(broken).encode(), 0.0).intent.draining
    assert read_status(b"", 0.0) is None


def test_status_shows_the_estimate_of_the_book():
    progress = TrainingProgress(50, 100, 0.5, 40.0)
    estimate = Estimate(50.0, 0.1, Basis.STEPS, "steps left at the speed it shows")
    shown = progress_status(progress, estimate, now=40.0, began=1000.0)
    assert unix(shown["eta"]) == 1090.0
    assert (shown["text"], shown["left"], shown["spread"]) == ("50/100", 50.0, 0.1)
    assert "speed" in shown["basis"]
    assert shown["done"] == "1970-01-01 00:18Z ±5 s"
    waits = progress_status(None, estimate, now=40.0, began=1000.0, training=False)
    assert (waits["left"], waits["eta"], waits["done"], waits["step"]) == (50.0, None, None, None), "it does not train"
    assert progress_status(TrainingProgress(1, 2, 0.12345678901), None, 0.0, 0.0)["loss"] == 0.1235
    unknown = progress_status(progress, Estimate(math.nan, math.nan, Basis.NOTHING, "unknown"), 40.0, 1000.0)
    assert (unknown["eta"], unknown["left"], unknown["basis"]) == (None, None, "unknown")


BEGAN = 1_700_000_000.0  # 2023-11-14 22:13:20Z


@pytest.mark.parametrize(
    ("moments", "told"),
    [
        ((600.0, 1_200.0, 3_000.0), "2023-11-14 22:33Z (22:23-23:03)"),
        ((600.0, 1_200.0, 8_000.0), "2023-11-14 22:33Z (22:23 to 2023-11-15 00:26)"),
        ((600.0, 1_200.0, math.inf), "2023-11-14 22:33Z (22:23 or later)"),
        ((1_190.0, 1_200.0, 1_210.0), "2023-11-14 22:33Z"),
        ((600.0, math.inf, math.inf), ""),
    ],
)
def test_a_moment_that_was_foreseen_has_its_range(moments, told):
    assert between(moments, BEGAN) == told


@pytest.mark.parametrize(
    ("starts", "end", "tells"),
    [
        ((0.0, 3_630.0, 7_200.0), 10_800.0, False),  # half a minute
        ((0.0, 4_400.0, 7_200.0), 10_800.0, False),  # 13 min of an hour
        ((0.0, 4_600.0, 7_200.0), 10_800.0, True),
        ((0.0, 3_600.0, 11_000.0), 10_800.0, True),  # it may be much later
        ((0.0, 3_600.0, 7_200.0), 14_400.0, True),
        ((0.0, 3_600.0, 7_200.0), math.inf, True),
    ],
)
def test_what_is_expected_is_told_again_where_people_notice(starts, end, tells):
    told = ((0.0, 3_600.0, 7_200.0), (7_200.0, 10_800.0, math.inf))
    assert moved(told, (starts, (0.0, end, math.inf)), 0.0) is tells
    assert moved((starts, (0.0, end, math.inf)), told, 0.0) is tells


def test_what_was_expected_by_now_and_has_not_come_is_told_again():
    told = ((0.0, 100.0, 200.0), (0.0, 300.0, 400.0))
    late = ((110.0, 170.0, 260.0), (0.0, 370.0, 460.0))
    assert not moved(told, told, 150.0)
    assert moved(told, late, 105.0)
    assert moved(told, None, 105.0)
    assert moved(None, told, 0.0)
    assert not moved(None, None, 0.0)
