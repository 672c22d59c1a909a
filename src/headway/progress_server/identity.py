"""Who sends: the question that the server asks of each greeting. The answer is a function that its owner gives.

On this machine the socket lies in a folder that only this user can enter, so a replica may say itself which one it is
(`as_claimed`). Elsewhere a replica proves it, and what it says of itself is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.progress_server.messages import Greeting, Sender


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class KnownReplica:
    sender: Sender
    holds: Callable[[], bool] = _always
    """Whether it still is this replica. Example: its pod may be deleted while its connection lives."""


Answer = Callable[[KnownReplica | str], None]
"""Takes the replica, or a sentence that says why the greeting is refused. May be called from any thread, once."""
Identify = Callable[[Greeting, Answer], None]
"""Answers at once or later; must not wait."""


def as_claimed(greeting: Greeting, answer: Answer) -> None:
    """Believes what the replica says of itself."""
    answer("the greeting names no replica" if greeting.claimed is None else KnownReplica(greeting.claimed))
