"""Gangs that lack nodes are shown to autoscalers by pending pods; gangs that lack quota are not."""

from __future__ import annotations

from collections import Counter

from small_cluster import MemoryApi, SmallCluster, a_lone, a_node
from test_lone_pods import condition

from headway.core.quantity import CPU
from headway.kube.api.errors import Denied
from headway.kube.api.objects import NodeObject
from headway.kube.api.watch import Changed, Deleted
from headway.kube.gangs.model import Create
from headway.kube.views.demand import STANDS_IN
from headway.kube.writes.write import Write, WriteDone
from headway.policies.baselines.fifo import first_fit
from headway.policies.wrappers.queues import Queued
from headway.policies.wrappers.quota import Queue

LARGE = {"roles": {"ps": {"cpu": "1"}, "worker": {"replicas": 2, "cpu": "12", "selector": {"disk": "ssd"}}}}


def stand_ins(small: SmallCluster) -> dict[str, dict]:
    pods = small.api.pods.values()
    return {pod["metadata"]["name"]: pod for pod in pods if STANDS_IN in pod["metadata"].get("labels", {})}


def add_node(small: SmallCluster, name: str, cpu: str) -> None:
    node = a_node(name, cpu)
    node.metadata.labels["disk"] = "ssd"
    small.api.nodes.append(node)
    small.api.inbox.put(Changed(NodeObject, node))


def test_the_first_gangs_that_lack_nodes_have_pending_pods_until_they_start():
    small = SmallCluster(demand_gangs=1)  # nodes of 8 cpu
    first, second = small.api.submit("first", LARGE), small.api.submit("second", LARGE)
    small.turn(4)
    shown = stand_ins(small)
    assert set(shown) == {"first-stands-in-ps-0", "first-stands-in-worker-0", "first-stands-in-worker-1"}
    assert {condition(pod)[:2] for pod in shown.values()} == {("False", "Unschedulable")}
    worker = shown["first-stands-in-worker-0"]
    assert worker["spec"]["schedulerName"] == "headway"
    assert worker["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert worker["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "12000m"
    assert worker["metadata"]["ownerReferences"][0]["uid"] == first
    small.turn(3)
    assert set(stand_ins(small)) == set(shown), "they are made once"

    add_node(small, "new", "32")
    small.turn(6)
    assert small.phase(first) == "Running"
    assert small.phase(second) != "Running"
    assert Counter(name.partition("-")[0] for name in stand_ins(small)) == {"second": 3}
    assert all("nodeName" not in pod["spec"] for pod in stand_ins(small).values())


def test_a_cancelled_gang_takes_its_pods_with_it():
    small = SmallCluster(demand_gangs=3)
    uid = small.api.submit("gang", LARGE)
    small.turn(4)
    assert stand_ins(small)
    small.api.inbox.put(Deleted(type(small.api._job(uid)), small.api._job(uid)))
    small.turn(4)
    assert not stand_ins(small)


def test_without_the_option_there_are_none_and_those_of_before_are_deleted():
    small = SmallCluster(demand_gangs=1)
    small.api.submit("gang", LARGE)
    small.turn(4)
    assert stand_ins(small)
    small._settings["demand_gangs"] = 0
    small.start()
    small.turn(4)
    assert not stand_ins(small)


def test_a_restart_goes_on_with_those_that_are_there():
    small = SmallCluster(demand_gangs=1)
    small.api.submit("gang", LARGE)
    small.turn(4)
    before = {name: pod["metadata"]["uid"] for name, pod in stand_ins(small).items()}
    small.start()
    small.turn(4)
    assert {name: pod["metadata"]["uid"] for name, pod in stand_ins(small).items()} == before


def test_a_gang_that_only_its_quota_stops_is_not_shown_and_its_status_says_so():
    policy = Queued(first_fit, (Queue(name="small", quota=((CPU, 2000),), borrow=((CPU, 0),)),))
    small = SmallCluster(policy=policy, demand_gangs=5, quotas=policy.beyond)
    limited = small.api.submit("limited", {"roles": {"worker": {"cpu": "12"}}, "queue": "small"})
    free = small.api.submit("free", {"roles": {"worker": {"cpu": "12"}}})
    pod = a_lone(small.api, "pod", "12", meta={"labels": {"headway.dev/queue": "small"}})
    small.turn(5)
    assert set(stand_ins(small)) == {"free-stands-in-worker-0"}
    status = small.api.status(limited)
    assert status["reason"] == "QuotaUsed"
    assert status["message"] == "Queue 'small' may hold 2 cpu and holds 0 cpu; the job needs 12 cpu."
    assert small.api.status(free)["reason"] == "LargerThanAnyNode"
    assert condition(pod)[1] == "Waiting"


def test_what_the_cluster_refuses_is_tried_again_later():
    class Full(MemoryApi):
        def take(self, write: Write) -> WriteDone:
            if isinstance(write.what, Create):
                asked.append(write.what.name)
                raise Denied(403, "exceeded quota")
            return super().take(write)

    asked: list[str] = []
    small = SmallCluster(Full(), demand_gangs=1)
    uid = small.api.submit("gang", LARGE)
    small.turn(6)
    assert len(asked) == 3, "once each, not in every cycle"
    assert small.cluster.gangs[uid].waits
