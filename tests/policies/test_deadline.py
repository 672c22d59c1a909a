"""Deadlines: least sizes, slack order, hopeless last, the answer before a job runs, and no flapping."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest

from headway.core.placement import Placement
from headway.core.plan import Scale, Start, Stop
from headway.core.states import State
from headway.policies.deadline import Deadline
from headway.sim.cluster import Costs, SimCluster, World
from make import a_job, a_snapshot, decided, flying, running, some_nodes, started
from simulated import ends_of, simulate

FREE = Deadline(restart=0.0, margin=0.0, cool_down=0.0)


def linear(job, counts):
    """As fast as it has workers, relative to what it asked for."""
    return counts[0] / job.roles[0].replicas


def test_a_job_gets_the_least_size_that_is_in_time():
    snapshot = a_snapshot(
        a_job("a", 1, min=1, max=4, seconds=100.0, deadline=55.0),
        a_job("b", 1, min=1, max=4, seconds=100.0, deadline=500.0),
        nodes=some_nodes(1, gpus=4), speed=linear,
    )  # fmt: skip
    sizes = {decision.job: decision.placement.counts for decision in FREE(snapshot).decisions}
    assert sizes["a"] == (2,)
    assert sizes["b"] == (1,)


def test_least_slack_first_and_hopeless_last():
    jobs = [
        a_job("hopeless", seconds=100.0, deadline=50.0),
        a_job("loose", seconds=100.0, deadline=1000.0),
        a_job("none", seconds=10.0),
        a_job("tight", seconds=100.0, deadline=120.0),
    ]
    ends = ends_of(simulate(jobs, some_nodes(1, gpus=1), FREE))
    assert sorted(ends, key=ends.__getitem__) == ["tight", "loose", "none", "hopeless"]


def test_as_many_as_can_be_are_in_time_and_the_largest_is_left_out():
    """Earliest deadline first would serve the large one and be late with three."""
    jobs = [a_job("large", seconds=90.0, deadline=100.0)]
    jobs += [a_job(f"small{i}", seconds=30.0, deadline=101.0) for i in range(3)]
    ends = ends_of(simulate(jobs, some_nodes(1, gpus=1), Deadline(restart=0.0, margin=0.0, packing=1.0)))
    assert {name for name, end in ends.items() if end <= 101.0} == {"small0", "small1", "small2"}
    assert ends["large"] == 180.0


def test_a_job_with_slack_shrinks_for_one_that_would_be_late():
    snapshot = a_snapshot(
        running(a_job("rich", 1, min=1, max=4, seconds=100.0, deadline=5000.0), [0, 0, 0, 0]),
        a_job("late", 1, min=1, max=4, seconds=100.0, deadline=160.0, submit=100.0),
        nodes=some_nodes(1, gpus=4), now=100.0, speed=linear, left={"rich": 50.0, "late": 100.0},
    )  # fmt: skip
    (scale,) = FREE(snapshot).decisions
    assert isinstance(scale, Scale)
    assert scale.job == "rich"
    assert len(scale.nodes) == 1


def test_one_without_a_chance_is_stopped_for_one_that_has_one_and_never_for_being_late():
    missed = running(a_job("missed", 4, seconds=1000.0, deadline=50.0), [0, 0, 0, 0])
    alone = a_snapshot(missed, nodes=some_nodes(1, gpus=4), now=100.0, left={"missed": 500.0})
    assert FREE(alone).decisions == ()
    pressed = a_snapshot(
        missed, a_job("a", 4, seconds=50.0, deadline=160.0, submit=100.0), nodes=some_nodes(1, gpus=4), now=100.0,
        left={"missed": 500.0, "a": 50.0},
    )  # fmt: skip
    (stop,) = FREE(pressed).decisions
    assert isinstance(stop, Stop)
    assert stop.job == "missed"


def test_a_job_about_to_be_late_grows_and_one_that_is_not_does_not():
    def plan(left):
        return FREE(
            a_snapshot(
                running(a_job("a", 1, min=1, max=4, deadline=100.0), [0]),
                running(a_job("b", 2, deadline=400.0), [0, 0]),
                a_job("wide", 4, seconds=10.0),
                nodes=some_nodes(1, gpus=4),
                now=0.0,
                left={"a": left, "b": 300.0, "wide": 10.0},
                speed=linear,
            )
        )

    assert decided(plan(left=130.0)) == {"a": "scale"}
    assert decided(plan(left=50.0)) == {}


def test_a_job_waits_for_the_whole_room_that_is_made_for_it():
    """It needs three GPUs; one is free, two are as soon as another job has stopped. It does not take the one first."""

    def plan(other):
        late = running(a_job("late", 1, min=1, max=4, deadline=100.0), [0])
        left = {"late": 250.0, "other": 50.0}
        return Deadline(restart=0.0)(
            a_snapshot(late, other, nodes=some_nodes(1, gpus=4), now=0.0, left=left, speed=linear)
        )

    place = Placement(((0, 0),))
    assert decided(plan(flying(a_job("other", 2), State.STOPPING, at=place))) == {}
    assert decided(plan(running(a_job("other", 2, deadline=60.0), [0, 0]))) == {"late": "scale"}


def test_the_cool_down_leaves_a_job_alone_and_asks_to_be_woken():
    snapshot = a_snapshot(
        running(a_job("a", 1, min=1, max=4, deadline=100.0), [0], touched=-20.0),
        nodes=some_nodes(1, gpus=4), now=0.0, left={"a": 130.0}, speed=linear,
    )  # fmt: skip
    plan = Deadline(cool_down=60.0)(snapshot)
    assert plan.decisions == ()
    assert plan.until == pytest.approx(40.0)


def test_without_estimates_of_a_job_it_is_served_like_one_without_a_deadline():
    snapshot = a_snapshot(a_job("a", deadline=100.0), nodes=some_nodes(1), left={})
    assert started(FREE(snapshot)) == ["a"]


@pytest.mark.parametrize("seed", [*range(12), 19, 21, 38, 404])
def test_no_flapping_whatever_comes(seed):
    """A whole run with costs: nobody is changed twice within the cool-down, and all jobs end."""
    chance = np.random.default_rng(seed)
    lengths, factors = chance.uniform(50, 600, 14), chance.uniform(0.5, 2.5, 14)
    jobs = [
        a_job(
            f"j{i}", int(chance.choice([1, 2, 4])), min=1, max=8, submit=30.0 * i, seconds=float(lengths[i]),
            deadline=30.0 * i + float(lengths[i] * factors[i]),
        )
        for i in range(14)
    ]  # fmt: skip
    nodes, policy = some_nodes(2, gpus=4), Deadline()
    cluster = SimCluster(nodes, jobs, World(samples=False, costs=Costs(start=10.0, scale=5.0, save=3.0)))
    cycles = simulate(jobs, nodes, policy, cluster=cluster)
    changes: dict[str, list[float]] = {}
    for cycle in cycles:
        for decision in cycle.plan.decisions:
            if isinstance(decision, Scale | Stop):
                changes.setdefault(decision.job, []).append(cycle.snapshot.now)
    for times in changes.values():
        assert all(b >= a + policy.cool_down for a, b in itertools.pairwise(times)), "as touched + cool-down is rounded"
    assert len(ends_of(cycles)) == len(jobs)
    starts = Counter(d.job for cycle in cycles for d in cycle.plan.decisions if isinstance(d, Start))
    assert max(starts.values()) <= 6


def test_a_job_that_the_cluster_cannot_hold_is_never_done_and_that_can_be_written_down():
    large = a_job("large", gpus=8, seconds=10.0, deadline=10_000.0)
    snapshot = a_snapshot(large, nodes=some_nodes(1, gpus=2), left={"large": 10.0}, speed=linear)
    told = Deadline().explain(snapshot, 0)["in_time"]
    assert told["done_at"] is None
    assert told["remedy"] == "a smaller job, or more nodes"
    assert json.dumps(told, allow_nan=False)
