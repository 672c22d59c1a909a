"""How deep JSON is nested, without reading it. A decoder gives up at some depth, and one object must not blind us.

Example: `cut(b'{"a": [1, {"b": 2}]}', 2)` is `{"a": [1, null]}`.
"""

from __future__ import annotations

import re

MOST_LEVELS = 100
"""Headway accepts so many levels in a spec or a status. A pod template has about fifteen."""
READABLE_LEVELS = 300
"""A decoder can read so many. That is above `MOST_LEVELS`: what was cut is still seen to be too deep."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def depth(raw: bytes) -> int:
    """The number of levels of maps and lists."""
    deepest = now = 0
    for token in _TOKEN.finditer(raw):
        mark = raw[token.start()]
        if mark in b"{[":
            now += 1
            deepest = max(deepest, now)
        elif mark in b"}]":
            now -= 1
    return deepest


def cut(raw: bytes, levels: int = READABLE_LEVELS) -> bytes:
    """The same JSON with null in place of what is deeper."""
    parts: list[bytes] = []
    now = kept = 0
    for token in _TOKEN.finditer(raw):
        mark = raw[token.start()]
        if mark in b"{[":
            now += 1
            if now == levels + 1:
                parts += [raw[kept : token.start()], b"null"]
        elif mark in b"}]":
            now -= 1
            if now == levels:
                kept = token.end()
    return b"".join([*parts, raw[kept:]])
