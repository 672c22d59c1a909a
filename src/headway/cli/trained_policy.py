"""The policy `learned` on the command line: which file it is, who watches it live, and how a log names it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.policy_settings import wrappers_of
from headway.core.errors import UserError
from headway.record.lines import Head

if TYPE_CHECKING:
    from headway.trained.file import TrainedPolicy
    from headway.trained.guard import TrainedGuard

TRAINED, FILE = "learned", "file="


def read_named(settings: Sequence[str]) -> TrainedPolicy:
    """Of the file that comes with Headway, or of another, as `file=`."""
    from headway.trained.file import read_trained

    return read_trained(_file(settings))


def guard_for(name: str, settings: Sequence[str], log: Path | None) -> TrainedGuard | None:
    """Who watches a trained policy in a live run; it replays within the run's queues and rounds. None for others."""
    if name != TRAINED:
        return None
    if log is None:
        raise UserError("--policy learned: a live run is watched by its log; add --log FILE")
    from headway.trained.guard import TrainedGuard
    from headway.trained.regret import regret_of

    replay = partial(regret_of, wrappers=wrappers_of(name, settings))
    return TrainedGuard(read_named(settings).policy(), log, _file(settings), replay)


def trained_name(policy: str, settings: Sequence[str]) -> str:
    """The file's name and the begin of its hash, as the head of a log names it; empty for other policies."""
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
