"""The job operators in the lab really create, gate and finish pods."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from headway.lab import Lab, LabError, node_groups, programs
from headway.lab.operators import FIXED_CERTIFICATES, OPERATORS, Ports
from headway.lab.state import LabState

pytestmark = pytest.mark.lab

KUEUE = "/apis/kueue.x-k8s.io/v1beta1"
IN_DEFAULT = "namespaces/default"


@pytest.fixture(scope="module")
def running():
    """A lab with every operator that is built here. `make test` builds none: they take minutes each."""
    missing = {program.name for program in programs.missing(OPERATORS)}
    built = [name for name in OPERATORS if name not in missing]
    lab = Lab.up(f"test-{os.getpid()}-op", simulated=node_groups(4), operators=built, owned=True) if built else None
    yield lab, built
    if lab is not None:
        lab.down()
        assert not FIXED_CERTIFICATES.exists()


@pytest.fixture
def lab_with(running):
    """The lab, if it has this operator."""
    lab, built = running

    def get(name: str) -> Lab:
        if name not in built:
            pytest.skip(f"{name}: not built; run `headway lab build {name}`")
        return lab

    return get


def template(container: str, run_for: str, gpus: int = 1) -> dict:
    resources = {"requests": {"nvidia.com/gpu": gpus}, "limits": {"nvidia.com/gpu": gpus}}
    spec = {"restartPolicy": "Never", "containers": [{"name": container, "image": "any", "resources": resources}]}
    return {"metadata": {"annotations": {"headway.dev/lab-run-for": run_for}}, "spec": spec}


def wait_for(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def has_condition(lab: Lab, path: str, kind: str) -> bool:
    conditions = lab.api.get(path).get("status", {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def test_a_jobset_runs_all_its_jobs(lab_with):
    lab = lab_with("jobset")
    job = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template("main", "1s")}
    spec = {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": {"spec": job}}]}
    path = f"/apis/jobset.x-k8s.io/v1alpha2/{IN_DEFAULT}/jobsets"
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "set"}, "spec": spec}
    made = lab.api.post(path, body)
    defaulted = made["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"]
    assert defaulted == "Indexed", "the defaulting webhook was not asked"
    wait_for(lambda: has_condition(lab, f"{path}/set", "Completed"))
    pods = lab.api.get(f"/api/v1/{IN_DEFAULT}/pods?labelSelector=jobset.sigs.k8s.io%2Fjobset-name%3Dset")["items"]
    assert len(pods) == 4


def test_a_jobset_that_makes_no_sense_is_refused_by_its_webhook(lab_with):
    lab = lab_with("jobset")
    path = f"/apis/jobset.x-k8s.io/v1alpha2/{IN_DEFAULT}/jobsets"
    spec = {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["nobody"]}, "replicatedJobs": []}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "bad"}, "spec": spec}
    with pytest.raises(LabError, match="denied the request"):
        lab.api.post(path, body)


def test_a_tfjob_gets_servers_and_workers_and_succeeds(lab_with):
    lab = lab_with("training-operator")
    replicas = {
        "PS": {"replicas": 1, "restartPolicy": "Never", "template": template("tensorflow", "1h")},
        "Worker": {"replicas": 2, "restartPolicy": "Never", "template": template("tensorflow", "1s")},
    }
    path = f"/apis/kubeflow.org/v1/{IN_DEFAULT}/tfjobs"
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "tf"}}
    lab.api.post(path, {**body, "spec": {"tfReplicaSpecs": replicas}})
    wait_for(lambda: has_condition(lab, f"{path}/tf", "Succeeded"))
    names = {pod["metadata"]["name"] for pod in lab.api.get(f"/api/v1/{IN_DEFAULT}/pods")["items"]}
    assert {"tf-ps-0", "tf-worker-0", "tf-worker-1"} <= names


def test_a_pytorchjob_gets_more_workers_through_its_scale(lab_with):
    lab = lab_with("training-operator")
    worker = {"replicas": 1, "restartPolicy": "Never", "template": template("pytorch", "1h")}
    spec = {"pytorchReplicaSpecs": {"Worker": worker}, "elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}
    path = f"/apis/kubeflow.org/v1/{IN_DEFAULT}/pytorchjobs"
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "torch"}, "spec": spec}
    lab.api.post(path, body)
    selector = "labelSelector=training.kubeflow.org%2Fjob-name%3Dtorch"

    def workers() -> int:
        return len(lab.api.get(f"/api/v1/{IN_DEFAULT}/pods?{selector}")["items"])

    wait_for(lambda: workers() == 1)
    lab.api.patch(f"{path}/torch/scale", {"spec": {"replicas": 3}})
    wait_for(lambda: workers() == 3)
    lab.api.delete(f"{path}/torch")


def make_kueue(lab: Lab, path: str, kind: str, name: str, spec: dict) -> None:
    body = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    lab.api.post(f"{KUEUE}/{path}", body)


def test_kueue_admits_one_job_at_a_time_into_a_small_quota(lab_with):
    lab = lab_with("kueue")
    make_kueue(lab, "resourceflavors", "ResourceFlavor", "any", {})
    quota = {"name": "any", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 2}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [quota]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    make_kueue(lab, "clusterqueues", "ClusterQueue", "all", spec)
    make_kueue(lab, f"{IN_DEFAULT}/localqueues", "LocalQueue", "q", {"clusterQueue": "all"})
    jobs = f"/apis/batch/v1/{IN_DEFAULT}/jobs"
    for name in ("first", "second"):
        spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": template("main", "2s")}
        labels = {"kueue.x-k8s.io/queue-name": "q"}
        lab.api.post(jobs, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    for name in ("first", "second"):
        wait_for(lambda name=name: has_condition(lab, f"{jobs}/{name}", "Complete"))
    lives = [lab.api.get(f"{jobs}/{name}")["status"] for name in ("first", "second")]
    (_, ended), (began, _) = sorted((life["startTime"], life["completionTime"]) for life in lives)
    assert began >= ended, "either may come first, as its workers run side by side, but not both at once"


@pytest.mark.parametrize(("bench", "qps"), [(False, 50), (True, 200)])
def test_kueue_is_set_up_as_its_own_installation_does_and_may_ask_more_in_measurements(tmp_path, bench, qps):
    """A peer with one worker, as it has when nothing is said, would be a poor measure."""
    state = LabState(name="kueue", root=str(tmp_path), created=0, bench=bench)
    option = OPERATORS["kueue"].flags(state, Ports(1, 2))[0]
    config = json.loads(Path(option.removeprefix("--config=")).read_text())
    assert config["controller"]["groupKindConcurrency"] == {"Job.batch": 5, "Pod": 5, "Workload.kueue.x-k8s.io": 5}
    assert config["clientConnection"]["qps"] == qps


def test_an_unknown_operator_is_told():
    with pytest.raises(LabError, match="no operator 'volcano' for the lab; there are jobset, training-operator"):
        Lab.up("unknown-operator", operators=["volcano"])
