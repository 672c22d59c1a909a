"""The EndpointSlice of the Service to which training reports: only the leader is in it, whoever else is ready."""

from __future__ import annotations

from typing import Any

from headway.kube.api.access import Access
from headway.kube.api.client import Client, loads
from headway.kube.api.errors import ApiError, Conflict, KubeError, NotFound

TRIES = 5


def slice_of(service: str, address: str, port: int) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "headway.dev"}
    return {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": service, "labels": labels},
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "progress", "port": port, "protocol": "TCP"}],
    }  # fmt: skip


async def point(access: Access, namespace: str, service: str, address: str, port: int) -> None:
    """From now on the Service leads here."""
    path, body = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", slice_of(service, address, port)
    async with Client(access) as client:
        for _ in range(TRIES):
            try:
                await _write(client, path, service, body)
                break
            except Conflict:
                continue
            except ApiError as error:
                raise KubeError(f"EndpointSlice {namespace}/{service} cannot be written: {error}") from error
        else:
            raise KubeError(f"EndpointSlice {namespace}/{service} is changed by somebody else all the time")


async def _write(client: Client, path: str, service: str, body: dict[str, Any]) -> None:
    try:
        found = loads(await client.get(f"{path}/{service}"))
    except NotFound:
        await client.post(path, body)
        return
    metadata = {**body["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
    await client.send("PUT", f"{path}/{service}", {**body, "metadata": metadata})
