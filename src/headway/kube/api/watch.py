"""Follows all objects of one kind: a list, then a watch, without end.

When a watch ends, the next one goes on from the last version. A new list comes first in these cases:
- the server lacks that version: it is too old (410), or the server's versions went back;
- the server was away: a copy of its data may have been restored meanwhile, and versions then mean something else;
- the last list is `resync` seconds old: what a watch lost, whatever the reason, is found then;
- any failure that nobody foresaw.

If the server cannot be reached, it is tried again after a pause that doubles, up to a bound. A watch never ends by
itself, unless it is optional. An object that cannot be read is skipped with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, Expired, Faulty, Unreachable
from headway.kube.api.objects import (
    Bare,
    LimitRange,
    Meta,
    MutatingPolicy,
    NodeObject,
    Pod,
    PodRule,
    PolicyBinding,
    RuntimeClass,
    TrainingJob,
    WatchLine,
    cut,
)

log = logging.getLogger("headway.kube")
T = TypeVar("T", Pod, NodeObject, TrainingJob, PodRule, LimitRange, MutatingPolicy, PolicyBinding, RuntimeClass)
SHORTEST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
SHORTEST_WATCH_SECONDS = 1.0
"""A silent watch that ends sooner is followed by a pause."""
TOO_MANY_REQUESTS = 429
NOT_SHOWN = (403, 404)
RESYNC_SECONDS = 600.0
MOST_NOTED = 1000


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """All objects that exist at this version. Objects that are not in the list are gone, or came later."""

    kind: type[T]
    objects: tuple[T, ...]
    version: int = 0
    went_back: bool = False
    """The server's versions are lower than before: its data are those of an earlier time."""
    unread: tuple[str, ...] = ()
    """Names (and uids) of objects that are there and cannot be read: they are as they were last seen."""


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
    """The list or watch fails; sent once until it works again. After a refusal that is a new list."""

    error: ApiError
    kind: type


News = Listed[T] | Changed[T] | Deleted[T] | WatchFailed


@dataclass(slots=True)
class Follower(Generic[T]):
    client: Client
    path: str
    kind: type[T]
    tell: Callable[[News[T]], None]
    resync: float = RESYNC_SECONDS
    optional: bool = False
    """Whether it ends, without a word, where the server has no such objects or does not show them."""
    _decoder: msgspec.json.Decoder[T] = field(init=False)
    _version: str = ""
    """Where the next watch begins; empty if a list comes first."""
    _highest: int = 0
    """Of all versions that were seen."""
    lists: int = 0
    """How often all were listed."""
    heard_at: float = field(default_factory=time.monotonic)
    """When the server last said anything, by the monotonic clock."""
    _listed_at: float = 0.0
    _pause: float = SHORTEST_PAUSE_SECONDS
    _failing: bool = False
    _noted: set[str] = field(default_factory=set)
    """Names of objects that cannot be read: each is told once."""

    def __post_init__(self) -> None:
        self._decoder = msgspec.json.Decoder(self.kind)

    async def follow(self) -> None:
        """Lists and watches until the task is cancelled, or what is optional is not there."""
        while True:
            try:
                if not self._version or time.monotonic() - self._listed_at >= self.resync:
                    await self._list()
                await self._watch()
            except Expired:
                self._version = ""
                await self._rest()
            except ApiError as error:
                if self.optional and error.status in NOT_SHOWN:
                    return
                away = self._failing and isinstance(error, Unreachable) and error.status != TOO_MANY_REQUESTS
                if away or not isinstance(error, Unreachable):
                    self._version = ""  # the server was away for longer than a moment, or refused
                await self._fails(error)
            except Exception as error:  # noqa: BLE001  whatever it is, nobody else would notice that the watch ended
                self._version = ""
                await self._fails(Faulty(0, f"{type(error).__name__}: {error}"))

    async def _fails(self, error: ApiError) -> None:
        if not self._failing:
            level = logging.DEBUG if self.optional else logging.WARNING
            log.log(level, "watching %s fails, trying again: %s", self.path, error)
            self.tell(WatchFailed(error, self.kind))
        self._failing = True
        await self._rest(error.retry_after_seconds)

    async def _rest(self, least: float = 0.0) -> None:
        """Pauses for longer each time, so that not all clients return at once, but at least as long as asked for."""
        await asyncio.sleep(least + self._pause * random.uniform(0.5, 1.0))  # noqa: S311
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    async def _list(self) -> None:
        found: list[T] = []
        unread: list[str] = []
        version, self._listed_at = "", time.monotonic()
        async for page in self.client.list_pages(self.path):
            for raw in page.items or []:
                item = self._read(raw)
                if item is not None:
                    found.append(item)
                else:
                    meta = _meta(raw)
                    unread += [meta.name, meta.uid]
            version = page.metadata.resourceVersion
        at = number_of(version)
        went_back = 0 < at < self._highest
        if went_back:
            log.warning("%s: the server's data are of an earlier time; all is compared with them", self.path)
        self.tell(Listed(self.kind, tuple(found), at, went_back, tuple(unread)))
        self._version, self._highest = version, at
        self.lists += 1
        self._works()

    async def _watch(self) -> None:
        began, silent = time.monotonic(), True
        async for line in self.client.watch(self.path, self._version):
            silent = False
            self._works()
            self._take(line)
        self._works()
        if silent:
            await self._check_version()
        if silent and time.monotonic() - began < SHORTEST_WATCH_SECONDS:
            await self._rest()
        else:
            self._pause = SHORTEST_PAUSE_SECONDS

    def _take(self, line: WatchLine) -> None:
        item = None if line.type == "BOOKMARK" else self._read(line.object)
        meta = _meta(line.object) if item is None else item.metadata
        at = number_of(meta.resourceVersion)
        if 0 < at < number_of(self._version):
            raise Expired(0, f"version {at} comes after {self._version}: changes come in order")
        self._version, self._highest = meta.resourceVersion or self._version, max(at, self._highest)
        if line.type == "DELETED":
            self.tell(Deleted(self.kind, self.kind(metadata=meta) if item is None else item))
        elif item is not None:
            self.tell(Changed(self.kind, item))

    async def _check_version(self) -> None:
        """A server that lacks our version, because it is from the future, may let us watch and never say a word."""
        if number_of(await self.client.version(self.path)) < number_of(self._version):
            raise Expired(0, f"the server has no version {self._version} yet")

    def _works(self) -> None:
        if self._failing:
            log.info("watching %s works again", self.path)
        self._failing, self.heard_at = False, time.monotonic()

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


def number_of(version: str) -> int:
    """A resource version as a number; 0 if it is none."""
    return int(version) if version.isdecimal() else 0
