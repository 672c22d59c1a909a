"""The Lease of the one scheduler that may write: waited for, renewed by a thread of its own, handed back in order.

A second scheduler on the same cluster either stands by or ends with a sentence that names the first. One that died is
known at once where it ran on this machine; elsewhere its Lease must lie unrenewed for its whole time. Only what this
process itself sees counts, so clocks may differ. Without the right to have a Lease a scheduler that is alone works all
the same; one that stands by, or has seen another's Lease, waits until it has the right.

Each holder has an epoch, higher than any that the Lease or a status has ever shown: a lost Lease, or etcd's data of
last night, never lower it. A Lease that is gone, where statuses show that somebody led, is waited for like one that
nobody renews: its holder makes it anew.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
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
BACK_SECONDS = REQUEST_SECONDS + 2 * RENEW_SECONDS
"""So long has whoever leads to renew it, once an API server that was away is back."""
PATIENCE_SECONDS = 60.0
"""How long it waits for an API server that does not answer."""


THIS_PROCESS = secrets.token_hex(4)
"""Pods of one node may have the node's name and a process number in common."""


class LeaseSpec(msgspec.Struct):
    holderIdentity: str | None = None  # noqa: N815  Kubernetes' spelling, here and below
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


@dataclass(slots=True)
class Others:
    """What one that has no Lease yet has seen of those who have."""

    met: bool = False
    seen: str = ""
    """The last renewal."""
    since: float = math.inf
    """When it was first seen, by the monotonic clock."""
    troubled_since: float = math.inf
    """The Lease cannot be read or written."""
    wait_until: float = -math.inf
    """It could be read again only now: whoever leads could not renew it before."""


def _shown(found: LeaseObject) -> str:
    """Another one with each renewal."""
    return found.spec.renewTime if found.metadata.resourceVersion else "gone"


def identity() -> str:
    """This machine, its boot, whose processes can be seen, and this process."""
    boot, sees = "?", "?"
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
        sees = str(Path("/proc/self/ns/pid").readlink()).partition("[")[2].rstrip("]")
    return f"{socket.gethostname()}/{boot}/{sees}/{os.getpid()}-{THIS_PROCESS}"


