"""A pod is tried on the API server before it is made, and the volumes that it claims are looked at."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from fake_api_server import serving, status

from headway.kube.dry_run import rehearsed
from headway.kube.rehearsal import Rehearsed

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


def tried(*claims: str, refusal: web.Response | None = None) -> tuple[Rehearsed, list[str]]:
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

    async def main() -> Rehearsed:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        async with serving(handler) as client:
            body = {"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": [{"name": "tmp"}, *volumes]}}
            return await rehearsed(client, "key", "team", body)

    return asyncio.run(main()), asked


def test_the_server_shows_the_pod_without_making_it():
    answer, asked = tried()
    assert asked == ["POST /api/v1/namespaces/team/pods?dryRun=All"]
    assert answer.pod is not None
    assert (answer.key, answer.pod.spec.overhead, answer.why) == ("key", {"cpu": "250m"}, "")


def test_claims_say_where_their_volumes_are():
    answer, _ = tried("bound", "later", "soon", "missing", "secret")
    found = {name: (claim.bound, claim.waits) for name, claim in answer.claims.items()}
    assert found == {"bound": (True, False), "later": (False, True), "soon": (False, False), "secret": (True, False)}
    bound = answer.claims["bound"]
    assert bound.affinity is not None
    assert bound.affinity.nodeSelectorTerms[0].matchExpressions[0].values == ["a"]
    assert bound.labels == (("x", "y"),)


@pytest.mark.parametrize("code", [400, 403, 422, 500])
def test_a_refused_dry_run_is_an_answer_too(code):
    answer, _ = tried(refusal=status(code, "the webhook does not support dry run"))
    assert answer.pod is None
    assert "does not support dry run" in answer.why
