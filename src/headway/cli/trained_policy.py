"""Policies that were trained, on the command line: `learned` and agents. Which file it is, and how a log names it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli.options import need_learn
from headway.cli.policy_settings import read_settings
from headway.core.errors import UserError
from headway.policies.ranges import Range
from headway.record.lines import Head

if TYPE_CHECKING:
    from headway.learn.agents import AgentPolicy
    from headway.trained.file import TrainedPolicy

TRAINED, FILE, ENV = "learned", "file=", "env="


def read_named(settings: Sequence[str]) -> TrainedPolicy:
    """Of the file that comes with Headway, or of another, as `file=`."""
    from headway.trained.file import read_trained

    return read_trained(_file(settings))


def env_setting(env: str, policy: str) -> list[str]:
    """The option as a setting, so that the log has it like every other setting."""
    if env and ".py:" not in policy:
        raise UserError(f"--env {env}: it is of an agent; give --policy mine.py:agent")
    return [f"{ENV}{env}"] if env else []


def is_agent(settings: Sequence[str]) -> bool:
    return any(item.startswith(ENV) for item in settings)


def read_agent(name: str, settings: Sequence[str]) -> AgentPolicy:
    """The agent `mine.py:agent` as a policy. In one process it is always the same one."""
    need_learn()
    ranges = {"slots": Range(0), "seconds": Range(0.0, above=True)}
    chosen = read_settings(name, settings, {"env": "", "slots": 0, "seconds": 0.05}, ranges)
    file = Path(name.rpartition(":")[0])
    return _agent(name, file.stat().st_mtime_ns if file.is_file() else 0, tuple(chosen.items()))


@cache
def _agent(name: str, _written: int, settings: tuple[tuple[str, Any], ...]) -> AgentPolicy:
    from headway.learn.agents import agent_policy

    return agent_policy(name, **dict(settings))


def trained_name(policy: str, settings: Sequence[str]) -> str:
    """The file's name and the begin of its hash, as the head of a log names it; empty for other policies."""
    if is_agent(settings):
        from headway.learn.agents import agent_name

        return agent_name(policy)
    return read_named(settings).name if policy == TRAINED else ""


def is_another(head: Head) -> str:
    """A sentence where the file has changed since the run; empty where it has not, or where the log does not say."""
    then = str(head.settings.get("trained", ""))
    now = trained_name(head.policy, head.settings.get("set", [])) if then else ""
    if now.rpartition(" ")[2] == then.rpartition(" ")[2]:
        return ""
    return f"the run was decided by {then}; the file is now {now}, which may decide otherwise"


def _file(settings: Sequence[str]) -> Path:
    from headway.trained.file import SHIPPED

    return next((Path(item.removeprefix(FILE)) for item in reversed(settings) if item.startswith(FILE)), SHIPPED)
