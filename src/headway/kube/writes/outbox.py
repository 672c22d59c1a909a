"""What the thread that decides wants written: sent once, replaced by what is newer, dropped when it is not wanted.

A gang says with each step all that is left to do. What is under way already is not sent again; what is wanted otherwise
comes in its place; what is not wanted any more is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.kube.api.objects import Meta
from headway.kube.gangs.model import Bind, Create, Publish, Release, SetCondition, Touch, Ungate
from headway.kube.writes.write import (
    AT_REST,
    KeepState,
    Notice,
    Rank,
    Removal,
    StatusPatch,
    What,
    Write,
    identity,
    rank_of,
)

Put = Callable[[Sequence[Write], Sequence[Write]], None]
STATUS = identity(StatusPatch())
MAX_OPEN = 128
"""Requests of one gang that are under way or queued. Bodies of the rest are made when it is their turn: a gang of a
thousand must not stop all others for seconds."""
MADE = (Create, Publish, Release)
"""What is made once by its name. Of all else the newest counts: another node, other amounts."""
PASSING = frozenset({"progress", "history", "deadline", "explained"})


@dataclass(slots=True)
class Outbox:
    put: Put
    epoch: Callable[[], int] = lambda: 0
    """That of the scheduler; each status carries it. 0: it has no Lease."""
    unbound: int = 0
    """Pods that are being made or bound."""
    _open: dict[str, dict[tuple[object, ...], Write]] = field(default_factory=dict)
    """By the uid of a gang: what was sent and is not answered."""
    _new: list[Write] = field(default_factory=list)
    _dropped: list[Write] = field(default_factory=list)

    def flush(self) -> None:
        """Once a turn."""
        if self._new or self._dropped:
            new, self._new = self._new, []
            dropped, self._dropped = self._dropped, []
            self.put(new, dropped)

    def is_busy(self, uid: str) -> bool:
        return bool(self._open.get(uid))

    @property
    def is_idle(self) -> bool:
        return not self._open and not self._new

    @property
    def is_tried(self) -> bool:
        """Whether all was sent once. What failed comes again later: a scheduler that ends leaves it to the next one."""
        return not self._new and all(write.tries for known in self._open.values() for write in known.values())

    def want(
        self, meta: Meta, actions: Sequence[What], body: Callable[[What], dict[str, Any] | None], key: str = ""
    ) -> None:
        """All requests about the pods of a gang that are left to do. `body` makes the body of one, when it is new."""
        uid = key or meta.uid
        known, wanted = self._open.get(uid, {}), {identity(one): one for one in actions}
        for one in [one for one in known if one not in wanted and one != STATUS]:
            self._close(uid, one)
        for one, action in wanted.items():
            old = self._open.get(uid, {}).get(one)
            if old is not None and (old.what == action or isinstance(action, MADE)):
                continue
            if old is None and len(self._open.get(uid, ())) >= MAX_OPEN:
                return
            made = body(action)
            if made is not None:
                write = Write(
                    uid, meta.namespace, getattr(action, "name", ""), action, made, uid=meta.uid, rank=rank_of(action),
                    replaces=old,
                )  # fmt: skip
                self._send(one, write)

    def status(self, meta: Meta, body: Mapping[str, Any], token: Any, *, urgent: bool = False) -> None:
        """The newest status of a gang: an older one that is not under way need not be sent."""
        body, old = self._with_epoch(body), self._open.get(meta.uid, {}).get(STATUS)
        rank = Rank.DELETE if urgent else Rank.STATUS
        if old is not None and old.token == token and old.rank <= rank and _says_the_same(old.body, body):
            return
        self._send(STATUS, Write(
            meta.uid, meta.namespace, meta.name, StatusPatch(), body, uid=meta.uid, rank=rank, token=token,
            replaces=old,
        ))  # fmt: skip

    def rests(self, meta: Meta, body: Mapping[str, Any]) -> None:
        """The status of a job that is no gang: asked for until it is there, or until the job is a gang with its own."""
        old = self._open.get(meta.uid, {}).get(STATUS)
        body, what = self._with_epoch(body), StatusPatch()
        self._send(STATUS, Write(
            meta.uid, meta.namespace, meta.name, what, body, uid=meta.uid, rank=Rank.EVENT, token=AT_REST, replaces=old
        ))  # fmt: skip

    def answered(self, write: Write) -> bool:
        """Whether it is one that somebody waits for."""
        one = identity(write.what)
        if self._open.get(write.key, {}).get(one) is not write:
            return False
        self._close(write.key, one, drop=False)
        return True

    def forget(self, uid: str) -> None:
        for one in list(self._open.get(uid, ())):
            self._close(uid, one)

    # ── what nobody waits for ──

    def notice(self, namespace: str, body: dict[str, Any]) -> None:
        """An event for users."""
        self._new.append(Write("", namespace, "", Notice(), body, rank=Rank.EVENT))

    def tell(self, meta: Meta, body: dict[str, Any]) -> None:
        """A few fields of a status, beside those that are under way."""
        told = self._with_epoch(body)
        self._new.append(Write("", meta.namespace, meta.name, StatusPatch(), told, uid=meta.uid, rank=Rank.EVENT))

    def condition(self, meta: Meta, body: dict[str, Any]) -> None:
        what = SetCondition(meta.name, meta.uid)
        self._new.append(Write("", meta.namespace, meta.name, what, body, uid=meta.uid, rank=Rank.EVENT))

    def touch(self, namespace: str, name: str, body: dict[str, Any], rank: Rank = Rank.BIND) -> None:
        what = Touch(name, body["metadata"]["uid"])
        self._new.append(Write("", namespace, name, what, body, uid=what.uid, rank=rank))

    def keep(self, namespace: str, name: str, body: dict[str, Any], token: Any) -> None:
        """What the next leader goes on with. An older one need not be sent."""
        what, key = KeepState(), f"state of {namespace}"
        old = self._open.get(key, {}).get(identity(what))
        self._send(identity(what), Write(key, namespace, name, what, body, token=token, replaces=old))

    def remove(self, meta: Meta) -> None:
        self._new.append(Write("", meta.namespace, meta.name, Removal(), uid=meta.uid, rank=Rank.EVENT))

    # ── inside ──

    def _with_epoch(self, body: Mapping[str, Any]) -> dict[str, Any]:
        epoch = self.epoch()
        return {**body, "epoch": epoch} if epoch else dict(body)

    def _send(self, one: tuple[object, ...], write: Write) -> None:
        known = self._open.setdefault(write.key, {})
        self.unbound += one not in known and isinstance(write.what, Create | Bind | Ungate)
        known[one] = write
        self._new.append(write)

    def _close(self, uid: str, one: tuple[object, ...], *, drop: bool = True) -> None:
        write = self._open[uid].pop(one)
        self.unbound -= isinstance(write.what, Create | Bind | Ungate)
        if not self._open[uid]:
            del self._open[uid]
        if drop:
            self._dropped.append(write)


def _says_the_same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """But for numbers that change with time alone."""
    return all(old.get(name) == new.get(name) for name in old.keys() | new.keys() if name not in PASSING)
