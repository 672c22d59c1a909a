"""Before it leads, a scheduler follows the API server as the leader does and decides nothing.

All lists are kept as they are now, not the changes that led there, so that days of standing by cost no memory. Only
who has them all asks for the Lease: the epoch must be higher than that of every status. At a hand-over the TrainingJobs
are listed once more: their statuses are what the last leader wrote before it acted.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.errors import KubeError
from headway.kube.api.objects import API_VERSION, NodeObject, Pod, TrainingJob
from headway.kube.api.patience import patiently
from headway.kube.api.watch import Changed, Deleted, Listed, WatchFailed, number_of
from headway.kube.inbox import Message, UsersRecorded, WorkerEnded
from headway.kube.start import INITIAL_STATE_SECONDS, LISTS_SECONDS, NOT_SHOWN, read_initial_state, refusal
from headway.kube.writes.worker import ApiWorker

FIRST = (NodeObject, TrainingJob, Pod)
"""The order in which a start needs the lists."""
WAIT_SECONDS = 0.2
FRESH_SECONDS = 1.0
"""Lists that are older are of a time before the hand-over."""


class _Epoch(msgspec.Struct):
    epoch: int = 0


_epoch = msgspec.json.Decoder(_Epoch)


@dataclass(slots=True)
class WarmLists:
    """By kind, by uid: what is there."""

    objects: dict[type, dict[str, Any]] = field(default_factory=dict)
    versions: dict[type, int] = field(default_factory=dict)
    users: UsersRecorded | None = None
    refused: dict[type, WatchFailed] = field(default_factory=dict)
    """What the API server does not know or does not show, until it is listed again."""

    def take(self, message: Message) -> None:
        match message:
            case Listed(kind=kind, objects=objects, version=version):
                self.objects[kind] = {_key(one): one for one in objects}
                self.refused.pop(kind, None)
                self.versions[kind] = version
            case Changed(kind=kind, object=found):
                self.objects.setdefault(kind, {})[_key(found)] = found
                self.versions[kind] = number_of(found.metadata.resourceVersion)
            case Deleted(kind=kind, object=found):
                self.objects.setdefault(kind, {}).pop(_key(found), None)
                self.versions[kind] = number_of(found.metadata.resourceVersion)
            case UsersRecorded():
                self.users = message
            case WatchFailed(error=error, kind=kind) if error.status in NOT_SHOWN:
                self.refused[kind] = message
            case WorkerEnded(why=why):
                raise KubeError(f"the thread that talks to the API server has ended: {why}")

    @property
    def is_warm(self) -> bool:
        return all(kind in self.objects and kind not in self.refused for kind in FIRST)

    def highest_epoch(self) -> int:
        """Of all statuses."""
        highest = 0
        for job in list(self.objects.get(TrainingJob, {}).values()):
            with suppress(msgspec.DecodeError):  # what is wrong with it is said when it is taken in
                highest = max(highest, _epoch.decode(job.status or b"{}").epoch)
        return highest

    def messages(self) -> list[Message]:
        """As if all had been listed just now."""
        kinds = [kind for kind in (*FIRST, *self.objects) if kind in self.objects]
        lists: list[Message] = [
            Listed(kind, tuple(self.objects[kind].values()), self.versions.get(kind, 0))
            for kind in dict.fromkeys(kinds)
        ]
        return [*lists, *([] if self.users is None else [self.users])]


def _key(found: Any) -> str:
    meta = found.metadata
    return meta.uid or f"{meta.namespace}/{meta.name}"


def stand_by(access: Access, worker: ApiWorker, namespace: str) -> None:
    """Until the Lease is ours. Afterwards the worker's inbox begins with all lists, as at any start. Raises KubeError
    if the API server refuses a list.
    """
    lists, lease = WarmLists(), worker.lease
    lease.highest = lists.highest_epoch
    patience = (math.inf, math.inf) if lease.waits else (INITIAL_STATE_SECONDS, LISTS_SECONDS)
    for first in read_initial_state(worker.inbox, *patience).messages():
        lists.take(first)
    failed: list[BaseException] = []

    def acquire() -> None:
        try:
            asyncio.run(lease.acquire(access))
            worker.lead()
        except BaseException as error:  # noqa: BLE001  told in the main thread
            failed.append(error)

    thread = threading.Thread(target=acquire, name="headway-election", daemon=True)
    began = time.monotonic()
    thread.start()
    ended = False
    while not (ended and (lists.is_warm or failed)):
        ended = not thread.is_alive()  # what came before its end is read below
        worker.inbox.wait(0.0 if ended and (lists.is_warm or failed) else WAIT_SECONDS)
        while (message := worker.inbox.next()) is not None:
            lists.take(message)
        if lists.refused and ended:
            raise refusal(next(iter(lists.refused.values())).error)
    if failed:
        raise failed[0]
    if time.monotonic() - began > FRESH_SECONDS:
        lists.take(asyncio.run(patiently(access, partial(_jobs_now, namespace=namespace))))
    worker.inbox.put_back(lists.messages())


async def _jobs_now(client: Client, namespace: str) -> Listed[TrainingJob]:
    inside, found, version = f"namespaces/{namespace}/" if namespace else "", [], ""
    decoder = msgspec.json.Decoder(TrainingJob)
    async for page in client.list_pages(f"/apis/{API_VERSION}/{inside}trainingjobs"):
        for raw in page.items or []:
            with suppress(msgspec.DecodeError):
                found.append(decoder.decode(raw))
        version = page.metadata.resourceVersion
    return Listed(TrainingJob, tuple(found), number_of(version))
