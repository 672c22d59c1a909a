"""Texts from outside, made safe to print, to log and to compare.

Example: `clean("cannot\\nwrite \\x1b[2J")` is `cannot write �[2J`.
"""

from __future__ import annotations

import re

_BREAKS = re.compile("[\t\n\r\x0b\x0c\x85\u2028\u2029]+")
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that turn the direction of writing, and lone surrogates, which no file can hold."""


def clean(text: str, longest: int | None = None) -> str:
    """The text on one line, without characters that a terminal obeys or a file cannot hold."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", _BREAKS.sub(" ", text[:longest]))


def is_clean(text: str) -> bool:
    return _UNSAFE.search(text) is None and _BREAKS.search(text) is None
