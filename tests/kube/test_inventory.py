"""What the watches tell, kept in order: foreign pods by node, ours by job, nothing twice and nothing from the past."""

from __future__ import annotations

import msgspec

from headway.core.board import Board
from headway.core.job import Job, JobId, Role
from headway.core.node import Nodes
from headway.kube.api.objects import Meta, NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.inventory import Inventory
from headway.kube.tracked import Tracked


def a_pod(uid="p", version=1, owner="", phase="Running", node="n", cpu="500m") -> Pod:
    owners = [{"kind": "TrainingJob", "uid": owner, "controller": True}] if owner else []
    labels = {"headway.dev/role": "w", "headway.dev/index": "0", "headway.dev/attempt": "0"} if owner else {}
    meta = {"name": uid, "uid": uid, "resourceVersion": str(version), "ownerReferences": owners, "labels": labels}
    spec = {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


def a_node(name="n", ready="True") -> NodeObject:
    status = {"allocatable": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": ready}]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, NodeObject)


def some_jobs() -> dict[str, Tracked]:
    job = Job(id=JobId("j"), roles=(Role(name="w"),))
    return {"ours": Tracked(Meta(name="j", uid="ours"), job, {}, Board(Nodes.of(())))}


def test_foreign_pods_count_while_they_live():
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pods(
        Listed(Pod, (a_pod("a"), a_pod("b", cpu="1"), a_pod("c", node=""), a_pod("d", phase="Failed"))), jobs
    )
    assert inventory.foreign.by_node == {"n": {"cpu": 1500}}
    inventory.changed = False
    inventory.see_pods(Changed(Pod, a_pod("a", 2)), jobs)
    assert not inventory.changed, "nothing that matters changed"
    inventory.see_pods(Changed(Pod, a_pod("a", 3, phase="Succeeded")), jobs)
    assert inventory.foreign.by_node == {"n": {"cpu": 1000}}
    inventory.see_pods(Deleted(Pod, a_pod("b", 4)), jobs)
    assert inventory.foreign.by_node == {"n": {"cpu": 0}}
    assert inventory.changed


def test_our_own_pods_go_to_their_job_and_are_not_counted():
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pods(Changed(Pod, a_pod("a", 1, owner="ours")), jobs)
    assert set(jobs["ours"].replicas) == {"a"}
    assert not inventory.foreign.by_node
    inventory.see_pods(Changed(Pod, a_pod("b", 1, owner="another job, long over")), jobs)
    assert inventory.foreign.by_node == {"n": {"cpu": 500}}, "whoever it belongs to, it takes room"


def test_news_from_the_past_and_of_the_dead_is_dropped():
    inventory, jobs = Inventory(), some_jobs()
    record = jobs["ours"]
    inventory.see_pod(a_pod("a", 7, owner="ours", phase="Succeeded"), jobs)
    inventory.see_pod(a_pod("a", 5, owner="ours", phase="Running"), jobs)
    assert record.replicas["a"].over
    inventory.see_pods(Deleted(Pod, a_pod("a", 8, owner="ours")), jobs)
    inventory.see_pod(a_pod("a", 6, owner="ours"), jobs)
    assert not record.replicas


def test_a_new_list_forgets_what_is_not_in_it():
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pods(Listed(Pod, (a_pod("a", owner="ours"), a_pod("b"))), jobs)
    inventory.see_pods(Listed(Pod, (a_pod("c", 9),)), jobs)
    assert not jobs["ours"].replicas
    assert inventory.foreign.by_node == {"n": {"cpu": 500}}


def test_nodes_are_gone_when_silent_for_long_or_deleted():
    inventory = Inventory()
    inventory.see_nodes(Listed(NodeObject, (a_node("a"), a_node("b"), a_node("c"))), now=0.0)
    inventory.see_nodes(Changed(NodeObject, a_node("a", ready="Unknown")), now=10.0)
    inventory.see_nodes(Changed(NodeObject, a_node("a", ready="Unknown")), now=50.0)
    inventory.see_nodes(Deleted(NodeObject, a_node("b")), now=50.0)
    assert inventory.gone(50.0, timeout=60.0) == {"b"}
    assert inventory.gone(70.0, timeout=60.0) == {"a", "b"}
    inventory.see_nodes(Changed(NodeObject, a_node("a")), now=80.0)
    inventory.see_nodes(Changed(NodeObject, a_node("b")), now=80.0)
    assert inventory.gone(80.0, timeout=60.0) == frozenset()


def test_a_heartbeat_is_no_news():
    inventory = Inventory()
    inventory.see_nodes(Listed(NodeObject, (a_node("a"),)), now=0.0)
    inventory.changed = False
    inventory.see_nodes(Changed(NodeObject, a_node("a")), now=1.0)
    assert not inventory.changed
    inventory.see_nodes(Changed(NodeObject, a_node("a", ready="False")), now=2.0)
    assert inventory.changed
