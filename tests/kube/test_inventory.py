"""Nodes and pods from the watches: foreign pods count by node, ours go to their job, old versions are ignored."""

from __future__ import annotations

import msgspec
import pytest

from headway.core.board import Board
from headway.core.job import Job, JobId, Role
from headway.core.node import Nodes
from headway.kube.api.objects import Meta, NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.inventory import Inventory
from headway.kube.job.pod_marks import MARK, PodMarks
from headway.kube.node_table import NodeTable
from headway.kube.tracked import Tracked


def a_pod(uid="p", version=1, owner="", phase="Running", node="n", cpu="500m") -> Pod:
    kind = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob"}
    owners = [{**kind, "uid": owner, "controller": True}] if owner else []
    marks = {MARK: PodMarks().of(Meta(uid=owner), "j-0-w-0")} if owner else {}
    meta = {"name": "j-0-w-0" if owner else uid, "uid": uid, "resourceVersion": str(version), "annotations": marks}
    meta["ownerReferences"] = owners
    spec = {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


def a_node(name="n", allocatable=None, taints=(), ready="True", **more) -> NodeObject:
    spec = {"taints": [{"key": key, "effect": effect} for key, effect in taints], **more.pop("spec", {})}
    found = {"metadata": {"name": name, "labels": more.pop("labels", {})}, "spec": spec,
             "status": {"allocatable": allocatable or {"cpu": "2", "memory": "4Gi"},
                        "conditions": [{"type": "Ready", "status": ready}]}}  # fmt: skip
    return msgspec.convert(found, NodeObject)


def some_jobs() -> dict[str, Tracked]:
    job = Job(id=JobId("j"), roles=(Role(name="w"),))
    return {"ours": Tracked(Meta(name="j", uid="ours"), job, {}, Board(Nodes.of(())))}


def test_foreign_pods_count_while_they_live():
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pods(
        Listed(Pod, (a_pod("a"), a_pod("b", cpu="1"), a_pod("c", node=""), a_pod("d", phase="Failed"))), jobs
    )
    assert inventory.foreign.by_node == {"n": {"cpu": 1500, "pods": 2}}
    inventory.changed = False
    inventory.see_pods(Changed(Pod, a_pod("a", 2)), jobs)
    assert not inventory.changed, "nothing that matters changed"
    inventory.see_pods(Changed(Pod, a_pod("a", 3, phase="Succeeded")), jobs)
    assert inventory.foreign.by_node == {"n": {"cpu": 1000, "pods": 1}}
    inventory.see_pods(Deleted(Pod, a_pod("b", 4)), jobs)
    assert inventory.foreign.by_node == {"n": {"cpu": 0, "pods": 0}}
    assert inventory.changed


def test_our_own_pods_go_to_their_job_and_are_not_counted():
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pods(Changed(Pod, a_pod("a", 1, owner="ours")), jobs)
    assert set(jobs["ours"].replicas) == {"a"}
    assert not inventory.foreign.by_node
    inventory.see_pods(Changed(Pod, a_pod("b", 1, owner="another job, long over")), jobs)
    assert inventory.foreign.by_node == {"n": {"cpu": 500, "pods": 1}}, "a pod of any owner takes room"


def test_the_roster_names_the_replica_of_each_pod_of_ours_while_it_exists():
    inventory, jobs = Inventory(), some_jobs()
    roster = jobs["ours"].roster
    inventory.see_pods(Listed(Pod, (a_pod("a", 1, owner="ours"), a_pod("b"), a_pod("c", owner="another"))), jobs)
    assert roster == {"a": ("j", "w", 0, 0)}
    inventory.see_pods(Deleted(Pod, a_pod("a", 2, owner="ours")), jobs)
    assert roster == {}


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
    assert inventory.foreign.by_node == {"n": {"cpu": 500, "pods": 1}}


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


# ── the table of nodes ──


def test_nodes_are_what_is_allocatable_less_what_foreign_pods_ask_for():
    allocatable = {"cpu": "1930m", "memory": "2000000Ki", "nvidia.com/gpu": "4", "pods": "110", "example.com/x": "2"}
    labels = {"topology.kubernetes.io/zone": "z", "nvidia.com/gpu.product": "A100"}
    table = NodeTable()
    nodes = table.nodes({"n": a_node("n", allocatable, labels=labels)}, {"n": {"cpu": 430, "memory": 100}})
    node = nodes.nodes[0]
    assert dict(node.capacity) == {
        "cpu": 1500, "memory": 1853, "gpu": 4, "example.com/x": 2, "pods": 110, "ephemeral-storage": 0,
    }  # fmt: skip
    assert (node.domain, node.accelerator, node.ready) == ("z", "A100", True)
    assert table.gpus == {"n": "nvidia.com/gpu"}


def test_each_node_has_the_gpus_of_its_own_vendor():
    found = {
        "a": a_node("a", {"nvidia.com/gpu": "8"}), "b": a_node("b", {"nvidia.com/gpu": "0", "amd.com/gpu": "4"}),
        "c": a_node("c", {"cpu": "1"}),
    }  # fmt: skip
    table = NodeTable()
    nodes = table.nodes(found, {"a": {"nvidia.com/gpu": 3}, "b": {"amd.com/gpu": 1}})
    assert [dict(node.capacity)["gpu"] for node in nodes.nodes] == [5, 3, 0]
    assert [dict(node.labels).get("headway.dev/gpu-resource") for node in nodes.nodes] == [
        "nvidia.com/gpu", "amd.com/gpu", None,
    ]  # fmt: skip
    assert table.gpus["b"] == "amd.com/gpu"


def test_a_nominated_pod_holds_its_node_and_one_that_is_over_holds_nothing():
    inventory = Inventory()
    inventory.see_nodes(Listed(NodeObject, (a_node("a"),)), now=0.0)
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    for status, cpu in (({"nominatedNodeName": "a"}, 1000), ({"nominatedNodeName": "a", "phase": "Failed"}, 0)):
        pod = msgspec.convert({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status}, Pod)
        inventory.see_pods(Changed(Pod, pod), {})
        assert inventory.foreign.by_node["a"].get("cpu", 0) == cpu


@pytest.mark.parametrize(
    ("node", "ready", "taints"),
    [
        (a_node(), True, ()),
        (a_node(ready="Unknown"), False, ()),
        (a_node(spec={"unschedulable": True}), True, ("node.kubernetes.io/unschedulable:NoSchedule",)),
        (
            a_node(spec={"unschedulable": True}, taints=[("node.kubernetes.io/unschedulable", "NoSchedule")]),
            True,
            ("node.kubernetes.io/unschedulable:NoSchedule",),
        ),
        (a_node(taints=[("node.kubernetes.io/disk-pressure", "NoSchedule")]), False, ()),
        (a_node(taints=[("team", "NoSchedule"), ("soft", "PreferNoSchedule")]), True, ("team:NoSchedule",)),
    ],
)
def test_readiness_and_taints(node, ready, taints):
    seen = NodeTable().nodes({"n": node}, {}).nodes[0]
    assert (seen.ready, seen.taints) == (ready, taints)


def test_a_node_keeps_its_number():
    table = NodeTable()
    table.nodes({"b": a_node("b"), "c": a_node("c")}, {})
    nodes = table.nodes({"a": a_node("a"), "c": a_node("c")}, {}, also=["lost"])
    assert [(node.name, node.ready) for node in nodes.nodes] == [
        ("b", False), ("c", True), ("a", True), ("lost", False),
    ]  # fmt: skip


def test_numbers_of_nodes_that_are_gone_are_used_again_unless_a_job_names_them():
    inventory = Inventory()
    for day in range(50):
        inventory.see_nodes(Listed(NodeObject, (a_node(f"spot-{day}"), a_node("fixed"))), float(day))
        inventory.see_pods(Changed(Pod, a_pod(f"p{day}", node=f"spot-{day}")), {})
        inventory.see_pods(Deleted(Pod, a_pod(f"p{day}", node=f"spot-{day}")), {})
        inventory.forget_unnamed({"spot-7"})
        nodes = inventory.take_table(["spot-7"] if day >= 7 else [])
        assert nodes is not None
    assert sorted(node.name for node in nodes.nodes if node.ready) == ["fixed", "spot-49"]
    assert nodes.nodes[inventory.table.numbers["spot-7"]].name == "spot-7"
    assert len(nodes.nodes) <= 5
    assert inventory.absent == {"spot-7"}
    assert len(inventory.foreign.by_node) <= 3
    inventory.forget_unnamed(set())
    assert inventory.take_table(["spot-7"]) is not None, "named again: its number is not free any more"
    assert not inventory.table.spare


def test_a_silent_node_that_is_not_in_a_new_list_is_forgotten():
    inventory = Inventory()
    for day in range(20):
        inventory.see_nodes(Listed(NodeObject, (a_node(f"spot-{day}", ready="Unknown"),)), now=float(day))
        inventory.forget_unnamed(set())
    assert set(inventory.not_ready_since) == {"spot-19"}
    assert inventory.gone(1000.0, timeout=60.0) == {"spot-19"}
