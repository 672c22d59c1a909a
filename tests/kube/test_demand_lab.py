"""A small autoscaler sees the gangs that lack nodes: it adds simulated nodes, the gang starts there, its stand-ins go.

The autoscaler is a stand-in of ours: for each pending pod with `PodScheduled=False/Unschedulable` it wants a node that
holds it, as real ones do.
"""

from __future__ import annotations

import http.client
import os
import socket
import time

import pytest

from headway.lab import Lab, LabError, Unavailable
from headway.lab.node_shapes import node_groups
from scheduling import TRAINING, Schedule, run_headway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]
MOST_NODES = 4
QUEUES = "queues:\n- {name: small, quota: {cpu: 1}, borrow: {cpu: 0}}\n- {name: large}\n"


@pytest.fixture
def simulated(tmp_path):
    """A lab with one simulated node of 4 cores, and a scheduler for it."""
    try:
        lab = Lab.up(f"demand-{os.getpid()}", simulated=node_groups(1, ["4cpu,16Gi"]), owned=True)
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    try:
        done = run_headway("schedule", "--install", "--kubeconfig", str(lab.kubeconfig))
        assert done.returncode == 0, done.stderr
        lab.create_namespace("team")
        with socket.create_server(("", 0)) as probe:
            port = probe.getsockname()[1]
        schedule = Schedule(lab, "team", tmp_path, port)
        yield schedule
        if schedule.process is not None and schedule.process.poll() is None:
            schedule.kill()
    finally:
        lab.down()


def unschedulable(pod: dict) -> bool:
    wanted = ("PodScheduled", "False", "Unschedulable")
    found = [(one["type"], one["status"], one.get("reason")) for one in pod["status"].get("conditions", [])]
    return wanted in found and not pod["metadata"].get("deletionTimestamp")


def scale_up(lab: Lab, pods: list[dict], made: list[str]) -> None:
    """A node of 16 cores for every two pending pods of up to 8 cores."""
    while len(made) < min(MOST_NODES, (len(pods) + 1) // 2):
        node = lab.api.get("/api/v1/nodes/sim-00001")
        name = f"added-{len(made)}"
        amounts = node["status"]["capacity"] | {"cpu": "16"}
        meta = {"name": name, "labels": node["metadata"]["labels"] | {"kubernetes.io/hostname": name},
                "annotations": {"kwok.x-k8s.io/node": "fake"}}  # fmt: skip
        status = node["status"] | {"capacity": amounts, "allocatable": amounts}
        lab.api.post("/api/v1/nodes", {"metadata": meta, "spec": {}, "status": status})
        lab.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}})
        made.append(name)


def soon(schedule: Schedule, found):
    deadline = time.monotonic() + 40
    while not (value := found()):
        assert time.monotonic() < deadline, schedule.words()
        assert schedule.process.poll() is None, schedule.words()
        time.sleep(0.1)
    return value


def test_an_autoscaler_adds_nodes_for_a_gang_and_none_for_one_without_quota(simulated):
    schedule, lab = simulated, simulated.lab
    queues = schedule.folder / "queues.yaml"
    queues.write_text(QUEUES)
    schedule.start("--show-demand", "2", "--queues", str(queues))
    schedule.submit("gang", {"worker": {"replicas": 4, "cpu": "8"}}, [], queue="large")
    schedule.submit("limited", {"worker": {"cpu": "8"}}, [], queue="small")
    pods = soon(schedule, lambda: [pod for pod in schedule.pods() if unschedulable(pod)][:4])
    soon(schedule, lambda: len([pod for pod in schedule.pods() if unschedulable(pod)]) == 4)
    names = {pod["metadata"]["name"] for pod in schedule.pods()}
    assert names == {f"gang-stands-in-worker-{number}" for number in range(4)}, "nothing of the gang without quota"
    assert pods[0]["spec"]["schedulerName"] == "headway"
    limited = soon(schedule, lambda: schedule.job("limited").get("status", {}).get("reason") == "QuotaUsed")
    assert limited

    made: list[str] = []
    deadline = time.monotonic() + 60
    while schedule.phase("gang") != "Running":
        assert time.monotonic() < deadline, schedule.words()
        try:
            scale_up(lab, [pod for pod in schedule.pods() if unschedulable(pod)], made)
        except (LabError, OSError, http.client.HTTPException) as error:
            pytest.fail(str(error))
        time.sleep(0.2)
    assert len(made) == 2
    soon(schedule, lambda: not any("stands-in" in pod["metadata"]["name"] for pod in schedule.pods()))
    assert {pod["spec"]["nodeName"] for pod in schedule.pods("gang")} == set(made)

    schedule.submit("late", {"worker": {"cpu": "12"}}, [], queue="large")
    soon(schedule, lambda: [pod for pod in schedule.pods() if unschedulable(pod)])
    lab.api.delete(f"{TRAINING.format('team')}/late")
    soon(schedule, lambda: not any("stands-in" in pod["metadata"]["name"] for pod in schedule.pods()))
    assert schedule.stop() == 0
