"""Follows all objects of one kind: a list, then a watch, without end.

When a watch ends, the next one goes on from the last version. If that version is too old (410), a new list comes first.
If the server cannot be reached, it is tried again after a pause that doubles, up to a bound. Any other failure starts
with a new list, too: a watch never ends by itself. An object that cannot be read is skipped with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, Expired, Faulty
from headway.kube.api.nesting import cut
from headway.kube.api.objects import Bare, Meta, NodeObject, Pod, PodRule, TrainingJob

log = logging.getLogger("headway.kube")
T = TypeVar("T", Pod, NodeObject, TrainingJob, PodRule)
SHORTEST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
MOST_NOTED = 1000


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """All objects that exist now. Objects that are not in the list are gone."""

    kind: type[T]
    objects: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    kind: type[T]
    object: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    kind: type[T]
    object: T


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """The list or watch fails; sent once until it works again."""

    error: ApiError


News = Listed[T] | Changed[T] | Deleted[T] | WatchFailed


@dataclass(slots=True)
class Follower(Generic[T]):
    client: Client
    path: str
    kind: type[T]
    tell: Callable[[News[T]], None]
    _decoder: msgspec.json.Decoder[T] = field(init=False)
    _version: str = ""
    _pause: float = SHORTEST_PAUSE_SECONDS
    _failing: bool = False
    _noted: set[str] = field(default_factory=set)
    """Names of objects that cannot be read: each is told once."""

    def __post_init__(self) -> None:
        self._decoder = msgspec.json.Decoder(self.kind)

    async def follow(self) -> None:
        """Lists and watches until the task is cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except Expired:
                self._version = ""
                await self._rest(SHORTEST_PAUSE_SECONDS)
            except ApiError as error:
                await self._fails(error)
            except Exception as error:  # noqa: BLE001  whatever it is, nobody else would notice that the watch ended
                self._version = ""
                await self._fails(Faulty(0, f"{type(error).__name__}: {error}"))

    async def _fails(self, error: ApiError) -> None:
        if not self._failing:
            log.warning("watching %s fails, trying again: %s", self.path, error)
            self.tell(WatchFailed(error))
        self._failing = True
        await self._rest(max(self._pause, error.retry_after_seconds))
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311  so that not all clients return at once

    async def _list(self) -> None:
        found: list[T] = []
        version = ""
        async for page in self.client.list_pages(self.path):
            found.extend(item for raw in page.items or [] if (item := self._read(raw)) is not None)
            version = page.metadata.resourceVersion
        self.tell(Listed(self.kind, tuple(found)))
        self._version = version
        self._well()

    async def _watch(self) -> None:
        async for line in self.client.watch(self.path, self._version):
            self._well()
            if line.type == "BOOKMARK":
                self._version = _meta(line.object).resourceVersion or self._version
                continue
            item = self._read(line.object)
            if item is None and line.type == "DELETED":
                item = self.kind(metadata=_meta(line.object))
            if item is None:
                continue
            self._version = item.metadata.resourceVersion or self._version
            self.tell((Deleted if line.type == "DELETED" else Changed)(self.kind, item))

    def _well(self) -> None:
        self._pause = SHORTEST_PAUSE_SECONDS
        if self._failing:
            log.info("watching %s works again", self.path)
        self._failing = False

    def _read(self, raw: msgspec.Raw) -> T | None:
        try:
            return self._decoder.decode(raw)
        except RecursionError:
            return self._read(msgspec.Raw(cut(bytes(raw))))
        except msgspec.DecodeError as error:
            name = _meta(raw).name
            if name not in self._noted:
                if len(self._noted) >= MOST_NOTED:
                    self._noted.clear()
                self._noted.add(name)
                log.warning("%s %r cannot be read and is skipped: %s", self.kind.__name__, name, error)
            return None


def _meta(raw: msgspec.Raw) -> Meta:
    try:
        return msgspec.json.decode(raw, type=Bare).metadata
    except msgspec.DecodeError:
        return Meta(name="?")
