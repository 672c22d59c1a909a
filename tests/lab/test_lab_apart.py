"""Real nodes that are apart: each with cores of its own, and services between them through kube-proxy."""

from __future__ import annotations

import json
import os
import socket
import subprocess

import pytest
from test_lab_real_nodes import SERVER, run_pod, wait_for_phase, wait_until

from headway.lab import Lab, LabError
from headway.lab.api import STRATEGIC_PATCH
from headway.lab.programs import KUBERNETES, required_program
from headway.lab.testing import up_for_test

pytestmark = pytest.mark.lab

CORES = """
import json, os
before = sorted(os.sched_getaffinity(0))
try:
    os.sched_setaffinity(0, range(os.cpu_count()))
except OSError:
    pass
print(json.dumps([before, sorted(os.sched_getaffinity(0))]))
"""
WATCH = """
import json, os, time
path = "/sys/fs/cgroup/cpu.max" if os.path.exists("/sys/fs/cgroup/cpu.max") else "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"
while True:
    print(json.dumps([int(open(path).read().split()[0]), sorted(os.sched_getaffinity(0))]), flush=True)
    time.sleep(0.2)
"""
CALL = """
import socket, sys, time
deadline = time.monotonic() + 30
while True:
    try:
        print(socket.create_connection((sys.argv[1], 80), 2).recv(100).decode())
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.1)
"""


@pytest.fixture(scope="module", params=KUBERNETES)
def lab(request):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two nodes with a core each need two cores")
    lab = up_for_test("apart", kubernetes=request.param, kubelets=2, kubelet_cores=1, proxy=True)
    yield lab
    lab.down()
    assert "KUBE-" not in packet_filter()


def packet_filter() -> str:
    programs = [required_program(name) for name in ("iptables-save", "ip6tables-save")]
    return "".join(subprocess.run([path], capture_output=True, text=True, check=True).stdout for path in programs)


def output(lab: Lab, pod: str) -> str:
    done = wait_for_phase(lab, pod, "Succeeded", "Failed")
    text = lab.api.get(f"{pod}/log")
    assert done["status"]["phase"] == "Succeeded", text
    return text


def test_containers_run_on_the_cores_of_their_node_only(lab, namespace):
    ours = sorted(os.sched_getaffinity(0))
    for number, node in enumerate(lab.node_names):
        pod = run_pod(lab, namespace, f"cores-{node}", node, ["python", "-c", CORES])
        assert json.loads(output(lab, pod)) == [[ours[number]], [ours[number]]], "before it tried, and after"
        assert lab.api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]["cpu"] == "1"


def test_a_container_stays_on_its_cores_when_it_is_resized(lab, namespace):
    pod = run_pod(lab, namespace, "resized", "node-2", ["python", "-c", WATCH])
    wait_for_phase(lab, pod, "Running")
    own = [sorted(os.sched_getaffinity(0))[1]]

    def told() -> list:
        return [json.loads(line) for line in lab.api.get(f"{pod}/log").splitlines()[-1:]]

    wait_until(lambda: told() == [[20_000, own]])
    size = {"cpu": "400m", "memory": "128Mi"}
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": size, "limits": size}}]}}
    lab.api.patch(f"{pod}/resize", patch, STRATEGIC_PATCH)
    wait_until(lambda: told()[0][0] == 40_000)
    assert told() == [[40_000, own]]


def test_more_cores_than_there_are_cannot_be_given(lab):
    with pytest.raises(LabError, match="16 kubelets with 99 cores each cannot be had: this machine has"):
        Lab.up("too-many-cores", kubelets=16, kubelet_cores=99)


def test_a_service_has_an_address_that_pods_of_both_nodes_reach(lab, namespace):
    server = run_pod(lab, namespace, "server", "node-2", ["python", "-c", SERVER])
    lab.api.patch(server, {"metadata": {"labels": {"app": "server"}}})
    spec = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 7000}]}
    service = lab.api.post(f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": "hello"}, "spec": spec})
    for node in lab.node_names:
        for number, target in enumerate((service["spec"]["clusterIP"], f"hello.{namespace}.svc.cluster.local")):
            pod = run_pod(lab, namespace, f"caller-{node}-{number}", node, ["python", "-c", CALL, target])
            assert output(lab, pod) == "hello from node-2\n"
    with socket.create_connection((service["spec"]["clusterIP"], 80), 10) as from_here:
        assert from_here.recv(100) == b"hello from node-2"


def test_a_second_kube_proxy_is_refused_and_harms_nothing(lab):
    with pytest.raises(LabError, match="runs a kube-proxy already, and there can be only one"):
        Lab.up("second-proxy", kubelets=1, proxy=True)
    assert "KUBE-SERVICES" in packet_filter()
    assert lab.status().healthy
