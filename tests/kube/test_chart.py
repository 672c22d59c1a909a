"""The chart as helm renders it: the rights of `--install`, mistakes in values refused, nothing half switched on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headway.cli.cluster.followed_settings import FollowedPolicy, settings_of_file
from headway.kube.api.install import manifests
from headway.policies.combined_priority import CombinedPriority
from helm import HELM, needs_helm

CHART = Path(__file__).parents[2] / "charts/headway"
SERVED = [f"admissionregistration.k8s.io/v1/{kind}AdmissionPolicy" for kind in ("Validating", "Mutating")]
RIGHTS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ServiceAccount")
WIDE = (
    "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "FlowSchema", "PriorityLevelConfiguration",
    *(f"{kind}AdmissionPolicy{part}" for kind in ("Validating", "Mutating") for part in ("", "Binding")),
)  # fmt: skip
VALIDATING = "ValidatingAdmissionPolicy"
pytestmark = needs_helm


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False)


def rendered(*options: str, namespace: str = "headway-system", served: list[str] = SERVED) -> list[dict]:
    versions = [word for one in served for word in ("--api-versions", one)]
    done = helm("template", "headway", str(CHART), "-n", namespace, "--kube-version", "1.36.0", *versions, *options)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def by_name(found: list[dict], *kinds: str) -> dict[tuple[str, str], dict]:
    return {(one["kind"], one["metadata"]["name"]): one for one in found if one["kind"] in kinds}


def test_it_is_without_a_fault_and_renders_one_object_of_each_name():
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr
    found = rendered(
        "--set",
        "beside.enabled=true,metrics.serviceMonitor.enabled=true,metrics.alerts.enabled=true,"
        "metrics.dashboard.enabled=true",
    )
    names = [(one["kind"], one["metadata"]["name"], one["metadata"].get("namespace")) for one in found]
    assert len(names) == len(set(names))
    (rules,) = by_name(found, "PrometheusRule").values()
    assert rules["spec"] == yaml.safe_load((CHART / "alerts/headway-alerts.yaml").read_text())
    board = by_name(found, "ConfigMap")["ConfigMap", "headway-dashboard"]["data"]["headway.json"]
    assert json.loads(board) == json.loads((CHART / "dashboards/headway.json").read_text())
    assert not [one for one in found if one["kind"] in ("Secret", "Namespace")], "Secrets are filled by the process"


@pytest.mark.parametrize("namespace", ["headway-system", "team-a"])
def test_its_rights_are_those_of_install(namespace):
    inside = "" if namespace == "headway-system" else namespace
    scope = ["--set", f"watchNamespace={inside or 'all'}"]
    expected = by_name(list(filter(None, yaml.safe_load_all(manifests(inside)))), *RIGHTS)
    assert by_name(rendered(*scope, namespace=namespace), *RIGHTS) == expected


def test_a_release_for_each_of_two_namespaces_fits_on_one_cluster():
    """Helm refuses an object that another release has. What a cluster has once is turned off in the second."""

    def outside(namespace: str, *more: str) -> set[tuple[str, str]]:
        scope = ["--set", f"watchNamespace={namespace},measure=kubelet", *more]
        found = rendered(*scope, namespace=namespace)
        wide = [one for one in found if one["kind"] in WIDE or one["metadata"].get("namespace") == "kube-node-lease"]
        return {(one["kind"], one["metadata"]["name"]) for one in wide}

    second = outside("team-b", "--set", "crds.enabled=false,userPolicies.enabled=false")
    assert ("ClusterRole", "headway-node-reader-team-b") in second
    assert ("FlowSchema", "headway-team-b") in second
    assert not outside("team-a") & second
    once = outside("team-b") & outside("team-a")
    assert {kind for kind, _ in once} == {
        "CustomResourceDefinition",
        "ClusterRole",
        *(kind for kind in WIDE if "Adm" in kind),
    }
    assert {name for kind, name in once if kind == "ClusterRole"} == {"headway-user", "headway-submit-for"}


def test_in_a_namespace_of_another_name_its_account_is_there():
    found = rendered(namespace="scheduling")
    subjects = [subject for one in found for subject in one.get("subjects", ())]
    assert {subject["namespace"] for subject in subjects} == {"scheduling"}
    text = yaml.safe_dump_all(found)
    assert "headway-system" not in text
    assert "system:serviceaccount:scheduling:headway" in text


KUBELETS = "headway-kubelet-reader-headway-system"


def test_the_rights_to_ask_kubelets_and_to_give_turns_come_only_where_they_are_wanted():
    assert ("ClusterRole", KUBELETS) not in by_name(rendered(), "ClusterRole")
    assert ("ClusterRole", KUBELETS) in by_name(rendered("--set", "measure=kubelet"), "ClusterRole")
    assert ("ClusterRole", "headway-beside") not in by_name(rendered(), "ClusterRole")
    beside = rendered("--set", "beside.enabled=true,beside.namespaces.team=ai")
    (policy,) = (one for key, one in by_name(beside, "MutatingAdmissionPolicy").items() if key[1] == "headway-turn")
    labels = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
    assert labels == {"headway.dev/beside": "true", "team": "ai"}


def test_without_the_mode_beside_its_account_is_held_to_touch_no_pod_of_others():
    def told(*options: str) -> str:
        return yaml.safe_dump(by_name(rendered(*options), VALIDATING)[VALIDATING, "headway-own-account"]["spec"])

    assert "turn" not in told()
    for word in ("variables.unbound", "schedulingGates"):
        assert word in told("--set", "beside.enabled=true")


def test_before_it_is_uninstalled_a_job_with_exactly_the_rights_for_that_lifts_all_gates():
    hooks = [one for one in rendered("--set", "beside.enabled=true") if "helm.sh/hook" in hook_of(one)]
    assert not [one for one in rendered() if "helm.sh/hook" in hook_of(one)], "there are no gates"
    assert {hook_of(one)["helm.sh/hook"] for one in hooks} == {"pre-delete"}
    found = by_name(hooks, "Job", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    assert len(found) == len(hooks) == 4
    weights = {one["kind"]: int(hook_of(one)["helm.sh/hook-weight"]) for one in hooks}
    assert weights["Job"] > max(weights["ServiceAccount"], weights["ClusterRole"], weights["ClusterRoleBinding"])
    (binding,) = by_name(hooks, "ClusterRoleBinding").values()
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "headway-release", "namespace": "headway-system"}]
    rights = found["ClusterRole", "headway-release"]["rules"]
    assert {verb for rule in rights for verb in rule["verbs"]} == {"delete", "list", "patch", "give"}
    assert [rule["resourceNames"] for rule in rights if "delete" in rule["verbs"]] == [["headway-turn"]]
    pod = found["Job", "headway-release"]["spec"]["template"]["spec"]
    deployment = by_name(rendered(), "Deployment")["Deployment", "headway"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "headway-release"
    assert pod["securityContext"] == deployment["securityContext"]
    (main,), (other,) = pod["containers"], deployment["containers"]
    assert main["args"] == ["schedule", "--beside", "--release"]
    assert (main["image"], main["securityContext"]) == (other["image"], other["securityContext"])


def hook_of(one: dict) -> dict:
    return one["metadata"].get("annotations", {})


def test_helm_leaves_the_crd_unless_it_is_told_otherwise():
    crd = ("CustomResourceDefinition", "trainingjobs.headway.dev")
    kept = by_name(rendered(), crd[0])[crd]
    assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert "annotations" not in by_name(rendered("--set", "crds.keep=false"), crd[0])[crd]["metadata"]
    assert not by_name(rendered("--set", "crds.enabled=false"), crd[0])
    expected = next(one for one in yaml.safe_load_all(manifests()) if one["kind"] == crd[0])
    assert kept["spec"] == expected["spec"]


def test_only_what_is_not_followed_starts_the_replicas_anew():
    def pod(option: str = "settings={}") -> dict:
        found = by_name(rendered("--set-json", option), "Deployment")["Deployment", "headway"]
        return found["spec"]["template"]

    assert pod() == pod('settings={"preempt": 0.1}'), "helm upgrade with other settings restarts nothing"
    assert pod('queues={"queues": [{"name": "a"}]}') == pod('queues={"queues": [{"name": "b"}]}')
    assert pod() != pod('template={"spec": {"nodeName": "a"}}')


def test_its_settings_are_in_the_file_that_is_followed(tmp_path):
    users, file = {"ana": 8, "o.ben@example.com": 2.5}, tmp_path / "settings.yaml"
    chosen = {"user_priority": users, "affinity": False, "preempt": 0.1, "longest_wait": 864000}
    found = by_name(rendered("--set-json", f"settings={json.dumps(chosen)}"), "ConfigMap", "Deployment")
    file.write_text(found["ConfigMap", "headway-config"]["data"]["settings.yaml"])
    policy = FollowedPolicy("combined-priority", settings_of_file(file)).current
    assert policy == CombinedPriority(**chosen | {"user_priority": tuple(users.items())})
    (main,) = found["Deployment", "headway"]["spec"]["template"]["spec"]["containers"]
    assert "--settings=/etc/headway/settings.yaml" in main["args"]
    assert (
        yaml.safe_load(by_name(rendered(), "ConfigMap")["ConfigMap", "headway-config"]["data"]["settings.yaml"]) == {}
    )


def test_an_older_cluster_gets_no_policy_that_it_does_not_know():
    found = rendered(served=[])
    assert not by_name(found, "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
    assert by_name(found, "Deployment")


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("replicas=two", "got string, want integer"),
        ("nosuch=1", "additional properties 'nosuch' not allowed"),
        ("settings={novalue}", "got array, want object"),
        ("settings.Preempt=1", "does not match pattern"),
        ("settings.user_priority.ana=much", "got string, want number"),
        ("metrics.port=0", "minimum"),
        ("watchNamespace=team", "install the chart in that namespace (--namespace team)"),
        ("template.spce.x=1", "additional properties 'spce' not allowed"),
        ("checkpoints=relative", "does not match pattern"),
    ],
)
def test_a_mistake_in_the_values_is_refused(option, why):
    done = helm("template", "headway", str(CHART), "-n", "headway-system", "--set", option)
    assert done.returncode != 0
    assert why in done.stderr, done.stderr


def test_its_pods_hold_to_the_restricted_standard():
    pod = by_name(rendered(), "Deployment")["Deployment", "headway"]["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert main["securityContext"] == wanted
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


def test_the_chart_of_a_release_is_whole_and_the_same_whenever_it_is_made(tmp_path):
    """In the repository `files` is a link, and each checkout has times of its own."""
    words = "import pathlib, release, sys; release.packaged(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", words, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{CHART.parents[1] / 'deploy'}:{os.environ.get('PYTHONPATH', '')}"}
    made = []
    for _ in range(2):
        subprocess.run(command, env=environment, check=True, capture_output=True)
        (archive,) = tmp_path.glob("*.tgz")
        made.append(archive.read_bytes())
        os.utime(CHART / "Chart.yaml")
    assert made[0] == made[1]
    done = [helm("template", "headway", str(chart), "--kube-version", "1.36.0").stdout for chart in (archive, CHART)]
    assert "trainingjobs.headway.dev" in done[0]
    assert sorted(yaml.safe_load_all(done[0]), key=str) == sorted(yaml.safe_load_all(done[1]), key=str)
