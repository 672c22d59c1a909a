"""A pod is ours only if namespace, owner, name and mark agree. Forged ones change nothing for the job they name."""

from __future__ import annotations

import asyncio
import base64
import copy

import pytest
from aiohttp import web
from fake_api_server import serving, status
from small_cluster import HEALTHY, MemoryApi, SmallCluster

from headway.kube.api.errors import KubeError
from headway.kube.api.objects import Meta
from headway.kube.gangs.model import Bind
from headway.kube.identity.secrets import POD_KEY
from headway.kube.pods.marks import GANG, PodMarks, pod_name, read_pod_name

JOB = Meta(name="good", namespace="team", uid="uid-team-good")
OWNER = {
    "apiVersion": "headway.dev/v1alpha1",
    "kind": "TrainingJob",
    "name": "good",
    "uid": JOB.uid,
    "controller": True,
}
FAILED = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]}


def forged(name: str = "good-0-worker-9", namespace: str = "team", **meta: object) -> dict:
    attempt, role, index = "0", "worker", name.rpartition("-")[2]
    labels = {"headway.dev/job": "good", "headway.dev/role": role, "headway.dev/index": index,
              "headway.dev/attempt": attempt}  # fmt: skip
    found = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [dict(OWNER)], **meta}
    spec = {"nodeName": "n0", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    return {"metadata": found, "spec": spec, "status": copy.deepcopy(FAILED)}


def a_running_job(**settings: object) -> tuple[SmallCluster, str]:
    small = SmallCluster(MemoryApi(), **settings)
    good = small.api.submit("good", HEALTHY)
    small.turn(5)
    assert small.phase(good) == "Running"
    return small, good


FORGED = {
    "in another namespace": forged(namespace="other"),
    "with the name of a replica, in another namespace": forged("good-0-worker-0", namespace="other"),
    "with the name and mark of a replica, in another namespace": forged("good-0-worker-0", namespace="other"),
    "with our owner and labels": forged(),
    "with the mark of another pod": forged(),
    "of an earlier attempt": forged("good-7-worker-0"),
    "of another group": forged(ownerReferences=[{**OWNER, "apiVersion": "example.com/v1"}]),
    "of another kind": forged(ownerReferences=[{**OWNER, "kind": "Job"}]),
    "not as a controller": forged(ownerReferences=[{**OWNER, "controller": False}]),
    "of a job that is not there": forged(ownerReferences=[{**OWNER, "uid": "none"}]),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_pod_changes_nothing_also_after_a_restart(what):
    small, good = a_running_job()
    before = small.api.status(good)
    pod = copy.deepcopy(FORGED[what])
    if "mark" in what:
        real = small.api.pods["team/good-0-worker-0"]
        pod["metadata"]["annotations"] = dict(real["metadata"]["annotations"])
    small.api.put_pod(pod)
    small.cluster.turn()
    assert len(small.gang("team/good").pods) == 2, "it is not taken for a replica, not even for a turn"
    small.turn(3)
    for _ in range(2):
        job = small.gang("team/good")
        assert sorted(replica.name for replica in job.pods.values()) == ["good-0-worker-0", "good-0-worker-1"]
        assert {key: small.api.status(good)[key] for key in ("phase", "attempt", "allocation")} == {
            key: before[key] for key in ("phase", "attempt", "allocation")
        }
        small.start()
        small.turn(3)
    small.api.pods[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"]["status"] = {"phase": "Running"}
    small.api.tell(pod)
    small.turn()
    assert small.cluster.store.foreign.by_node["n0"]["cpu"] == 1000, "it takes room, as any pod of others"


def test_labels_and_annotations_that_a_tenant_changes_make_no_other_replica_of_a_pod():
    small, good = a_running_job()
    (pod, _) = small.api.pods_of("good")
    pod["metadata"]["labels"] = {"headway.dev/index": "77", "headway.dev/attempt": "5", "headway.dev/role": "chief"}
    pod["metadata"]["annotations"] = {}
    small.api.tell(pod)
    small.turn(3)
    assert small.phase(good) == "Running"
    replicas = small.gang("team/good").pods.values()
    assert sorted((r.role, r.index, r.attempt) for r in replicas) == [("worker", 0, 0), ("worker", 1, 0)]


def test_a_pod_is_bound_to_a_node_of_the_plan_or_not_at_all():
    small = SmallCluster(MemoryApi())
    small.api.submit("good", HEALTHY)
    small.turn(2)
    bound = []
    real = small.api.take

    def take(write):
        if isinstance(write.what, Bind):
            bound.append(write.what.node)
        return real(write)

    small.api.take = take
    for pod in small.api.pods_of("good"):
        pod["metadata"]["annotations"]["headway.dev/node"] = "the neighbour's node"
        small.api.tell(pod)
    small.turn(5)
    assert "the neighbour's node" not in bound
    assert bound


def test_pods_of_an_earlier_version_are_taken_over_once():
    """It made no marks, and its statuses do not say that it did."""
    small, good = a_running_job()
    for pod in small.api.pods_of("good"):
        pod["metadata"]["annotations"] = {}
    del small.api.status(good)["marked"]
    small.start()
    small.turn(3)
    assert (small.phase(good), small.api.status(good)["attempt"]) == ("Running", 0)
    assert len(small.gang("team/good").pods) == 2


@pytest.mark.parametrize(
    ("name", "job", "read"),
    [
        ("j-0-worker-3", "j", (0, "worker", 3)),
        ("j-0-parameter-server-12", "j", (0, "parameter-server", 12)),
        ("j-1-2-ps-0", "j-1", (2, "ps", 0)),
        ("j-00-ps-0", "j", None),
        ("j-0-ps-+1", "j", None),
        ("j-0-ps", "j", None),
        ("other-0-ps-0", "j", None),
        ("j--1-ps-0", "j", None),
    ],
)
def test_a_name_says_which_replica_a_pod_is(name, job, read):
    assert read_pod_name(name, job) == read
    if read is not None:
        assert pod_name(job, *read) == name


@pytest.mark.parametrize("attack", ["secret lost", "mark edited", "mark removed"])
def test_pods_that_cannot_be_proven_freeze_their_job_after_a_restart(attack):
    """Else the next attempt would write the checkpoint that they write."""
    small, good = a_running_job()
    if attack == "secret lost":
        small._settings["marks"] = PodMarks(b"another key")
    for pod in small.api.pods_of("good")[:1] if attack != "secret lost" else ():
        marks = pod["metadata"]["annotations"]
        pod["metadata"]["annotations"] = {} if attack == "mark removed" else {**marks, GANG: marks[GANG] + " "}
    small.start()
    small.turn(6)
    names = {pod["metadata"]["name"] for pod in small.api.pods.values()}
    assert names == {"good-0-worker-0", "good-0-worker-1"}, "nothing is deleted, nothing is started"
    assert small.api.status(good)["reason"] == "Fault"
    assert "their marks are not Headway's" in small.api.status(good)["message"]
    if attack == "secret lost":
        small._settings["marks"] = PodMarks(b"kept in a secret")
        small.start()
        small.turn(4)
        assert (small.phase(good), small.api.status(good)["reason"]) == ("Running", "Running"), "the key is back"
        assert small.api.status(good)["attempt"] == 0
    else:
        small.api.jobs[good]["spec"] = {**HEALTHY, "cancel": True}
        small.api.change(good)
        small.turn(6)
        assert small.phase(good) == "Cancelled", "its user's order ends it"


def test_a_tenant_who_edits_the_planned_node_changes_nothing():
    small, good = a_running_job()
    for pod in small.api.pods_of("good"):
        pod["metadata"]["annotations"]["headway.dev/node"] = "elsewhere"
    small.start()
    small.turn(4)
    assert (small.phase(good), small.api.status(good)["attempt"]) == ("Running", 0)
    assert len(small.api.pods) == 2


# ── the key ──


def asked_for_the_key(*answers):
    """What comes of it if the server answers so, one after the other; and what was asked."""
    asked, left = [], list(answers)

    async def handler(request):
        asked.append((request.method, request.path))
        if request.method == "POST":
            asked.append(await request.json())
        answer = left.pop(0)
        return status(answer) if isinstance(answer, int) else web.json_response(answer)

    async def main():
        async with serving(handler) as client:
            return await POD_KEY.ensure(client, "sys")

    return asyncio.run(main()), asked


def a_secret(key: bytes) -> dict:
    return {"data": {"key": base64.b64encode(key).decode()}}


def test_the_first_start_makes_the_key_and_later_ones_read_it():
    key, asked = asked_for_the_key(404, {})
    path = "/api/v1/namespaces/sys/secrets"
    assert asked[:2] == [("GET", f"{path}/headway-pods"), ("POST", path)]
    assert base64.b64decode(asked[2]["data"]["key"]) == key
    assert len(key) == 32
    assert asked_for_the_key(a_secret(b"k" * 32))[0] == b"k" * 32
    assert asked_for_the_key(404, 409, a_secret(b"o" * 32))[0] == b"o" * 32, "another was faster"


@pytest.mark.parametrize(
    ("answer", "words"), [(403, "--install"), (a_secret(b"short"), "field key"), ({"data": 5}, "field key")]
)
def test_a_key_that_cannot_be_had_is_told(answer, words):
    with pytest.raises(KubeError, match=words):
        asked_for_the_key(answer)


def test_a_pod_on_a_replicas_name_makes_the_job_wait_however_long_and_never_fail():
    api = MemoryApi()
    for attempt in range(40):
        api.put_pod({"metadata": {"name": f"j-{attempt}-worker-0", "namespace": "team"}, "spec": {"containers": []}})
    small = SmallCluster(api)
    job = api.submit("j", HEALTHY)
    for _ in range(14):  # more often than a start may be refused
        _pass_pauses(small)
    assert small.phase(job) not in ("Failed", "Running")
    assert "is in the way: Headway did not make it" in api.status(job)["message"]
    for name in [name for name, pod in api.pods.items() if not pod["metadata"].get("ownerReferences")]:
        del api.pods[name]
    for _ in range(3):
        _pass_pauses(small)
    assert (small.phase(job), api.status(job)["attempt"]) == ("Running", 14), "each start has other names"


def _pass_pauses(small: SmallCluster) -> None:
    """A few turns, then the pause after a refusal."""
    small.turn(5)
    small.clock.ahead += 30.0
