"""A pod that its node turns away is made on another, and the gang stays; what pods really hold is booked."""

from __future__ import annotations

from typing import Any

from small_cluster import MemoryApi, SmallCluster, a_node

from headway.kube.api.objects import NodeObject
from headway.kube.api.watch import Changed
from headway.kube.gangs.model import Bind
from headway.kube.writes.write import WriteDone

PAIR = {"roles": {"worker": {"replicas": 2, "min": 2, "max": 2, "cpu": "3"}}}


class ChoosyNodes(MemoryApi):
    """Nodes that turn away every pod, as a kubelet does it that has no room."""

    full: frozenset[str] = frozenset({"n0"})

    def take(self, write) -> WriteDone:
        action = write.what
        if isinstance(action, Bind) and action.node in self.full:
            pod = self.pods[f"{write.namespace}/{action.name}"]
            pod["spec"]["nodeName"] = action.node
            pod["status"] = {
                "phase": "Failed",
                "reason": "OutOfcpu",
                "message": "Node didn't have enough resource: cpu",
            }
            self.tell(pod)
            return WriteDone(write)
        return super().take(write)


def nodes_of(small: SmallCluster, name: str) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in small.api.pods_of(name)}


def test_a_pod_that_is_turned_away_is_made_elsewhere_and_the_others_stay():
    small = SmallCluster(ChoosyNodes(nodes=3))
    small.api.nodes = [a_node("n0", "4"), a_node("n1", "4"), a_node("n2", "4")]
    small.start()
    uid = small.api.submit("gang", PAIR)
    small.turn(12)
    assert small.phase(uid) == "Running"
    assert small.api.status(uid)["attempt"] == 0, "the gang was not released"
    assert nodes_of(small, "gang") == {"gang-0-worker-0": "n2", "gang-0-worker-1": "n1"}, "it keeps its number"
    (job,) = small.cluster.gangs.values()
    assert small.cluster.board.free().min() >= 0
    assert job.start.avoided == {"n0"}


def test_a_gang_for_which_there_is_no_other_node_is_released():
    small = SmallCluster(ChoosyNodes(nodes=2))
    small.api.nodes = [a_node("n0", "4"), a_node("n1", "4")]
    small.start()
    uid = small.api.submit("gang", PAIR)
    small.turn(8)
    status = small.api.status(uid)
    assert (status["reason"], "OutOfcpu" in status["message"]) == ("Refused", True)
    left = [pod for pod in small.api.pods_of("gang") if pod["status"]["phase"] != "Failed"]
    assert not left, "no half gang is left"


def test_no_more_than_a_few_pods_of_a_start_are_tried_elsewhere():
    small = SmallCluster(ChoosyNodes(nodes=9))
    small.api.full = frozenset(f"n{number}" for number in range(9))
    uid = small.api.submit("one", {"roles": {"worker": {"cpu": "8"}}})
    for _ in range(40):
        small.turn()
        if small.api.status(uid).get("reason") == "Refused":
            break
    assert small.api.status(uid)["reason"] == "Refused"
    (job,) = small.cluster.gangs.values()
    assert len(job.start.avoided) == 4


class LateSidecar(MemoryApi):
    """A webhook that came after the dry run: real pods get 2 cpu more."""

    late = False

    def webhook(self, pod: dict[str, Any]) -> dict[str, Any]:
        if self.late:
            sidecar = {"name": "sidecar", "resources": {"requests": {"cpu": "2"}}}
            pod["spec"]["containers"] = [*pod["spec"]["containers"], sidecar]
        return pod


def test_pods_that_hold_more_than_booked_are_not_bound_where_that_does_not_fit():
    small = SmallCluster(LateSidecar(nodes=2))
    small.api.nodes = [a_node("n0", "7")]
    small.start()
    uid = small.api.submit("gang", PAIR)
    small.cluster.turn()
    small.cluster.turn()
    small.api.late = True
    small.turn(6)
    assert "its pods hold more cpu than was booked" in small.api.status(uid).get("message", "")
    assert not any(pod["spec"].get("nodeName") for pod in small.api.pods_of("gang"))
    small.clock.ahead += 30.0  # the pause is over
    small.turn(6)
    assert small.phase(uid) == "Waiting", "with what it really holds it does not fit there"
    small.api.inbox.put(Changed(NodeObject, a_node("n1", "16")))
    small.turn(8)
    assert small.phase(uid) == "Running"
    assert set(nodes_of(small, "gang").values()) == {"n1"}, "booked with its sidecar, it fits there alone"
    assert small.cluster.board.free().min() >= 0
