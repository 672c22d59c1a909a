"""On Kubernetes a queue gets what its quota guarantees: from a job that never saves, beside one that cannot stop."""

from __future__ import annotations

import time

from small_cluster import SmallCluster

from headway.kube.settings import KubeTimeouts
from headway.policies.baselines.fifo import first_fit
from headway.policies.wrappers.queues import with_queues
from headway.policies.wrappers.quota import Queue

EIGHT = (("cpu", 8000),)
POLICY = with_queues(first_fit, [Queue(name="vision", quota=EIGHT), Queue(name="evil", quota=EIGHT)])


def wide(queue: str, replicas: int, **more) -> dict:
    return {"queue": queue, "roles": {"worker": {"replicas": replicas, "cpu": "7"}}, **more}


def test_a_job_that_never_saves_goes_after_the_time_limit_of_its_save():
    small = SmallCluster(policy=POLICY, timeouts=KubeTimeouts(save=3.0))
    hold = small.api.submit("hold", wide("evil", 2), namespace="evil")
    small.turn(6)
    assert small.phase(hold) == "Running"
    mine = small.api.submit("mine", wide("vision", 1), namespace="vision")
    small.turn(4)
    assert (small.phase(hold), small.api.status(hold)["reason"]) == ("Stopping", "Reclaimed"), "it is asked to save"
    time.sleep(3.1)
    small.turn(2)
    assert not small.api.pods_of("hold", "evil")
    assert small.api.status(hold)["reason"] == "Interrupted"
    assert "another queue reclaimed what it borrowed" in small.api.status(hold)["message"]
    small.turn(4)
    assert (small.phase(mine), small.phase(hold)) == ("Running", "Waiting")


def test_a_job_that_cannot_be_stopped_does_not_borrow():
    small = SmallCluster(policy=POLICY)
    hold = small.api.submit("hold", wide("evil", 2, checkpoints=False), namespace="evil")
    mine = small.api.submit("mine", wide("vision", 1), namespace="vision")
    small.turn(6)
    assert (small.phase(mine), small.phase(hold)) == ("Running", "Waiting")
