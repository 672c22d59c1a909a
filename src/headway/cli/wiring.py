"""From words on the command line to objects."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headway.cli.queues import read_queues
from headway.core.errors import UserError
from headway.core.estimates import Counts
from headway.core.job import Job
from headway.core.policy import Policy
from headway.cycle.loop import Book
from headway.cycle.resume import remembered
from headway.estimates.models.scaling import plain_speed
from headway.estimates.plain_books import DeclaredBook, LinearBook, NoEstimates, OracleBook, Truth
from headway.estimates.progress import ProgressBook
from headway.policies.admit import with_queues
from headway.policies.registry import POLICIES, settings_of
from headway.policies.rounds import in_rounds
from headway.record.replay import snapshots
from headway.workload.cluster import open_cluster as parse_cluster
from headway.workload.jobsfile import decode

__all__ = [
    "ESTIMATES",
    "after",
    "check_estimates",
    "make_book",
    "make_policy",
    "parse_cluster",
    "queue_setting",
    "writable",
]

SpeedAt = Callable[[Job, Counts], float]
QUEUES = "queues="
ROUND = "round="
MOST_LOG_BYTES = 64 << 20
"""A longer log is not read for what its jobs have shown: some twenty seconds are enough to wait for."""
ESTIMATES = ("oracle", "declared", "progress", "linear", "none")


def make_policy(name: str, settings: Sequence[str] = ()) -> Policy:
    """A policy by name, or a researcher's own as `file.py:function`.

    Whichever it is, `queues=FILE` puts it behind queues, and `round=SECONDS` has it decide in rounds.
    """
    files, rounds = ([item for item in settings if item.startswith(word)] for word in (QUEUES, ROUND))
    policy = _bare_policy(name, [item for item in settings if item not in (*files, *rounds)])
    if rounds:
        policy = in_rounds(policy, _settings(name, rounds[-1:], {"round": 0.0})["round"])
    return with_queues(policy, read_queues(Path(files[-1].partition("=")[2]))) if files else policy


def queue_setting(file: Path | None) -> list[str]:
    """The option as a setting, so that it is written into the log like every other."""
    return [] if file is None else [f"{QUEUES}{file}"]


def _bare_policy(name: str, settings: Sequence[str]) -> Policy:
    if ".py:" in name:
        return _own_policy(name, settings)
    if name not in POLICIES:
        raise UserError(
            f"--policy {name}: there is no such policy; choose one of {', '.join(POLICIES)} or mine.py:name"
        )
    return POLICIES[name](**_settings(name, settings, settings_of(name)))


def _settings(name: str, settings: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {}
    for item in settings:
        key, equals, value = item.partition("=")
        if not equals or key not in known:
            offer = ", ".join(f"{key}={default}" for key, default in known.items()) or "none"
            raise UserError(f"--set {item}: policy {name} has these settings: {offer}")
        try:
            if isinstance(known[key], tuple):
                chosen[key] = _named_numbers(value)
                continue
            chosen[key] = msgspec.convert(value, type(known[key]), strict=False)
        except msgspec.ValidationError as error:
            raise UserError(f"--set {item}: {error}") from error
    return chosen


def _named_numbers(value: str) -> tuple[tuple[str, float], ...]:
    """Names and numbers: in a YAML file, or as they are, ann=8,bob=2."""
    if value.endswith((".yaml", ".yml")):
        return tuple(decode(Path(value), dict[str, float]).items())
    pairs = [part.rpartition("=") for part in value.split(",") if part]
    if not all(equals for _, equals, _ in pairs):
        raise UserError(f"{value}: write a YAML file of names and numbers, or for example ann=8,bob=2")
    return tuple((name, msgspec.convert(number, float, strict=False)) for name, _, number in pairs)


def _own_policy(name: str, settings: Sequence[str]) -> Policy:
    path, _, attribute = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("own_policy", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UserError(f"--policy {name}: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises is the user's to see, in one sentence
        raise UserError(f"--policy {name}: {path} cannot be loaded: {type(error).__name__}: {error}") from error
    policy = getattr(module, attribute, None)
    if not callable(policy):
        raise UserError(f"--policy {name}: {path} has no function {attribute!r}")
    fields = getattr(policy, "__dataclass_fields__", {})
    known = {key: field.default for key, field in fields.items()} if isinstance(policy, type) else {}
    values = _settings(name, settings, known)
    chosen: Policy = policy(**values) if isinstance(policy, type) else policy
    return chosen


def make_book(estimates: str, truth: Truth | None = None, speed: SpeedAt = plain_speed) -> Book:
    match estimates:
        case "oracle":
            if truth is None:
                raise UserError("--estimates oracle: only virtual time knows the truth; use declared or progress")
            return OracleBook(truth, speed)
        case "declared":
            return DeclaredBook()
        case "progress":
            return ProgressBook()
        case "linear":
            return LinearBook()
        case "none":
            return NoEstimates()
    raise UserError(f"--estimates {estimates}: choose one of {', '.join(ESTIMATES)}")


def after(book: Book, log: Path | None) -> Book:
    """The book with what jobs of an earlier run have shown, where that run left a log that is soon read."""
    if not isinstance(book, ProgressBook) or log is None or not log.exists() or log.stat().st_size > MOST_LOG_BYTES:
        return book
    return remembered(snapshots(log))


def check_estimates(estimates: str) -> None:
    """Before anything is read: a misspelt word should not cost a minute."""
    if estimates not in ESTIMATES:
        raise UserError(f"--estimates {estimates}: choose one of {', '.join(ESTIMATES)}")


def writable(path: Path | None, option: str) -> None:
    """Before anything is run: its result must have somewhere to go."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise UserError(f"{option} {path}: it cannot be written there")
