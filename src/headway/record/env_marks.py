"""Marks in place of the values of `env:`, which may be secrets.

A mark depends on a key that is not in the log: whoever has the log alone can guess no value. Example: with a key,
`(("TOKEN", "abc"),)` becomes `(("TOKEN", "hidden:91c2:3f0c9a1e5b7d2246"),)`; the first part tells the key, the second
the value. Without a key it becomes `(("TOKEN", "hidden:"),)`, which tells nothing.
"""

from __future__ import annotations

import hashlib
import re

Env = tuple[tuple[str, str], ...]
KEY_BYTES = 32
_HIDDEN = "hidden:"
_MARK = re.compile(r"hidden:([0-9a-f]{4}:[0-9a-f]{16}|[0-9a-f]{8})?")


def hidden_env(env: Env, key: bytes = b"") -> Env:
    """Names with marks in place of values. A mark stays as it is."""
    return tuple((name, _hidden(name, value, key)) for name, value in env)


def same_env(one: Env, other: Env, key: bytes = b"") -> bool:
    """Whether they have the same names and, as far as values or marks of this key can tell, the same values."""
    if [name for name, _ in one] != [name for name, _ in other]:
        return False
    return all(_same(name, value, beside, key) for (name, value), (_, beside) in zip(one, other, strict=True))


def _same(name: str, value: str, other: str, key: bytes) -> bool:
    if value == other or not (_MARK.fullmatch(value) or _MARK.fullmatch(other)):
        return value == other
    marks = _hidden(name, value, key), _hidden(name, other, key)
    known = key and all(mark.startswith(_prefix(key)) for mark in marks)
    return not known or marks[0] == marks[1]


def _hidden(name: str, value: str, key: bytes) -> str:
    if _MARK.fullmatch(value):
        return value
    if not key:
        return _HIDDEN
    text = f"{name}={value}".encode(errors="surrogatepass")
    return _prefix(key) + hashlib.blake2b(text, digest_size=8, key=key, person=b"headway env").hexdigest()


def _prefix(key: bytes) -> str:
    return f"{_HIDDEN}{hashlib.blake2b(digest_size=2, key=key, person=b'headway key').hexdigest()}:"
