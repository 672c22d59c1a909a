"""Beside the real native scheduler: gangs of every kind on simulated nodes, watched at each moment; and what the rights
and rules of the chart let happen.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.kube.pods.gate import GATE
from headway.lab import Lab
from headway.lab.node_shapes import NodeGroup
from headway.lab.testing import up_for_test
from helm import HELM, needs_helm
from scheduling import HEADWAY, HERE, SOURCE, run_headway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
CHART = HERE.parents[1] / "charts/headway"
WHOLE = 3
"""Pods of each gang, of a core each: of four cores there is room for one gang."""
ACCOUNT = "/api/v1/namespaces/headway-system/serviceaccounts/{}"
RIGHTS, POLICIES = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
JOBSETS = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}


@pytest.fixture(scope="module")
def beside() -> Iterator[Lab]:
    """A lab with PodGroups, with JobSets that nobody acts on, and with the gate. The last test releases it."""
    lab = up_for_test("gangs", simulated=[NodeGroup(2, 0, "", 2, "8Gi")], gangs=True)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "jobsets", "singular": "jobset", "kind": "JobSet"}
    spec = {"group": "jobset.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]}
    crd = {"metadata": {"name": "jobsets.jobset.x-k8s.io"}, "spec": spec}
    lab.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    for name in ("team", "other"):
        lab.create_namespace(name)
    lab.api.patch("/api/v1/namespaces/team", {"metadata": {"labels": {"headway.dev/beside": "true"}}})
    done = run_headway("schedule", "--install", "--beside", "--kubeconfig", str(lab.kubeconfig))
    assert (done.returncode, "new pods of team wait for their turn" in done.stdout) == (0, True), done
    yield lab
    lab.down()


def as_account(lab: Lab, name: str, folder: Path) -> Path:
    """A kubeconfig with the rights of this account of Headway's, and no others."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    config = yaml.safe_load(lab.kubeconfig.read_bytes())
    config["users"][0]["user"] = {"token": lab.api.post(f"{ACCOUNT.format(name)}/token", asked)["status"]["token"]}
    path = folder / name
    path.write_text(json.dumps(config))
    return path


