"""Reads the Lease by which a kubelet says that its node is alive."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from headway.kube.api.client import Client

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class _LeaseSpec(msgspec.Struct):
    renewTime: str = ""  # noqa: N815  Kubernetes' spelling


class _Lease(msgspec.Struct):
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


_leases = msgspec.json.Decoder(_Lease)


async def renewal_of(client: Client, node: str) -> str:
    """When the node last renewed its Lease, as it wrote it. Raises ApiError."""
    return _leases.decode(await client.get(f"{LEASES}/{quote(node, safe='')}")).spec.renewTime
