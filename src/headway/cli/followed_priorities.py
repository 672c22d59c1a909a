"""Priorities of users from a file that may change while Headway runs: a mounted ConfigMap, or any YAML file.

`--set user_priority=users.yaml` names the file. Where it changes, the policy is made anew with what it says, and the
log gets a new head line with the priorities themselves, so that a replay needs no file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.cli.policy_settings import named_numbers, own_settings, wrappers_of
from headway.cli.wiring import bare_policy
from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.core.policy import Policy, explain_with, is_gangless
from headway.core.snapshot import Snapshot
from headway.policies.wrappers.around import Wrappers

WORD = "user_priority="
LOOK_SECONDS = 5.0


def written_out(settings: Sequence[str]) -> list[str]:
    """The settings with the priorities themselves in place of a file. Raises UserError where it cannot be read."""
    return [f"{WORD}{_pairs(item)}" if item.startswith(WORD) else item for item in settings]


def _pairs(item: str) -> str:
    return ",".join(f"{name}={number:g}" for name, number in named_numbers(item.partition("=")[2]))


@dataclass(slots=True)
class FollowedPolicy:
    """Decides as a policy with the priorities that the file has now."""

    name: str
    settings: Sequence[str]
    """As they were given, with the file."""
    changed: Callable[[list[str]], None] = lambda _: None
    """Called with the settings in full before they decide."""
    clock: Callable[[], float] = time.monotonic
    current: Policy = field(init=False)
    in_full: list[str] = field(init=False)
    _wrappers: Wrappers = field(init=False)
    """Queues and rounds: these stay as they were at the start."""
    _look_at: float = field(init=False)
    _wrong: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.in_full = written_out(self.settings)
        self._wrappers = wrappers_of(self.name, self.settings)
        self.current = self._made(self.in_full)
        self._look_at = self.clock() + LOOK_SECONDS

    def _made(self, in_full: Sequence[str]) -> Policy:
        return self._wrappers.around(bare_policy(self.name, own_settings(in_full)))

    def __call__(self, snapshot: Snapshot) -> Plan:
        return self.current(snapshot)

    @property
    def gangless(self) -> bool:
        return is_gangless(self.current)

    @property
    def file(self) -> str:
        """Of a user's own policy."""
        return str(getattr(self.current, "file", ""))

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        return explain_with(self.current, snapshot, row)

    def look(self) -> None:
        """Once in a while; between two cycles. A mistake in the file keeps the old priorities, and is told once."""
        if self.clock() < self._look_at:
            return
        self._look_at, log = self.clock() + LOOK_SECONDS, logging.getLogger("headway")
        try:
            found = written_out(self.settings)
            policy = self.current if found == self.in_full else self._made(found)
        except (UserError, OSError) as error:
            if str(error) != self._wrong:
                log.warning("%s; the priorities of users stay as they were", error)
            self._wrong = str(error)
            return
        self._wrong = ""
        if policy is not self.current:
            self.current, self.in_full = policy, found
            self.changed(found)
            log.info("the priorities of users have changed")


def followed(name: str, settings: Sequence[str]) -> FollowedPolicy | None:
    """The policy, where the priorities of users are in a file."""
    files = [item.partition("=")[2] for item in settings if item.startswith(WORD)]
    return FollowedPolicy(name, settings) if any(Path(one).suffix in (".yaml", ".yml") for one in files) else None


def tell_changes(policy: Policy, tell: Callable[[list[str]], None]) -> None:
    """Calls `tell` with the settings in full where a policy follows a file, each time before they decide."""
    if isinstance(policy, FollowedPolicy):
        policy.changed = tell
