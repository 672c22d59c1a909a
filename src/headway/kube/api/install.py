"""Applies the manifests that ship with the package. Applying them twice does no harm."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import yaml

from headway.kube.api.access import Access
from headway.kube.api.client import APPLY_PATCH, Client, loads
from headway.kube.api.discovery import CHECKED, GROUP, OBEYED_SECONDS, RECORDED, version_served
from headway.kube.api.errors import ApiError, KubeError, Unreachable
from headway.kube.api.objects import API_VERSION, KIND

log = logging.getLogger("headway.kube")
_PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions", "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}  # fmt: skip
ESTABLISHED_SECONDS = 30.0
_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def manifests(namespace: str = "", checked: str = "v1", recorded: str = "v1", *, kubelets: bool = False) -> str:
    """All manifests as one YAML stream. With a namespace, its scheduler has rights there, and elsewhere reads nodes.

    With `kubelets` it may also ask kubelets what pods use.
    `checked` and `recorded` are the versions of the two policies on users; empty: the cluster does not have them.
    """
    parts = [manifest_text("crd.yaml"), manifest_text("rbac.yaml"), manifest_text("rbac-users.yaml")]
    if namespace:
        if not _NAMESPACE.fullmatch(namespace):
            raise KubeError(f"--namespace {namespace}: is not the name of a namespace")
        parts[1] = manifest_text("rbac-namespaced.yaml").replace("NAMESPACE", namespace)
    if kubelets:
        parts.append(manifest_text("rbac-kubelet.yaml").replace("NAMESPACE", namespace or "headway-system"))
    for version, file in ((checked, "user-checked.yaml"), (recorded, "user-recorded.yaml")):
        if version:
            parts.append(manifest_text(file).replace(f"{GROUP}/v1\n", f"{GROUP}/{version}\n"))
    return "---\n".join(parts)


async def install(
    access: Access, namespace: str = "", *, kubelets: bool = False, more: Callable[[str], str] = lambda _version: ""
) -> list[str]:
    """Applies all manifests and waits until the cluster accepts TrainingJobs; returns what was done, in sentences.

    `more`: further manifests, by the served version of mutating policies.
    """
    done = []
    async with Client(access) as client:
        checked, recorded = await version_served(client, CHECKED[0]), await version_served(client, RECORDED)
        all_of_them = f"{manifests(namespace, checked, recorded, kubelets=kubelets)}---\n{more(recorded)}"
        for manifest in filter(None, yaml.safe_load_all(all_of_them)):
            path, what = _path(manifest), f"{manifest['kind']} {manifest['metadata']['name']}"
            try:
                await client.patch(f"{path}?fieldManager=headway&force=true", manifest, APPLY_PATCH)
            except ApiError as error:
                raise KubeError(f"{what}: {error}") from error
            done.append(f"applied {what}")
        await _established(client)
        writes = await _accepts(client, namespace or "headway-system", writes=bool(recorded))
    if not checked:
        done.append("this cluster has no policies on who submits: the user of a job is its namespace")
    elif not writes:
        done.append("this cluster does not write who submits: a TrainingJob must have spec.user, its submitter's name")
    return done


async def _accepts(client: Client, namespace: str, *, writes: bool) -> bool:
    """Waits until the policies hold. Returns whether the one that writes users does.

    The API server reads the schema of a new kind every five seconds; until then it answers 503.
    """
    job = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "check"}, "spec": {"roles": {"main": {}}}}
    path = f"/apis/{API_VERSION}/namespaces/{namespace}/trainingjobs?dryRun=All"
    nameless = 0
    for _ in range(int(ESTABLISHED_SECONDS / 0.2)):
        try:
            answer = loads(await client.post(path, job))
        except Unreachable:
            pass
        except ApiError as error:
            log.debug("a TrainingJob is not accepted: %s", error)
            return writes
        else:
            if not writes or answer.get("spec", {}).get("user"):
                return writes
            nameless += 1
        if nameless * 0.2 > OBEYED_SECONDS:
            return False
        await asyncio.sleep(0.2)
    return False


def manifest_text(name: str) -> str:
    return (resources.files("headway.kube") / "manifests" / name).read_text()


async def _established(client: Client) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainingjobs.headway.dev"
    for _ in range(int(ESTABLISHED_SECONDS / 0.2)):
        status = loads(await client.get(path)).get("status", {})
        if any(c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions", [])):
            return
        await asyncio.sleep(0.2)
    raise KubeError("the cluster does not accept TrainingJobs after 30 seconds; look at the conditions of the CRD")


def _path(manifest: dict[str, Any]) -> str:
    version, meta = manifest["apiVersion"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{meta['namespace']}" if meta.get("namespace") else ""
    return f"{root}{inside}/{_PLURALS[manifest['kind']]}/{meta['name']}"
