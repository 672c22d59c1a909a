"""Faults that were reproduced on a live cluster: what is in doubt freezes and is told, and no training is deleted."""

from __future__ import annotations

import copy

import msgspec
import pytest
from small_cluster import HEALTHY, MemoryApi, SmallCluster, a_node

from headway.core.queue_rules import QueueRule
from headway.kube.api.objects import NodeObject
from headway.kube.api.watch import Changed, Deleted
from headway.kube.gangs.model import Bind, Delete
from headway.kube.settings import ClaimSettings, KubeTimeouts
from headway.kube.writes.write import WriteDone

RULES = ClaimSettings(queues=(QueueRule(name="vip", namespaces=("vip",), highest_priority=90), QueueRule(name="all")))


def running(small: SmallCluster, name: str = "job", spec: dict = HEALTHY) -> str:
    uid = small.api.submit(name, spec)
    small.turn(6)
    assert small.phase(uid) == "Running", small.api.status(uid)
    return uid


def not_ready(name: str) -> NodeObject:
    node = a_node(name)
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, conditions=[]))


# ── 1: a job that was created suspended is checked when it is resumed ──


def test_a_job_created_suspended_and_resumed_is_held_to_its_queues_rules():
    small = SmallCluster(claims=RULES)
    spec = {**HEALTHY, "queue": "vip", "priority": 90, "suspend": True}
    uid = small.api.submit("guest", spec, namespace="guest")
    small.turn(3)
    assert small.phase(uid) == "Suspended"
    small.api.jobs[uid]["spec"] = {**spec, "suspend": False}
    small.api.change(uid)
    small.turn(6)
    assert small.phase(uid) == "Failed"
    assert "namespace 'guest' may not use 'vip'" in small.api.status(uid)["message"]


def test_a_job_that_was_admitted_and_suspended_is_not_refused_when_the_rules_have_changed():
    small = SmallCluster(claims=ClaimSettings(queues=(QueueRule(name="all"),)))
    uid = running(small, "job", {**HEALTHY, "priority": 50})
    small.api.jobs[uid]["spec"]["suspend"] = True
    small.api.change(uid)
    small.turn(6)
    assert small.phase(uid) == "Suspended"
    small._settings["claims"] = ClaimSettings(queues=(QueueRule(name="all", highest_priority=10),))
    small.start()
    small.api.jobs[uid]["spec"]["suspend"] = False
    small.api.change(uid)
    small.turn(8)
    assert small.phase(uid) == "Running"
    assert small.gang("team/job").job.priority == 10


# ── 3: our own delay is no refusal ──


def test_a_start_that_waits_in_our_own_queue_is_not_given_up():
    class Slow(MemoryApi):
        """One bind a turn is answered; all others wait in our own queue."""

        def __init__(self, nodes: int) -> None:
            super().__init__(nodes)
            self.waiting: list = []

        def put(self, writes, dropped=()):
            self.waiting = [one for one in [*self.waiting, *writes] if one not in dropped]
            binds = [one for one in self.waiting if isinstance(one.what, Bind)]
            now = [one for one in self.waiting if one not in binds] + binds[:1]
            self.waiting = [one for one in self.waiting if one not in now]
            super().put(now)

    api = Slow(nodes=4)
    uids = [api.submit(f"j{n}", {"roles": {"worker": {"cpu": "1"}}}) for n in range(12)]
    small = SmallCluster(api, timeouts=KubeTimeouts(start=5.0))
    for _ in range(30):
        small.turn()
        api.put([])
        small.clock.ahead += 4.0
    assert {small.phase(uid) for uid in uids} == {"Running"}
    assert {api.status(uid)["attempt"] for uid in uids} == {0}, "none was refused"
    assert not [one for one in api.sent if isinstance(one.what, Delete)]


def test_a_start_is_given_up_a_while_after_its_last_bind():
    class Stuck(MemoryApi):
        def take(self, write):
            if isinstance(write.what, Bind):
                self.pods[f"{write.namespace}/{write.what.name}"]["spec"]["nodeName"] = write.what.node
                return WriteDone(write)
            return super().take(write)

    small = SmallCluster(Stuck(), timeouts=KubeTimeouts(start=30.0))
    uid = small.api.submit("job", HEALTHY)
    small.turn(5)
    small.clock.ahead += 20.0
    small.turn(3)
    assert small.api.status(uid)["phase"] == "Starting"
    small.clock.ahead += 15.0
    small.turn(4)
    assert "not every replica was up" in small.api.status(uid)["message"]


# ── 5: a rollback ──


def test_after_a_rollback_an_unknown_field_ends_no_job_that_trains():
    small = SmallCluster()
    uid = running(small)
    small.api.jobs[uid]["spec"] = {**HEALTHY, "of_a_later_version": {"x": 1}}
    small.api.jobs[uid]["spec"]["roles"] = {"worker": {**HEALTHY["roles"]["worker"], "newField": True}}
    small.start()
    small.turn(4)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 0)
    assert len(small.api.pods_of("job")) == 2
    new = small.api.submit("new", {**HEALTHY, "of_a_later_version": 1})
    small.turn(4)
    assert small.phase(new) == "Failed", "a job that has no pods is told"


def test_a_spec_that_cannot_be_read_leaves_the_pods_and_comes_back():
    small = SmallCluster()
    uid = running(small)
    good, small.api.jobs[uid]["spec"] = small.api.jobs[uid]["spec"], {"roles": 5}
    small.start()
    small.turn(4)
    assert small.api.status(uid)["phase"] == "Running"
    assert small.api.status(uid)["reason"] == "Fault"
    assert len(small.api.pods_of("job")) == 2
    small.api.jobs[uid]["spec"] = good
    small.start()
    small.turn(4)
    assert (small.phase(uid), small.api.status(uid)["reason"]) == ("Running", "Running")


