"""The shipped roles. `test_tenants_lab.py` shows on a real API server that each right is used and none is missing."""

from __future__ import annotations

import yaml

from headway.kube.api.install import manifests

SCHEDULER = ("headway-scheduler", "headway-node-reader", "headway-progress", "headway-heartbeats")


def rights(namespace: str, *kinds: str) -> set[tuple]:
    found = set()
    for one in yaml.safe_load_all(manifests(namespace)):
        if one["kind"] in kinds and one["metadata"]["name"].removesuffix(f"-{namespace}") in SCHEDULER:
            for rule in one["rules"]:
                named = tuple(rule.get("resourceNames", ()))
                found |= {
                    (group, resource, verb, named)
                    for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
                }  # fmt: skip
    return found


def test_the_scheduler_of_one_namespace_has_the_same_rights_there_as_that_of_all():
    assert rights("team-a", "Role", "ClusterRole") == rights("", "Role", "ClusterRole")


def test_outside_its_namespace_it_reads_nodes_volumes_and_what_changes_pods_and_asks_who_sends():
    assert {right[:3] for right in rights("team-a", "ClusterRole")} == {
        ("", "nodes", "list"),
        ("", "nodes", "watch"),
        ("", "persistentvolumes", "get"),
        ("storage.k8s.io", "storageclasses", "get"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "watch"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "list"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "watch"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "list"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "watch"),
        ("node.k8s.io", "runtimeclasses", "list"),
        ("node.k8s.io", "runtimeclasses", "watch"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", "get"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "get"),
        ("authentication.k8s.io", "tokenreviews", "create"),
    }


def test_it_reads_its_own_secrets_and_writes_no_node_role_or_namespace():
    for _, resource, verb, named in rights("", "Role", "ClusterRole"):
        assert "*" not in (resource, verb)
        assert verb in ("get", "list", "watch") or resource not in ("nodes", "namespaces", "roles", "clusterroles")
        if resource == "secrets" and verb == "patch":
            assert named == ("headway-state",), "it changes no key and no certificate"
        elif resource == "secrets" and verb != "create":
            assert set(named) <= {"headway-progress", "headway-pods", "headway-state"} != set()


def test_the_right_to_ask_kubelets_is_granted_only_where_it_is_wanted():
    assert "nodes/proxy" not in manifests() + manifests("team-a")
    assert "nodes/proxy" in manifests(kubelets=True)
    bindings = [one for one in yaml.safe_load_all(manifests("team-a", kubelets=True)) if "roleRef" in one]
    (bound,) = [one for one in bindings if one["roleRef"]["name"] == "headway-kubelet-reader-team-a"]
    assert bound["subjects"][0]["namespace"] == "team-a"
