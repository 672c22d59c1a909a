"""Generated nodes, volumes and pods with everything that the scheduler's filters look at. For `filters.py`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headway.kube.api.objects import NodeTerms
from headway.kube.pods.constraints import BoundClaim

Object = dict[str, Any]
ZONES, DISKS, APPS = ("a", "b", "c"), ("ssd", "hdd"), ("red", "blue", "green", "grey")
TAINTS = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
    {"key": "spot", "value": "", "effect": "NoExecute"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
)
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TOLERATIONS = (
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Equal", "value": "ml"},
    {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
    {"key": "spot", "operator": "Exists"},
    {"key": "spot"},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
)
CORDONED = 0.05
CPUS = ("100m", "250m", "0.5", "1", "1500m", "2", "1e0", "3.0001")
MEMORIES = ("64Mi", "100M", "1Gi", "2147483648", "3221225472000m", "0.5Gi", "1e9", "777777k")
SPECIAL = {"nvidia.com/gpu": ("1", "2", "4"), "amd.com/gpu": ("1", "2"), "example.com/nic": ("1", "2")}


@dataclass
class World:
    nodes: list[Object]
    pods: list[Object]
    volumes: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)

    @classmethod
    def generated(cls, dice: random.Random, nodes: int, pods: int) -> World:
        world = cls([_node(dice, number) for number in range(nodes)], [])
        for number in range(12):
            world.volumes.append(_volume(dice, number))
            world.claims.append(_claim(number))
        world.claims.append({
            "metadata": {"name": "later", "namespace": "team-a"},
            "spec": {"storageClassName": "later", "accessModes": ["ReadWriteMany"],
                     "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        })  # fmt: skip
        world.pods = [_pod(dice, number) for number in range(pods)]
        return world

    def objects(self) -> dict[str, list[Object]]:
        later = {"metadata": {"name": "later"}, "provisioner": "example.com/disks",
                 "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
        spaces = [{"metadata": {"name": name}} for name in ("team-a", "team-b")]
        return {"nodes": self.nodes, "volumes": self.volumes, "claims": self.claims, "classes": [later],
                "namespaces": spaces}  # fmt: skip

    def our_claims(self) -> dict[str, BoundClaim]:
        found = {"later": BoundClaim(bound=False, waits=True)}
        for number, volume in enumerate(self.volumes):
            terms = msgspec.convert(volume["spec"]["nodeAffinity"]["required"], NodeTerms)
            found[f"disk-{number}"] = BoundClaim(affinity=terms)
        return found


def _node(dice: random.Random, number: int) -> Object:
    labels = {"kubernetes.io/hostname": f"n{number}", "rack": f"r{number // 8}"}
    if dice.random() < 0.95:
        labels["zone"] = dice.choice(ZONES)
    if dice.random() < 0.6:
        labels["disk"] = dice.choice(DISKS)
    if dice.random() < 0.5:
        labels["speed"] = str(dice.choice([5, 10, 40, 100]))
    amounts = {"cpu": dice.choice(["8", "16", "31900m"]), "memory": dice.choice(["32Gi", "64Gi", "65536000Ki"]),
               "pods": str(dice.randint(6, 30)), "ephemeral-storage": dice.choice(["20Gi", "100Gi"])}  # fmt: skip
    if dice.random() < 0.3:
        amounts["hugepages-2Mi"] = "1Gi"
    kind = dice.choice(["", "", "nvidia.com/gpu", "nvidia.com/gpu", "amd.com/gpu"])
    if kind:
        amounts[kind] = "8"
    if dice.random() < 0.3:
        amounts["example.com/nic"] = "4"
    taints = [dict(taint) for taint in TAINTS if dice.random() < 0.12]
    cordoned = dice.random() < CORDONED
    if cordoned and dice.random() < 0.9:  # the controller adds it a moment later
        taints.append(dict(CORDON))
    return {
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": {"taints": taints, **({"unschedulable": True} if cordoned else {})},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _volume(dice: random.Random, number: int) -> Object:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": dice.sample(ZONES, 2)}]}
    return {
        "metadata": {"name": f"volume-{number}"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "nodeAffinity": {"required": {
                "nodeSelectorTerms": [term, {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}},
            "claimRef": {"namespace": "team-a", "name": f"disk-{number}", "uid": f"claim-{number}"},
            "hostPath": {"path": "/data"},
        },
        "status": {"phase": "Bound"},
    }  # fmt: skip


def _claim(number: int) -> Object:
    return {
        "metadata": {"name": f"disk-{number}", "namespace": "team-a", "uid": f"claim-{number}",
                     "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": f"volume-{number}", "accessModes": ["ReadWriteMany"],
                 "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    }  # fmt: skip


def _pod(dice: random.Random, number: int) -> Object:
    space = dice.choice(["team-a", "team-b"])
    labels = {"app": dice.choice(APPS), "tier": dice.choice(["x", "y"])}
    spec: Object = {"containers": [_container(dice, f"c{one}") for one in range(dice.choice([1, 1, 2, 3]))]}
    _amounts(dice, spec)
    _node_rules(dice, spec)
    _pod_rules(dice, spec)
    if dice.random() < 0.08:
        port = {"containerPort": 80, "hostPort": dice.choice([8080, 9090]), "protocol": dice.choice(["TCP", "UDP"])}
        spec["containers"][0]["ports"] = [{**port, "hostIP": dice.choice(["", "127.0.0.1", "10.0.0.1"])}]
    if space == "team-a" and dice.random() < 0.1:
        claim = "later" if dice.random() < 0.03 else f"disk-{dice.randrange(12)}"
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    if dice.random() < 0.01:
        spec["schedulingGates"] = [{"name": "example.com/wait"}]
    meta = {"name": f"p{number}", "namespace": space, "uid": f"uid-{number}", "labels": labels}
    return {"metadata": meta, "spec": spec}


def _container(dice: random.Random, name: str) -> Object:
    requests = {"cpu": dice.choice(CPUS), "memory": dice.choice(MEMORIES)}
    if dice.random() < 0.15:
        requests["ephemeral-storage"] = dice.choice(["1Gi", "500M", "2Gi"])
    if dice.random() < 0.05:
        requests["hugepages-2Mi"] = "64Mi"
    if name == "c0" and dice.random() < 0.25:
        kind = dice.choice(list(SPECIAL))
        requests[kind] = dice.choice(SPECIAL[kind])
    return {"name": name, "resources": {"requests": {k: v for k, v in requests.items() if dice.random() < 0.9}}}


def _amounts(dice: random.Random, spec: Object) -> None:
    if dice.random() < 0.2:
        spec["initContainers"] = [
            _container(dice, f"i{one}") | ({"restartPolicy": "Always"} if dice.random() < 0.5 else {})
            for one in range(dice.randint(1, 3))
        ]
    if dice.random() < 0.1:
        spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    if dice.random() < 0.05:
        spec["resources"] = {"requests": {"cpu": "5", "memory": "6Gi"}}


def _expression(dice: random.Random) -> Object:
    return dice.choice([
        {"key": "zone", "operator": "In", "values": dice.sample(ZONES, 2)},
        {"key": "zone", "operator": "NotIn", "values": [dice.choice(ZONES)]},
        {"key": "disk", "operator": "Exists"},
        {"key": "disk", "operator": "DoesNotExist"},
        {"key": "speed", "operator": "Gt", "values": ["9"]},
        {"key": "speed", "operator": "Lt", "values": ["50"]},
    ])  # fmt: skip


def _node_rules(dice: random.Random, spec: Object) -> None:
    if dice.random() < 0.15:
        spec["nodeSelector"] = {"zone": dice.choice(ZONES)}
    if dice.random() < 0.15:
        terms = [{"matchExpressions": [_expression(dice) for _ in range(dice.randint(1, 2))]}
                 for _ in range(dice.randint(1, 2))]  # fmt: skip
        if dice.random() < 0.1:
            names = {"key": "metadata.name", "operator": "In", "values": [f"n{dice.randrange(50)}"]}
            terms = [{"matchFields": [names]}]
        required = {"nodeSelectorTerms": terms}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if dice.random() < 0.4:
        spec["tolerations"] = [dict(one) for one in dice.sample(TOLERATIONS, dice.randint(1, 2))]


def _pod_rules(dice: random.Random, spec: Object) -> None:
    for kind, share in (("podAffinity", 0.05), ("podAntiAffinity", 0.06)):
        keys = ["rack", "kubernetes.io/hostname", *(["zone"] if kind == "podAffinity" else [])]
        if dice.random() < share:
            term: Object = {"labelSelector": {"matchLabels": {"app": dice.choice(APPS)}},
                            "topologyKey": dice.choice(keys)}  # fmt: skip
            if dice.random() < 0.2:
                term["namespaces"] = ["team-a", "team-b"]
            if dice.random() < 0.2:
                term["labelSelector"]["matchExpressions"] = [{"key": "tier", "operator": "NotIn", "values": ["y"]}]
            if dice.random() < 0.1:
                term["namespaceSelector"] = {}
            rules = spec.setdefault("affinity", {})
            rules[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if dice.random() < 0.12:
        rule: Object = {
            "maxSkew": dice.randint(1, 6), "topologyKey": dice.choice(["zone", "rack", "disk"]),
            "whenUnsatisfiable": dice.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": dice.choice(APPS)}},
        }  # fmt: skip
        if dice.random() < 0.2:
            rule["nodeTaintsPolicy"] = "Honor"
        if dice.random() < 0.2:
            rule["nodeAffinityPolicy"] = "Ignore"
        if dice.random() < 0.2 and rule["whenUnsatisfiable"] == "DoNotSchedule":
            rule["minDomains"] = 3
        spec["topologySpreadConstraints"] = [rule]
