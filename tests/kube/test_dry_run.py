"""A pod is tried on the API server before it is made, and the volumes that it claims are looked at."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from fake_api_server import a_list, serving, status, stream

from headway.kube.api.dry_run import following_rules, tried
from headway.kube.api.objects import LimitRange, MutatingPolicy, PodRule, PolicyBinding, RuntimeClass
from headway.kube.intake.dry_runs import DryRunDone

TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
OBJECTS = {
    "/api/v1/namespaces/team/persistentvolumeclaims/bound": {"spec": {"volumeName": "v"}, "status": {"phase": "Bound"}},
    "/api/v1/persistentvolumes/v": {
        "metadata": {"name": "v", "labels": {"x": "y"}}, "spec": {"nodeAffinity": {"required": TERMS}},
    },
    "/api/v1/namespaces/team/persistentvolumeclaims/later": {
        "spec": {"storageClassName": "slow"}, "status": {"phase": "Pending"},
    },
    "/apis/storage.k8s.io/v1/storageclasses/slow": {"volumeBindingMode": "WaitForFirstConsumer"},
    "/api/v1/namespaces/team/persistentvolumeclaims/soon": {"status": {"phase": "Pending"}},
}  # fmt: skip


def asked_of_server(*claims: str, refusal: web.Response | None = None) -> tuple[DryRunDone, list[str]]:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path_qs}")
        if request.method == "POST":
            pod = json.loads(await request.text())
            pod["spec"]["overhead"] = {"cpu": "250m"}
            return refusal or web.json_response(pod)
        if "secret" in request.path:
            return status(403)
        found = OBJECTS.get(request.path)
        return status(404) if found is None else web.json_response(found)

    async def main() -> DryRunDone:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        async with serving(handler) as client:
            body = {"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": [{"name": "tmp"}, *volumes]}}
            return await tried(client, "key", "team", body)

    return asyncio.run(main()), asked


def test_the_server_shows_the_pod_without_making_it():
    answer, asked = asked_of_server()
    assert asked == ["POST /api/v1/namespaces/team/pods?dryRun=All"]
    assert answer.pod is not None
    assert (answer.key, answer.pod.spec.overhead, answer.why) == ("key", {"cpu": "250m"}, "")


def test_claims_say_where_their_volumes_are():
    answer, _ = asked_of_server("bound", "later", "soon", "missing", "secret")
    found = {name: (claim.bound, claim.waits) for name, claim in answer.claims.items()}
    assert found == {"bound": (True, False), "later": (False, True), "soon": (False, False), "secret": (True, False)}
    bound = answer.claims["bound"]
    assert bound.affinity is not None
    assert bound.affinity.nodeSelectorTerms[0].matchExpressions[0].values == ["a"]
    assert bound.labels == (("x", "y"),)


@pytest.mark.parametrize("code", [400, 403, 422, 500])
def test_a_refused_dry_run_is_an_answer_too(code):
    answer, _ = asked_of_server(refusal=status(code, "the webhook does not support dry run"))
    assert answer.pod is None
    assert "does not support dry run" in answer.why


# ── what changes pods as they are made ──

POLICIES = {"resources": [{"name": "mutatingadmissionpolicies"}, {"name": "mutatingadmissionpolicybindings"}]}
GROUP = "/apis/admissionregistration.k8s.io"


def followed(
    served: dict[str, dict], wanted: int, seconds: float = 60.0, refusal: int = 404, obeyed: float = 0.0
) -> tuple[list[Any], list[str]]:
    """What is told of rules, until there is so much, and what the server was asked; `served` is by path."""
    asked: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(f"{request.path} watch" if "watch" in request.query else request.path)
        if "watch" in request.query:
            return await stream(request, then="hang")
        if request.path in served:
            return web.json_response(served[request.path])
        return a_list([]) if request.path.endswith(("limitranges", "webhookconfigurations")) else status(refusal)

    async def main() -> list[Any]:
        told: list[Any] = []
        enough = asyncio.Event()

        def tell(news: Any) -> None:
            told.append(news)
            if len(told) >= wanted:
                enough.set()

        async with serving(handler) as client:
            tasks = [asyncio.create_task(each) for each in following_rules(client, "", tell, seconds, obeyed)]
            await asyncio.wait_for(enough.wait(), 10)
            await asyncio.sleep(0.3)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return told

    return asyncio.run(main()), asked


def listed(*names: str, **fields: object) -> dict[str, Any]:
    items = [{"metadata": {"name": name, "uid": name, "resourceVersion": "5"}, **fields} for name in names]
    return {"metadata": {"resourceVersion": "10"}, "items": items}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_policies_that_mutate_and_runtime_classes_are_followed(version):
    kinds = {
        f"{GROUP}/{version}/mutatingadmissionpolicies": MutatingPolicy,
        f"{GROUP}/{version}/mutatingadmissionpolicybindings": PolicyBinding,
        "/apis/node.k8s.io/v1/runtimeclasses": RuntimeClass,
    }
    served = {path: listed("a", spec={"x": 1}, overhead={"podFixed": {"cpu": "1"}}) for path in kinds}
    told, asked = followed({**served, f"{GROUP}/{version}": POLICIES}, 5)
    assert {news.kind for news in told} == {PodRule, LimitRange, *kinds.values()}
    assert [news.objects[0].metadata.name for news in told if news.kind in kinds.values()] == ["a"] * 3
    assert {f"{path} watch" for path in kinds} <= set(asked)


@pytest.mark.parametrize("refusal", [404, 403])
def test_where_they_are_not_served_or_not_shown_the_server_is_left_in_peace(refusal, caplog):
    told, asked = followed({f"{GROUP}/v1": POLICIES}, 2, refusal=refusal)
    assert {news.kind for news in told} == {PodRule, LimitRange}
    assert asked.count(f"{GROUP}/v1/mutatingadmissionpolicies") == 1
    assert asked.count("/apis/node.k8s.io/v1/runtimeclasses") == 1
    assert not caplog.records


def test_policies_are_told_when_the_server_obeys_them():
    path = f"{GROUP}/v1/mutatingadmissionpolicies"
    told, _ = followed({f"{GROUP}/v1": POLICIES, path: listed("a")}, 3, obeyed=0.5)
    assert told[-1].kind is MutatingPolicy
    told, _ = followed({f"{GROUP}/v1": POLICIES, path: listed("a")}, 2, obeyed=5.0)
    assert {news.kind for news in told} == {PodRule, LimitRange}, "not yet"


def test_what_is_served_later_is_found_later():
    _, asked = followed({}, 2, seconds=0.05)
    assert asked.count(f"{GROUP}/v1beta1") > 2
    assert asked.count("/apis/node.k8s.io/v1/runtimeclasses") > 2
