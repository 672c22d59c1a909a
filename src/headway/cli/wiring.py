"""From words and files on the command line to objects."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.beliefs.books import ESTIMATES, make_book
from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, read_beliefs
from headway.beliefs.kept_book import KeptBook, go_on_learning, kept_beliefs
from headway.cli.own_policy import load_own
from headway.cli.policy_settings import QUEUES, own_settings, read_settings, wrappers_of
from headway.cli.queue_config import beyond_rules, read_queues, read_rules
from headway.cli.screen.say import say
from headway.cli.trained_policy import FILE, TRAINED, env_setting, is_agent, read_agent, read_named, trained_name
from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.plan import Plan
from headway.core.policy import Policy, does_remember
from headway.core.queue_rules import QueueRule
from headway.core.snapshot import Snapshot
from headway.core.text import lasting
from headway.cycle.loop import Book
from headway.jobspec import seconds
from headway.policies.baselines.fifo import first_fit
from headway.policies.registry import POLICIES, ranges_of, settings_of
from headway.policies.wrappers.queues import Queued
from headway.record.replay import snapshots
from headway.record.rotation import before
from headway.workload.cluster import open_cluster as parse_cluster
from headway.workload.trace import head, since

if TYPE_CHECKING:
    from headway.compare.scenario import Scenario
    from headway.policies.learned import Learned
    from headway.trained.guard import TrainedGuard

__all__ = [
    "ESTIMATES",
    "beliefs_for",
    "check_claims",
    "check_estimates",
    "command_line",
    "cut",
    "env_setting",
    "for_live",
    "guard_for",
    "head_settings",
    "keep_beliefs",
    "keeping",
    "make_book",
    "make_policy",
    "parse_cluster",
    "queue_rules",
    "queue_setting",
    "read_queues",
    "safe_policy",
    "safe_policy_for",
    "seeds_of",
    "warn",
    "warn_of_claims",
    "writable",
]

MOST_LOG_BYTES = 1 << 20
"""A longer log is not read for what its jobs have shown, because a start must not take long: reading this much takes
a fifth of a second. What was learned up to a minute before the end is kept beside the log."""


def make_policy(name: str, settings: Sequence[str] = ()) -> Policy:
    """A policy by name, or a user's own as `file.py:function`.

    With any policy, the setting `queues=FILE` puts it behind queues, and `round=SECONDS` makes it decide in rounds.
    """
    policy = bare_policy(name, own_settings(settings))
    return wrappers_of(name, settings).around(policy)


def for_live(name: str, policy: Policy) -> Policy:
    """The policy; refused where a live run could not go on with it after a restart."""
    if does_remember(policy):
        raise UserError(f"--policy {name}: it remembers what no log has, so it is for virtual time: `headway simulate`")
    return policy


safe_policy = first_fit
"""Decides where another policy fails."""


def safe_policy_for(settings: Sequence[str]) -> Policy:
    """Decides where the policy with these settings fails: within the same queues, as long as these do not fail."""
    files = [item for item in settings if item.startswith(QUEUES)]
    if not files:
        return safe_policy
    queued = make_policy("first-fit", files)

    def within_queues(snapshot: Snapshot) -> Plan:
        try:
            return queued(snapshot)
        except Exception:  # noqa: BLE001  what failed may be the queues themselves
            return safe_policy(snapshot)

    return within_queues


def queue_setting(file: Path | None) -> list[str]:
    """The option as a setting, so that the log has it like every other setting."""
    return [] if file is None else [f"{QUEUES}{file}"]


def queue_rules(settings: Sequence[str]) -> tuple[QueueRule, ...]:
    """What the file of queues allows; nothing is ruled where no file is named."""
    file = next((item.partition("=")[2] for item in reversed(settings) if item.startswith(QUEUES)), None)
    return () if file is None else read_rules(file)


def check_claims(file: Path, settings: Sequence[str], jobs: Iterable[Job]) -> None:
    """Refuses the first job that claims more than its queue allows, before anything is started."""
    for sentence in beyond_rules(queue_rules(settings), jobs):
        raise UserError(f"{file}: {sentence}")


def warn_of_claims(settings: Sequence[str], jobs: Iterable[Job]) -> None:
    """In virtual time such jobs run all the same; the cluster would refuse them."""
    said = beyond_rules(queue_rules(settings), jobs)
    if said:
        warn([f"{len(said)} jobs claim more than their queue allows and would be refused on a cluster: {said[0]}"])


def pauses_of(policy: str, settings: Sequence[str]) -> dict[str, float]:
    """The settings by which this policy leaves jobs alone after a decision, or counts what a stop costs, in seconds."""
    if policy not in POLICIES:
        return {}
    made = bare_policy(policy, own_settings(settings))
    found = {name: getattr(made, name, None) for name in ("cool_down", "restart")}
    return {name: float(seconds) for name, seconds in found.items() if seconds}


def no_sharing(policy: str, jobs: Sequence[Job]) -> list[str]:
    """What a policy that moves jobs cannot do with these, in a sentence."""
    if policy != "migration" or not jobs or any(role.shares_cpu for job in jobs for role in job.roles):
        return []
    return ["--policy migration: no job has a cpu limit above its request: none slows another down, and none moves"]


def bare_policy(name: str, settings: Sequence[str]) -> Policy:
    if name == TRAINED:
        return _trained(settings)
    if is_agent(settings):
        return read_agent(name, settings)
    if ".py:" in name:
        return load_own(name, lambda known: read_settings(name, settings, known))
    if name not in POLICIES:
        raise UserError(
            f"--policy {name}: there is no such policy; choose one of {', '.join(POLICIES)} or mine.py:name"
        )
    return POLICIES[name](**read_settings(name, settings, settings_of(name), ranges_of(name)))


def _trained(settings: Sequence[str]) -> Learned:
    known, rest = {"file": "FILE", **settings_of("headway")}, [one for one in settings if not one.startswith(FILE)]
    return read_named(settings).policy(read_settings(TRAINED, rest, known, ranges_of("headway")))


def guard_for(
    name: str, settings: Sequence[str], log: Path | None, beliefs: LearnedBeliefs = NO_BELIEFS
) -> TrainedGuard | None:
    """Who watches a trained policy in a live run; it replays what decides that run. None for other policies."""
    if name != TRAINED and not is_agent(settings):
        return None
    if log is None:
        raise UserError(f"--policy {name}: a live run is watched by its log; add --log FILE")
    from headway.trained.guard import TrainedGuard
    from headway.trained.regret import Decider, regret_of

    own, wrappers = own_settings(settings), wrappers_of(name, settings)
    watched = _trained(own) if name == TRAINED else read_agent(name, own).ready()
    plain = [one for one in own if not one.startswith(FILE)] if name == TRAINED else []
    decider = Decider(
        trained=partial(bare_policy, name, own), plain=partial(bare_policy, "headway", plain), wrappers=wrappers,
        beliefs=beliefs,
    )  # fmt: skip
    return TrainedGuard(watched, log, partial(regret_of, decider)).go_on()


def beliefs_for(estimates: str, file: Path | None) -> LearnedBeliefs:
    """The beliefs that a run begins with."""
    if file is None:
        return NO_BELIEFS
    if estimates != "progress":
        raise UserError("--beliefs: only estimates by progress use beliefs; add --estimates progress")
    return read_beliefs(file)


def head_settings(beliefs: LearnedBeliefs, policy: str, settings: Sequence[str]) -> dict[str, Any]:
    """As the head of a log keeps them: the policy's settings, and the files of beliefs and of a trained policy."""
    names = {"beliefs": beliefs.name, "trained": trained_name(policy, settings)}
    return {"set": list(settings), **{what: name for what, name in names.items() if name}}


