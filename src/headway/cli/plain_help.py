"""Help in plain words: options say FILE, N or TEXT in place of Python's types, and a switch says nothing."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

WORDS = {"int": "N", "float": "N", "str": "TEXT", "path": "FILE"}


class PlainCommand(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return [worded(param, ctx) for param in super().get_params(ctx)]


class PlainGroup(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return [worded(param, ctx) for param in super().get_params(ctx)]


def worded(param: Any, ctx: Any) -> Any:
    """The parameter with a plain word for its value, unless it has one of its own."""
    if isinstance(param, TyperOption) and param.metavar is None:
        param.metavar = "" if param.is_flag else _word(param.display_type(ctx))
    return param


def _word(kind: str) -> str:
    """From `<int range>`, `<list[str]>`, `<path>`."""
    bare = kind.strip("<>").removeprefix("list[").removesuffix("]").removesuffix(" range")
    return WORDS.get(bare, bare.upper())
