"""The Lease of the one scheduler that may write: waited for, renewed by a thread of its own, handed back in order.

A second scheduler on the same cluster either stands by or ends with a sentence that names the first. One that died is
known at once where it ran on this machine; elsewhere its Lease must lie unrenewed for its whole time. Only what this
process itself sees counts, so clocks may differ. Without the right to have a Lease nobody is turned away.

Each holder has an epoch, higher than any that the Lease or a status has ever shown: a lost Lease, or etcd's data of
last night, never lower it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from headway.kube.api.access import Access
from headway.kube.api.client import Client, Patience
from headway.kube.api.errors import ApiError, Conflict, Forbidden, KubeError, NotFound, Unreachable
from headway.kube.api.objects import GROUP, Meta, timestamp
from headway.kube.writes.fence import REQUEST_SECONDS, Fence

log = logging.getLogger("headway.kube")
NAME = "headway"
EPOCH = f"{GROUP}/epoch"
"""Annotation on the Lease."""
SECONDS = 11
"""How long a Lease holds after it was last renewed."""
HOLDS_SECONDS = 10.0
"""How long its holder believes in it: what it sends in the first six of them arrives within four more."""
RENEW_SECONDS = 1.0
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

    @property
    def epoch(self) -> int:
        """The highest that it has shown."""
        written = self.metadata.annotations.get(EPOCH, "")
        return max(int(written) if written.isdecimal() else 0, self.spec.leaseTransitions)


_decoder = msgspec.json.Decoder(LeaseObject)


def identity() -> str:
    """This machine, its boot, and this process."""
    boot = "?"
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    return f"{socket.gethostname()}/{boot}/{os.getpid()}"


def is_dead(holder: str) -> bool:
    """Whether the holder ran on this machine and is gone. In a pod the machine is the pod."""
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
    waits: bool = False
    """Stands by while another scheduler is at work, instead of ending."""
    highest: Callable[[], int] = lambda: 0
    """The highest epoch that the jobs' statuses show."""
    _version: str = ""
    _thread: threading.Thread | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    # ── to have it ──

    async def acquire(self, access: Access) -> None:
        """Raises KubeError if another scheduler is at work, unless it is to stand by."""
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
        while not self._stop.is_set():
            try:
                found = await self._read(client)
            except Unreachable as error:
                if time.monotonic() >= give_up and not self.waits:
                    raise KubeError(
                        f"the API server cannot be reached within {PATIENCE_SECONDS:g} seconds: {error}"
                    ) from error
                await asyncio.sleep(RENEW_SECONDS)
                continue
            spec = found.spec
            free = not spec.holderIdentity or spec.holderIdentity == self.holder or is_dead(spec.holderIdentity)
            if free or (seen == spec.renewTime and time.monotonic() - since > spec.leaseDurationSeconds):
                if await self._take(client, found):
                    return
                continue
            if seen != spec.renewTime:
                self._meet(spec, again=bool(seen))
                seen, since = spec.renewTime, time.monotonic()
            await asyncio.sleep(RENEW_SECONDS / 2)

    def _meet(self, spec: LeaseSpec, *, again: bool) -> None:
        """Another holder has renewed. Whoever does so again is alive."""
        if not again:
            log.info("%s: %s leads", "standing by" if self.waits else "waiting for the Lease", spec.holderIdentity)
        elif not self.waits:
            raise KubeError(
                f"another scheduler is at work on this cluster: {spec.holderIdentity} holds Lease "
                f"{self.namespace}/{self.name}; end it first, or give --standby"
            )

    async def _read(self, client: Client) -> LeaseObject:
        try:
            return _decoder.decode(await client.get(f"{self._path}/{self.name}"))
        except NotFound:
            return LeaseObject(Meta(name=self.name))

    async def _take(self, client: Client, found: LeaseObject) -> bool:
        """Whether it is ours. Another may have been faster."""
        epoch = 1 + max(found.epoch, self.highest())
        with suppress(Conflict):
            await self._write(client, found, epoch)
            return True
        return False

    async def _write(self, client: Client, found: LeaseObject, epoch: int) -> None:
        asked, now = time.monotonic(), timestamp(time.time())
        there = found.metadata.resourceVersion
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace, "annotations": {EPOCH: str(epoch)}}
        metadata |= {"resourceVersion": there} if there else {}
        spec = LeaseSpec(self.holder, SECONDS, now, found.spec.acquireTime if self.held else now, epoch)
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        method, path = ("PUT", f"{self._path}/{self.name}") if there else ("POST", self._path)
        written = _decoder.decode(await client.send(method, path, body))
        self._version, self.held, self.fence.epoch = written.metadata.resourceVersion, True, epoch
        self.fence.renew(HOLDS_SECONDS - (time.monotonic() - asked))

    # ── to keep it ──

    def keep(self, access: Access, lost: Callable[[str], None]) -> None:
        """Renews it in a thread of its own. `lost` is called there, with a sentence, if another scheduler has it."""
        if self.held:
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._keep(access, lost)), name="headway-lease", daemon=True
            )
            self._thread.start()

    def hand_back(self) -> None:
        """The next scheduler need not wait. Nothing may be written any more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * REQUEST_SECONDS)

    async def _keep(self, access: Access, lost: Callable[[str], None]) -> None:
        troubled = False
        async with Client(access, Patience(request=REQUEST_SECONDS)) as client:
            while not await asyncio.to_thread(self._stop.wait, RENEW_SECONDS):
                try:
                    await self._renew(client)
                    troubled = False
                except KubeError as error:
                    lost(str(error))
                    return
                except (ApiError, msgspec.DecodeError) as error:
                    if not troubled:
                        log.warning("the scheduler's Lease could not be renewed and is asked for again: %s", error)
                    troubled = True
            await self._leave(client)

    async def _renew(self, client: Client) -> None:
        mine = LeaseObject(Meta(name=self.name, resourceVersion=self._version))
        try:
            await self._write(client, mine, self.fence.epoch)
        except Conflict:
            found = await self._read(client)
            if found.spec.holderIdentity not in ("", self.holder):
                self.fence.close()
                raise KubeError(f"another scheduler has taken over: {found.spec.holderIdentity}") from None
            self._version = found.metadata.resourceVersion

    async def _leave(self, client: Client) -> None:
        mine = LeaseObject(Meta(name=self.name, resourceVersion=self._version))
        self.fence.close()
        self.holder = ""
        with suppress(ApiError, msgspec.DecodeError):
            await self._write(client, mine, self.fence.epoch)
        self.fence.close()
        self.held = False
