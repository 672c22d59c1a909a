"""Fits find the coefficients that made the measurements and start from a prior."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.scaling import workers_per_node
from headway.estimates.models.profiles import Layout
from headway.estimates.models.scaling import plain_speed
from headway.estimates.speed.measurements import Measurements
from headway.estimates.speed.model import (
    Form,
    Observation,
    Setting,
    SpeedFit,
    terms,
)
from headway.estimates.speed.prior import plain_prior
from make import a_job, a_role, some_nodes


def _setting(workers, servers=0, nodes=1, cpu=1.0, accelerator=1.0):
    return Setting(Layout(workers, servers, nodes, 1.0 / nodes), cpu, accelerator)


GRID = {
    Form.GANG: [_setting(w, 0, n, cpu) for w in (1, 2, 4, 8, 16) for n in (1, 2) if n <= w for cpu in (0.5, 1.0, 2.0)],
    Form.SYNC: [_setting(w, p, 2, cpu) for w in (1, 2, 4, 8) for p in (1, 2, 4) for cpu in (0.5, 1.0)],
}
TRUE = {
    Form.GANG: (0.2, 0.5, 0.06, 0.05, 0.3, 0.01),
    Form.SYNC: (0.1, 0.4, 0.3, 0.4, 0.02, 0.01),
}


def _seen(form, coefficients, noise, seed=0, settings_=None):
    chance = random.Random(seed)
    found = []
    for setting in settings_ or GRID[form]:
        true = sum(c * x for c, x in zip(coefficients, terms(form, setting), strict=True))
        found.append(Observation(setting, true * (1 + chance.gauss(0.0, noise)), max(noise, 1e-3)))
    return found


@pytest.mark.parametrize("form", list(Form))
def test_known_coefficients_are_found_again_from_noisy_measurements(form):
    seen = _seen(form, TRUE[form], 0.02) * 4
    found = Measurements(form, seen).fit(plain_prior(form, _setting(4, 2)))
    assert all(c >= 0 for c in found.coefficients)
    for setting in [*GRID[form], _setting(6, 3, 2), _setting(12, 4, 2)]:
        true = sum(c * x for c, x in zip(TRUE[form], terms(form, setting), strict=True))
        assert found.seconds(setting) == pytest.approx(true, rel=0.06)
    big = max(range(len(TRUE[form])), key=TRUE[form].__getitem__)
    assert found.coefficients[big] == pytest.approx(TRUE[form][big], rel=0.25)


def test_exact_measurements_give_the_exact_coefficients():
    form = Form.GANG
    found = Measurements(form, _seen(form, TRUE[form], 0.0) * 50).fit(plain_prior(form, _setting(4)))
    assert found.coefficients == pytest.approx(TRUE[form], rel=0.05, abs=0.004)


def test_one_size_tells_the_scale_and_the_prior_the_shape():
    job = a_job("a", gpus=4, min=1, max=8)
    asked = Setting.sized(job, (4,))
    found = Measurements(Form.GANG, [Observation(asked, 3.0, 0.01)]).fit(plain_prior(Form.GANG, asked))
    assert found.seconds(asked) == pytest.approx(3.0)
    for count in (1, 2, 8):
        assert found.relative(Setting.sized(job, (count,)), asked) == pytest.approx(plain_speed(job, (count,)))


def test_a_second_size_sharpens_the_fit():
    prior = plain_prior(Form.GANG, _setting(4))
    one = Measurements(Form.GANG, [Observation(_setting(4), 1.0, 0.01)]).fit(prior)
    two = Measurements(Form.GANG, [Observation(_setting(4), 1.0, 0.01), Observation(_setting(8), 0.9, 0.01)]).fit(prior)
    assert abs(two.seconds(_setting(8)) / 0.9 - 1) < 0.03 < abs(one.seconds(_setting(8)) / 0.9 - 1)


def test_more_workers_on_one_server_may_slow_a_job_down_and_the_fit_says_so():
    seen = [Observation(_setting(w, 1, 2), 0.3 / w + 0.05 + 0.4 * w, 0.02) for w in (1, 2, 4)]
    found = Measurements(Form.SYNC, seen).fit(plain_prior(Form.SYNC, _setting(2, 1, 2)))
    assert found.seconds(_setting(8, 1, 2)) > found.seconds(_setting(4, 1, 2)) > found.seconds(_setting(1, 1, 2))


def test_a_gang_that_gains_little_is_not_taken_to_become_slower():
    """From two to four workers it gains a tenth, as if nearly all of a step were fixed. That is no decline yet."""
    seen = [Observation(_setting(2), 0.55, 0.02), Observation(_setting(4), 0.5, 0.02)]
    found = Measurements(Form.GANG, seen).fit(plain_prior(Form.GANG, _setting(2)))
    assert found.seconds(_setting(16)) < 1.01 * found.seconds(_setting(4))


def test_two_workers_apart_that_are_slower_than_one_do_not_make_sixty_slower_than_eight():
    """Bert in a window of itp: exchange between nodes costs more than the second worker brings. A part of it that grows
    with the workers would hardly be seen here, and would be most of the step of 64. Nobody would ever try them then.
    """
    seen = [Observation(_setting(1), 0.280, 0.002), Observation(_setting(2, 0, 2), 0.312, 0.014)]
    found = Measurements(Form.GANG, seen).fit(plain_prior(Form.GANG, _setting(1)))
    assert found.seconds(_setting(2, 0, 2)) == pytest.approx(0.312, rel=0.02)
    assert found.seconds(_setting(64, 0, 8)) < min(found.seconds(_setting(16, 0, 2)), found.seconds(_setting(8)))


def test_a_gang_that_becomes_slower_beyond_some_size_is_learned():
    """ElasticFlow's resnet50 on CIFAR-10: one batch divided, and an exchange that grows with the workers."""
    sizes = ((1, 1), (8, 2), (16, 4), (32, 8))
    seen = [Observation(_setting(w, 0, nodes), 0.019 / w + 0.031 + 0.0008 * w, 0.02) for w, nodes in sizes]
    found = Measurements(Form.GANG, seen).fit(plain_prior(Form.GANG, _setting(4)))
    assert found.seconds(_setting(64, 0, 16)) > 1.2 * found.seconds(_setting(32, 0, 8))
    assert found.seconds(_setting(32, 0, 8)) > 1.1 * found.seconds(_setting(8, 0, 2))


