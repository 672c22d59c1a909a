"""How deep JSON is nested, without reading it. A decoder gives up at some depth, and one object must not blind us.

Example: `cut(b'{"a": [1, {"b": 2}]}', 2)` is `{"a": [1, null]}`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MOST_LEVELS = 100
"""Headway accepts so many levels in a spec or a status. A pod template has about fifteen."""
READABLE_LEVELS = 300
"""A decoder can read so many. That is above `MOST_LEVELS`: what was cut is still seen to be too deep."""
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")], _STEPS[list(b"}]")] = 1, -1
"""By byte: how it changes the level."""
_IS_MARK = _STEPS != 0
_IS_MARK[ord('"')] = True


def is_deeper(raw: bytes, levels: int = MOST_LEVELS) -> bool:
    """Whether there are more levels than so many. Most objects have fewer brackets than that."""
    return raw.count(b"{") + raw.count(b"[") > levels and depth(raw) > levels


def depth(raw: bytes) -> int:
    """The number of levels of maps and lists."""
    return int(_levels(raw)[1].max(initial=0))


def cut(raw: bytes, levels: int = READABLE_LEVELS) -> bytes:
    """The same JSON with null in place of what is deeper."""
    at, level = _levels(raw)
    deep = np.concatenate(([False], level > levels))
    changes = at[np.flatnonzero(deep[1:] != deep[:-1])].tolist()
    parts, kept = list[bytes](), 0
    for begins, ends in zip(changes[::2], changes[1::2], strict=False):
        parts += [raw[kept:begins], b"null"]
        kept = ends + 1  # the bracket that closes it
    return b"".join([*parts, raw[kept:]])


def _levels(raw: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int32]]:
    """Where quotes and brackets are, and how many maps and lists are open after each."""
    marks = np.frombuffer(raw.replace(b"\\\\", b"--").replace(b'\\"', b"--"), np.uint8)  # escapes hide no quote
    at = np.flatnonzero(_IS_MARK[marks])
    steps = _STEPS[marks[at]]
    inside = np.logical_xor.accumulate(steps == 0)
    return at, np.cumsum(np.where(inside, np.int8(0), steps), dtype=np.int32)
