"""Growing into idle capacity."""

from __future__ import annotations

import pytest

from headway.core.draft import Draft
from headway.policies.steps.grow import grow_into_idle
from headway.policies.value.terms import Terms
from headway.policies.value.worth import Worth
from make import a_job, a_snapshot, decided, running, some_nodes

STILL = Terms(cool_down=0.0, restart=0.0, margin=0.0)


def linear(job, counts):
    return counts[0] / job.roles[0].replicas


def knee(at):
    return lambda _job, counts: float(min(counts[0], at))


def elastic_job(name, gpus=1, *, least=1, most=8, **more):
    return a_job(name, gpus, min=least, max=most, **more)


def test_growing_is_a_step_of_its_own_and_passes_over_what_is_decided():
    snapshot = a_snapshot(
        running(elastic_job("a"), [0]), running(elastic_job("b"), [0]), nodes=some_nodes(1, gpus=8), now=1000.0,
        left={"a": 9000, "b": 9000}, speed=linear,
    )  # fmt: skip
    draft = Draft(snapshot)
    draft.stop(0)
    assert grow_into_idle(draft, Worth(snapshot, STILL)) == [1]
    assert decided(draft.plan()) == {"a": "stop", "b": "scale"}


STEPS = [
    ("into what is idle", 4, 8, linear, 4),
    ("no further than its max", 4, 3, linear, 3),
    ("no further than it helps", 4, 8, knee(2), 2),
    ("nothing is idle", 1, 8, linear, None),
]


@pytest.mark.parametrize(("why", "gpus", "most", "speed", "count"), STEPS)
def test_how_far_a_job_grows(why, gpus, most, speed, count):
    entry = running(a_job("a", 1, min=1, max=most), [0], touched=0.0)
    snapshot = a_snapshot(entry, nodes=some_nodes(1, gpus=gpus), now=1000.0, left={"a": 9000.0}, speed=speed)
    draft = Draft(snapshot)
    grows = grow_into_idle(draft, Worth(snapshot, Terms(cool_down=60.0)))
    assert grows == ([] if count is None else [0]), why
    assert [len(one.nodes) for one in draft.plan().decisions] == ([] if count is None else [count]), why
