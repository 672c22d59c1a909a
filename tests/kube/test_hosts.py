"""Stable host names: the same in every attempt, known to all replicas of all roles."""

from __future__ import annotations

import json
import re

import pytest
from intents import JOB, NOW, RUNNING, STARTING, a_pod, a_view, on
from small_cluster import MemoryApi, SmallCluster

from headway.core.job import Job, JobId, Role
from headway.core.states import State
from headway.kube.api.errors import Denied, Forbidden
from headway.kube.api.objects import Meta
from headway.kube.gangs.gang import Around, StartFacts
from headway.kube.gangs.messages import Answered
from headway.kube.gangs.model import Create, Publish
from headway.kube.gangs.step import reconcile, step
from headway.kube.gangs.take import take
from headway.kube.pods.hosts import addresses, service_of, subdomain_of
from headway.kube.values import replace

LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
PAIR = {"roles": {"ps": {"cpu": "100m"}, "worker": {"replicas": 2, "cpu": "100m", "after": ["ps"]}}}


@pytest.mark.parametrize("name", ["mnist", "9lives", "v1.2", "a" * 52, "1" * 52])
def test_a_service_has_a_name_that_the_api_server_takes(name):
    found = subdomain_of(Meta(name=name, namespace="team", uid="9a2b3c4d-0000"), JOB)
    assert LABEL.fullmatch(found), found
    assert found.endswith("9a2b3c4d"), "a job of the same name later has another"


def test_a_job_of_one_replica_needs_no_service():
    lone = Job(id=JobId("j"), roles=(Role(name="worker"),))
    assert subdomain_of(Meta(name="j", uid="u"), lone) == ""
    assert addresses("worker", (0,), "") == ("worker-0:2222",), "a pod knows its own name"


def test_names_are_known_before_pods_are_ready_and_go_with_the_job():
    meta = Meta(name="mnist", namespace="team", uid="1a2b3c4d-0000")
    service = service_of(meta, "mnist-1a2b3c4d")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]
    assert service["metadata"]["ownerReferences"][0]["uid"] == meta.uid


def test_the_names_are_made_known_once_in_each_attempt():
    assert Publish("j-x") in reconcile(a_view(STARTING, subdomain="j-x")).actions
    assert Publish("j-x") not in reconcile(a_view(STARTING, subdomain="j-x", published=True)).actions
    assert Publish("j-x") not in reconcile(a_view(RUNNING, a_pod(0, "n1"), a_pod(1, "n2"), subdomain="j-x")).actions


def test_replicas_keep_their_numbers_when_a_job_grows_back():
    """One of three went, with number 1: the next one gets its number, and all are told of all."""
    there = (a_pod(0, "n1"), a_pod(2, "n3"))
    grows = STARTING.__class__(
        state=State.SCALING, allocation=(on("n1", "n3"),), target=(on("n1", "n3", "n2"),), until=2000.0
    )
    (made,) = [one for one in reconcile(a_view(grows, *there)).actions if isinstance(one, Create)]
    assert (made.index, made.node) == (1, "n2")
    assert made.hosts == (("worker", ("worker-0:2222", "worker-1:2222", "worker-2:2222")),)


def test_every_pod_is_told_where_all_replicas_of_all_roles_are():
    small = SmallCluster()
    uid = small.api.submit("gang", PAIR)
    small.turn(8)
    assert small.phase(uid) == "Running"
    (service,) = small.api.services
    inside = service["metadata"]["name"]
    for pod in small.api.pods_of("gang"):
        env = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
        assert json.loads(env["HEADWAY_HOSTS"]) == {
            "ps": [f"ps-0.{inside}:2222"], "worker": [f"worker-0.{inside}:2222", f"worker-1.{inside}:2222"],
        }  # fmt: skip
        name = f"{env['HEADWAY_ROLE']}-{env['HEADWAY_INDEX']}"
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (name, inside)
    assert len(set(small.api.tried)) == 1


def test_jobs_of_one_template_are_tried_once_whatever_their_hosts():
    small = SmallCluster(MemoryApi(nodes=4))
    for name in ("one", "two"):
        small.api.submit(name, {"roles": {"worker": {"replicas": 2, "cpu": "100m"}}})
    small.turn(4)
    assert len(small.api.tried) == 1


def test_a_service_that_is_refused_refuses_the_start_and_a_missing_right_is_asked_for_again():
    small = SmallCluster()
    small.api.submit("gang", PAIR)
    small.turn(2)
    (gang,) = small.cluster.gangs.values()
    gang = replace(gang, start=StartFacts(), refusal=None)
    refused = take(gang, Answered(Publish("x"), error=Denied(403, "exceeded quota")))
    assert refused.refusal is not None
    assert "service x was refused: exceeded quota" in refused.refusal.why
    again = take(gang, Answered(Publish("x"), error=Forbidden(403, "no right")))
    assert (again.refusal, again.start.published) == (None, -1)
    wanted = replace(again, wanted=STARTING, pods={})
    assert Publish(subdomain_of(gang.meta, gang.job)) in step(wanted, Around(), NOW)[1], "it is asked for again"
