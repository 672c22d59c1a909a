"""An agent from a user's own file, as `file.py:name`: a function from an observation to an action."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from headway.core.errors import UserError
from headway.learn.leaderboard import Agent


def load_agent(text: str) -> Agent:
    """The function, from a file in any folder. What goes wrong while the file is read is told in a sentence."""
    file, _, name = text.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not name:
        raise UserError(f"--agent {text}: give a file and a function, such as mine.py:agent")
    if not path.is_file():
        raise UserError(f"--agent {text}: there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"--agent {text}: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise UserError(f"--agent {text}: there is no function {name} in {path.name}")
    agent: Agent = found
    return agent
