"""Headway is killed in the middle of a start: the next process goes on with the pods that are there."""

from __future__ import annotations

import math

import pytest
from small_cluster import ChangingPods, MemoryApi, SmallCluster, a_node

from headway.kube.api.objects import PLANNED_NODE
from headway.kube.gangs.model import Bind, Create
from headway.kube.pods.marks import GANG as GANG_MARK

GANG = {"roles": {"worker": {"replicas": 4, "min": 4, "max": 4, "cpu": "3"}}}


class DyingProcess(MemoryApi):
    """The process that sends the requests is killed after some pods were created, and some bound."""

    creates = binds = math.inf

    def put(self, writes, dropped=()) -> None:
        alive = []
        for write in sorted(writes, key=lambda write: write.rank):
            left = {Create: self.creates, Bind: self.binds}.get(type(write.what), math.inf)
            if left <= 0:
                continue
            self.creates -= isinstance(write.what, Create)
            self.binds -= isinstance(write.what, Bind)
            alive.append(write)
        super().put(alive, dropped)

    def live_again(self) -> None:
        self.creates = self.binds = math.inf


def killed_midway(creates: float, binds: float = math.inf, nodes: int = 3) -> tuple[SmallCluster, str]:
    small = SmallCluster(DyingProcess(nodes))
    small.api.creates, small.api.binds = creates, binds
    uid = small.api.submit("gang", GANG)
    small.turn(4)
    assert small.phase(uid) == "", "its pods tell of it before its status does"
    small.api.live_again()
    return small, uid


@pytest.mark.parametrize(("creates", "binds"), [(1, 0), (1, 1), (3, 2), (4, 0), (4, 3)])
def test_a_start_goes_on_with_the_pods_that_are_there(creates, binds):
    small, uid = killed_midway(creates, binds)
    before = {pod["metadata"]["uid"]: pod["metadata"]["annotations"][PLANNED_NODE] for pod in small.api.pods_of("gang")}
    assert len(before) == creates
    small.start()
    small.turn(6)
    pods = small.api.pods_of("gang")
    assert (small.phase(uid), small.api.status(uid)["attempt"], len(pods)) == ("Running", 0, 4)
    now = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods}
    assert before.items() <= now.items(), "no pod was made twice, or bound elsewhere than planned"
    assert small.cluster.board.free().min() >= 0


def test_a_start_without_a_pod_is_decided_anew_and_is_the_same_attempt():
    small, uid = killed_midway(0)
    small.start()
    small.turn(6)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 0)
    assert small.api.status(uid)["history"]["stops"] == 0


def test_a_gang_whose_room_was_taken_meanwhile_is_released():
    small, uid = killed_midway(2, 2)
    small.api.nodes = [a_node("n0", "6")]
    small.start()
    small.turn(4)
    status = small.api.status(uid)
    assert (status["phase"], status["attempt"]) == ("Waiting", 1)
    assert not small.api.pods_of("gang"), "no half gang is left"


def test_a_pod_whose_plan_somebody_changed_is_bound_where_headway_planned_it():
    small, uid = killed_midway(4, 0)
    victim = small.api.pods_of("gang")[0]
    planned = victim["metadata"]["annotations"][PLANNED_NODE]
    victim["metadata"]["annotations"][PLANNED_NODE] = "n2" if planned != "n2" else "n1"
    small.start()
    small.turn(8)
    assert victim["spec"]["nodeName"] == planned, "the signed mark counts, not what anybody can write"
    assert small.phase(uid) == "Running"


def test_a_pod_whose_mark_somebody_changed_is_never_bound():
    small, uid = killed_midway(4, 0)
    victim = small.api.pods_of("gang")[0]
    victim["metadata"]["annotations"][GANG_MARK] = victim["metadata"]["annotations"][GANG_MARK].replace("n0", "n2")
    victim["metadata"]["annotations"][GANG_MARK] += " "
    small.start()
    small.turn(8)
    assert victim["spec"].get("nodeName") is None
    assert small.phase(uid) != "Running"


def test_a_pod_that_changed_before_its_binding_is_bound_as_it_is_now():
    small = SmallCluster(ChangingPods(3))
    uid = small.api.submit("gang", GANG)
    small.turn(8)
    assert all(pod["spec"].get("nodeName") for pod in small.api.pods_of("gang"))
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 0)
    binds = [write.what.name for write in small.api.sent if isinstance(write.what, Bind)]
    assert len(binds) == 5, "one twice"
