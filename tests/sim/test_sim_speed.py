"""The true speed of jobs: replicas, cpu, accelerators, locality, domains and neighbours."""

from __future__ import annotations

import itertools

import pytest

from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.profiles import Layout, MeasuredProfile
from headway.sim.speed import ALONE, SharingEffect, Speed
from make import a_job, a_role, some_nodes

NODES = Nodes.of([
    Node(name="a", capacity=(("cpu", 8000), ("gpu", 4)), domain="r0", accelerator="t4"),
    Node(name="b", capacity=(("cpu", 8000), ("gpu", 4)), domain="r0", accelerator="a100"),
    Node(name="c", capacity=(("cpu", 8000), ("gpu", 4)), domain="r1", accelerator="t4"),
])  # fmt: skip


def _at(job, *nodes, speed=None, effect=ALONE, requests=None) -> float:
    placement = Placement(tuple(tuple(role) for role in nodes), requests)
    return (speed or Speed())(job, placement, NODES, effect)


def test_as_asked_is_one_whatever_the_place_unless_asked_for() -> None:
    job = a_job("a", 4, model="imagenet")
    assert _at(job, [0, 0, 0, 0]) == _at(job, [0, 1, 2, 2]) == 1.0


def test_more_replicas_give_less_and_less() -> None:
    job = a_job("a", 2, min=1, max=8)
    speeds = [_at(job, [0] * count) for count in range(1, 5)]
    gains = [after - before for before, after in itertools.pairwise(speeds)]
    assert speeds == sorted(speeds)
    assert gains == sorted(gains, reverse=True)


def test_below_its_least_a_gang_does_nothing() -> None:
    assert _at(a_job("a", 3), [0, 0]) == 0.0
    assert _at(a_job("a", 3, model="bert"), [0, 0], speed=Speed(profiles=BUILT_IN)) == 0.0


def test_crossing_nodes_and_domains_costs_what_was_asked_for() -> None:
    speed, job = Speed(node_loss=0.1, domain_loss=0.2), a_job("a", 2)
    assert _at(job, [0, 0], speed=speed) == 1.0
    assert _at(job, [0, 1], speed=speed) == pytest.approx(0.9)
    assert _at(job, [0, 2], speed=speed) == pytest.approx(0.9 * 0.8)


def test_the_slowest_accelerator_sets_the_pace() -> None:
    speed, job = Speed(accelerators={"t4": 1.0, "a100": 2.0}), a_job("a", 2)
    assert _at(job, [1, 1], speed=speed) == 2.0
    assert _at(job, [0, 1], speed=speed) == 1.0
    named = a_job("a", roles=(a_role(replicas=2, gpu=1, accelerator="a100"),))
    assert _at(named, [1, 1], speed=speed) == 1.0


def test_seconds_on_a_type_are_those_that_were_measured() -> None:
    """Declared are the seconds on the fastest type. One that is not in the table is as slow as the slowest that is."""
    job = a_job("a", 2, seconds=100.0)
    speed = Speed(seconds_on={job.id: {"T4": 400.0, "A100": 100.0}}, accelerators={"t4": 0.9})
    assert (_at(job, [1, 1], speed=speed), _at(job, [0, 0], speed=speed), _at(job, [0, 1], speed=speed)) == (
        1,
        0.25,
        0.25,
    )
    assert _at(a_job("b", 2), [0, 0], speed=speed) == 0.9, "others are as before"
    assert _at(job, [0, 0], speed=Speed(seconds_on={job.id: {"v100": 100.0, "k80": 500.0}})) == 0.2
    named = a_job("a", roles=(a_role(replicas=2, gpu=1, accelerator="t4"),))
    assert _at(named, [0, 0], speed=speed) == 0.25
    plain = some_nodes(1, gpus=4)
    assert speed(job, Placement(((0, 0),)), plain) == 1.0, "nodes that name no type are as declared"


def test_more_cpu_by_resize_or_by_what_neighbours_leave() -> None:
    job = a_job("a", roles=(a_role(replicas=1, cpu=1),))
    resized = _at(job, [0], requests=((2000, 0),))
    assert 1.5 < resized < 2.0
    assert _at(job, [0], effect=SharingEffect(cpu=(2000.0,))) == pytest.approx(resized)


@pytest.mark.parametrize("model", sorted(BUILT_IN))
def test_profiles_are_positive_and_prefer_one_node(model) -> None:
    profile = BUILT_IN[model]
    for workers in (1, 2, 4, 8, 16):
        near = profile.throughput(Layout.on([0] * workers, [0] * workers))
        far = profile.throughput(Layout.on(range(workers), range(workers)))
        assert 0 < far <= near + 1e-12
    assert 0 <= profile.error < 0.15
    losses = [profile.curve(share / 10) for share in range(11)]
    assert losses == sorted(losses, reverse=True)


def test_one_server_is_slower_with_more_workers_as_measured() -> None:
    """With one parameter server, more workers lower resnet-50's speed: 8.9 samples/s at eight, as measured."""
    form = BUILT_IN["resnet-50"].form
    two, eight = (form(Layout.on(range(workers), [99])) for workers in (2, 8))
    assert eight == pytest.approx(8.9, rel=0.15)
    assert eight < two


@pytest.mark.parametrize(
    ("workers", "servers", "crossing", "local"),
    [
        ([0], [0], 0.0, 1.0),
        ([1], [0], 1.0, 0.0),
        ([1, 1], [0], 1.0, 0.0),
        ([0, 1], [0], 0.5, 0.5),
        ([0, 1], [0, 1], 1.0, 0.5),
        ([1, 1], [0, 0], 2.0, 0.0),
        ([1, 2, 3, 4], [0], 1.0, 0.0),
        ([3, 4, 5, 6], [0, 1], 1.0, 0.0),
        ([0, 1], [], 0.0, 1.0),
    ],
)
def test_what_crosses_shares_the_link_of_its_node(workers, servers, crossing, local) -> None:
    """As measured between two network namespaces: see docs/simulator.md."""
    layout = Layout.on(workers, servers)
    assert (layout.crossing, layout.local) == (crossing, local)


def test_the_best_place_is_where_a_job_trains_as_fast_as_asked() -> None:
    speed = Speed(profiles=BUILT_IN)
    roles = (a_role("ps", replicas=2, cpu=1), a_role("worker", replicas=8, gpu=1))
    job = a_job("a", roles=roles, model="vgg-16")
    assert _at(job, [0, 1], [0] * 4 + [1] * 4, speed=speed) == pytest.approx(1.0)
    assert _at(job, [2, 2], [0] * 4 + [1] * 4, speed=speed) < 0.9


def test_a_profile_measures_against_the_asked_for_size() -> None:
    speed, job = Speed(profiles=BUILT_IN), a_job("a", 4, model="cifar10", min=1, max=8)
    assert _at(job, [0, 0, 0, 0], speed=speed) == pytest.approx(1.0)
    assert _at(job, [0, 0, 2, 2], speed=speed) < 1.0
    assert _at(job, [1, 1, 1, 1], speed=speed) == pytest.approx(2.86)
    assert 0.2 < _at(job, [0], speed=speed) < 0.6


def test_measured_points_are_used_as_they_are_and_between_them_something_between() -> None:
    form = MeasuredProfile({(1, 1): 10.0, (4, 1): 36.0, (4, 4): 20.0})
    assert form(Layout(4, 0, 4, 1.0)) == 20.0
    assert 10.0 < form(Layout(2, 0, 1, 1.0)) < 20.0
