from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway.core.job import Role
from headway.kube.api.objects import Pod
from headway.kube.pods.constraints import Demands
from headway.kube.pods.resources import allocatable, held_by, role_for


def of(cpu: Any, name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def pod(status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    return msgspec.convert({"metadata": {}, "spec": spec, "status": status or {}}, Pod)


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [of("500m"), of(1)]}, 1500),
        ({"containers": [of("500m"), of(1)], "initContainers": [of("3")], "overhead": {"cpu": "10m"}}, 3010),
        ({"containers": [of("500m"), of(1)], "initContainers": [of("1", **SIDECAR)]}, 2500),
        ({"containers": [of("1")], "initContainers": [of("1", **SIDECAR), of("5")]}, 6000),
        ({"containers": [of("1")], "initContainers": [of("5"), of("1", **SIDECAR)]}, 5000),
        ({"containers": [of("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}}, 5000),
        ({"containers": [of("3")], "resources": {"requests": {"cpu": "2", "x.com/y": "1"}}}, 2000),
        ({"containers": [of("0.0001"), of("0.0001")]}, 2),
    ],
)
def test_containers_sidecars_the_start_and_the_overhead_are_counted(spec, cpu):
    assert held_by(pod(**spec)) == {"cpu": cpu, "pods": 1}


def test_all_resources_are_counted_in_whole_units_after_the_sum():
    requests = {
        "memory": "1500Ki", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi", "amd.com/gpu": "2",
        "example.com/nic": "1", "storage": "5Gi",
    }  # fmt: skip
    two = [{"name": name, "resources": {"requests": requests}} for name in "ab"]
    assert held_by(pod(containers=two)) == {
        "memory": 3, "ephemeral-storage": 2048, "hugepages-2Mi": 8, "amd.com/gpu": 4, "example.com/nic": 2, "pods": 1,
    }  # fmt: skip
    assert allocatable({"memory": "1500Ki", "pods": "110", "ephemeral-storage": "3000Ki"}) == {
        "memory": 1, "pods": 110, "ephemeral-storage": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("used", "given", "reason", "cpu"),
    [
        ("4", "3", "", 4000),
        ("1", "3", "", 3000),
        ("1", "1", "Deferred", 2000),
        ("1", "1", "Infeasible", 1000),
    ],
)
def test_after_a_resize_the_largest_of_asked_allocated_and_in_use_counts(used, given, reason, cpu):
    seen = {"name": "c", "resources": {"requests": {"cpu": used}}, "allocatedResources": {"cpu": given}}
    pending = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    status = {"containerStatuses": [seen], "conditions": pending}
    assert held_by(pod(status, containers=[of("2")]))["cpu"] == cpu


def test_a_role_holds_what_its_pod_really_is():
    role = Role(name="worker", request=(("cpu", 1000), ("gpu", 2)), tolerates=("slow",), selector=(("a", "b"),))
    held = {"cpu": 3000, "memory": 64, "nvidia.com/gpu": 2, "pods": 1}
    real = role_for(role, held, Demands((("disk", "ssd"),), ("zone in (a)",), ("spot", "slow")))
    assert real.request == role.request
    assert real.overhead == (("cpu", 2000), ("memory", 64), ("pods", 1))
    assert (real.selector, real.tolerates) == ((("a", "b"), ("disk", "ssd")), ("slow", "spot"))
    assert real.affinity == ("zone in (a)",)


def test_a_role_that_names_a_vendor_runs_on_its_nodes_only():
    role = Role(name="worker", request=(("amd.com/gpu", 2),))
    real = role_for(role, {"amd.com/gpu": 2, "pods": 1}, Demands())
    assert (real.request, real.overhead) == ((("gpu", 2),), (("pods", 1),))
    assert real.selector == (("headway.dev/gpu-resource", "amd.com/gpu"),)
