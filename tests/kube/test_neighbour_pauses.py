"""A job that its neighbours allow nowhere does not keep others from the room that plans would give it."""

from __future__ import annotations

import pytest
from small_cluster import MemoryApi, SmallCluster
from test_bookings import REQUIRED, a_machine, job

from headway.cli.wiring import make_policy
from headway.kube.api.objects import NodeObject, TrainingJob
from headway.kube.api.watch import Changed
from headway.kube.gangs.gang import Pause


def apart(replicas: int, cpu: str) -> dict:
    term = {"labelSelector": {"matchLabels": {"headway.dev/job": "apart"}}, "topologyKey": "host"}
    return job({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}, replicas=replicas, cpu=cpu)


@pytest.mark.parametrize("policy", ["first-fit", "fifo", "headway", "srtf"])
def test_others_start_beside_a_job_that_cannot_be_seated(policy):
    api = MemoryApi()
    api.nodes = [a_machine("a", {"host": "a"}), a_machine("b", {"host": "b"})]
    small = SmallCluster(api, policy=make_policy(policy))
    never = api.submit("apart", apart(3, "2"))
    other = api.submit("other", job(replicas=2, cpu="3"))
    for _ in range(6):
        small.turn(2)
        small.hurry()
    assert small.phase(other) == "Running", api.status(other)
    assert api.status(never)["reason"] == "NeighboursRefuse"


def resting(replicas: int = 3) -> tuple[SmallCluster, str]:
    api = MemoryApi()
    api.nodes = [a_machine("a", {"host": "a"}), a_machine("b", {"host": "b"})]
    small = SmallCluster(api)
    uid = api.submit("apart", apart(replicas, "1"))
    small.turn(4)
    (job,) = small.cluster.gangs.values()
    assert job.pause.resting
    assert (small.phase(uid), api.status(uid)["attempt"]) == ("Waiting", 0)
    return small, uid


def test_it_is_tried_again_after_its_pause_and_starts_where_it_may_then():
    small, uid = resting()
    small.api.inbox.put(Changed(NodeObject, a_machine("c", {"host": "c"})))
    small.turn(3)
    assert small.phase(uid) == "Waiting", "it rests"
    small.clock.ahead += 21.0
    small.turn(6)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 0)
    assert small.api.status(uid)["history"]["stops"] == 0, "a pause is no stop"


@pytest.mark.parametrize("order", ["cancel", "suspend"])
def test_a_job_that_rests_obeys_its_user(order):
    small, uid = resting()
    small.api.jobs[uid]["spec"][order] = True
    small.api.inbox.put(Changed(TrainingJob, small.api._job(uid)))
    small.turn(4)
    assert small.phase(uid) == {"cancel": "Cancelled", "suspend": "Suspended"}[order]
    assert not small.cluster.board.unfinished


def test_pauses_grow_to_twenty_seconds():
    pause, seconds = Pause(), []
    for _ in range(5):
        pause = pause.another(100.0, resting=True)
        seconds.append(pause.again - 100.0)
    assert seconds == [5.0, 10.0, 20.0, 20.0, 20.0]
