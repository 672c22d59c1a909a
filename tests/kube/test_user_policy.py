"""Whether a cluster records who submits: what it serves, what is installed, and since when."""

from __future__ import annotations

import asyncio

import pytest
import yaml
from aiohttp import web
from fake_api_server import serving, status
from small_cluster import HEALTHY, MemoryApi, SmallCluster

from headway.kube.api.access import Access
from headway.kube.api.discovery import ClusterFacts, follow_users, look_at, users_since, version_served
from headway.kube.api.errors import KubeError
from headway.kube.api.install import install, manifests
from headway.kube.inbox import UsersRecorded

ROOT = "/apis/admissionregistration.k8s.io"
RIGHT = 'User "x" cannot get resource "validatingadmissionpolicies" in API group "admissionregistration.k8s.io"'
MUTATING, VALIDATING = "mutatingadmissionpolicies", "validatingadmissionpolicies"
BINDINGS = "validatingadmissionpolicybindings"
CREATED = {"metadata": {"name": "headway-user", "creationTimestamp": "1970-01-01T00:01:40Z"}}
BINDING = {
    "metadata": {"name": "headway-user", "creationTimestamp": "1970-01-01T00:01:41Z"},
    "spec": {"policyName": "headway-user"},
}


def asked(answers: dict[str, object], question):
    async def handler(request: web.Request) -> web.Response:
        answer = answers.get(request.path)
        if callable(answer):
            return answer()
        return status(404) if answer is None else web.json_response(answer)

    async def run():
        async with serving(handler) as client:
            return await question(client)

    return asyncio.run(run())


def resources(*names: str) -> dict:
    return {"resources": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("answers", "version"),
    [
        ({f"{ROOT}/v1": resources(MUTATING, VALIDATING)}, "v1"),
        ({f"{ROOT}/v1": resources(VALIDATING), f"{ROOT}/v1beta1": resources(MUTATING)}, "v1beta1"),
        ({f"{ROOT}/v1": resources(VALIDATING)}, ""),
        ({}, ""),
    ],
)
def test_the_version_in_which_a_policy_is_served(answers, version):
    assert asked(answers, lambda client: version_served(client, MUTATING)) == version


def checked(binding: dict = BINDING) -> dict:
    return {f"{ROOT}/v1/{VALIDATING}/headway-user": CREATED, f"{ROOT}/v1/{BINDINGS}/headway-user": binding}


@pytest.mark.parametrize(
    ("answers", "since"),
    [
        ({}, None),
        (checked(), 106.0),
        ({f"{ROOT}/v1/{VALIDATING}/headway-user": CREATED}, None),
        (checked(BINDING | {"spec": {"policyName": "other"}}), None),
        (checked({"spec": {"policyName": "headway-user", "matchResources": {
            "namespaceSelector": {"matchLabels": {"a": "b"}}}}}), None),
        ({f"{ROOT}/v1/{VALIDATING}/headway-user": lambda: status(403, RIGHT)}, None),
        ({f"{ROOT}/v1/{MUTATING}/headway-user": CREATED}, None),
    ],
)  # fmt: skip
def test_since_when_users_are_right_in_all_namespaces(answers, since):
    """A policy that writes users is not enough: an API server may serve it and not obey it."""
    assert asked(answers, users_since) == since


def test_the_manifests_have_the_policies_in_the_versions_that_are_served():
    *_, policy, binding = yaml.safe_load_all(manifests(recorded="v1beta1"))
    version = "admissionregistration.k8s.io/v1beta1"
    assert (policy["apiVersion"], policy["kind"]) == (version, "MutatingAdmissionPolicy")
    assert (binding["apiVersion"], binding["kind"]) == (version, "MutatingAdmissionPolicyBinding")
    *_, policy, binding = yaml.safe_load_all(manifests(recorded=""))
    assert (policy["kind"], binding["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def test_a_cluster_without_policies_is_told_of_when_installing():
    established = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}

    async def handler(request: web.Request) -> web.Response:
        return status(404) if request.path.startswith(ROOT) else web.json_response(established)

    async def run():
        async with serving(handler) as client:
            return await install(client._access)

    *applied, last = asyncio.run(run())
    assert applied[-1] == "applied ClusterRole headway-submit-for"
    assert last.endswith("the user of a job is its namespace")
    assert not any("Policy" in line for line in applied)


@pytest.mark.parametrize(("namespace", "may", "sees"), [("", 403, True), ("team", 403, False), ("team", 200, True)])
def test_pods_of_other_namespaces_are_followed_where_they_may_be_read(namespace, may, sees):
    calls = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(request.path)
        if len(calls) == 1:
            return status(503, "restarting")
        if request.path == "/api/v1/pods":
            return status(may, 'User "x" cannot list resource "pods"') if may != 200 else web.json_response({})
        return status(404)

    async def run():
        async with serving(handler) as client:
            return await look_at(client._access, namespace)

    assert asyncio.run(run()) == ClusterFacts(None, sees)


def test_a_server_that_is_not_there_is_told_of():
    with pytest.raises(KubeError, match="cannot be reached within"):
        asyncio.run(look_at(Access(url="http://127.0.0.1:1", tls=None), "", seconds=0.0))


def test_manifests_of_one_namespace_change_nothing_elsewhere():
    objects = list(yaml.safe_load_all(manifests("team-a")))
    accounts = [one for one in objects if one["kind"] == "ServiceAccount"]
    assert [one["metadata"]["namespace"] for one in accounts] == ["team-a"]
    reader = next(one for one in objects if one["metadata"]["name"] == "headway-node-reader-team-a")
    verbs = {(name, verb) for rule in reader["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    assert {verb for name, verb in verbs if name != "tokenreviews"} == {"list", "watch", "get"}
    assert not any("NAMESPACE" in str(one) for one in objects)
    assert "headway-scheduler" not in {one["metadata"]["name"] for one in objects if one["kind"] == "ClusterRole"}
    with pytest.raises(KubeError, match="is not the name of a namespace"):
        manifests("a\nb")


def test_what_is_installed_or_removed_while_the_scheduler_runs_is_noticed():
    answers = checked()

    async def question(client) -> list[float | None]:
        told: list[float | None] = []

        def tell(since: float | None) -> None:
            told.append(since)
            if len(told) == 1:
                answers.clear()
            elif len(told) == 2:
                answers.update(checked())

        task = asyncio.create_task(follow_users(client, tell, 0.01))
        while len(told) < 3:  # noqa: ASYNC110  the task is what is tested
            await asyncio.sleep(0.01)
        task.cancel()
        return told

    first, none, again = asked(answers, question)
    assert (none, again) == (None, first)
    assert first is not None


def test_a_job_that_comes_after_the_policy_belongs_to_the_user_it_names():
    small = SmallCluster(MemoryApi(nodes=3))
    before = small.api.submit("before", HEALTHY | {"user": "ann"})
    small.turn(2)
    small.api.inbox.put(UsersRecorded(1.0))
    small.turn()
    small.api.submit("after", HEALTHY | {"user": "ann"})
    small.turn(2)
    users = {job.job.id: job.job.user for job in small.cluster.gangs.values()}
    assert before in small.api.jobs
    assert users == {"team/before": "team", "team/after": "ann"}
