"""Gangs whose pods may not be just anywhere beside others."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from headway.core.job import Job, JobId, Role
from headway.core.node import Constraint, Node, Nodes
from headway.core.placement import Placement, shape_of
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.pods.constraints import Demands, Unplaceable, demands_of
from headway.kube.pods.placement_rules import Neighbours, facts_of
from headway.kube.pods.placing import NoNodeLeft, Placing, PodRules
from headway.kube.pods.resources import held_by, role_for
from headway.kube.store.held import ForeignPods
from headway.kube.store.nodes import NodeTable
from make import a_job

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def a_pod(app: str = "red", namespace: str = "a", **spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"namespace": namespace, "labels": {"app": app}}, "spec": spec}, Pod)


def rule(kind: str, app: str, key: str, **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def spread(most: int, key: str = "zone", **more: Any) -> dict[str, Any]:
    one = {"maxSkew": most, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
           "labelSelector": {"matchLabels": {"app": "red"}}, **more}  # fmt: skip
    return {"topologySpreadConstraints": [one]}


def ports(*numbers: int, address: str = "") -> dict[str, Any]:
    return {"containers": [{"name": "c", "ports": [{"hostPort": n, "hostIP": address} for n in numbers]}]}


def four_nodes(there: dict[str, tuple[Pod, ...]] | None = None) -> Neighbours:
    """Four nodes, two in each zone."""
    found = Neighbours()
    for number in range(4):
        labels = {"zone": "ab"[number // 2], "host": f"n{number}"}
        found.see_node(msgspec.convert({"metadata": {"name": f"n{number}", "labels": labels}}, NodeObject))
    for node, pods in (there or {}).items():
        for number, pod in enumerate(pods):
            found.put(f"{node}-{number}", node, facts_of(pod, placed=True))
    return found


def placed(neighbours: Neighbours, pod: Pod, planned: tuple[int, ...], room: int = 4) -> tuple[int, ...]:
    nodes = Nodes.of([Node(name=f"n{i}", capacity=(("cpu", room),)) for i in range(4)])
    shape = shape_of(a_job("j", roles=(Role(name="w", replicas=len(planned), request=(("cpu", 1),)),)), nodes)
    placing = Placing(nodes, nodes.capacity.astype(np.int32), neighbours)
    before = dict(neighbours.pods)
    try:
        return placing.place(Placement((planned,)), shape, {"w": PodRules(facts_of(pod), Demands())}).nodes[0]
    finally:
        assert neighbours.pods == before


def test_a_gang_without_such_demands_is_where_it_was_planned():
    assert placed(four_nodes(), a_pod(), (2, 2, 1)) == (2, 2, 1)


def test_replicas_that_avoid_each_other_get_a_node_each():
    assert sorted(placed(four_nodes(), a_pod(**rule("podAntiAffinity", "red", "host")), (0, 0, 0, 0))) == [0, 1, 2, 3]
    with pytest.raises(
        NoNodeLeft, match="None of 4 nodes with room takes a replica of role 'w'; the last one has pods"
    ):
        placed(four_nodes(), a_pod(**rule("podAntiAffinity", "red", "zone")), (0, 0, 0))


def test_pods_that_are_there_keep_others_away_in_their_whole_zone():
    guard = a_pod("blue", **rule("podAntiAffinity", "red", "zone"))
    assert placed(four_nodes({"n0": (guard,)}), a_pod(), (0, 1)) == (2, 2)
    assert placed(four_nodes({"n0": (guard,)}), a_pod(namespace="b"), (0, 1)) == (0, 1), "another namespace"
    wide = a_pod("blue", **rule("podAntiAffinity", "red", "zone", namespaceSelector={"matchLabels": {"x": "y"}}))
    assert placed(four_nodes({"n0": (wide,)}), a_pod(namespace="b"), (0,)) == (2,), "unknown namespaces: better away"


def test_affinity_follows_a_pod_and_the_first_of_a_kind_may_be_anywhere():
    near = a_pod(**rule("podAffinity", "blue", "zone"))
    assert placed(four_nodes({"n3": (a_pod("blue"),)}), near, (0, 3)) == (2, 3)
    with pytest.raises(NoNodeLeft, match="no pod near"):
        placed(four_nodes(), near, (0,))
    assert placed(four_nodes(), a_pod(**rule("podAffinity", "red", "zone")), (0, 2, 1)) == (0, 0, 1)


def test_spread_counts_pods_in_each_zone():
    assert sorted(placed(four_nodes(), a_pod(**spread(1)), (0, 0, 0, 0))) == [0, 0, 2, 2]
    assert placed(four_nodes({"n0": (a_pod(), a_pod())}), a_pod(**spread(1)), (1, 1)) == (2, 2)
    with pytest.raises(NoNodeLeft, match="maxSkew 1"):
        placed(four_nodes(), a_pod(**spread(1, minDomains=3)), (0, 0, 0))


def test_a_host_port_is_taken_once_per_node():
    assert sorted(placed(four_nodes(), a_pod(**ports(80)), (0, 0, 0))) == [0, 1, 2]
    assert placed(four_nodes({"n0": (a_pod(**ports(80, address="10.0.0.1")),)}), a_pod(**ports(80)), (0,)) == (1,)
    assert placed(
        four_nodes({"n0": (a_pod(**ports(80, address="10.0.0.1")),)}), a_pod(**ports(80, address="10.0.0.2")), (0,)
    ) == (0,)


def test_room_counts_when_a_replica_is_placed_elsewhere():
    assert sorted(
        placed(
            four_nodes({"n1": (a_pod("blue", **rule("podAntiAffinity", "red", "host")),)}), a_pod(), (1, 1, 1), room=1
        )
    ) == [0, 2, 3]


def test_labels_of_namespaces_are_not_read():
    with pytest.raises(Unplaceable, match="labels of namespaces"):
        facts_of(a_pod(**rule("podAffinity", "red", "zone", namespaceSelector={"matchLabels": {"x": "y"}})))
    facts_of(a_pod(**rule("podAffinity", "red", "zone", namespaceSelector={})))


def test_two_vendors_of_gpus_on_one_node_are_not_mixed_up():
    """Plain `gpu` of a node is its first vendor's. Who names the other goes to nodes where that is the first."""
    both = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4", "amd.com/gpu": "2"}
    found = {"both": node_with("both", both), "amd": node_with("amd", {"cpu": "8", "amd.com/gpu": "2"})}
    table, held = NodeTable(), ForeignPods()
    held.put(pod_with({"amd.com/gpu": "2"}, node="both"))
    nodes = table.nodes(found, held.by_node)
    capacity = {node.name: dict(node.capacity) for node in nodes.nodes}
    assert (capacity["both"]["gpu"], capacity["amd"]["gpu"]) == (4, 2), "AMD's are taken there, NVIDIA's are not"
    for kind, where in (("nvidia.com/gpu", ["both"]), ("amd.com/gpu", ["amd"])):
        pod = pod_with({kind: "1"})
        role = role_for(Role(name="w", request=((kind, 1),)), held_by(pod), demands_of(pod.spec, {}))
        mask = nodes.mask(Constraint.of(role))
        assert [nodes.nodes[int(number)].name for number in mask.nonzero()[0]] == where
    plain = Role(name="w", request=(("gpu", 3),))
    shape = shape_of(Job(id=JobId("j"), roles=(plain,)), nodes)
    fits = (nodes.capacity >= shape.roles[0].vector[:, None]).all(axis=0)
    assert [nodes.nodes[int(number)].name for number in fits.nonzero()[0]] == ["both"]


def test_a_pod_with_gpus_of_two_vendors_is_refused():
    pod = pod_with({"nvidia.com/gpu": "1", "amd.com/gpu": "1"})
    with pytest.raises(Unplaceable, match=r"two vendors: nvidia\.com/gpu, amd\.com/gpu"):
        role_for(Role(name="w"), held_by(pod), demands_of(pod.spec, {}))


def node_with(name: str, amounts: dict) -> NodeObject:
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, NodeObject)


def pod_with(requests: dict, node: str = "") -> Pod:
    spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    return msgspec.convert({"metadata": {"name": "p", "uid": "u"}, "spec": spec}, Pod)
