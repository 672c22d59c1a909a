"""Secret `headway-state`: what a scheduler knows beside the jobs' own objects. The next leader goes on with it.

It has the moment at which the cluster's clock was zero, what jobs have taught and shown, and how a trained policy
stands. A run keeps these in small files beside its log. The Secret mirrors the files, compressed: it is read before
the first decision, and written when a file has changed. A scheduler of one namespace has keys of its own in it.
"""

from __future__ import annotations

import base64
import logging
import math
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from headway.beliefs.whole_file import write_whole
from headway.core.errors import UserError
from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, NotFound
from headway.kube.api.patience import patiently

log = logging.getLogger("headway.kube")
NAME = "headway-state"
BEGAN = "began"
PARTS = ("guard", "beliefs", "speeds")
"""Endings of the files beside the log; the first ones count most."""
MOST_BYTES = 800 * 1024
"""Compressed: a Secret holds a mebibyte."""
MOST_FILE_BYTES = 64 << 20
LOOK_SECONDS = 5.0
REFUSED_SECONDS = 60.0


class _Secret(msgspec.Struct):
    data: dict[str, Any] | None = None


_secret = msgspec.json.Decoder(_Secret)


@dataclass(slots=True)
class ClusterState:
    """The mirror of the files beside `log`, which need not exist itself."""

    system: str
    """The namespace of the Secret."""
    log: Path
    instance: str = ""
    """The namespace whose jobs are scheduled; empty: all."""
    began: float = 0.0
    """The Unix time at which the cluster's clock was zero; 0: nobody has said so yet."""
    taken_over: bool = False
    """An earlier scheduler has said it."""
    _mirrored: dict[str, tuple[int, int]] | None = None
    """By part: time and size of the file that the Secret has."""
    _look_at: float = -math.inf
    _unread: bool = False
    """What the Secret has was not shown, so nothing is written over it."""
    _too_large: bool = False

    async def read(self, access: Access) -> None:
        """Takes over what the last leader has left. Raises KubeError if the API server cannot be reached. Without the
        right to, everything is as on a new cluster, and nothing is kept.
        """
        try:
            data = await patiently(access, self._data)
        except NotFound:
            return
        except (ApiError, msgspec.DecodeError) as error:
            self._unread = True
            words = "what was learned is neither taken over nor kept: %s; run `headway schedule --install`"
            log.warning(words, error)
            return
        self.unpack({name: _part(data.get(self._key(name))) for name in (BEGAN, *PARTS)})

    async def _data(self, client: Client) -> Mapping[str, Any]:
        return _secret.decode(await client.get(f"/api/v1/namespaces/{self.system}/secrets/{NAME}")).data or {}

    def unpack(self, parts: Mapping[str, bytes]) -> None:
        with suppress(ValueError):
            self.began = float(parts[BEGAN])
            self.taken_over = True
        for name in PARTS:
            with suppress(UserError):
                if part := parts.get(name):
                    write_whole(self._file(name), part, private=True, synced=False)
                    self._mirrored = {**(self._mirrored or {}), name: _stamp(self._file(name))}

    def changed(self, *, now: bool = False) -> dict[str, Any] | None:
        """The body of a write, if a file is another one since the last write."""
        if self._unread or (not now and time.monotonic() < self._look_at):
            return None
        self._look_at = time.monotonic() + LOOK_SECONDS
        there = {name: _stamp(self._file(name)) for name in PARTS if self._file(name).exists()}
        if there == self._mirrored:
            return None
        data, left = {self._key(BEGAN): _text(repr(self.began).encode())}, MOST_BYTES
        for name in there:
            packed = zlib.compress(self._file(name).read_bytes(), 6)
            if len(packed) > left:
                self._tell_too_large(name, len(packed))
                continue
            left -= len(packed)
            data[self._key(name)] = _text(packed)
        self._mirrored = there
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "data": data}

    def refused(self, error: ApiError) -> None:
        """The API server did not take the last body: after a while it is made anew."""
        log.warning("Secret %s/%s cannot be written, trying again: %s", self.system, NAME, error)
        self._mirrored, self._look_at = None, time.monotonic() + REFUSED_SECONDS

    def _tell_too_large(self, name: str, size: int) -> None:
        if not self._too_large:
            log.warning("Secret %s/%s has no room for %s: %d KiB", self.system, NAME, name, size // 1024)
        self._too_large = True

    def _file(self, name: str) -> Path:
        return self.log.with_name(f"{self.log.name}.{name}")

    def _key(self, name: str) -> str:
        return f"{self.instance}.{name}" if self.instance else name


def _stamp(file: Path) -> tuple[int, int]:
    about = file.stat()
    return about.st_mtime_ns, about.st_size


def _part(told: Any) -> bytes:
    """Empty where there is none, or it cannot be read: it is learned anew."""
    try:
        raw = base64.b64decode(told or "", validate=True)
        if raw[:1].isdigit():
            return raw
        found = zlib.decompressobj()
        return found.decompress(raw, MOST_FILE_BYTES)
    except (TypeError, ValueError, zlib.error):
        return b""


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