@settings(max_examples=60, deadline=None)
@given(
    form=st.sampled_from(list(Form)),
    points=st.lists(st.tuples(st.integers(1, 32), st.integers(1, 8), st.floats(1e-4, 1e4), st.floats(1e-4, 0.5)),
                    min_size=1, max_size=12),
)  # fmt: skip
def test_any_measurements_give_finite_positive_seconds(form, points):
    seen = [Observation(_setting(w, p), seconds, spread) for w, p, seconds, spread in points]
    found = Measurements(form, seen).fit(plain_prior(form, _setting(4, 2)))
    for setting in (_setting(1, 1), _setting(64, 8, 8), *(one.setting for one in seen)):
        assert 0 <= found.seconds(setting) < 1e9
        assert np.isfinite(found.seconds(setting))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.floats(0.1, 2.0), st.floats(1.0, 3.0))
def test_faster_machines_and_more_cpu_never_slow_a_job(workers, cpu, accelerator):
    found = SpeedFit(Form.GANG, TRUE[Form.GANG])
    base = found.seconds(_setting(workers, cpu=cpu))
    assert found.seconds(_setting(workers, cpu=cpu * 2)) <= base
    assert found.seconds(_setting(workers, cpu=cpu, accelerator=accelerator)) <= base


def test_a_setting_is_read_off_a_placement():
    job = a_job("a", roles=[a_role("ps", 1, cpu=1), a_role("worker", 2, cpu=2)])
    nodes = some_nodes(2, gpus=0, cpu=8)
    setting = Setting.of(job, Placement(((0,), (0, 1)), (None, (1000,))), nodes)
    assert (setting.layout.workers, setting.layout.servers, setting.layout.nodes) == (2, 1, 2)
    assert setting.cpu == 0.5
    assert workers_per_node(job, nodes) == 4
    fast = Nodes.of([nodes.nodes[0], type(nodes.nodes[0])(name="v", capacity=(("cpu", 8000),), accelerator="V100")])
    assert Setting.of(job, Placement(((1,), (1, 1))), fast).accelerator == 1.7


def test_of_a_job_with_servers_nobody_believes_that_workers_alone_make_it_faster_and_faster():
    """Amdahl's law alone would say that a sixth worker per server makes a job three times as fast."""
    asked = Setting(Layout.on([0, 0], [0]))
    believed = SpeedFit(Form.SYNC, plain_prior(Form.SYNC, asked))
    speeds = [believed.relative(Setting(Layout.on([0] * count, [0])), asked) for count in (2, 4, 12)]
    assert speeds[0] == pytest.approx(1.0)
    assert speeds[2] < speeds[1] < 1.3
    with_servers = believed.relative(Setting(Layout.on([0] * 4, [0, 0])), asked)
    assert with_servers > speeds[1], "a second server takes half of the exchange"
