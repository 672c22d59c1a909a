"""How jobs are to be trained on this machine: the options that `headway run` and `headway up` have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from headway.cli import options
from headway.cli.wiring import env_setting, queue_setting


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToTrain:
    policy: options.PolicyName = "headway"
    env: options.AgentEnv = ""
    own: options.Set = field(default_factory=list)
    queues: options.Queues = None
    cluster: options.Cluster = ""
    estimates: options.Estimates = "progress"
    beliefs: options.BeliefsFile = None
    save_seconds: options.SaveSeconds = 30.0
    cgroups: options.Cgroups = True
    share: options.Share = False
    gpus: options.Gpus = None
    busy_gpus: options.BusyGpus = False
    page: options.Page = False
    quiet: bool = False
    fresh: bool = False
    stays: bool = False
    """It is a queue that stays: jobs that are over leave it, and it goes on without any."""

    @property
    def settings(self) -> list[str]:
        """Of the policy, with its queues."""
        return [*self.own, *queue_setting(self.queues), *env_setting(self.env, self.policy)]


def trains(command: Callable[..., None]) -> Callable[..., None]:
    """The command has the options of `HowToTrain` in place of `how`, and is called with what they say."""
    hints = get_type_hints(HowToTrain, include_extras=True)
    shared = {
        one.name: inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=[] if one.default is MISSING else one.default,
            annotation=hints[one.name],
        ) for one in fields(HowToTrain) if get_origin(hints[one.name]) is Annotated
    }  # fmt: skip
    every = {**inspect.signature(command, eval_str=True).parameters, **shared}
    del every["how"]

    @wraps(command)
    def called(**told: Any) -> None:
        how = HowToTrain(**{name: told.pop(name) for name in shared})
        options.need_page(wanted=how.page)
        command(how=how, **told)

    called.__signature__ = inspect.Signature(list(every.values()))  # type: ignore[attr-defined]
    called.__annotations__ = {name: one.annotation for name, one in every.items()}
    return called


def given(context: typer.Context, *, but: tuple[str, ...]) -> list[str]:
    """The options of this command that were given, as words for another process, in whatever folder that is."""
    words = list[str]()
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if option.name in but or value in (option.default, None):
            continue
        if isinstance(value, bool):
            words.append((option.opts if value else option.secondary_opts)[0])
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [option.opts[0], _anywhere(one)]
    return words


def _anywhere(value: object) -> str:
    """Names of files as they are called from any folder, also in `mine.py:agent` and `user_priority=users.yaml`."""
    if isinstance(value, Path):
        return str(value.resolve())
    name, mark, rest = str(value).rpartition("=")
    file, colon, what = rest.partition(":")
    is_file = Path(file).suffix and Path(file).is_file()
    return f"{name}{mark}{Path(file).resolve()}{colon}{what}" if is_file else str(value)
