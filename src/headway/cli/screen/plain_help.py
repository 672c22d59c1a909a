"""Help in plain words: options say FILE, N or TEXT in place of Python's types, and a switch says nothing.

Arguments are their own word: `headway simulate [OPTIONS] TRACE`.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

AFTER = "headway.after"
WORDS = {"int": "N", "float": "N", "str": "TEXT", "path": "FILE"}


class PlainCommand(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return [worded(param, ctx) for param in super().get_params(ctx)]


class WithCommand(PlainCommand):
    """What follows `--` is a command of the user: its words are in `meta[AFTER]` of the context."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[AFTER] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])


class PlainGroup(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return [worded(param, ctx) for param in super().get_params(ctx)]


class PlainArgument(TyperArgument):
    """An argument whose word says enough: no type beside it, no braces around it."""

    def display_type_rich(self, ctx: Any) -> None:  # noqa: ARG002  the name is typer's
        return None

    def _usage_display_name(self) -> str:
        word = self.display_name_raw if self.required else f"[{self.display_name_raw}]"
        return word if self.nargs == 1 else f"{word}..."


def worded(param: Any, ctx: Any) -> Any:
    """The parameter with a plain word for its value, unless it has one of its own."""
    if isinstance(param, TyperArgument):
        param.metavar = param.metavar or str(param.name).upper().removesuffix("" if param.nargs == 1 else "S")
        param.__class__ = PlainArgument
    if isinstance(param, TyperOption) and param.metavar is None:
        param.metavar = "" if param.is_flag else _word(param.display_type(ctx))
    return param


def _word(kind: str) -> str:
    """From `<int range>`, `<list[str]>`, `<path>`."""
    bare = kind.strip("<>").removeprefix("list[").removesuffix("]").removesuffix(" range")
    return WORDS.get(bare, bare.upper())
