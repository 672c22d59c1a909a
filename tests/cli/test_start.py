"""A command starts with what it needs: the simulator, comparisons and trained policies are for others to load."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

from headway.cli.app import COMMANDS, SENTENCES

LOADED = "import sys\nfrom headway.cli.app import app_for\napp_for(sys.argv[1:])\nprint(*sys.modules)"
VIRTUAL_TIME = ("headway.sim", "headway.compare", "headway.trained", "headway.experiment", "headway.learn")


def _loaded(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, timeout=200, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("command", ["schedule", "run", "submit", "jobs"])
def test_a_live_command_loads_nothing_of_virtual_time(command):
    assert not [name for name in _loaded(command) if name.startswith(VIRTUAL_TIME)]


def test_help_and_mistakes_load_no_command():
    for word in ("--help", "scheduel"):
        assert not {f"headway.cli.{module}" for module in COMMANDS.values()} & _loaded(word)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_help_says_of_a_command_is_what_the_command_says_of_itself(name):
    module = importlib.import_module(f"headway.cli.{COMMANDS[name]}")
    told = module.app.info.help if hasattr(module, "app") else inspect.getdoc(getattr(module, name.replace("-", "_")))
    assert told.split("\n\n")[0] == SENTENCES[name]


def test_the_scheduler_loads_no_tables_for_a_terminal():
    assert "rich" not in _loaded("schedule")
