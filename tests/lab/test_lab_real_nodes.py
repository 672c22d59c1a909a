"""Real containers on two real kubelets: the host's Python, the network between pods, resize in place."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from headway.lab import Lab
from headway.lab.api import STRATEGIC_PATCH, LabApiError

pytestmark = pytest.mark.lab

SERVER = """
import socket
server = socket.create_server(("0.0.0.0", 7000))
while True:
    connection, _ = server.accept()
    connection.sendall(b"hello from node-2")
    connection.close()
"""
CLIENT = """
import socket, sys
import numpy
print("sum", numpy.arange(10).sum())
print(socket.create_connection((sys.argv[1], 7000), 10).recv(100).decode())
with socket.create_connection((sys.argv[2], int(sys.argv[3])), 10) as host:
    host.sendall(b"reached")
open(sys.argv[4], "w").write("written in a pod")
"""
BURN = """
import os, time
def quota():
    if os.path.exists("/sys/fs/cgroup/cpu.max"):
        return open("/sys/fs/cgroup/cpu.max").read().split()[0]
    return open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read().strip()
while True:
    used, wall = time.process_time(), time.monotonic()
    while time.monotonic() - wall < 0.5:
        pass
    print(quota(), (time.process_time() - used) / (time.monotonic() - wall), flush=True)
"""


def run_pod(lab: Lab, namespace: str, name: str, node: str, command: list[str]) -> str:
    """Start a pod on a node, past any scheduler; returns its path."""
    spec = lab.pod_template()["spec"]
    spec |= {"nodeName": node, "restartPolicy": "Never"}
    size = {"cpu": "200m", "memory": "128Mi"}
    spec["containers"][0] |= {"command": command, "resources": {"requests": size, "limits": size}}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    lab.api.post(pods, {"metadata": {"name": name}, "spec": spec})
    return f"{pods}/{name}"


def wait_for_phase(lab: Lab, pod: str, *phases: str, seconds: float = 60) -> dict:
    deadline = time.monotonic() + seconds
    while (found := lab.api.get(pod))["status"].get("phase") not in phases:
        assert time.monotonic() < deadline, f"{pod} is not {phases}: {found['status']}"
        time.sleep(0.1)
    return found


def test_both_nodes_are_ready_with_their_own_addresses(lab):
    nodes = {node["metadata"]["name"]: node for node in lab.api.get("/api/v1/nodes")["items"]}
    assert sorted(nodes) == lab.node_names == ["node-1", "node-2"]
    addresses = {node["status"]["addresses"][0]["address"] for node in nodes.values()}
    assert len(addresses) == 2
    assert all(node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3" for node in nodes.values())


def test_pods_run_host_python_and_reach_each_other_and_the_host(lab, namespace):
    server = run_pod(lab, namespace, "server", "node-2", ["python", "-c", SERVER])
    server_address = wait_for_phase(lab, server, "Running")["status"]["podIP"]
    received = []
    with socket.create_server((lab.host_address, 0)) as listener:

        def accept_two() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                received.append(connection.recv(100))
                connection.close()

        thread = threading.Thread(target=accept_two)
        thread.start()
        for node in ("node-1", "node-2"):
            note = str(lab.shared / f"note-{node}")
            arguments = [server_address, lab.host_address, str(listener.getsockname()[1]), note]
            pod = run_pod(lab, namespace, f"client-{node}", node, ["python", "-c", CLIENT, *arguments])
            done = wait_for_phase(lab, pod, "Succeeded", "Failed")
            text = lab.api.get(f"{pod}/log")
            assert done["status"]["phase"] == "Succeeded", text
            assert text.splitlines() == ["sum 45", "hello from node-2"]
            assert (lab.shared / f"note-{node}").read_text() == "written in a pod"
        thread.join(10)
    assert received == [b"reached", b"reached"]


@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_resize_in_place_changes_what_a_process_gets(lab, namespace, node):
    """The kernel's quota is looked at, not the speed: that depends on who else uses the machine."""
    pod = run_pod(lab, namespace, "burn", node, ["python", "-c", BURN])
    wait_for_phase(lab, pod, "Running")

    def last() -> tuple[int, float]:
        lines = lab.api.get(f"{pod}/log").splitlines()
        return (int(lines[-1].split()[0]), float(lines[-1].split()[1])) if lines else (0, 0.0)

    wait_until(lambda: last()[0] > 0)
    quota, share = last()
    assert quota == 20_000
    assert share < 0.4, "it uses more than its limit"
    size = {"cpu": "700m", "memory": "128Mi"}
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": size, "limits": size}}]}}
    lab.api.patch(f"{pod}/resize", patch, STRATEGIC_PATCH)
    wait_until(lambda: last()[0] == 70_000)
    wait_until(lambda: container_status(lab, pod)["resources"]["limits"]["cpu"] == "700m")
    assert container_status(lab, pod)["restartCount"] == 0


def container_status(lab: Lab, pod: str) -> dict:
    return lab.api.get(pod)["status"]["containerStatuses"][0]


def wait_until(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_pod_larger_than_its_memory_limit_is_killed(lab, namespace):
    hungry = ["python", "-c", "x = bytearray(400 * 2**20); print('had it all')"]
    pod = run_pod(lab, namespace, "hungry", "node-1", hungry)
    done = wait_for_phase(lab, pod, "Succeeded", "Failed")
    ended = done["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["reason"] == "OOMKilled"


def test_read_only_folders_cannot_be_written(lab, namespace):
    pod = run_pod(lab, namespace, "writer", "node-1", ["python", "-c", "open('/usr/written-by-a-pod', 'w')"])
    wait_for_phase(lab, pod, "Failed")
    assert "Read-only file system" in lab.api.get(f"{pod}/log")


def test_a_node_may_not_touch_another_nodes_object(lab):
    """Real RBAC: the kubelet's certificate is good for its own node only."""
    import ssl

    from headway.lab.api import Api

    context = ssl.create_default_context(cafile=str(lab.ca))
    stem = lab.ca.parent / "kubelet-1"
    context.load_cert_chain(f"{stem}.crt", f"{stem}.key")
    as_kubelet = Api(lab.url, context)
    patch = {"metadata": {"labels": {"tried": "it"}}}
    as_kubelet.patch("/api/v1/nodes/node-1", patch)
    with pytest.raises(LabApiError) as refused:
        as_kubelet.patch("/api/v1/nodes/node-2", patch)
    assert refused.value.status == 403
    as_kubelet.close()
