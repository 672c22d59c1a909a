"""Which version of each object was seen last. Versions come from watches and from answers, so not always in order.

A list says what was there at its version. What was heard of a later version stays. A list may also contradict what was
heard before: then the server's data were restored from a copy, and what it says now holds.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from headway.kube.api.objects import Meta, NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Listed, number_of

T = TypeVar("T", Pod, NodeObject, TrainingJob)
MAX_TOMBSTONES = 10_000


class ListNews(NamedTuple, Generic[T]):
    """What a list says, compared with what was known."""

    gone: list[str]
    """By uid."""
    there: list[T]
    """Objects that are new to us as they are. Those that we know, in this version or a later one, are not here."""
    went_back: set[str]
    """Of these the ones that we knew in a later version: that version never was."""


@dataclass(slots=True)
class Versions:
    known: dict[str, int] = field(default_factory=dict)
    """By uid."""
    _ended: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def take(self, meta: Meta) -> bool:
        """Whether this is news: no older version of an object that we know, nor one that has ended."""
        at = number_of(meta.resourceVersion)
        if meta.uid in self._ended or at < self.known.get(meta.uid, 0):
            return False
        self.known[meta.uid] = at
        return True

    def end(self, uid: str, version: int) -> None:
        """The object is gone since this version. What is heard of it late does not bring it back."""
        self._ended[uid] = max(version, self.known.pop(uid, 0))
        if len(self._ended) > MAX_TOMBSTONES:
            self._ended.popitem(last=False)

    def compare(self, news: Listed[T]) -> ListNews[T]:
        """Takes in a list. Objects that are gone are not forgotten yet: call `end`."""
        found: dict[str, T] = {one.metadata.uid: one for one in news.objects}
        there_still = set(found) | set(news.unread)
        gone = [uid for uid in self.known if uid not in there_still and self._is_before(self.known[uid], news)]
        there: list[T] = []
        went_back: set[str] = set()
        for uid, one in found.items():
            at, before, ended = number_of(one.metadata.resourceVersion), self.known.get(uid, 0), self._ended.get(uid)
            if at == before > 0 and not news.went_back:
                continue
            if ended is not None or at < before:
                if not self._contradicts(before if ended is None else ended, news):
                    continue
                self._ended.pop(uid, None)
                went_back.add(uid)
            self.known[uid] = at
            there.append(one)
        return ListNews(gone, there, went_back)

    def _is_before(self, version: int, news: Listed[T]) -> bool:
        """Whether the list knows of what happened at this version."""
        return news.went_back or not news.version or version <= news.version

    def _contradicts(self, version: int, news: Listed[T]) -> bool:
        """Whether the list should show what happened at this version, and does not: that never happened."""
        return news.went_back or 0 < version <= news.version
