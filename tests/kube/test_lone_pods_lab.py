"""Pods of others on real kubelets: Headway finds their nodes, says why one waits, and deletes none."""

from __future__ import annotations

import time

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]


def make(schedule, name: str, command: str, cpu: str, **spec: object) -> None:
    pod = schedule.lab.pod_template()
    main = pod["spec"]["containers"][0]
    main |= {"command": ["sh", "-c", command], "resources": {"requests": {"cpu": cpu}}}
    body = {"metadata": {"name": name}, "spec": {**pod["spec"], "restartPolicy": "Never", **spec}}
    body["spec"]["schedulerName"] = "headway"
    schedule.lab.api.post(f"/api/v1/namespaces/{schedule.namespace}/pods", body)


def soon(schedule, name: str, holds) -> dict:
    deadline = time.monotonic() + 60
    while not holds(pod := schedule.lab.api.get(f"/api/v1/namespaces/{schedule.namespace}/pods/{name}")):
        assert time.monotonic() < deadline, f"{pod['status']}\n{schedule.words()}"
        time.sleep(0.1)
    return pod


def why(pod: dict) -> tuple[str, str]:
    scheduled = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
    return (scheduled[0].get("reason", ""), scheduled[0].get("message", "")) if scheduled else ("", "")


def test_pods_of_others_are_bound_and_never_deleted(schedule):
    schedule.start()
    make(schedule, "short", "true", "100m")
    make(schedule, "large", "true", "64")
    make(schedule, "device", "true", "100m", resourceClaims=[{"name": "gpu", "resourceClaimName": "none"}])
    soon(schedule, "short", lambda pod: pod["status"].get("phase") == "Succeeded")
    large = soon(schedule, "large", lambda pod: why(pod)[0])
    assert why(large)[0] == "Unschedulable"
    assert "cpu" in why(large)[1]
    refused = soon(schedule, "device", lambda pod: why(pod)[0])
    assert "spec.resourceClaims" in why(refused)[1]
    events = schedule.lab.api.get(f"/api/v1/namespaces/{schedule.namespace}/events")["items"]
    assert [one["involvedObject"]["name"] for one in events if one["reason"] == "FailedScheduling"] == ["device"]
    make(schedule, "holds", "sleep 600", "1500m")
    first = soon(schedule, "holds", lambda pod: pod["status"].get("phase") == "Running")
    schedule.kill()
    schedule.start()
    for name in ("second", "third"):  # two nodes of 2 cpu: one is left for two pods
        make(schedule, name, "sleep 600", "1500m")
    bound = soon(schedule, "second", lambda pod: pod["spec"].get("nodeName"))
    assert bound["spec"]["nodeName"] != first["spec"]["nodeName"], "a restart counts what the first one holds"
    assert why(soon(schedule, "third", lambda pod: why(pod)[0]))[0] == "Unschedulable"
    assert schedule.stop() == 0
    names = {pod["metadata"]["name"] for pod in schedule.pods() if not pod["metadata"].get("deletionTimestamp")}
    assert names == {"short", "large", "device", "holds", "second", "third"}
    assert schedule.replay().returncode == 0
