"""Applies the manifests that ship with the package. Applying them twice does no harm."""

from __future__ import annotations

import asyncio
from importlib import resources
from typing import Any

import yaml

from headway.kube.api.access import Access
from headway.kube.api.client import APPLY_PATCH, Client, loads
from headway.kube.api.errors import ApiError, KubeError

FILES = ("crd.yaml", "rbac.yaml")
_PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions", "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
}  # fmt: skip
ESTABLISHED_SECONDS = 30.0


def manifests() -> str:
    """All manifests as one YAML stream."""
    folder = resources.files("headway.kube") / "manifests"
    return "---\n".join((folder / name).read_text() for name in FILES)


async def install(access: Access) -> list[str]:
    """Applies all manifests and waits until the cluster accepts TrainingJobs; returns what was applied."""
    applied = []
    async with Client(access) as client:
        for manifest in yaml.safe_load_all(manifests()):
            path = _path(manifest)
            try:
                await client.patch(f"{path}?fieldManager=headway&force=true", manifest, APPLY_PATCH)
            except ApiError as error:
                raise KubeError(f"{manifest['kind']} {manifest['metadata']['name']}: {error}") from error
            applied.append(f"{manifest['kind']} {manifest['metadata']['name']}")
        await _established(client)
    return applied


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
