"""What sizes are worth, and which sizes a job may have."""

from __future__ import annotations

import math

import pytest

from headway.policies.value.sizes import larger_sizes
from headway.policies.value.terms import Terms
from headway.policies.value.worth import Worth
from make import a_job, a_snapshot, running, some_nodes

PATHS = [
    ("each faster than the one before", lambda _job, counts: float(counts[0]), [1, 2, 3, 4]),
    ("no further than it helps", lambda _job, counts: float(min(counts[0], 2)), [1, 2]),
    ("over a hill that costs speed", lambda _job, counts: {1: 1.0, 2: 0.5, 3: 0.9, 4: 3.0}[counts[0]], [1, 4]),
]


@pytest.mark.parametrize(("why", "speed", "path"), PATHS)
def test_the_path_of_sizes(why, speed, path):
    snapshot = a_snapshot(a_job("a", 1, min=1, max=4, seconds=100.0), nodes=some_nodes(1, gpus=8), speed=speed)
    assert [counts[0] for counts in Worth(snapshot, Terms()).path(0)] == path, why


def test_worth_grows_with_speed_and_with_what_is_soon_done():
    jobs = (a_job("short", seconds=100.0), a_job("long", seconds=10_000.0))
    worth = Worth(a_snapshot(*jobs, nodes=some_nodes(1, gpus=8)), Terms(favour=1.0, restart=1.0))
    assert worth.value_at(0, 2.0) > worth.value_at(0, 1.0) > worth.value_at(1, 1.0) > 0.0
    assert worth.value_at(0, 0.0) == 0.0
    even = Worth(worth.snapshot, Terms(favour=0.0))
    assert even.value_at(0, 1.0) == pytest.approx(even.value_at(1, 1.0))


def test_a_place_over_more_nodes_than_needed_costs_speed():
    """Four workers fit on a node; a fifth outgrows it, and the estimate makes a step there."""

    def speed(_job, counts):
        return counts[0] / 4 if counts[0] <= 4 else 0.5 * counts[0] / 4

    entries = (
        running(a_job("a", 4, min=1, max=8), [0, 0, 0, 0]),
        running(a_job("b", 4, min=1, max=8), [1, 1, 2, 2]),
    )
    snapshot = a_snapshot(*entries, nodes=some_nodes(3, gpus=4), left={"a": 100.0, "b": 100.0}, speed=speed)
    worth = Worth(snapshot, Terms())
    assert worth.speed(0, snapshot.placements[0]) == pytest.approx(1.0)
    assert worth.speed(1, snapshot.placements[1]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("counts", "most", "sizes"),
    [
        ((1,), (1,), []), ((1,), (4,), [(2,), (3,), (4,)]),
        ((1, 1), (2, 3), [(2, 1), (1, 2), (1, 3), (2, 2), (2, 3), (2, 3), (2, 3)]),
    ],
)  # fmt: skip
def test_larger_sizes(counts, most, sizes):
    assert larger_sizes(counts, most) == sizes


def test_a_job_of_unknown_length_keeps_its_size_and_counts_as_an_hour():
    snapshot = a_snapshot(running(a_job("a", 2, min=1, max=4), [0, 0]), left={})
    worth = Worth(snapshot, Terms())
    assert "keeps its size" in worth.why_not(0)
    assert worth.path(0) == [(2,)]
    assert worth.work(0) == 3600.0
    assert worth.seconds(0, 0.0) == math.inf
