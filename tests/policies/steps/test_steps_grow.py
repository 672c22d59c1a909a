"""Growing into idle capacity."""

from __future__ import annotations

from headway.core.draft import Draft
from headway.policies.steps.grow import grow_into_idle
from headway.policies.value.worth import Terms, Worth
from make import a_job, a_snapshot, decided, running, some_nodes

STILL = Terms(cool_down=0.0, restart=0.0, margin=0.0)


def linear(job, counts):
    return counts[0] / job.roles[0].replicas


def elastic_job(name, gpus=1, *, least=1, most=8, **more):
    return a_job(name, gpus, least=least, most=most, **more)


def test_growing_is_a_step_of_its_own_and_passes_over_what_is_decided():
    snapshot = a_snapshot(
        running(elastic_job("a"), [0]), running(elastic_job("b"), [0]), nodes=some_nodes(1, gpus=8), now=1000.0,
        left={"a": 9000, "b": 9000}, speed=linear,
    )  # fmt: skip
    draft = Draft(snapshot)
    draft.stop(0)
    assert grow_into_idle(draft, [0, 1], Worth(snapshot, STILL)) == [1]
    assert decided(draft.plan()) == {"a": "stop", "b": "scale"}