def a_pod(gang: str, seconds: int = 2, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": more.pop("cpu", "1"), "memory": "32Mi"}
    main = {"name": "main", "image": "any", "resources": {"requests": amounts, "limits": amounts}}
    meta = {
        "labels": {"gang": gang, **more.pop("labels", {})},
        "annotations": {"headway.dev/lab-run-for": f"{seconds}s"},
    }
    return {"metadata": meta, "spec": {"containers": [main], "restartPolicy": "Never", **more}}


def a_job(lab: Lab, name: str, pod: dict[str, Any]) -> None:
    counts = {"parallelism": WHOLE, "completions": WHOLE, "completionMode": "Indexed"}
    lab.api.post(
        "/apis/batch/v1/namespaces/team/jobs", {"metadata": {"name": name}, "spec": {**counts, "template": pod}}
    )


def a_job_set(lab: Lab, name: str) -> None:
    """As its controller would make it: a Job of its own name, with pods that name the JobSet."""
    template = {"spec": {"parallelism": WHOLE, "completions": WHOLE}}
    spec = {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": template}]}
    lab.api.post(
        "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets", {**JOBSETS, "metadata": {"name": name}, "spec": spec}
    )
    a_job(lab, f"{name}-workers-0", a_pod(name, labels={"jobset.sigs.k8s.io/jobset-name": name}))


def a_pod_group(lab: Lab, name: str, queue: str) -> None:
    version = f"scheduling.k8s.io/{lab.gang_version}"
    body = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": WHOLE}}}}  # fmt: skip
    lab.api.post(f"/apis/{version}/namespaces/team/podgroups", body)
    for number in range(WHOLE):
        pod = a_pod(name, labels={"headway.dev/queue": queue}, schedulingGroup={"podGroupName": name})
        pod["metadata"]["name"] = f"{name}-{number}"
        lab.api.post("/api/v1/namespaces/team/pods", pod)


@dataclass
class Watched:
    """The pods of all gangs, at each event of a watch."""

    lab: Lab
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """Gangs, as the first of their pods may run."""
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        context: ssl.SSLContext = self.lab.ssl_context()
        stream = urllib.request.urlopen(f"{self.lab.url}/api/v1/namespaces/team/pods?watch=1", context=context)
        threading.Thread(target=self._follow, args=(stream,), daemon=True).start()

    def _follow(self, stream: Any) -> None:
        for line in stream:
            event = json.loads(line)
            pod = event["object"]
            if event["type"] == "DELETED":
                self.pods.pop(pod["metadata"]["name"], None)
            elif event["type"] in ("ADDED", "MODIFIED"):
                self.pods[pod["metadata"]["name"]] = pod
            self._look()

    def _look(self) -> None:
        """There is room for one gang: as soon as one pod of a gang may run, no other gang holds a part of it."""
        begun = {pod["metadata"]["labels"]["gang"] for pod in self.pods.values() if may_run(pod)}
        self.order += sorted(begun - set(self.order))
        if len(begun) > 1:
            self.faults.append(f"{sorted(begun)} hold nodes at once")

    def of(self, gang: str) -> list[dict[str, Any]]:
        return [pod for pod in list(self.pods.values()) if pod["metadata"]["labels"]["gang"] == gang]

    def phases(self, gang: str) -> list[str]:
        return [pod["status"].get("phase", "") for pod in self.of(gang)]


def may_run(pod: dict[str, Any]) -> bool:
    over = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not over and not pod["spec"].get("schedulingGates")


def soon(holds: Any, story: Any = "", seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, story() if callable(story) else story
        time.sleep(0.05)


def test_gangs_of_every_kind_run_whole_in_the_order_of_the_policy_and_nothing_else_is_affected(beside, tmp_path):
    watched, out = Watched(beside), tmp_path / "output"
    account, policy = str(as_account(beside, "headway", tmp_path)), f"{HERE / 'urgent_first.py'}:urgent_first"
    options = ["--kubeconfig", account, "--policy", policy, "--log", str(tmp_path / "run.log"), "--measure", "off"]
    with out.open("wb") as file:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        process = subprocess.Popen(
            [*HEADWAY, "schedule", "--beside", *options], stdout=file, stderr=file, env=environment
        )
    try:
        a_job(beside, "first", a_pod("first", 6))
        soon(lambda: watched.phases("first") == ["Running"] * WHOLE, out.read_text)
        a_job_set(beside, "plain")
        a_pod_group(beside, "urgent", "urgent")
        beside.api.post("/api/v1/namespaces/other/pods", {**a_pod("", cpu="10m"), "metadata": {"name": "free"}})
        free = "/api/v1/namespaces/other/pods/free"
        soon(lambda: beside.api.get(free)["status"].get("phase") == "Running", out.read_text)
        assert "Succeeded" not in watched.phases("first"), "it waited for nobody's turn"
        for gang in ("urgent", "plain"):
            soon(lambda gang=gang: watched.phases(gang) == ["Succeeded"] * WHOLE, out.read_text)
    finally:
        process.terminate()
        process.wait(60)
    assert watched.order == ["first", "urgent", "plain"], "plain came first, urgent is first"
    assert not watched.faults


def rendered(*kinds: str) -> list[dict[str, Any]]:
    command = [HELM, "template", "headway", str(CHART), "-n", "headway-system", "--kube-version", "1.36.0"]
    command += ["--set", "beside.enabled=true"]
    for kind in ("Validating", "Mutating"):
        command += ["--api-versions", f"{POLICIES.removeprefix('/apis/')}/{kind}AdmissionPolicy"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] in kinds]


@needs_helm
def test_where_its_account_is_held_to_its_own_it_may_still_delete_pods_that_got_no_node(beside, tmp_path):
    rules = [one for one in rendered("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
             if one["metadata"]["name"] == "headway-own-account"]  # fmt: skip
    paths = [
        f"{POLICIES}/validatingadmissionpolic{'ies' if one['kind'].endswith('Policy') else 'ybindings'}"
        for one in rules
    ]
    kubectl = [str(beside.kubectl), "--kubeconfig", str(as_account(beside, "headway", tmp_path)), "-n", "other"]
    turn = {"labels": {GATE: "given"}, "nodeSelector": {"no": "such"}}
    try:
        for path, one in zip(paths, rules, strict=True):
            beside.api.post(path, one)
        for name, more in {
            "plain": {"nodeSelector": {"no": "such"}},
            "turn": turn,
            "bound": {"labels": {GATE: "given"}, "cpu": "10m"},
        }.items():
            pod = a_pod("", 90, **more)
            pod["metadata"]["name"] = name
            beside.api.post("/api/v1/namespaces/other/pods", pod)
        soon(lambda: beside.api.get("/api/v1/namespaces/other/pods/bound")["spec"].get("nodeName"))
        words = "headway makes and deletes only what belongs to a TrainingJob"
        soon(lambda: words in deleted(kubectl, "plain", "--dry-run=server"), "the policy is not obeyed")
        assert words in deleted(kubectl, "bound")
        assert "deleted" in deleted(kubectl, "turn")
    finally:
        for path, one in zip(paths, rules, strict=True):
            beside.api.delete(f"{path}/{one['metadata']['name']}")


def deleted(kubectl: list[str], pod: str, *options: str) -> str:
    done = subprocess.run(
        [*kubectl, "delete", "pod", pod, "--wait=false", *options], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@needs_helm
def test_the_account_of_the_hook_that_uninstalls_has_the_rights_to_lift_all_gates(beside, tmp_path):
    for one in rendered("ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
        if one["metadata"]["name"] == "headway-release":
            account = one["kind"] == "ServiceAccount"
            beside.api.post(ACCOUNT.format("").rstrip("/") if account else f"{RIGHTS}/{one['kind'].lower()}s", one)
    a_job(beside, "gated", a_pod("gated", 1))
    pods = "/api/v1/namespaces/team/pods?labelSelector=gang=gated"
    soon(lambda: len(beside.api.get(pods)["items"]) == WHOLE)
    assert all(pod["spec"]["schedulingGates"] == [{"name": GATE}] for pod in beside.api.get(pods)["items"])
    done = run_headway(
        "schedule", "--beside", "--release", "--kubeconfig", str(as_account(beside, "headway-release", tmp_path))
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "removed the policies headway-turn" in done.stdout
    soon(lambda: all(pod["status"].get("phase") == "Succeeded" for pod in beside.api.get(pods)["items"]))
    a_job(beside, "after", a_pod("after", 1))
    after = pods.replace("gated", "after")
    soon(lambda: len(beside.api.get(after)["items"]) == WHOLE)
    assert not any(pod["spec"].get("schedulingGates") for pod in beside.api.get(after)["items"])
