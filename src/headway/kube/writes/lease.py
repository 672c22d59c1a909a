"""The Lease of the one scheduler that may write: taken at the start, renewed until the end, handed back in order.

A second scheduler on the same cluster does not begin: it ends with a sentence that names the first. One that died is
known at once where it ran on this machine; elsewhere its Lease must lie unrenewed for its whole time. Only what this
process itself sees counts, so clocks may differ. Without the right to have a Lease nobody is turned away.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from headway.kube.api.access import Access
from headway.kube.api.client import Client, Patience
from headway.kube.api.errors import ApiError, Conflict, Forbidden, KubeError, NotFound, Unreachable
from headway.kube.api.objects import Meta, timestamp
from headway.kube.writes.fence import Fence

log = logging.getLogger("headway.kube")
NAME = "headway"
SECONDS = 15
"""How long a Lease holds after it was last renewed."""
RENEW_SECONDS, REQUEST_SECONDS = 2.0, 4.0
LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
"""How long it waits for an API server that does not answer."""


class LeaseSpec(msgspec.Struct, omit_defaults=True):
    holderIdentity: str = ""  # noqa: N815  Kubernetes' spelling, here and below
    leaseDurationSeconds: int = SECONDS  # noqa: N815
    renewTime: str = ""  # noqa: N815
    acquireTime: str = ""  # noqa: N815
    leaseTransitions: int = 0  # noqa: N815


class LeaseObject(msgspec.Struct):
    metadata: Meta
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


_decoder = msgspec.json.Decoder(LeaseObject)


def identity() -> str:
    """This machine, its boot, and this process."""
    boot = "?"
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    return f"{socket.gethostname()}/{boot}/{os.getpid()}"


def is_dead(holder: str) -> bool:
    """Whether the holder ran on this machine and is gone."""
    mine, _, pid = holder.rpartition("/")
    here = identity().rpartition("/")[0]
    return mine == here and pid.isdecimal() and not Path(f"/proc/{pid}").exists()


@dataclass(slots=True)
class SchedulerLease:
    namespace: str
    fence: Fence
    holder: str = ""
    held: bool = False
    """Whether there is a Lease to renew."""
    name: str = NAME
    _version: str = ""

    @property
    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    async def acquire(self, access: Access) -> None:
        """Raises KubeError if another scheduler is at work."""
        self.holder = self.holder or identity()
        async with Client(access, Patience(request=REQUEST_SECONDS)) as client:
            try:
                await self._acquire(client)
            except Forbidden as error:
                log.warning("nothing keeps a second scheduler away: %s; run `headway schedule --install`", error)
            except (ApiError, msgspec.DecodeError) as error:
                raise KubeError(f"Lease {self.namespace}/{self.name} cannot be had: {error}") from error

    async def _acquire(self, client: Client) -> None:
        seen, since = "", time.monotonic()
        give_up = since + PATIENCE_SECONDS
        while True:
            try:
                found = _decoder.decode(await client.get(f"{self._path}/{self.name}"))
            except NotFound:
                if await self._make(client):
                    return
                continue
            except Unreachable as error:
                if time.monotonic() >= give_up:
                    raise KubeError(
                        f"the API server cannot be reached within {PATIENCE_SECONDS:g} seconds: {error}"
                    ) from error
                await asyncio.sleep(1.0)
                continue
            spec = found.spec
            free = not spec.holderIdentity or spec.holderIdentity == self.holder or is_dead(spec.holderIdentity)
            if free or (seen == spec.renewTime and time.monotonic() - since > spec.leaseDurationSeconds):
                if await self._write(client, found, spec.leaseTransitions + 1):
                    return
                continue
            if seen and seen != spec.renewTime:
                raise KubeError(
                    f"another scheduler is at work on this cluster: {spec.holderIdentity} holds Lease "
                    f"{self.namespace}/{self.name}; end it first"
                )
            if seen != spec.renewTime:
                log.info("waiting for the Lease of %s", spec.holderIdentity)
                seen, since = spec.renewTime, time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)

    async def _make(self, client: Client) -> bool:
        with suppress(Conflict):
            await self._send(client, "POST", self._path, LeaseObject(Meta(name=self.name)), 1)
            return True
        return False

    async def _write(self, client: Client, found: LeaseObject, epoch: int) -> bool:
        with suppress(Conflict):
            await self._send(client, "PUT", f"{self._path}/{self.name}", found, epoch)
            return True
        return False

    async def _send(self, client: Client, method: str, path: str, found: LeaseObject, epoch: int) -> None:
        asked = time.monotonic()
        now = timestamp(time.time())
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace}
        if found.metadata.resourceVersion:
            metadata["resourceVersion"] = found.metadata.resourceVersion
        spec = LeaseSpec(self.holder, SECONDS, now, found.spec.acquireTime if self.held else now, epoch)
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        written = _decoder.decode(await client.send(method, path, body))
        self._version, self.held, self.fence.epoch = written.metadata.resourceVersion, True, epoch
        self.fence.renew(SECONDS - (time.monotonic() - asked))

    async def keep(self, client: Client) -> None:
        """Renews it without end. Raises KubeError if another scheduler has it."""
        troubled = False
        while self.held:
            await asyncio.sleep(RENEW_SECONDS)
            mine = LeaseObject(Meta(name=self.name, resourceVersion=self._version))
            try:
                await self._send(client, "PUT", f"{self._path}/{self.name}", mine, self.fence.epoch)
                troubled = False
            except Conflict:
                found = _decoder.decode(await client.get(f"{self._path}/{self.name}"))
                if found.spec.holderIdentity not in ("", self.holder):
                    self.fence.close()
                    raise KubeError(f"another scheduler has taken over: {found.spec.holderIdentity}") from None
                self._version = found.metadata.resourceVersion
            except (ApiError, msgspec.DecodeError) as error:
                if not troubled:
                    log.warning("the scheduler's Lease could not be renewed and is asked for again: %s", error)
                troubled = True

    async def hand_back(self, client: Client) -> None:
        """The next scheduler need not wait."""
        if self.held:
            self.held, self.holder = False, ""
            mine = LeaseObject(Meta(name=self.name, resourceVersion=self._version))
            with suppress(ApiError, msgspec.DecodeError):
                await self._send(client, "PUT", f"{self._path}/{self.name}", mine, self.fence.epoch)
            self.held = False
