"""The EndpointSlice of the Service to which training reports: only the leader is in it, whoever else is ready.

It is looked at every few seconds, so that it comes back when somebody deletes it or etcd was restored. It carries its
leader's epoch: one that was frozen and thaws never writes over the slice of the next.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, Conflict, NotFound
from headway.kube.api.objects import Meta
from headway.kube.writes.fence import Fence
from headway.kube.writes.lease import EPOCH

log = logging.getLogger("headway.kube")
LOOK_SECONDS = 5.0


class _Endpoint(msgspec.Struct):
    addresses: list[str] = msgspec.field(default_factory=list)


class _Port(msgspec.Struct):
    port: int | None = None


class _Slice(msgspec.Struct):
    metadata: Meta
    endpoints: list[_Endpoint] | None = None
    ports: list[_Port] | None = None


_slices = msgspec.json.Decoder(_Slice)


@dataclass(frozen=True, slots=True)
class ProgressService:
    namespace: str
    name: str
    address: str
    port: int

    async def keep(self, client: Client, fence: Fence) -> None:
        """Leads here for as long as this scheduler leads. Ends when it is cancelled."""
        troubled = False
        while True:
            try:
                await self.point(client, fence)
                troubled = False
            except (ApiError, msgspec.DecodeError) as error:
                if not troubled:
                    words = "EndpointSlice %s/%s cannot be written, trying again: %s"
                    log.warning(words, self.namespace, self.name, error)
                troubled = True
            await asyncio.sleep(LOOK_SECONDS)

    async def point(self, client: Client, fence: Fence) -> None:
        """Once. Raises ApiError."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        try:
            found = _slices.decode(await client.get(f"{path}/{self.name}"))
        except NotFound:
            found = None
        if not fence.is_open() or (found is not None and not self._is_to_write(found, fence.epoch)):
            return
        body = self._body(fence.epoch, "" if found is None else found.metadata.resourceVersion)
        try:
            if found is None:
                await client.post(path, body)
            else:
                await client.send("PUT", f"{path}/{self.name}", body)
        except Conflict:
            log.debug("EndpointSlice %s/%s has just changed; it is looked at again", self.namespace, self.name)

    def _is_to_write(self, found: _Slice, epoch: int) -> bool:
        written = found.metadata.annotations.get(EPOCH, "")
        theirs = int(written) if written.isdecimal() else 0
        addresses = [one for endpoint in found.endpoints or () for one in endpoint.addresses]
        leads_here = addresses == [self.address] and [one.port for one in found.ports or ()] == [self.port]
        return theirs < epoch or (theirs == epoch and not leads_here)

    def _body(self, epoch: int, version: str) -> dict[str, Any]:
        labels = {"kubernetes.io/service-name": self.name, "endpointslice.kubernetes.io/managed-by": "headway.dev"}
        metadata: dict[str, Any] = {"name": self.name, "labels": labels, "annotations": {EPOCH: str(epoch)}}
        metadata |= {"resourceVersion": version} if version else {}
        return {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
            "addressType": "IPv6" if ":" in self.address else "IPv4",
            "endpoints": [{"addresses": [self.address], "conditions": {"ready": True}}],
            "ports": [{"name": "progress", "port": self.port, "protocol": "TCP"}],
        }  # fmt: skip
