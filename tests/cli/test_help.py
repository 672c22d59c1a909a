"""The help of every command at 80 columns: nothing is cut, no type of Python is shown for an option."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from headway import __version__
from headway.cli.app import COMMANDS, app_for


def _commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for name in COMMANDS:
        one = get_command(app_for([name]))
        inner = getattr(one, "commands", {})[name]
        found += [(name,), *((name, part) for part in getattr(inner, "commands", {}))]
    return found


@pytest.mark.parametrize("words", _commands(), ids=" ".join)
def test_help_fits_and_is_plain(words):
    shown = CliRunner().invoke(app_for(list(words)), [*words, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in shown.output.replace("volumes, …", "")
    options = [line for line in lines if re.match(r"│ (\*|  )? *--", line)]
    assert options
    assert not [line for line in lines if re.search(r"<(bool|str|path|int|float|list)|Usage:.*[{}]", line)]


def test_the_version_is_told():
    shown = CliRunner().invoke(app_for(["--version"]), ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"headway {__version__}\n")
