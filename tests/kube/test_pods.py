"""The body of a pod: templates, then what Headway decides."""

from __future__ import annotations

import pytest

from headway.core.job import Can, Job, JobId, Role
from headway.core.quantity import parse
from headway.jobspec import with_cpu
from headway.kube.api.objects import Meta
from headway.kube.gangs.model import Create
from headway.kube.pods.body import merge, pod_of, resources
from headway.kube.settings import PodDefaults


def test_a_pod_is_made_from_templates_and_what_was_decided():
    role = Role(name="worker", command=("python", "t.py"), env=(("A", "1"),), tolerates=("team",))
    job = Job(id=JobId("team/j"), roles=(role,), directory="/code")
    meta = Meta(name="j", namespace="team", uid="0123456789")
    cluster = {"spec": {"containers": [{"name": "main", "image": "base", "env": [{"name": "A", "value": "0"}]}]}}
    own = {"metadata": {"labels": {"cost": "x"}}, "spec": {"containers": [{"name": "main", "image": "mine"}]}}
    amounts = (("cpu", 500), ("gpu", 2), ("memory", 64))
    create = Create("j-1-worker-0", "worker", 0, 1, "n1", amounts, (("ps", ("10.0.0.1:2222",)),), (("worker", 2),))
    defaults = PodDefaults(template=cluster, progress="tcp:h:1", checkpoints="/c", gpu="nvidia.com/gpu")
    pod = pod_of(create, job, meta, own, defaults)
    main = pod["spec"]["containers"][0]
    env = {entry["name"]: entry["value"] for entry in main["env"]}
    assert (main["image"], main["workingDir"], main["command"]) == ("mine", "/code", ["python", "t.py"])
    assert main["resources"]["limits"] == {"cpu": "500m", "nvidia.com/gpu": "2", "memory": "64Mi"}
    assert main["resources"]["limits"] == {"cpu": "500m", "memory": "64Mi", "nvidia.com/gpu": "2"}
    assert env == {
        "A": "1", "HEADWAY_JOB": "team/j", "HEADWAY_ROLE": "worker", "HEADWAY_INDEX": "0", "HEADWAY_ATTEMPT": "1",
        "HEADWAY_PORT": "2222", "HEADWAY_HOSTS": '{"ps": ["10.0.0.1:2222"]}', "HEADWAY_REPLICAS": '{"worker": 2}',
        "HEADWAY_PROGRESS": "tcp:h:1", "HEADWAY_CHECKPOINT": "/c/team/j-01234567",
    }  # fmt: skip
    assert pod["spec"]["schedulerName"] == "headway"
    assert pod["metadata"]["annotations"]["headway.dev/node"] == "n1"
    assert pod["metadata"]["labels"]["cost"] == "x"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "0123456789"
    assert cluster["spec"]["containers"][0] == {"name": "main", "image": "base", "env": [{"name": "A", "value": "0"}]}


def test_templates_merge_lists_by_name():
    under = {"spec": {"volumes": [{"name": "a", "emptyDir": {}}], "tolerations": [1]}}
    over = {"spec": {"volumes": [{"name": "b"}, {"name": "a", "hostPath": {}}], "tolerations": [2]}}
    assert merge(under, over)["spec"] == {
        "volumes": [{"name": "a", "emptyDir": {}, "hostPath": {}}, {"name": "b"}], "tolerations": [2],
    }  # fmt: skip


def test_a_pod_gets_a_token_for_headway_only_and_whom_to_trust():
    job, meta = Job(id=JobId("team/j"), roles=(Role(name="worker"),)), Meta(name="j", namespace="team", uid="u")
    folder = "/var/run/secrets/headway.dev"
    theirs = {"volumes": [{"name": "headway-token", "emptyDir": {}}, {"name": "data", "emptyDir": {}}], "containers": [
        {"name": "main", "env": [{"name": "HEADWAY_PROGRESS_CA", "value": "theirs"}], "volumeMounts": [
            {"name": "data", "mountPath": folder}, {"name": "headway-token", "mountPath": "/x"},
            {"name": "data", "mountPath": "/data"}]},
        {"name": "sidecar"}]}  # fmt: skip
    defaults = PodDefaults(progress="tls:h:1", authority="PEM")
    spec = pod_of(Create("p", "worker", 0, 0, "n1", ()), job, meta, {"spec": theirs}, defaults)["spec"]
    main, sidecar = spec["containers"]
    env = {entry["name"]: entry["value"] for entry in main["env"]}
    assert (env["HEADWAY_PROGRESS_CA"], env["HEADWAY_PROGRESS_TOKEN"]) == ("PEM", f"{folder}/token")
    token = {"audience": "headway", "expirationSeconds": 3600, "path": "token"}
    assert spec["volumes"] == [
        {"name": "data", "emptyDir": {}},
        {"name": "headway-token", "projected": {"sources": [{"serviceAccountToken": token}]}},
    ]
    assert main["volumeMounts"] == [
        {"name": "data", "mountPath": "/data"}, {"name": "headway-token", "mountPath": folder, "readOnly": True},
    ]  # fmt: skip
    assert "volumeMounts" not in sidecar


ONE = (("cpu", 1000), ("memory", 64))


@pytest.mark.parametrize(
    ("role", "held", "requests", "limits"),
    [
        (Role(name="w", request=ONE), ONE, ("1000m", "67108863"), ("1000m", "64Mi")),
        (Role(name="w", request=ONE), (("cpu", 300), ("memory", 64)), ("300m", "67108863"), ("1000m", "64Mi")),
        (Role(name="w", request=ONE, limit=(("cpu", 4000),)), ONE, ("1000m", "67108863"), ("4000m", "64Mi")),
        (Role(name="w", request=ONE, limit=(("memory", 128),)), ONE, ("1000m", "67108863"), ("1000m", "128Mi")),
        (Role(name="w", request=ONE), (("cpu", 3000), ("memory", 64)), ("3000m", "67108863"), ("3000m", "64Mi")),
        (Role(name="w", request=(("cpu", 1000),), unstated=True), (("cpu", 700),), ("700m", None), None),
    ],
)
def test_what_a_pod_holds_may_change_and_its_limit_and_class_stay(role, held, requests, limits):
    found = resources(held, "nvidia.com/gpu", role, Can.RESIZE)
    assert (found["requests"].get("cpu"), found["requests"].get("memory")) == requests
    assert ("limits" in found) == (limits is not None)
    if limits:
        assert (found["limits"]["cpu"], found["limits"]["memory"]) == limits
    assert found["requests"] != found.get("limits"), "a Guaranteed pod cannot hold less than it may use"
    memory = found["requests"].get("memory")
    assert memory is None or parse("memory", memory) == 64, "plans still see the whole MiB"


def test_a_job_that_asks_for_gpus_only_has_a_cpu_request_and_no_cpu_limit():
    """Its pod is not BestEffort; GPUs have the same request and limit, as the API server demands."""
    role = with_cpu(Role(name="w", request=(("gpu", 2),)))
    found = resources(role.request, "nvidia.com/gpu", role, Can.RESIZE)
    assert found == {"requests": {"cpu": "1000m", "nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}


def test_a_job_that_is_never_resized_keeps_guaranteed_pods():
    found = resources(ONE, "nvidia.com/gpu", Role(name="w", request=ONE), Can.NOTHING)
    assert found["requests"] == found["limits"] == {"cpu": "1000m", "memory": "64Mi"}
