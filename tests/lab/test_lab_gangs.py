"""Kubernetes' own gangs in the lab, whole or not at all, in every release of Kubernetes that is built here."""

from __future__ import annotations

import time

import pytest

from headway.lab import Lab, node_groups
from headway.lab.programs import KUBERNETES
from headway.lab.testing import up_for_test

pytestmark = pytest.mark.lab
VERSIONS = {"1.36": "v1alpha2", "1.37": "v1beta1"}
"""Which version of PodGroup each release serves: read by the lab, never told to it."""
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module", params=KUBERNETES)
def lab(request):
    lab = up_for_test("gang", kubernetes=request.param, simulated=node_groups(2), gangs=True, bench=True)
    assert lab.gang_version == VERSIONS[request.param]
    yield lab
    lab.down()


def groups_of(lab: Lab) -> str:
    return f"/apis/scheduling.k8s.io/{lab.gang_version}/namespaces/default/podgroups"


def make_gang(lab: Lab, name: str, size: int) -> None:
    """Of pods that each need a whole node."""
    kind = {"apiVersion": f"scheduling.k8s.io/{lab.gang_version}", "kind": "PodGroup"}
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    lab.api.post(groups_of(lab), {**kind, "metadata": {"name": name}, "spec": spec})
    container = {"name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    for index in range(size):
        pod = {"containers": [container], "schedulingGroup": {"podGroupName": name}}
        lab.api.post(PODS, {"metadata": {"name": f"{name}-{index}"}, "spec": pod})


def bound(lab: Lab) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in lab.api.get(PODS)["items"] if pod["spec"].get("nodeName"))


def wait_for(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_the_lab_runs_the_release_that_was_asked_for(lab, request):
    told = lab.api.get("/version")
    assert f"{told['major']}.{told['minor']}" == request.node.callspec.params["lab"]
    assert all(part.version == told["gitVersion"] for part in lab.status().parts if part.name.startswith("kube-"))


def test_a_gang_that_does_not_fit_holds_nothing_and_one_that_fits_runs(lab):
    make_gang(lab, "large", 3)
    time.sleep(3)
    assert bound(lab) == []
    make_gang(lab, "small", 2)
    wait_for(lambda: bound(lab) == ["small-0", "small-1"])


def test_a_deleted_group_goes_once_its_pods_are_gone(lab):
    """A group has a finalizer, which the controller manager takes away only if it has the gate too."""
    make_gang(lab, "brief", 1)
    lab.api.delete(f"{groups_of(lab)}/brief")
    lab.api.delete(f"{PODS}/brief-0")
    wait_for(lambda: "brief" not in [group["metadata"]["name"] for group in lab.api.get(groups_of(lab))["items"]])
