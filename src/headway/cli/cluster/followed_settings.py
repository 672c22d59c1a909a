"""Settings in files that may change while Headway runs: a mounted ConfigMap, or any YAML file.

`--settings settings.yaml`, `--queues queues.yaml` and `--set user_priority=users.yaml` name files. Where one changes,
the policy is made anew with what it says, and the log gets a new head line with the settings themselves, so that a
replay needs no file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.cli.policy_settings import QUEUES, named_numbers, own_settings, wrappers_of
from headway.cli.queue_config import in_full
from headway.cli.wiring import bare_policy, safe_policy_for
from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.core.policy import Policy, does_remember, explain_with, is_gangless
from headway.core.snapshot import Snapshot
from headway.workload.decode import decode
from headway.workload.yaml_values import shortened

WORD = "user_priority="
SETTINGS = "settings="
LOOK_SECONDS = 5.0

Value = str | bool | int | float | dict[str, float]


def settings_of_file(file: Path | None) -> list[str]:
    """The option as a setting. It stands before those of `--set`, because the last of a name counts."""
    return [] if file is None else [f"{SETTINGS}{file}"]


def written_out(settings: Sequence[str]) -> list[str]:
    """The settings with what is in files in place of these. Raises UserError where one cannot be read."""
    return [_written_out(one) for item in settings for one in _in_file(item)]


def _in_file(item: str) -> list[str]:
    """What a file of settings says, as `--set` takes it."""
    if not item.startswith(SETTINGS):
        return [item]
    return [f"{name}={_word(value)}" for name, value in decode(_file(item), dict[str, Value]).items()]


def _file(item: str) -> Path:
    return Path(item.removeprefix(SETTINGS))


def _word(value: Value) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={number:g}" for name, number in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _written_out(item: str) -> str:
    if item.startswith(QUEUES):
        return f"{QUEUES}{in_full(item.partition('=')[2])}"
    return f"{WORD}{_pairs(item)}" if item.startswith(WORD) else item


def _pairs(item: str) -> str:
    return ",".join(f"{name}={number:g}" for name, number in named_numbers(item.partition("=")[2]))


@dataclass(slots=True)
class FollowedPolicy:
    """Decides as a policy with the settings that the files have now: the one holder of what may change."""

    name: str
    settings: Sequence[str]
    """As they were given, with the files."""
    changed: Callable[[list[str]], None] = lambda _: None
    """Called with the settings in full before they decide."""
    clock: Callable[[], float] = time.monotonic
    refused: Callable[[str], None] = lambda _: None
    """Called once with what is wrong in a file; the settings stay as they were."""
    current: Policy = field(init=False)
    in_full: list[str] = field(init=False)
    _look_at: float = field(init=False)
    _wrong: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.in_full = written_out(self.settings)
        self.current = self._made(self.in_full)
        self._look_at = self.clock() + LOOK_SECONDS

    def _made(self, in_full: Sequence[str]) -> Policy:
        try:
            return wrappers_of(self.name, in_full).around(bare_policy(self.name, own_settings(in_full)))
        except UserError as error:
            raise UserError(self._in_its_file(str(error))) from error

    def _in_its_file(self, why: str) -> str:
        """A setting that nobody gave with `--set` is told with its file."""
        for file in (item for item in self.settings if item.startswith(SETTINGS)):
            if any(why.startswith(f"--set {shortened(one, 80)}:") for one in _in_file(file)):
                return f"{_file(file)}: {why.removeprefix('--set ')}"
        return why

    def __call__(self, snapshot: Snapshot) -> Plan:
        return self.current(snapshot)

    @property
    def gangless(self) -> bool:
        return is_gangless(self.current)

    @property
    def remembers(self) -> bool:
        return does_remember(self.current)

    @property
    def file(self) -> str:
        """Of a user's own policy."""
        return str(getattr(self.current, "file", ""))

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        return explain_with(self.current, snapshot, row)

    def look(self) -> None:
        """Once in a while; between two cycles. A mistake in a file keeps the old settings, and is told once."""
        if self.clock() < self._look_at:
            return
        self._look_at, log = self.clock() + LOOK_SECONDS, logging.getLogger("headway")
        try:
            found = written_out(self.settings)
            policy = self.current if found == self.in_full else self._made(found)
        except (UserError, OSError) as error:
            if str(error) != self._wrong:
                log.warning("%s; the settings stay as they were", error)
                self.refused(str(error))
            self._wrong = str(error)
            return
        self._wrong = ""
        if policy is not self.current:
            self.current, self.in_full = policy, found
            self.changed(found)
            log.info("the settings have changed")


def followed(name: str, settings: Sequence[str]) -> FollowedPolicy | None:
    """The policy, where settings, queues or the priorities of users are in a file."""
    users = [item.partition("=")[2] for item in settings if item.startswith(WORD)]
    queues = [item for item in settings if item.startswith(QUEUES) and not item.startswith(f"{QUEUES}{{")]
    is_file = bool(queues) or any(Path(one).suffix in (".yaml", ".yml") for one in users)
    is_file |= any(item.startswith(SETTINGS) for item in settings)
    return FollowedPolicy(name, settings) if is_file else None


def safe_now(policy: Policy, settings: Sequence[str]) -> Policy:
    """Decides where the policy fails, within the queues as they are then."""

    def safe(snapshot: Snapshot) -> Plan:
        return safe_policy_for(policy.in_full if isinstance(policy, FollowedPolicy) else settings)(snapshot)

    return safe


def tell_changes(
    policy: Policy, tell: Callable[[list[str]], None], refused: Callable[[str], None] = lambda _: None
) -> None:
    """Calls `tell` with the settings in full where a policy follows files, each time before they decide, and `refused`
    with what is wrong in one.
    """
    if isinstance(policy, FollowedPolicy):
        policy.changed, policy.refused = tell, refused