def keep_beliefs(estimates: str, beliefs: LearnedBeliefs, log: Path | None, *, same_clock: bool = False) -> Book:
    """The book of a live run. It goes on where an earlier run with the same log was, and keeps what it learns.

    A log that would take long to read is not read: what was kept beside it counts. `same_clock`: the clock goes on even
    where there is no log.
    """
    if estimates != "progress" or log is None:
        return make_book(estimates, beliefs=beliefs)
    is_quick = log.exists() and log.stat().st_size <= MOST_LOG_BYTES
    goes_on = any(file.is_file() and file.stat().st_size for file in (log, before(log)))
    past = snapshots(log) if is_quick else ()
    kept = kept_beliefs(log)
    return go_on_learning(
        kept, beliefs, past, new_clock=not (goes_on or same_clock), tell=lambda sentence: warn([sentence])
    )


@contextmanager
def keeping(book: Book) -> Iterator[None]:
    """What was learned until the end is kept, however a live run ends."""
    try:
        yield
    finally:
        if isinstance(book, KeptBook):
            book.keeper.write()


def check_estimates(estimates: str) -> None:
    """Checks the word before anything is read, so that a typing mistake costs no time."""
    if estimates not in ESTIMATES:
        raise UserError(f"--estimates {estimates}: choose one of {', '.join(ESTIMATES)}")


def writable(path: Path | None, option: str, inputs: Sequence[Path | None] = ()) -> None:
    """Checks before anything is run that the result can be written, and that none of the inputs is lost by it."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"{option} {path}: cannot be written; name a file in a folder that exists")
    if any(one is not None and one.resolve() == path.resolve() for one in inputs):
        raise UserError(f"{option} {path}: the command reads this file and would overwrite it; name another file")


def warn(sentences: Iterable[str]) -> None:
    """Prints warnings, apart from what a command prints as its result."""
    for sentence in sentences:
        say(f"warning: {sentence}", error=True)


def command_line() -> str:
    """The words that started this process, as a shell takes them."""
    return shlex.join(["headway", *sys.argv[1:]])


def seeds_of(text: str, first: int = 0) -> tuple[int, ...]:
    """From a number of seeds, which count from `first`, or a list such as 1,5,9."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--seeds {text}: give a number of seeds, or a list such as 1,5,9") from None
    if "," not in text:
        numbers = list(range(first, numbers[0] + first))
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise UserError(f"--seeds {text}: give at least one, none below zero and none twice")
    return tuple(numbers)


def cut(scenario: Scenario, from_: str, most: int) -> Scenario:
    """The jobs of the trace that `--from` and `--head` leave."""
    if most < 0:
        raise UserError(f"--head {most}: give a number of jobs above zero")
    trace = scenario.trace
    if from_:
        try:
            trace = since(trace, seconds(from_))
        except ValueError as error:
            raise UserError(f"--from {from_}: {error}") from None
        if not trace.jobs:
            last = lasting(scenario.trace.jobs[-1].submit)
            raise UserError(f"--from {from_}: no job comes after that; the last is submitted at {last}")
    return replace(scenario, trace=head(trace, most) if most else trace)


def quotas_of(policy: Policy) -> Callable[[Snapshot], Callable[[int], str]]:
    """Of a snapshot and then of a job's row: why its queue may not hold it, whatever nodes there are."""

    def beyond(snapshot: Snapshot) -> Callable[[int], str]:
        inner = getattr(policy, "current", policy)  # one that is made anew while it decides
        return inner.beyond(snapshot) if isinstance(inner, Queued) else lambda _row: ""

    return beyond
