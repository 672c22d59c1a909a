"""Kubernetes' own gangs in the lab: whole or not at all."""

from __future__ import annotations

import os
import time

import pytest

from headway.lab import Lab, Unavailable, node_groups

pytestmark = pytest.mark.lab
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def lab():
    try:
        lab = Lab.up(f"test-{os.getpid()}-gang", simulated=node_groups(2), gangs=True, bench=True, owned=True)
    except Unavailable as error:
        pytest.skip(str(error))
    yield lab
    lab.down()


def make_gang(lab: Lab, name: str, size: int) -> None:
    """Of pods that each need a whole node."""
    kind = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    lab.api.post(GROUPS, {**kind, "metadata": {"name": name}, "spec": spec})
    container = {"name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    for index in range(size):
        pod = {"containers": [container], "schedulingGroup": {"podGroupName": name}}
        lab.api.post(PODS, {"metadata": {"name": f"{name}-{index}"}, "spec": pod})


def bound(lab: Lab) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in lab.api.get(PODS)["items"] if pod["spec"].get("nodeName"))


def test_a_gang_that_does_not_fit_holds_nothing_and_one_that_fits_runs(lab):
    make_gang(lab, "large", 3)
    time.sleep(3)
    assert bound(lab) == []
    make_gang(lab, "small", 2)
    deadline = time.monotonic() + 120
    while bound(lab) != ["small-0", "small-1"]:
        assert time.monotonic() < deadline, bound(lab)
        time.sleep(0.2)
