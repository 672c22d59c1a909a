"""What somebody with `edit` in one namespace can do to others, on the real API server and real kubelets: nothing."""

from __future__ import annotations

import json
import secrets
import time

import pytest
from tenant import Tenant

from headway.kube.pods.marks import GANG as MARK
from scheduling import TRAINING

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
ROLES = {"worker": {"cpu": "50m", "memory": "32Mi"}}
LEVELS = 3000
HOSTILE: dict[str, bytes | dict] = {
    "number": {"roles": ROLES, "template": {"spec": 5}},
    "text": {"roles": ROLES, "template": {"spec": {"containers": "x"}}},
    "metadata": {"roles": ROLES, "template": {"metadata": "x"}},
    "nameless": {"roles": ROLES, "template": {"spec": {"containers": [{"name": {"a": [1]}}]}}},
    "half": b'{"roles":{"worker":{"env":{"A":"\\ud800"}}},"template":{"metadata":{"labels":{"a":"\\udfff"}}}}',
    "deep": b'{"roles":{"worker":{}},"template":' + b'{"a":[' * LEVELS + b"1" + b"]}" * LEVELS + b"}",
    "endless": {"roles": {"worker": {"cpu": "1000000", "memory": "32Mi"}}, "steps": 10**12, "deadline": 1e300},
}


@pytest.fixture
def tenant(schedule):
    return Tenant(schedule.lab, schedule.namespace)


@pytest.fixture
def other(schedule):
    name = f"test-{secrets.token_hex(4)}"
    schedule.lab.create_namespace(name)
    yield Tenant(schedule.lab, name)
    schedule.lab.api.delete(f"/api/v1/namespaces/{name}")


def test_no_tenant_can_stop_the_scheduler_or_mislead_it(schedule, tenant, other):
    for name, spec in HOSTILE.items():
        tenant.submit(name, spec)
    schedule.start()
    schedule.submit("healthy", {"worker": {"replicas": 2}}, ["--steps", "100000"])
    began = time.monotonic()
    healthy = schedule.wait("healthy", "Starting", "Running", seconds=60)
    assert time.monotonic() - began < 20, "a process that starts while others work"
    for name in ("number", "text", "metadata", "nameless", "endless"):
        status = schedule.wait(name, "Failed", seconds=60)["status"]
        assert (status["reason"], status["message"][:4]) == ("InvalidSpec", "spec"), status

    assert b'"message":"spec: is nested deeper than 100 levels"' in tenant.read("deep"), schedule.words()
    assert tenant.delete("deep") == 200, "before all are listed by a client that reads not as deep"
    path = f"{TRAINING.format(schedule.namespace)}/healthy/status"
    assert tenant.send("PATCH", path, {"status": {"phase": "Failed"}})[0] == 403, "a status is Headway's alone"

    healthy = schedule.wait("healthy", "Running", seconds=60)
    (real, *_) = schedule.pods("healthy")
    for forger, mark in ((tenant, True), (tenant, False), (other, True)):
        forger.create_pod(a_forged_pod(schedule, healthy, real, forger.namespace, marked=mark))
    for forger in (tenant, other):
        wait_until_failed(schedule, forger.namespace)
    _same_job(schedule, healthy)

    schedule.kill()
    schedule.start()
    schedule.submit("second", {"worker": {}}, ["--steps", "3"])
    schedule.wait("second", "Succeeded", seconds=60)
    _same_job(schedule, healthy)
    assert "Traceback" not in schedule.words()
    assert schedule.stop() == 0


def _same_job(schedule, healthy: dict) -> None:
    status = schedule.job("healthy")["status"]
    for field in ("phase", "attempt", "allocation", "replicas"):
        assert status[field] == healthy["status"][field], (field, schedule.words())


def a_forged_pod(schedule, job: dict, real: dict, namespace: str, *, marked: bool) -> dict:
    """It fails at once, on a real node, and says that it is a replica of the job."""
    meta = real["metadata"]
    template = schedule.lab.pod_template()
    container = {**template["spec"]["containers"][0], "command": ["sh", "-c", "exit 1"]}
    owner = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "name": "healthy",
             "uid": job["metadata"]["uid"], "controller": True}  # fmt: skip
    notes = {"headway.dev/node": real["spec"]["nodeName"]}
    notes |= {MARK: meta["annotations"][MARK]} if marked else {}
    name = f"healthy-0-worker-{7 if marked else 8}"
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": meta["labels"], "annotations": notes,
                     "ownerReferences": [owner]},
        "spec": {**template["spec"], "containers": [container], "restartPolicy": "Never",
                 "nodeName": real["spec"]["nodeName"]},
    }  # fmt: skip


def wait_until_failed(schedule, namespace: str) -> None:
    """Or gone: Kubernetes itself removes a pod whose owner is in another namespace."""
    deadline = time.monotonic() + 60
    while True:
        pods = schedule.lab.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        forged = [pod for pod in pods if pod["metadata"]["name"] in ("healthy-0-worker-7", "healthy-0-worker-8")]
        if all(pod["status"].get("phase") == "Failed" for pod in forged):
            return
        assert time.monotonic() < deadline, json.dumps([pod["status"] for pod in pods])
        time.sleep(0.2)
