"""Which nodes gain or lose a replica."""

from __future__ import annotations

from headway.core.plan import Scale
from headway.policies.elastic import Elastic
from headway.policies.placing.add_remove import leaving_order
from make import a_job, a_role, a_snapshot, running, some_nodes, waiting


def test_the_lonely_worker_goes_first():
    """Its server and two workers are on node 0, a third is alone on node 1: that one makes room for the newcomer."""
    job = a_job("a", roles=[a_role("ps", cpu=1), a_role("worker", 3, least=1, most=3, gpu=1, near=("ps",))])
    snapshot = a_snapshot(
        running(job, [0], [0, 1, 0]), running(a_job("b", 2), [0, 0]), running(a_job("c", 3), [1] * 3),
        waiting(a_job("new"), since=0.0),
        nodes=some_nodes(2, gpus=4, cpu=8), now=1000.0, left={"a": 9000, "b": 9000, "c": 9000, "new": 60},
        speed=lambda job, counts: counts[-1] / job.roles[-1].replicas,
    )  # fmt: skip
    assert leaving_order(snapshot.placements[0], 1) == (1, 0, 0)
    assert Elastic()(snapshot).decisions == (Scale("a", "worker", (0, 0)),)
