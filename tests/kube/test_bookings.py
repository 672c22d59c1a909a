"""Jobs are booked as their pods will really be, and refused before anything is held if they cannot be honoured."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from small_cluster import MemoryApi, SmallCluster

from headway.core.quantity import count
from headway.kube.api.errors import OverQuota
from headway.kube.api.objects import LimitRange, MutatingPolicy, NodeObject, PodRule, PolicyBinding, RuntimeClass
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.pods.checkpoints import CheckpointVolume
from headway.kube.pods.constraints import BoundClaim
from headway.kube.settings import PodDefaults

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def a_machine(name: str, labels: dict[str, str] | None = None, **amounts: str) -> NodeObject:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", **amounts},
              "conditions": [{"type": "Ready", "status": "True"}]}  # fmt: skip
    return msgspec.convert({"metadata": {"name": name, "labels": labels or {}}, "status": status}, NodeObject)


class Injecting(MemoryApi):
    """A webhook adds a sidecar of 2 cpu to every pod."""

    on = True

    def webhook(self, pod: dict[str, Any]) -> dict[str, Any]:
        if not self.on:
            return pod
        pod = copy.deepcopy(pod)
        sidecar = {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
        pod["spec"].setdefault("initContainers", []).append(sidecar)
        return pod


def a_cluster(api: MemoryApi, *machines: NodeObject) -> SmallCluster:
    api.nodes = list(machines)
    return SmallCluster(api)


def job(template: dict[str, Any] | None = None, **role: Any) -> dict[str, Any]:
    return {"roles": {"worker": {"cpu": "1", **role}}, "template": {"spec": template or {}}}


def a_webhook(*hooks: str, **meta: str) -> PodRule:
    return msgspec.json.decode(
        msgspec.json.encode({"metadata": {"name": "mesh", "uid": "m", **meta}, "webhooks": list(hooks)}), type=PodRule
    )


def a_limit_range(namespace: str, cpu: str) -> LimitRange:
    meta = {"name": "most", "namespace": namespace, "uid": f"l-{namespace}"}
    return msgspec.json.decode(msgspec.json.encode({"metadata": meta, "spec": {"limits": [cpu]}}), type=LimitRange)


def bound_cpu(api: MemoryApi) -> dict[str, int]:
    """By node: what all containers request together."""
    found: dict[str, int] = {}
    for pod in api.pods.values():
        node = pod["spec"].get("nodeName")
        for one in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])] if node else ():
            found[node] = found.get(node, 0) + count(
                "cpu", one.get("resources", {}).get("requests", {}).get("cpu", "0")
            )
    return found


def test_jobs_whose_pods_differ_in_their_checkpoint_folder_alone_share_a_dry_run():
    disk = {"name": "disk", "emptyDir": {}}
    mount = {"name": "disk", "mountPath": "/ck", "subPath": "training"}
    template = {"spec": {"containers": [{"name": "main", "volumeMounts": [mount]}], "volumes": [disk]}}
    volume = CheckpointVolume(definition=disk, mounted="/ck", inside="training")
    small = SmallCluster(Injecting(), pods=PodDefaults(template=template, checkpoints="/ck", volume=volume))
    for number in range(4):
        small.api.submit(f"j{number}", job())
    small.turn(6)
    assert len({json.dumps(pod["spec"]["containers"][0]["volumeMounts"]) for pod in small.api.pods.values()}) > 1
    assert len(small.api.tried) == 1


def test_a_sidecar_of_a_webhook_is_booked_before_anything_is_held():
    small = a_cluster(Injecting(), a_machine("a"), a_machine("b"))
    jobs = [small.api.submit(f"j{number}", job()) for number in range(4)]
    small.turn(6)
    assert bound_cpu(small.api) == {"a": 3000, "b": 3000}
    assert sorted(small.phase(uid) for uid in jobs).count("Running") == 2
    assert len(small.api.tried) == 1, "one dry run for all jobs of one template"
    waiting = next(uid for uid in jobs if small.phase(uid) != "Running")
    assert "needs 3 cpu for 1 replica; 2 cpu is free" in small.api.status(waiting)["message"]
    amounts = small.api.status(next(uid for uid in jobs if small.phase(uid) == "Running"))["allocation"][0]["amounts"]
    assert amounts == {"cpu": 1000}, "the training container itself gets what was asked for"


def test_also_jobs_that_wait_at_the_start_are_tried_by_a_dry_run():
    small = a_cluster(Injecting(), a_machine("a"))
    small.api.on = False
    for number in range(3):
        small.api.submit(f"j{number}", job())
    small.api.on = True
    small.start()
    small.turn(6)
    assert bound_cpu(small.api) == {"a": 3000}


def test_a_dry_run_is_repeated_when_a_webhook_or_a_limit_range_changes():
    small = a_cluster(Injecting(), a_machine("a"), a_machine("b"))
    small.api.on = False
    small.api.submit("first", job())
    small.turn(5)
    small.api.on = True
    small.api.inbox.put(Changed(PodRule, a_webhook()))
    for number in range(3):
        small.api.submit(f"j{number}", job())
    small.turn(6)
    assert len(small.api.tried) == 2
    assert bound_cpu(small.api) == {"a": 4000, "b": 3000}, "1 + 3 on one node, 3 on the other"


def full_and_waiting(api: Injecting) -> tuple[SmallCluster, str]:
    """One job of 4 cpu runs on the only node; one of 1 cpu waits, with the webhook as it is."""
    small = a_cluster(api, a_machine("a"))
    small.api.inbox.put(Listed(PodRule, ()))
    small.api.on, on = False, api.on
    small.api.submit("first", job(cpu="4"))
    small.turn(5)
    small.api.on = on
    return small, small.api.submit("waits", job())


def demand(small: SmallCluster) -> dict[str, int]:
    (held,) = [tracked for tracked in small.cluster.gangs.values() if tracked.meta.name == "waits"]
    role = held.job.role("worker")
    return {kind: amount + dict(role.overhead).get(kind, 0) for kind, amount in role.request}


def test_jobs_that_wait_are_tried_again_when_a_webhook_comes_or_goes():
    api = Injecting()
    api.on = False
    small, uid = full_and_waiting(api)
    small.turn(3)
    assert demand(small) == {"cpu": 1000}
    api.on = True
    small.api.inbox.put(Changed(PodRule, a_webhook("mesh")))
    small.turn(3)
    assert demand(small) == {"cpu": 3000}, "before anything is held for it"
    assert "needs 3 cpu" in small.api.status(uid)["message"]
    api.on = False
    small.api.inbox.put(Deleted(PodRule, a_webhook("mesh")))
    small.turn(3)
    assert demand(small) == {"cpu": 1000}


def test_only_a_change_of_content_counts_and_a_limit_range_only_in_its_namespace():
    small, _ = full_and_waiting(Injecting())
    small.turn(3)
    asked = len(small.api.tried)
    small.api.inbox.put(Changed(PodRule, a_webhook("mesh")))
    small.turn(2)
    assert len(small.api.tried) == asked + 1
    small.api.inbox.put(Changed(PodRule, a_webhook("mesh", resourceVersion="77")))
    small.api.inbox.put(Listed(PodRule, (a_webhook("mesh"),)))
    small.api.inbox.put(Changed(LimitRange, a_limit_range("elsewhere", "4")))
    small.turn(2)
    assert len(small.api.tried) == asked + 1, "nothing has changed for this job"
    small.api.inbox.put(Changed(LimitRange, a_limit_range("team", "4")))
    small.turn(2)
    assert len(small.api.tried) == asked + 2
    small.api.inbox.put(Listed(PodRule, ()))
    small.turn(2)
    assert len(small.api.tried) == asked + 3, "the webhook went while nobody looked"


@pytest.mark.parametrize("kind", [MutatingPolicy, PolicyBinding, RuntimeClass])
def test_policies_that_mutate_and_runtime_classes_count_like_webhooks(kind):
    def rule(number: int, **meta: str) -> Any:
        fields = {"overhead" if kind is RuntimeClass else "spec": {"number": number}}
        raw = msgspec.json.encode({"metadata": {"name": "r", "uid": "r", **meta}, **fields})
        return msgspec.json.decode(raw, type=kind)

    small, _ = full_and_waiting(Injecting())
    small.turn(3)
    asked = len(small.api.tried)
    for news, more in (
        (Listed(kind, (rule(1),)), 0), (Changed(kind, rule(1, resourceVersion="9")), 0), (Changed(kind, rule(2)), 1),
        (Deleted(kind, rule(2)), 2),
    ):  # fmt: skip
        small.api.inbox.put(news)
        small.turn(2)
        assert len(small.api.tried) == asked + more


def test_an_answer_that_was_asked_for_before_the_change_does_not_count():
    api = Injecting()
    api.on = False
    small, _ = full_and_waiting(api)
    small.api.inbox.put(Changed(PodRule, a_webhook("mesh")))
    small.cluster.turn()
    api.on = True
    small.turn(3)
    small.api.inbox.put(Changed(PodRule, a_webhook("mesh", "other")))
    small.turn(3)
    assert demand(small) == {"cpu": 3000}


def test_a_dry_run_that_a_full_quota_refused_is_tried_again_while_the_job_waits():
    class Capped(Injecting):
        full = True

        def webhook(self, pod: dict[str, Any]) -> dict[str, Any]:
            if self.full and "-try-" in pod["metadata"]["name"]:
                raise OverQuota(403, "exceeded quota: q")
            return super().webhook(pod)

    api = Capped()
    small, _ = full_and_waiting(api)
    small.turn(3)
    assert demand(small) == {"cpu": 1000}, "as it is sent"
    small.api.pass_time()
    small.turn(2)
    api.full = False
    small.api.pass_time()
    small.turn(3)
    assert demand(small) == {"cpu": 3000}
    assert not small.api.paused, "it is known now"


def test_a_job_that_waits_and_can_no_longer_be_honoured_is_refused():
    class Gating(Injecting):
        def webhook(self, pod: dict[str, Any]) -> dict[str, Any]:
            if self.on:
                pod["spec"]["schedulingGates"] = [{"name": "x.com/wait"}]
            return pod

    api = Gating()
    api.on = False
    small, uid = full_and_waiting(api)
    small.turn(3)
    api.on = True
    small.api.inbox.put(Changed(PodRule, a_webhook("gates")))
    small.turn(4)
    status = small.api.status(uid)
    assert (status["phase"], status["reason"]) == ("Failed", "Unplaceable")
    assert "schedulingGates" in status["message"]


def test_what_a_pod_holds_beyond_its_booking_counts_against_its_node():
    small = a_cluster(Injecting(), a_machine("a"))
    small.api.on = False
    small.api.submit("first", job())
    small.turn(3)
    small.api.on = True
    first = next(iter(small.api.pods.values()), None)
    assert first is None or "initContainers" not in first["spec"]
    for _ in range(3):
        small.turn()
    pod = next(iter(small.api.pods.values()))
    pod["spec"].setdefault("initContainers", []).append(
        {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    )
    small.api.tell(pod)
    small.turn()
    assert dict(small.cluster.board.nodes.nodes[0].capacity)["cpu"] == 2000, "4 less the 2 that nobody booked"
    assert dict(small.cluster.board.nodes.nodes[0].capacity)["pods"] == 10, "its place among the pods was booked"
    del small.api.pods[f"team/{pod['metadata']['name']}"]
    pod["status"] = {"phase": "Succeeded"}
    small.api.tell(pod)
    small.turn()
    assert dict(small.cluster.board.nodes.nodes[0].capacity)["cpu"] == 4000


def test_a_node_takes_no_more_pods_than_it_says():
    small = a_cluster(MemoryApi(), a_machine("a", pods="2"), a_machine("b", pods="1"))
    for number in range(5):
        small.api.submit(f"j{number}", job(cpu="10m"))
    small.turn(6)
    assert sorted(pod["spec"].get("nodeName") for pod in small.api.pods.values()) == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ({"nodeName": "a"}, "spec.template.spec.nodeName: "),
        ({"schedulingGates": [{"name": "x.com/wait"}]}, "spec.template.spec.schedulingGates"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.template.spec.resourceClaims"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "later"}}]},
            "'later' waits for its first pod",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_anything_is_held(template, why):
    small = a_cluster(MemoryApi(), a_machine("a"))
    small.api.claims = {"later": BoundClaim(bound=False, waits=True)}
    bad, good = small.api.submit("bad", job(template)), small.api.submit("good", job())
    small.turn(6)
    status = small.api.status(bad)
    assert status["phase"] == "Failed"
    assert status["reason"] in ("Unplaceable", "InvalidSpec")
    assert why in status["message"]
    assert not small.api.pods_of("bad")
    assert small.phase(good) == "Running"


def test_a_job_waits_for_a_claim_that_may_still_come():
    small = a_cluster(MemoryApi(), a_machine("a"))
    uid = small.api.submit("j", job({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]}))
    small.turn(3)
    assert "the claim 'disk' of volume v does not exist" in small.api.status(uid)["message"]
    assert not small.api.pods
    small.api.claims = {"disk": BoundClaim()}
    small.api.pass_time()
    small.turn(5)
    assert small.phase(uid) == "Running"


def test_constraints_of_the_template_are_honoured():
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["x"]}]}]}
    small = a_cluster(MemoryApi(), a_machine("a", {"zone": "x"}), a_machine("b", {"zone": "y"}))
    small.api.submit("j", job({"affinity": {"nodeAffinity": {REQUIRED: zone}}}, replicas=2))
    small.turn(5)
    assert [pod["spec"]["nodeName"] for pod in small.api.pods.values()] == ["b", "b"]


def test_replicas_that_avoid_each_other_are_apart_or_wait_with_the_reason():
    term = {"labelSelector": {"matchLabels": {"headway.dev/job": "apart"}}, "topologyKey": "host"}
    alone = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    small = a_cluster(MemoryApi(), a_machine("a", {"host": "a"}), a_machine("b", {"host": "b"}))
    uid = small.api.submit("apart", job(alone, replicas=2))
    small.turn(5)
    assert sorted(pod["spec"]["nodeName"] for pod in small.api.pods.values()) == ["a", "b"]
    small = a_cluster(MemoryApi(), a_machine("a", {"host": "a"}), a_machine("b", {"host": "b"}))
    uid = small.api.submit("apart", job(alone, replicas=3))
    other = small.api.submit("other", job())
    small.turn(5)
    assert small.api.status(uid)["reason"] == "NeighboursRefuse"
    assert "anti-affinity" in small.api.status(uid)["message"]
    assert not small.api.pods_of("apart")
    assert small.phase(other) == "Running"


def test_pods_ask_for_the_gpus_of_the_node_that_they_run_on():
    small = a_cluster(MemoryApi(), a_machine("a", **{"nvidia.com/gpu": "1"}), a_machine("b", **{"amd.com/gpu": "2"}))
    small.api.submit("amd", job(resources={"amd.com/gpu": 1}, replicas=2))
    small.api.submit("any", job(gpu=1))
    small.turn(6)
    asked = {}
    for pod in small.api.pods.values():
        kinds = [kind for kind in pod["spec"]["containers"][0]["resources"]["limits"] if "/" in kind]
        asked.setdefault(pod["spec"]["nodeName"], []).extend(kinds)
    assert asked == {"a": ["nvidia.com/gpu"], "b": ["amd.com/gpu", "amd.com/gpu"]}
