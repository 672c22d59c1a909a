"""Nodes and pods from the watches: foreign pods count by node, ours go to their gang, old versions are ignored."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
from small_cluster import SmallCluster

from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.estimates.speed.accelerators import product
from headway.kube.api.objects import Meta, NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.take import take
from headway.kube.pods.marks import GangMark, PodMarks
from headway.kube.store.held import ForeignPods, OwnPods
from headway.kube.store.nodes import NodeTable
from headway.kube.store.store import Store
from headway.kube.values import replace

MARKS = PodMarks(b"key")


def a_pod(uid="p", version=1, owner="", phase="Running", node="n", cpu="500m") -> Pod:
    kind = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob"}
    owners = [{**kind, "uid": owner, "controller": True}] if owner else []
    marks = MARKS.written(Meta(uid=owner), "j-0-w-0", GangMark(0, node)) if owner else {}
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


def a_store(*uids: str) -> Store:
    """It knows a gang of each uid, or the one called `ours`."""
    gangs = {
        uid: Gang(meta=Meta(name="j", uid=uid), job=Job(id=JobId(uid), roles=(Role(name="w"),)))
        for uid in uids or ("ours",)
    }

    def tell(uid: str, message) -> None:
        gangs[uid] = take(gangs[uid], message)

    return Store(0.0, MARKS, gangs, tell)


def is_changed(store: Store, now: float = 0.0) -> bool:
    """Whether policies see another table than at the last look."""
    return store.take_table((), now) is not None


def test_foreign_pods_count_while_they_live():
    store = a_store()
    store.see_nodes(Listed(NodeObject, (a_node("n"),)), 0.0)
    store.see_pods(Listed(Pod, (a_pod("a"), a_pod("b", cpu="1"), a_pod("c", node=""), a_pod("d", phase="Failed"))))
    assert store.foreign.by_node == {"n": {"cpu": 1500, "pods": 2}}
    assert is_changed(store)
    store.see_pods(Changed(Pod, a_pod("a", 2)))
    assert not is_changed(store), "nothing that matters changed"
    store.see_pods(Changed(Pod, a_pod("a", 3, phase="Succeeded")))
    assert store.foreign.by_node == {"n": {"cpu": 1000, "pods": 1}}
    store.see_pods(Deleted(Pod, a_pod("b", 4)))
    assert store.foreign.by_node == {"n": {"cpu": 0, "pods": 0}}
    assert is_changed(store)


def test_our_own_pods_go_to_their_gang_and_are_not_counted():
    store = a_store()
    store.see_pods(Changed(Pod, a_pod("a", 1, owner="ours")))
    assert set(store.gangs["ours"].pods) == {"a"}
    assert not store.foreign.by_node
    assert store.on(["n", "elsewhere"]) == {"ours"}
    store.see_pods(Changed(Pod, a_pod("b", 1, owner="another job, long over")))
    assert store.foreign.by_node == {"n": {"cpu": 500, "pods": 1}}, "a pod of any owner takes room"
    store.see_pods(Deleted(Pod, a_pod("a", 2, owner="ours")))
    assert not store.gangs["ours"].pods
    store.forget(store.gangs["ours"])
    assert (store.on(["n"]), store.by_node) == (set(), {}), "nothing is kept of it, though its pods went before"


def test_a_pod_that_came_before_its_job_is_adopted_with_it():
    store = a_store()
    store.see_pods(Changed(Pod, a_pod("a", 1, owner="late")))
    assert store.foreign.by_node == {"n": {"cpu": 500, "pods": 1}}
    gang = Gang(meta=Meta(name="j", uid="late"), job=Job(id=JobId("late"), roles=(Role(name="w"),)))
    store.gangs["late"] = gang  # type: ignore[index]
    store.adopt(gang)
    assert set(store.gangs["late"].pods) == {"a"}
    store.own.settle(lambda *_: {"cpu": 500, "pods": 1}, {}, store.foreign)
    assert store.foreign.by_node == {"n": {"cpu": 0, "pods": 0}}, "what is booked for it is not taken off twice"
    assert store.orphans.of("late") == []


def test_a_pod_of_ours_that_holds_more_than_is_booked_holds_the_rest_as_a_foreign_one():
    own, foreign = OwnPods(), ForeignPods()
    own.put("ours", "w", "n", a_pod("a", cpu="800m"))
    assert own.settle(lambda *_: {"cpu": 500, "pods": 1}, {}, foreign)
    assert foreign.by_node == {"n": {"cpu": 300}}
    assert not own.settle(lambda *_: {}, {}, foreign), "nothing has changed"
    own.unsettled.add("ours")
    assert own.settle(lambda *_: {"cpu": 900, "pods": 1}, {}, foreign)
    assert foreign.by_node == {"n": {"cpu": 0}}


def test_the_roster_names_the_replica_of_each_pod_of_ours_while_it_exists():
    small = SmallCluster()
    uid = small.api.submit("gang", {"roles": {"w": {"replicas": 2, "cpu": "100m"}}})
    small.api.put_pod({"metadata": {"name": "foreign", "namespace": "team"}, "spec": {"nodeName": "n0"}})
    small.turn(5)
    assert small.phase(uid) == "Running"
    pods = {pod["metadata"]["uid"]: pod for pod in small.api.pods_of("gang")}
    assert small.cluster.following._roster == {
        one: ("team/gang", "w", int(pod["metadata"]["name"][-1]), 0) for one, pod in pods.items()
    }
    gone = next(iter(pods.values()))
    del small.api.pods[f"team/{gone['metadata']['name']}"]
    small.api.inbox.put(Deleted(Pod, msgspec.convert(gone, Pod)))
    small.cluster._read_messages()
    assert set(small.cluster.following._roster) == pods.keys() - {gone["metadata"]["uid"]}


def test_news_from_the_past_and_of_the_dead_is_dropped():
    store = a_store()
    store.see_pod(a_pod("a", 7, owner="ours", phase="Succeeded"))
    store.see_pod(a_pod("a", 5, owner="ours", phase="Running"))
    assert store.gangs["ours"].pods["a"].over
    store.see_pods(Deleted(Pod, a_pod("a", 8, owner="ours")))
    store.see_pod(a_pod("a", 6, owner="ours"))
    assert not store.gangs["ours"].pods


def test_a_new_list_forgets_what_is_not_in_it():
    store = a_store()
    store.see_pods(Listed(Pod, (a_pod("a", owner="ours"), a_pod("b"))))
    store.see_pods(Listed(Pod, (a_pod("c", 9),)))
    assert not store.gangs["ours"].pods
    assert store.foreign.by_node == {"n": {"cpu": 500, "pods": 1}}


def test_nodes_are_gone_when_silent_for_long_or_deleted():
    store = a_store()
    store.see_nodes(Listed(NodeObject, (a_node("a"), a_node("b"), a_node("c"))), now=0.0)
    store.see_nodes(Changed(NodeObject, a_node("a", ready="Unknown")), now=10.0)
    store.see_nodes(Changed(NodeObject, a_node("a", ready="Unknown")), now=50.0)
    store.see_nodes(Deleted(NodeObject, a_node("b")), now=50.0)
    health = store.health
    assert (health.gone(50.0), health.doubtful(50.0)) == (frozenset(), {"a", "b"}), "it may come back"
    assert (health.gone(70.0), health.doubtful(70.0)) == ({"a"}, {"b"})
    assert (health.gone(90.0), health.doubtful(90.0)) == ({"a", "b"}, frozenset())
    store.see_nodes(Changed(NodeObject, a_node("a")), now=95.0)
    store.see_nodes(Changed(NodeObject, a_node("b")), now=95.0)
    assert health.gone(95.0) == health.doubtful(95.0) == frozenset()


def test_a_heartbeat_is_no_news():
    store = a_store()
    store.see_nodes(Listed(NodeObject, (a_node("a"),)), now=0.0)
    assert is_changed(store)
    store.see_nodes(Changed(NodeObject, a_node("a")), now=1.0)
    assert not is_changed(store)
    store.see_nodes(Changed(NodeObject, a_node("a", ready="False")), now=2.0)
    assert is_changed(store)


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


def test_the_type_of_accelerators_is_on_a_label_of_each_vendor_and_cloud():
    labels = {
        "a": {"nvidia.com/gpu.product": "Tesla-T4"}, "b": {"cloud.google.com/gke-accelerator": "nvidia-tesla-v100"},
        "c": {"k8s.amazonaws.com/accelerator": "nvidia-tesla-v100"}, "d": {"amd.com/gpu.product-name": "MI300X"},
        "e": {"nvidia.com/gpu.product": "Tesla-T4", "headway.dev/accelerator": "small"},
    }  # fmt: skip
    gpus = {"cpu": "8", "nvidia.com/gpu": "4"}
    nodes = NodeTable().nodes({name: a_node(name, gpus, labels=each) for name, each in labels.items()}, {})
    assert nodes.types.names == ("mi300x", "nvidia-tesla-v100", "small", "tesla-t4")
    assert nodes.types.of_node.tolist() == [3, 1, 1, 0, 2]
    assert [product(name) for name in nodes.types.names] == ["mi300x", "v100", "small", "t4"]


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
    store = a_store()
    store.see_nodes(Listed(NodeObject, (a_node("a"),)), now=0.0)
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    for status, cpu in (({"nominatedNodeName": "a"}, 1000), ({"nominatedNodeName": "a", "phase": "Failed"}, 0)):
        pod = msgspec.convert({"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status}, Pod)
        store.see_pods(Changed(Pod, pod))
        assert store.foreign.by_node["a"].get("cpu", 0) == cpu


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


def test_numbers_of_nodes_that_are_gone_are_used_again_unless_a_gang_names_them():
    store = a_store()
    for day in range(50):
        store.see_nodes(Listed(NodeObject, (a_node(f"spot-{day}"), a_node("fixed"))), float(day))
        store.see_pods(Changed(Pod, a_pod(f"p{day}", node=f"spot-{day}")))
        store.see_pods(Deleted(Pod, a_pod(f"p{day}", node=f"spot-{day}")))
        store.forget_unnamed({"spot-7"})
        found = store.take_table(["spot-7"] if day >= 7 else [], float(day))
        assert found is not None
    nodes, changed = found
    assert changed is None, "a node came: all may differ"
    assert sorted(node.name for node in nodes.nodes if node.ready) == ["fixed", "spot-49"]
    assert nodes.nodes[store.table.numbers["spot-7"]].name == "spot-7"
    assert len(nodes.nodes) <= 5
    assert set(store.health.absent_since) == {"spot-7"}
    assert len(store.foreign.by_node) <= 3
    store.forget_unnamed(set())
    assert store.take_table(["spot-7"], 50.0) is not None, "named again: its number is not free any more"
    assert not store.table.spare


def test_a_silent_node_that_is_not_in_a_new_list_is_forgotten():
    store = a_store()
    for day in range(20):
        found = (a_node(f"spot-{day}", ready="Unknown"), a_node("fixed"))
        store.see_nodes(Listed(NodeObject, found), now=float(day))
        store.forget_unnamed(set())
    assert set(store.health.not_ready_since) == {"spot-19"}
    assert store.health.gone(1000.0) == {"spot-19"}


def plain(node: Node) -> Node:
    """Without kinds of which it has none: of a kind that comes later, nodes that stay do not say that."""
    return replace(node, capacity=tuple((kind, amount) for kind, amount in node.capacity if amount))


@pytest.mark.parametrize("seed", range(8))
def test_a_table_that_is_adjusted_is_the_table_that_would_be_made_anew(seed):
    """What changes is told by number. All that a policy sees is as if the whole table were made anew."""
    dice, store, before = random.Random(seed), a_store(), Nodes.of(())
    names, pods, there = [f"n{number}" for number in range(6)], 0, dict[str, tuple[str, int]]()
    partly = 0
    for now in range(120):
        name = dice.choice(names)
        match dice.randrange(6):
            case 0:
                ready = dice.choice(["True", "Unknown"])
                labels = dice.choice([{}, {"topology.kubernetes.io/zone": "z"}, {"disk": "ssd"}])
                taints = dice.choice([[], [("team", "NoSchedule")]])
                kinds = {"cpu": str(dice.randrange(1, 9)), "memory": "4Gi"}
                kinds |= dice.choice([{}, {}, {}, {"nvidia.com/gpu": "2"}, {"example.com/x": "1"}])
                store.see_nodes(Changed(NodeObject, a_node(name, kinds, taints, ready, labels=labels)), float(now))
            case 1:
                store.see_nodes(Deleted(NodeObject, a_node(name)), float(now))
            case 2 if there:
                uid = dice.choice(sorted(there))
                node, version = there.pop(uid)
                store.see_pods(Deleted(Pod, a_pod(uid, version + 1, node=node)))
            case _:
                pods += 1
                there[f"p{pods}"] = (name, pods)
                store.see_pods(Changed(Pod, a_pod(f"p{pods}", pods, node=name, cpu=f"{dice.randrange(900)}m")))
        found = store.take_table((), float(now))
        nodes = before if found is None else found[0]
        if found is not None and found[1] is not None:
            partly += 1
            differs = [number for number, node in enumerate(nodes.nodes) if node != before.nodes[number]]
            assert sorted(found[1]) == differs
        fresh = NodeTable(dict(store.table.numbers), list(store.table.names), kinds=store.table.kinds)
        same = fresh.nodes(store.nodes, store.foreign.by_node)
        assert list(map(plain, nodes.nodes)) == list(map(plain, same.nodes))
        assert (nodes.kinds, nodes.index, nodes.domains) == (same.kinds, same.index, same.domains)
        assert np.array_equal(nodes.capacity, same.capacity)
        assert np.array_equal(nodes.ready, same.ready)
        assert np.array_equal(nodes.domain, same.domain)
        before = nodes
    assert partly > 40, "most changes do not make the table anew"
