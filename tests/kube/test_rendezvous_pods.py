"""Pods of stock scripts: the variables that frameworks read, and a new size as a new start."""

from __future__ import annotations

import json

from intents import BOTH, JOB, NOW, TWO, a_pod, a_view, delete, meant, on
from intents import create as a_create

from headway.core.gang import Phase
from headway.core.job import Job, JobId, Role
from headway.core.states import State
from headway.kube.api.objects import Meta
from headway.kube.gangs.model import Create, RequestCheckpoint
from headway.kube.gangs.step import reconcile
from headway.kube.pods.body import pod_of
from headway.kube.pods.hosts import addresses
from headway.kube.settings import PodDefaults
from headway.kube.values import replace

META = Meta(name="mnist", namespace="default", uid="1a2b3c4d-5")
ROLES = (Role(name="ps"), Role(name="worker", replicas=2, min=2, max=2, request=(("cpu", 500), ("gpu", 4))))


def environment_of(role: str, index: int, *, job: Job, template: dict | None = None, **defaults: object) -> dict:
    hosts = tuple((one, addresses(one, range(count), "mnist-1a2b3c4d")) for one, count in (("ps", 1), ("worker", 2)))
    create = Create(f"mnist-3-{role}-{index}", role, index, 3, "n1", job.role(role).request, hosts,
                    (("ps", 1), ("worker", 2)), "mnist-1a2b3c4d")  # fmt: skip
    body = pod_of(create, job, META, template or {}, PodDefaults(**defaults))  # type: ignore[arg-type]
    return {entry["name"]: entry.get("value", entry) for entry in body["spec"]["containers"][0]["env"]}


def test_pods_are_told_ranks_the_master_and_the_cluster_by_stable_names():
    job = Job(id=JobId("mnist"), roles=ROLES)
    second, server = environment_of("worker", 1, job=job), environment_of("ps", 0, job=job)
    assert (second["RANK"], second["WORLD_SIZE"]) == ("1", "2")
    assert (second["MASTER_ADDR"], second["MASTER_PORT"]) == ("worker-0.mnist-1a2b3c4d", "29500")
    assert second["PET_RDZV_ENDPOINT"] == second["JAX_COORDINATOR_ADDRESS"] == "worker-0.mnist-1a2b3c4d:29500"
    assert second["PET_NPROC_PER_NODE"] == "4"
    config = json.loads(server["TF_CONFIG"])
    assert config["cluster"]["worker"] == ["worker-0.mnist-1a2b3c4d:2222", "worker-1.mnist-1a2b3c4d:2222"]
    assert config["task"] == {"type": "ps", "index": 0}
    assert environment_of("worker", 0, job=job, master_port=7)["JAX_COORDINATOR_ADDRESS"].endswith(":7")


def test_what_job_and_template_set_wins():
    own = (("MASTER_PORT", "7"), ("TF_CONFIG", "{}"))
    job = Job(id=JobId("mnist"), roles=(ROLES[0], replace(ROLES[1], env=own)))
    source = {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    seen = environment_of("worker", 1, job=job, template={"spec": {"containers": [{"name": "main", "env": [source]}]}})
    assert (seen["MASTER_PORT"], seen["TF_CONFIG"], seen["RANK"]) == ("7", "{}", source)
    assert seen["PET_RDZV_ENDPOINT"] == "worker-0.mnist-1a2b3c4d:7"


# ── a new size is a new start ──

ITSELF = replace(JOB, saves_itself=True)
THREE = (on("n1", "n2", "n2"),)
GROWING = meant(State.SCALING, attempt=1, allocation=TWO, target=THREE, until=NOW + 9)


def test_all_pods_of_the_old_size_end_with_their_grace_time_before_one_of_the_new_is_made():
    step = reconcile(a_view(GROWING, *BOTH, job=ITSELF))
    assert step.actions == tuple(delete(pod) for pod in BOTH)
    assert all(action.grace is None for action in step.actions), "the signal is its request to save"
    leaving = tuple(replace(pod, deleting=True) for pod in BOTH)
    assert reconcile(a_view(GROWING, *leaving, job=ITSELF)).actions == ()
    fresh = reconcile(a_view(GROWING, job=ITSELF))
    counts = (("worker", 3),)
    assert fresh.actions == tuple(
        a_create(index, node, attempt=1, counts=counts) for index, node in enumerate(("n1", "n2", "n2"))
    )
    assert fresh.intent.state is State.SCALING


def test_it_runs_when_the_new_size_is_up_and_waits_if_it_is_refused():
    new = tuple(a_pod(index, node, attempt=1) for index, node in enumerate(("n1", "n2", "n2")))
    up = reconcile(a_view(GROWING, *new, job=ITSELF))
    assert (up.intent.state, up.intent.allocation, up.intent.attempt) == (State.RUNNING, THREE, 1)
    refused = replace(new[2], phase=Phase.REFUSED, why="no room")
    step = reconcile(a_view(GROWING, *new[:2], refused, job=ITSELF))
    assert (step.intent.state, step.intent.goal, step.intent.message) == (State.STOPPING, State.WAITING, "no room")


def test_a_job_that_saves_by_itself_is_moved_and_stopped_without_being_asked():
    moving = meant(State.MOVING, allocation=TWO, target=(on("n3", "n4"),), until=NOW + 9)
    step = reconcile(a_view(moving, *BOTH, job=ITSELF))
    assert step.intent.attempt == 1
    assert step.actions == tuple(delete(pod) for pod in BOTH)
    stopping = meant(State.STOPPING, allocation=TWO, until=NOW + 9)
    step = reconcile(a_view(stopping, *BOTH, job=ITSELF))
    assert step.intent.draining
    assert step.intent.saved
    assert RequestCheckpoint() not in step.actions
    assert step.actions == tuple(delete(pod) for pod in BOTH)
