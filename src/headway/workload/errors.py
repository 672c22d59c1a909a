"""The error for a workload file that cannot be used."""

from __future__ import annotations

from headway.core.errors import UserError


class WorkloadError(UserError):
    """The message is one sentence for the user; it names the file and the field."""

    def __init__(self, message: str, steps: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.steps = steps
        """The way to the wrong field, from the entry that is being read; empty if there is none."""
