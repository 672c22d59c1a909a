"""Whatever a job's template says, its pods see their own folder of the checkpoint volume and nothing else of it."""

from __future__ import annotations

import copy

import pytest

from headway.core.job import Job, JobId, Role
from headway.kube.api.objects import Meta
from headway.kube.gangs.model import Create
from headway.kube.pods.body import pod_of
from headway.kube.pods.checkpoints import CheckpointVolume, find_volume
from headway.kube.settings import PodDefaults

DISK = {"name": "disk", "nfs": {"server": "s", "path": "/"}}
FOLDER, WITHIN = "/ck/team/j-01234567", "team/j-01234567"


def a_template(*mounts: dict, **spec) -> dict:
    return {"spec": {"containers": [{"name": "main", "volumeMounts": list(mounts)}], "volumes": [DISK], **spec}}


def a_pod(own: dict, template: dict | None = None, root: str = "/ck") -> dict:
    template = template or a_template({"name": "disk", "mountPath": "/ck"})
    volume = find_volume(template, "main", root)
    assert volume is not None
    before = copy.deepcopy(template)
    defaults = PodDefaults(template=template, checkpoints=root, volume=volume)
    job = Job(id=JobId("team/j"), roles=(Role(name="w"),))
    create = Create("j-0-w-0", "w", 0, 0, "n1", (), (), ())
    pod = pod_of(create, job, Meta(name="j", namespace="team", uid="0123456789"), own, defaults)
    assert template == before, "the cluster's template is shared by all jobs"
    return pod["spec"]


def mounts_of(spec: dict) -> set[tuple]:
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    return {
        (one["name"], mount["mountPath"], mount.get("subPath"), mount.get("subPathExpr"))
        for one in containers for mount in one.get("volumeMounts", []) if mount["name"] == "disk"
    }  # fmt: skip


def test_the_mount_of_the_whole_volume_becomes_the_jobs_own():
    spec = a_pod({})
    assert mounts_of(spec) == {("main", FOLDER, WITHIN, None)}
    assert {"name": "HEADWAY_CHECKPOINT", "value": FOLDER} in spec["containers"][0]["env"]


@pytest.mark.parametrize(
    ("mount", "root", "folder", "within"),
    [
        ({"mountPath": "/shared"}, "/shared/a/b", "/shared/a/b/team/j-01234567", "a/b/team/j-01234567"),
        ({"mountPath": "/ck/"}, "/ck", FOLDER, WITHIN),
        ({"mountPath": "/ck", "subPath": "training"}, "/ck", FOLDER, f"training/{WITHIN}"),
    ],
)
def test_where_the_folder_is_in_the_volume(mount, root, folder, within):
    spec = a_pod({}, a_template({"name": "disk", **mount}, {"name": "data", "mountPath": "/"}), root)
    assert mounts_of(spec) == {("main", folder, within, None)}


@pytest.mark.parametrize(
    "own",
    [
        {"containers": [{"name": "main", "volumeMounts": [{"name": "disk", "mountPath": "/all"}]}]},
        {"containers": [{"name": "main", "volumeMounts": [{"mountPath": "/ck", "subPath": "other"}]}]},
        {"containers": [{"name": "main", "volumeMounts": [{"mountPath": FOLDER, "name": "disk", "subPath": "x"}]}]},
        {"containers": [{"name": "side", "volumeMounts": [{"name": "disk", "mountPath": "/ck", "subPath": "other"}]}]},
        {
            "containers": [
                {"name": "side", "volumeMounts": [{"name": "disk", "mountPath": "/a", "subPathExpr": "$(A)"}]}
            ]
        },
        {"initContainers": [{"name": "init", "volumeMounts": [{"name": "disk", "mountPath": "/ck"}]}]},
    ],
)
def test_a_job_that_mounts_the_volume_itself_gets_its_own_folder(own):
    mounts = mounts_of(a_pod({"spec": own}))
    assert mounts
    assert {(within, expression) for _, _, within, expression in mounts} == {(WITHIN, None)}


def test_a_job_can_neither_change_the_volume_nor_have_it_as_a_device():
    own = {
        "volumes": [{"name": "disk", "nfs": {"path": "/secret"}}, {"name": "mine", "emptyDir": {}}],
        "containers": [{"name": "side", "volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}]}],
    }
    spec = a_pod({"spec": own})
    assert spec["volumes"] == [{"name": "mine", "emptyDir": {}}, DISK]
    assert spec["containers"][1]["volumeDevices"] == []


def test_a_container_of_the_cluster_keeps_its_place_for_the_volume():
    helper = {"name": "sync", "volumeMounts": [{"name": "disk", "mountPath": "/out"}]}
    spec = a_pod({}, a_template({"name": "disk", "mountPath": "/ck"}, initContainers=[helper]))
    assert mounts_of(spec) == {("main", FOLDER, WITHIN, None), ("sync", "/out", WITHIN, None)}


def test_the_innermost_mount_counts_and_no_mount_is_no_volume():
    outer, inner = {"name": "other", "mountPath": "/"}, {"name": "disk", "mountPath": "/ck"}
    assert find_volume(a_template(outer, inner), "main", "/ck") == CheckpointVolume(definition=DISK, mounted="/ck")
    assert find_volume(a_template({"name": "disk", "mountPath": "/data"}), "main", "/ck") is None
    assert find_volume({}, "main", "/ck") is None
    for mount, said in (({"name": "gone"}, "not in volumes"), ({"name": "disk", "subPathExpr": "$(A)"}, "subPathExpr")):
        with pytest.raises(ValueError, match=said):
            find_volume(a_template({"mountPath": "/ck", **mount}), "main", "/ck")
