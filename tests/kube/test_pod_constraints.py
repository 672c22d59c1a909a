from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway.core.job import Role
from headway.core.node import Constraint, Node
from headway.kube.api.objects import NodeTerms, PodSpec
from headway.kube.pods.constraints import BoundClaim, Demands, Unplaceable, demands_of
from headway.kube.pods.resources import role_for

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]


def demands(claims: dict[str, BoundClaim] | None = None, **spec: Any) -> Demands:
    return demands_of(msgspec.convert(spec, PodSpec), claims or {})


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def suits(wanted: Demands, **labels: str) -> bool:
    node = Node(name="n1", capacity=(), labels=tuple(labels.items()))
    return not Constraint.of(role_for(Role(name="w"), {}, wanted)).refusal(node)


def test_terms_of_node_affinity_are_alternatives():
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]},
                                {"key": "speed", "operator": "Gt", "values": ["10"]}]}  # fmt: skip
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
             "matchExpressions": [{"key": "spare", "operator": "Exists"}]}  # fmt: skip
    wanted = demands(nodeSelector={"zone": "a"}, affinity=node_affinity(ssd, named))
    assert suits(wanted, zone="a", disk="ssd", speed="40")
    assert suits(wanted, zone="a", spare="")
    assert not suits(wanted, zone="a", disk="ssd", speed="10")
    assert not suits(wanted, zone="b", spare="")
    assert not suits(demands(affinity=node_affinity({})), zone="a"), "a term without a demand matches no node"


def test_a_volume_and_the_pod_itself_must_both_be_able_to_be_there():
    term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    claim = BoundClaim(affinity=msgspec.convert(term, NodeTerms), labels=(("topology.kubernetes.io/region", "x__y"),))
    disk = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    wanted = demands({"disk": claim}, volumes=DATA, affinity=node_affinity(disk))
    region = {"topology.kubernetes.io/region": "y"}
    assert suits(wanted, zone="a", disk="", **region)
    assert not suits(wanted, zone="b", disk="", **region)
    assert not suits(wanted, zone="a", **region)
    assert not suits(wanted, zone="a", disk="")


@pytest.mark.parametrize(
    ("given", "mark"),
    [
        ({"key": "team", "operator": "Exists"}, "team"),
        ({"key": "team", "value": "ml", "effect": "NoSchedule"}, "team=ml:NoSchedule"),
        ({"key": "team", "operator": "Equal"}, "team="),
        ({"operator": "Exists", "effect": "NoExecute"}, "*:NoExecute"),
    ],
)
def test_tolerations_keep_their_values_and_effects(given, mark):
    assert demands(tolerations=[given, given]).tolerates == (mark,)


def test_a_toleration_by_comparison_tolerates_nothing():
    assert demands(tolerations=[{"key": "age", "operator": "Lt", "value": "5"}]).tolerates == ()


@pytest.mark.parametrize(
    ("spec", "claims", "why"),
    [
        ({"nodeName": "n1"}, {}, "spec.nodeName: names node 'n1'"),
        (
            {"schedulingGates": [{"name": "x.com/quota"}]},
            {},
            "spec.schedulingGates: the pod would wait for x.com/quota",
        ),
        ({"resourceClaims": [{"name": "gpu"}]}, {}, "spec.resourceClaims"),
        ({"volumes": [{"name": "tmp", "ephemeral": {}}]}, {}, "spec.volumes: tmp is made with the pod"),
        ({"volumes": DATA}, {}, "the claim 'disk' of volume data does not exist"),
        ({"volumes": DATA}, {"disk": BoundClaim(bound=False, waits=True)}, "'disk' waits for its first pod"),
        ({"volumes": DATA}, {"disk": BoundClaim(bound=False)}, "'disk' has no volume yet"),
        (
            {"affinity": node_affinity({"matchFields": [{"key": "metadata.uid", "operator": "In"}]})},
            {},
            "metadata.name",
        ),
        ({"affinity": node_affinity({"matchExpressions": [{"key": "a", "operator": "Near"}]})}, {}, "'Near'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_the_field(spec, claims, why):
    with pytest.raises(Unplaceable, match=why):
        demands(claims, **spec)