# ── 6: a mass outage ──


def test_all_nodes_not_ready_interrupts_nobody():
    small = SmallCluster(MemoryApi(nodes=4))
    uid = running(small)
    for number in range(4):
        small.api.inbox.put(Changed(NodeObject, not_ready(f"n{number}")))
    small.turn(2)
    for _ in range(5):
        small.clock.ahead += 100.0
        small.turn(2)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 0)
    assert not [one for one in small.api.sent if isinstance(one.what, Delete)]


def test_one_node_not_ready_is_a_loss_after_its_time():
    small = SmallCluster(MemoryApi(nodes=4))
    uid = running(small, spec={"roles": {"worker": {"cpu": "7"}}})
    (pod,) = small.api.pods_of("job")
    small.api.inbox.put(Changed(NodeObject, not_ready(pod["spec"]["nodeName"])))
    small.turn(2)
    small.clock.ahead += 61.0
    small.turn(8)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 1)


@pytest.mark.parametrize(("seconds", "attempt"), [(30.0, 0), (45.0, 1)])
def test_a_node_object_that_is_gone_for_a_moment_is_no_loss(seconds, attempt):
    small = SmallCluster(MemoryApi(nodes=4))
    uid = running(small, spec={"roles": {"worker": {"cpu": "7"}}})
    (pod,) = small.api.pods_of("job")
    node = pod["spec"]["nodeName"]
    small.api.inbox.put(Deleted(NodeObject, a_node(node)))
    small.turn(2)
    small.clock.ahead += seconds
    small.turn(2)
    small.api.inbox.put(Changed(NodeObject, a_node(node)))
    small.turn(8)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", attempt)


# ── 8: success while away ──


def test_pods_that_ended_and_were_collected_while_headway_was_away_do_not_train_again():
    small = SmallCluster()
    uid = running(small, spec={**HEALTHY, "steps": 100})
    small.api.status(uid)["progress"] = {"step": 100, "total": 100}
    for pod in small.api.pods_of("job"):
        del small.api.pods[f"team/{pod['metadata']['name']}"]
    small.start()
    small.turn(6)
    assert not small.api.pods_of("job"), "nothing is started"
    assert "whether it ended well is not known" in small.api.status(uid)["message"]
    small.api.jobs[uid]["spec"] = {**HEALTHY, "steps": 100, "cancel": True}
    small.api.change(uid)
    small.turn(4)
    assert small.phase(uid) == "Cancelled"


def test_pods_that_were_lost_before_their_last_step_start_again():
    small = SmallCluster()
    uid = running(small, spec={**HEALTHY, "steps": 100})
    small.api.status(uid)["progress"] = {"step": 99, "total": 100}
    for pod in small.api.pods_of("job"):
        del small.api.pods[f"team/{pod['metadata']['name']}"]
    small.start()
    small.turn(8)
    assert (small.phase(uid), small.api.status(uid)["attempt"]) == ("Running", 1)


# ── 9: gangs that Headway does not know ──


def foreign(kind: str, group: str, labels: dict | None = None) -> dict:
    owner = {"apiVersion": group, "kind": kind, "name": "x", "uid": "u", "controller": True}
    meta = {"name": f"p-{kind.lower()}", "namespace": "team", "ownerReferences": [owner], "labels": labels or {}}
    return {"metadata": meta, "spec": {"schedulerName": "headway", "containers": []}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("pod", "is_bound"),
    [
        (foreign("PyTorchJob", "kubeflow.org/v1"), False),
        (foreign("RayCluster", "ray.io/v1"), False),
        (foreign("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"), False),
        (foreign("Job", "batch/v1"), True),
        (foreign("ReplicaSet", "apps/v1"), True),
    ],
    ids=lambda one: one if isinstance(one, bool) else one["metadata"]["name"],
)
def test_pods_of_a_gang_that_headway_does_not_know_wait_with_the_reason(pod, is_bound):
    small = SmallCluster()
    made = small.api.put_pod(copy.deepcopy(pod))
    small.turn(5)
    assert bool(made["spec"].get("nodeName")) is is_bound
    if not is_bound:
        (condition,) = made["status"]["conditions"]
        assert "not bound alone" in condition["message"]


# ── 10: kinds of resources that come later ──


def test_a_kind_of_resource_that_comes_later_is_given_out():
    small = SmallCluster()
    first = running(small, "first")
    late = small.api.submit("late", {"roles": {"worker": {"resources": {"example.com/fpga": 1}}}})
    small.turn(4)
    assert small.phase(late) == "Waiting"
    node = a_node("n9")
    more = {**node.status.allocatable, "example.com/fpga": "2"}
    status = msgspec.structs.replace(node.status, allocatable=more)
    small.api.inbox.put(Changed(NodeObject, msgspec.structs.replace(node, status=status)))
    small.turn(8)
    assert (small.phase(first), small.phase(late)) == ("Running", "Running")
    assert small.cluster.board.free().min() >= 0


# ── 11: a flood of pods of others ──


def test_a_flood_of_pods_of_others_takes_turns():
    api = MemoryApi(nodes=2)
    for number in range(600):
        api.put_pod(
            {"metadata": {"name": f"f{number}", "namespace": "flood"},
             "spec": {"schedulerName": "headway", "containers": [{"resources": {"requests": {"cpu": "1m"}}}]},
             "status": {"phase": "Pending"}}
        )  # fmt: skip
    small = SmallCluster(api)
    uid = api.submit("good", HEALTHY)
    small.turn(9)
    assert small.phase(uid) == "Running"
