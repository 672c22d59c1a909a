"""Growth classes do not flap, and swinging losses win nothing."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.estimates import Growth
from headway.estimates.job.growth import ALPHA, BACK, Grower, next_class


def _classes(losses, every=5.0, replicas=1):
    grower, kinds = Grower.beginning(0.0), []
    for number, loss in enumerate(losses):
        grower = grower.add(number * every, loss, replicas)
        kinds.append(grower.kind)
    return kinds


def _changes(kinds):
    return sum(1 for one, other in itertools.pairwise(kinds) if one is not other)


@pytest.mark.parametrize(
    ("now", "growth", "then"),
    [
        (Growth.UNKNOWN, 1.0, Growth.PROGRESSING),
        (Growth.PROGRESSING, 0.05, Growth.WATCHING),
        (Growth.WATCHING, 0.2, Growth.PROGRESSING),
        (Growth.WATCHING, 0.05, Growth.CONVERGING),
        (Growth.CONVERGING, 0.15, Growth.CONVERGING),
        (Growth.CONVERGING, 0.25, Growth.WATCHING),
    ],
)
def test_the_table(now, growth, then):
    assert next_class(now, growth) is then


@given(st.lists(st.floats(0.0, BACK * ALPHA * 0.999), min_size=1))
def test_noise_about_the_threshold_never_wakes_a_converging_job(growths):
    kind = Growth.CONVERGING
    for growth in growths:
        kind = next_class(kind, growth)
    assert kind is Growth.CONVERGING


@pytest.mark.parametrize("seed", range(8))
def test_a_training_that_flattens_converges_once_and_stays(seed):
    chance = random.Random(seed)
    kinds = _classes([math.exp(-i / 20) + 0.1 + chance.gauss(0.0, 0.003) for i in range(400)])
    assert Growth.PROGRESSING in kinds
    assert set(kinds[-150:]) == {Growth.CONVERGING}
    assert _changes(kinds) <= 8


def test_a_loss_that_swings_is_no_growth():
    falling = [1.0 - 0.01 * i for i in range(20)]
    swinging = [0.8 + 0.3 * (i % 4 < 2) for i in range(200)]
    assert set(_classes(falling + swinging)[-100:]) == {Growth.CONVERGING}


def test_a_second_wind_is_seen():
    flat = [1.0 - 0.05 * min(i, 10) for i in range(60)]
    again = [0.5 - 0.02 * i for i in range(1, 20)]
    kinds = _classes(flat + again)
    assert kinds[59] is Growth.CONVERGING
    assert kinds[-1] is Growth.PROGRESSING


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=80))
def test_what_is_no_number_changes_nothing(losses):
    kinds = _classes([loss if not math.isfinite(loss) else max(-1e6, min(1e6, loss)) for loss in losses])
    assert all(isinstance(kind, Growth) for kind in kinds)
    assert _classes([math.nan] * 50)[-1] is Growth.UNKNOWN