def is_dead(holder: str) -> bool:
    """Whether the holder ran where this process would see it, and is gone."""
    there, _, process = holder.rpartition("/")
    here, pid = identity().rpartition("/")[0], process.partition("-")[0]
    return there == here and pid.isdecimal() and not Path(f"/proc/{pid}").exists()


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
    beat_at: float | None = None
    """When its thread last went on, by the monotonic clock; None before there is one."""
    _version: str = ""
    _acquired: str = ""
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
                await self._acquire(client, Others())
            except Forbidden as error:
                log.warning("nothing keeps a second scheduler away: %s; run `headway schedule --install`", error)
            except (ApiError, msgspec.DecodeError) as error:
                raise KubeError(f"Lease {self.namespace}/{self.name} cannot be had: {error}") from error

    async def _acquire(self, client: Client, others: Others) -> None:
        while not self._stop.is_set():
            try:
                found = await self._read(client)
                if math.isfinite(others.troubled_since):
                    others.troubled_since, others.wait_until = math.inf, time.monotonic() + BACK_SECONDS
                if self._is_free(found, others):
                    if await self._take(client, found):
                        return
                    continue
            except (Unreachable, Forbidden) as error:
                self._bear(error, others)
                await asyncio.sleep(RENEW_SECONDS)
                continue
            self._meet(found, others)
            await asyncio.sleep(RENEW_SECONDS / 2)

    def _is_free(self, found: LeaseObject, others: Others) -> bool:
        holder = found.spec.holderIdentity
        if not found.metadata.resourceVersion:
            free = not others.met and not self.highest()
        else:
            free = not holder or holder == self.holder or is_dead(holder)
        since = time.monotonic() - others.since
        late = since > found.spec.leaseDurationSeconds and time.monotonic() >= others.wait_until
        return free or (late and others.seen == _shown(found))

    def _meet(self, found: LeaseObject, others: Others) -> None:
        """Somebody else leads, or led. Whoever renews again is alive."""
        if others.seen == _shown(found):
            return
        holder, again = found.spec.holderIdentity, bool(others.seen)
        others.seen, others.since, others.met = _shown(found), time.monotonic(), True
        if not holder:
            log.warning("Lease %s/%s is gone: whoever led may make it anew", self.namespace, self.name)
        elif not again:
            log.info("%s: %s leads", "standing by" if self.waits else "waiting for the Lease", holder)
        elif not self.waits:
            raise KubeError(
                f"another scheduler is at work on this cluster: {holder} holds Lease "
                f"{self.namespace}/{self.name}; end it first, or give --standby"
            )

    def _bear(self, error: Unreachable | Forbidden, others: Others) -> None:
        """Raises where it is not to be tried again."""
        if isinstance(error, Forbidden) and not self.waits and not others.met:
            raise error
        first = math.isinf(others.troubled_since)
        others.troubled_since = min(others.troubled_since, time.monotonic())
        if first:
            log.warning("Lease %s/%s cannot be had yet, trying again: %s", self.namespace, self.name, error)
        if time.monotonic() - others.troubled_since >= PATIENCE_SECONDS and not self.waits:
            raise KubeError(
                f"Lease {self.namespace}/{self.name} cannot be had within {PATIENCE_SECONDS:g} seconds: {error}"
            ) from error

    async def _read(self, client: Client) -> LeaseObject:
        try:
            return _decoder.decode(await client.get(f"{self._path}/{self.name}"))
        except NotFound:
            return LeaseObject(Meta(name=self.name))

    async def _take(self, client: Client, found: LeaseObject) -> bool:
        """Whether it is ours. Another may have been faster."""
        epoch, self._acquired = 1 + max(found.epoch, self.highest()), timestamp(time.time())
        asked = self.fence.clock()
        with suppress(Conflict):
            await self._write(client, found.metadata.resourceVersion, epoch)
            self.held, self.fence.epoch = True, epoch
            self.fence.renew(asked, HOLDS_SECONDS)
            return True
        return False

    async def _write(self, client: Client, there: str, epoch: int) -> None:
        """`there` is the version that it is to replace; empty: there is none."""
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace, "annotations": {EPOCH: str(epoch)}}
        metadata |= {"resourceVersion": there} if there else {}
        spec = LeaseSpec(self.holder or None, SECONDS, timestamp(time.time()), self._acquired, epoch)
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        method, path = ("PUT", f"{self._path}/{self.name}") if there else ("POST", self._path)
        self._version = _decoder.decode(await client.send(method, path, body)).metadata.resourceVersion

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
                self.beat_at = time.monotonic()
                try:
                    await self._renew(client)
                    troubled = False
                except KubeError as error:
                    self.fence.close()
                    lost(str(error))
                    return
                except (ApiError, msgspec.DecodeError) as error:
                    if not troubled:
                        log.warning("the scheduler's Lease could not be renewed and is asked for again: %s", error)
                    troubled = True
            await self._leave(client)

    async def _renew(self, client: Client) -> None:
        asked = self.fence.clock()
        try:
            await self._write(client, self._version, self.fence.epoch)
        except (Conflict, NotFound):
            self._version = self._still_mine(await self._read(client))
        else:
            self.fence.renew(asked, HOLDS_SECONDS)

    def _still_mine(self, found: LeaseObject) -> str:
        """The version to write over. Raises KubeError if another has led meanwhile, or may have."""
        holder, there = found.spec.holderIdentity, found.metadata.resourceVersion
        if (holder and holder != self.holder) or found.epoch > self.fence.epoch:
            raise KubeError(f"another scheduler has taken over: {holder or 'it has ended since'}")
        if not there and self.fence.clock() >= self.fence.deadline:
            raise KubeError("the Lease was deleted while it was not renewed: another scheduler may have led")
        return there

    async def _leave(self, client: Client) -> None:
        self.fence.close()
        self.holder = ""
        with suppress(ApiError, msgspec.DecodeError):
            await self._write(client, self._version, self.fence.epoch)
        self.held = False
