"""Beside the real native scheduler: Jobs are let run gang by gang, whatever becomes of Headway meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from headway.kube.pods.gate import GATE
from scheduling import run_headway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
WHOLE = 3
"""Pods of each gang, of a core each: of four cores there is room for one gang."""


@pytest.fixture
def beside(schedule):
    lab, namespace = schedule.lab, schedule.namespace
    label = f"beside={namespace}"
    lab.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"beside": namespace}}})
    admin = ["--kubeconfig", str(lab.kubeconfig)]
    done = run_headway("schedule", "--install", "--beside", "--gate-namespaces", label, *admin)
    assert (done.returncode, f"new pods of {namespace} wait for their turn" in done.stdout) == (0, True), done
    yield schedule
    run_headway("schedule", "--beside", "--release", *admin)
    lab.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs", {"propagationPolicy": "Background"})


def a_job(schedule, name: str, command: str) -> None:
    pod = schedule.lab.pod_template()["spec"]
    amounts = {"cpu": "1", "memory": "32Mi"}
    pod["containers"][0] |= {"command": ["sh", "-c", command], "resources": {"requests": amounts}}
    counts = {"parallelism": WHOLE, "completions": WHOLE, "completionMode": "Indexed", "backoffLimit": 9}
    spec = {**counts, "template": {"spec": {**pod, "restartPolicy": "Never"}}}
    jobs = f"/apis/batch/v1/namespaces/{schedule.namespace}/jobs"
    schedule.lab.api.post(jobs, {"metadata": {"name": name}, "spec": spec})


def pods_of(schedule, job: str) -> list[dict]:
    return [pod for pod in schedule.pods() if pod["metadata"]["labels"].get("job-name") == job]


def phases(schedule, job: str) -> list[str]:
    return sorted(pod["status"].get("phase", "") for pod in pods_of(schedule, job))


def gated(schedule, job: str) -> int:
    return sum(
        any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ())) for pod in pods_of(schedule, job)
    )


def soon(schedule, holds, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.1)


def told(schedule, job: str) -> str:
    conditions = [one for pod in pods_of(schedule, job) for one in pod["status"].get("conditions", ())]
    return next((one["message"] for one in conditions if (one["type"] == "PodScheduled" and "cores" in one["message"])
                 or "cpu" in one.get("message", "")), "")  # fmt: skip


def test_jobs_of_others_run_gang_by_gang_and_survive_what_becomes_of_headway(beside):
    beside.start("--beside", "--policy", "first-fit")
    a_job(beside, "first", "sleep 8")
    soon(beside, lambda: phases(beside, "first") == ["Running"] * WHOLE)
    a_job(beside, "second", "sleep 2")
    soon(beside, lambda: told(beside, "second"))
    assert gated(beside, "second") == WHOLE
    assert all(pod["spec"]["schedulerName"] == "default-scheduler" for pod in beside.pods())

    beside.process.send_signal(signal.SIGSTOP)  # frozen
    soon(beside, lambda: phases(beside, "first") == ["Succeeded"] * WHOLE)
    a_job(beside, "third", "sleep 2")
    soon(beside, lambda: gated(beside, "third") == WHOLE)
    assert gated(beside, "second") == WHOLE, "what is gated waits"
    beside.process.send_signal(signal.SIGCONT)
    soon(beside, lambda: phases(beside, "second") == ["Running"] * WHOLE)
    beside.kill()  # killed: what is bound runs
    soon(beside, lambda: phases(beside, "second") == ["Succeeded"] * WHOLE)
    assert gated(beside, "third") == WHOLE
    beside.start("--beside", "--policy", "first-fit")
    soon(beside, lambda: phases(beside, "third") == ["Succeeded"] * WHOLE)
    assert beside.stop() == 0
    assert beside.replay().returncode == 0


def test_a_tenant_takes_no_turn_and_release_lifts_all_gates(beside):
    a_job(beside, "alone", "true")
    soon(beside, lambda: gated(beside, "alone") == WHOLE)
    name = pods_of(beside, "alone")[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{beside.namespace}/pods/{name}"
    answer = as_edit(beside, path, {"spec": {"schedulingGates": []}})
    assert "is lifted by Headway when the turn of the pod's gang comes" in answer, answer
    assert gated(beside, "alone") == WHOLE
    done = run_headway("schedule", "--beside", "--release", "--kubeconfig", str(beside.lab.kubeconfig))
    assert (done.returncode, "lifted the gate of 3 pods" in done.stdout) == (0, True), done
    soon(beside, lambda: phases(beside, "alone") == ["Succeeded"] * WHOLE)
    a_job(beside, "after", "true")
    soon(beside, lambda: phases(beside, "after") == ["Succeeded"] * WHOLE)


def as_edit(schedule, path: str, body: dict) -> str:
    """What the API server answers to somebody who may edit the namespace, and nothing else."""
    group = "rbac.authorization.k8s.io"
    role, user = {"kind": "ClusterRole", "name": "edit"}, {"kind": "User", "name": "mallory"}
    binding = {"roleRef": {"apiGroup": group, **role}, "subjects": [{"apiGroup": group, **user}]}
    binding["metadata"] = {"name": "edits"}
    schedule.lab.api.post(f"/apis/{group}/v1/namespaces/{schedule.namespace}/rolebindings", binding)
    pod = path.rpartition("/")[2]
    command = [str(schedule.lab.kubectl), "--kubeconfig", str(schedule.lab.kubeconfig), "--as", "mallory", "-n",
               schedule.namespace, "patch", "pod", pod, "--type", "merge", "-p", json.dumps(body)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
