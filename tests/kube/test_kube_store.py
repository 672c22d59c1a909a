"""What the watches tell, kept in order: foreign pods by node, ours by job, nothing twice and nothing from the past."""

from __future__ import annotations

import msgspec

from headway.core.job import Job, JobId, Role
from headway.core.states import State
from headway.kube.api.objects import Meta, NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.job.intent import Intent
from headway.kube.store import Store
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


def a_store() -> Store:
    job, intent = Job(id=JobId("j"), roles=(Role(name="w"),)), Intent(state=State.RUNNING)
    return Store(records={"ours": Tracked(Meta(name="j", uid="ours"), job, {}, intent, intent)})


def test_foreign_pods_count_while_they_live():
    store = a_store()
    store.see_pods(Listed(Pod, (a_pod("a"), a_pod("b", cpu="1"), a_pod("c", node=""), a_pod("d", phase="Failed"))))
    assert store.foreign.by_node == {"n": {"cpu": 1500}}
    store.nodes_changed = False
    store.see_pods(Changed(Pod, a_pod("a", 2)))
    assert not store.nodes_changed, "nothing that matters changed"
    store.see_pods(Changed(Pod, a_pod("a", 3, phase="Succeeded")))
    assert store.foreign.by_node == {"n": {"cpu": 1000}}
    store.see_pods(Deleted(Pod, a_pod("b", 4)))
    assert store.foreign.by_node == {"n": {"cpu": 0}}
    assert store.nodes_changed


def test_our_own_pods_go_to_their_job_and_are_not_counted():
    store = a_store()
    store.see_pods(Changed(Pod, a_pod("a", 1, owner="ours")))
    assert set(store.records["ours"].replicas) == {"a"}
    assert not store.foreign.by_node
    store.see_pods(Changed(Pod, a_pod("b", 1, owner="another job, long over")))
    assert store.foreign.by_node == {"n": {"cpu": 500}}, "whoever it belongs to, it takes room"


def test_news_from_the_past_and_of_the_dead_is_dropped():
    store = a_store()
    record = store.records["ours"]
    store.see_pod(a_pod("a", 7, owner="ours", phase="Succeeded"))
    store.see_pod(a_pod("a", 5, owner="ours", phase="Running"))
    assert record.replicas["a"].over
    store.see_pods(Deleted(Pod, a_pod("a", 8, owner="ours")))
    store.see_pod(a_pod("a", 6, owner="ours"))
    assert not record.replicas


def test_a_new_list_forgets_what_is_not_in_it():
    store = a_store()
    store.see_pods(Listed(Pod, (a_pod("a", owner="ours"), a_pod("b"))))
    store.see_pods(Listed(Pod, (a_pod("c", 9),)))
    assert not store.records["ours"].replicas
    assert store.foreign.by_node == {"n": {"cpu": 500}}


def test_nodes_are_gone_when_silent_for_long_or_deleted():
    store = a_store()
    store.see_nodes(Listed(NodeObject, (a_node("a"), a_node("b"), a_node("c"))), now=0.0)
    store.see_nodes(Changed(NodeObject, a_node("a", ready="Unknown")), now=10.0)
    store.see_nodes(Changed(NodeObject, a_node("a", ready="Unknown")), now=50.0)
    store.see_nodes(Deleted(NodeObject, a_node("b")), now=50.0)
    assert store.gone(50.0, patience=60.0) == {"b"}
    assert store.gone(70.0, patience=60.0) == {"a", "b"}
    store.see_nodes(Changed(NodeObject, a_node("a")), now=80.0)
    store.see_nodes(Changed(NodeObject, a_node("b")), now=80.0)
    assert store.gone(80.0, patience=60.0) == frozenset()


def test_a_heartbeat_is_no_news():
    store = a_store()
    store.see_nodes(Listed(NodeObject, (a_node("a"),)), now=0.0)
    store.nodes_changed = False
    store.see_nodes(Changed(NodeObject, a_node("a")), now=1.0)
    assert not store.nodes_changed
    store.see_nodes(Changed(NodeObject, a_node("a", ready="False")), now=2.0)
    assert store.nodes_changed
