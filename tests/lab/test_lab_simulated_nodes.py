"""Simulated nodes on the real API server."""

from __future__ import annotations

import secrets
import time

import pytest

from headway.lab import Lab, node_groups
from headway.lab.testing import up_for_test

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def simulated():
    groups = node_groups(30, ["20:8xA100,96cpu,768Gi", "4xV100,32cpu,256Gi"])
    lab = up_for_test("sim", simulated=groups, racks=3, pods=60)
    yield lab
    lab.down()


@pytest.fixture
def pods(simulated):
    name = f"test-{secrets.token_hex(4)}"
    simulated.create_namespace(name)
    return f"/api/v1/namespaces/{name}/pods"


def a_pod(name: str, gpus: int, **annotations: str) -> dict:
    marks = {f"headway.dev/lab-{key.replace('_', '-')}": value for key, value in annotations.items()}
    container = {"name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"name": name, "annotations": marks}, "spec": spec}


def phases(lab: Lab, pods: str) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in lab.api.get(pods)["items"]}


def wait_for(lab: Lab, pods: str, wanted: dict[str, str], seconds: float = 120) -> float:
    began = time.monotonic()
    while (found := phases(lab, pods)) != wanted:
        assert time.monotonic() - began < seconds, found
        time.sleep(0.05)
    return time.monotonic() - began


def test_nodes_have_their_shapes_and_racks(simulated):
    nodes = simulated.api.get("/api/v1/nodes")["items"]
    racks = [node["metadata"]["labels"]["headway.dev/rack"] for node in nodes]
    assert {rack: racks.count(rack) for rack in racks} == {"rack-001": 10, "rack-002": 10, "rack-003": 10}
    small = [n for n in nodes if n["metadata"]["labels"]["headway.dev/accelerator"] == "V100"]
    assert len(small) == 10
    assert small[0]["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert small[0]["status"]["allocatable"]["cpu"] == "32"


def test_a_pod_lives_as_its_annotations_say(simulated, pods):
    simulated.api.post(pods, a_pod("short", 8, ready_after="1s", run_for="2s"))
    simulated.api.post(pods, a_pod("doomed", 1, fail="OutOfLuck"))
    simulated.api.post(pods, a_pod("endless", 1))
    wait_for(simulated, pods, {"short": "Running", "doomed": "Failed", "endless": "Running"})
    took = wait_for(simulated, pods, {"short": "Succeeded", "doomed": "Failed", "endless": "Running"})
    assert took > 1.0, "it did not run for two seconds"
    ended = simulated.api.get(f"{pods}/doomed")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OutOfLuck", 1)
    simulated.api.delete(f"{pods}/endless")
    wait_for(simulated, pods, {"short": "Succeeded", "doomed": "Failed"})


def test_a_pod_too_large_for_every_node_waits(simulated, pods):
    simulated.api.post(pods, a_pod("huge", 9))
    simulated.api.post(pods, a_pod("fits", 8))
    wait_for(simulated, pods, {"huge": "Pending", "fits": "Running"})


def test_pods_that_run_from_the_start_are_like_any_other(simulated):
    """They and their nodes are stored past the API server; it takes changes of both, so it finds nothing wrong."""
    pods = "/api/v1/namespaces/running/pods"
    found = simulated.api.get(pods)["items"]
    nodes = [pod["spec"]["nodeName"] for pod in found]
    assert (len(nodes), {nodes.count(node) for node in nodes}) == (60, {2})
    assert {pod["status"]["phase"] for pod in found} == {"Running"}
    assert len({pod["metadata"]["uid"] for pod in found}) == 60
    assert found[0]["spec"]["dnsPolicy"] == "ClusterFirst", "the API server fills in its defaults"
    path = f"{pods}/{found[0]['metadata']['name']}"
    assert simulated.api.patch(path, {"metadata": {"labels": {"seen": "yes"}}})["metadata"]["labels"] == {"seen": "yes"}
    node = f"/api/v1/nodes/{nodes[0]}"
    assert simulated.api.patch(node, {"spec": {"unschedulable": True}})["spec"]["unschedulable"]
    simulated.api.patch(node, {"spec": {"unschedulable": None}})
    simulated.api.delete(path)
    wait_for(simulated, pods, {pod["metadata"]["name"]: "Running" for pod in found[1:]})
