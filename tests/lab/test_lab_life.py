"""On the real API server, pods on simulated nodes end when their job's work is done."""

from __future__ import annotations

import os
import time

import pytest

from headway.cli.cluster.lab import _life_command
from headway.lab import Lab, Unavailable, node_groups

pytestmark = pytest.mark.lab
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def lab():
    name = f"test-{os.getpid()}-live"
    try:
        lab = Lab.up(name, simulated=node_groups(4), life=_life_command(name, 10.0), owned=True)
    except Unavailable as error:
        pytest.skip(str(error))
    yield lab
    lab.down()


def make(lab: Lab, job: str, index: int, *, work: float, gang: str) -> str:
    notes = {"headway.dev/lab-work": str(work), "headway.dev/lab-gang": gang}
    meta = {"name": f"{job}-{index}", "labels": {"headway.dev/job": job}, "annotations": notes}
    container = {"name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    lab.api.post(PODS, {"metadata": meta, "spec": {"restartPolicy": "Never", "containers": [container]}})
    return f"{PODS}/{job}-{index}"


def phase(lab: Lab, pod: str) -> str:
    return lab.api.get(pod)["status"]["phase"]


def wait_for(lab: Lab, pod: str, wanted: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while (found := phase(lab, pod)) != wanted:
        assert time.monotonic() < deadline, f"{pod} is {found}"
        time.sleep(0.05)


def test_a_whole_gang_finishes_in_compressed_time_and_half_a_gang_never(lab):
    half = make(lab, "half", 0, work=1, gang="worker=2")
    whole = [make(lab, "whole", index, work=40, gang="worker=2") for index in range(2)]
    for pod in [half, *whole]:
        wait_for(lab, pod, "Running")
    began = time.monotonic()
    for pod in whole:
        wait_for(lab, pod, "Succeeded")
    assert 2.0 < time.monotonic() - began < 15.0, "40 s of work, ten times faster"
    assert phase(lab, half) == "Running"
    other_half = make(lab, "half", 1, work=1, gang="worker=2")
    wait_for(lab, half, "Succeeded")
    wait_for(lab, other_half, "Succeeded")
