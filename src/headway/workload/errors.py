"""The error for a workload file that cannot be used."""

from __future__ import annotations

from headway.core.errors import UserError


class WorkloadError(UserError):
    """The message is one sentence for the user; it names the file and the field."""
