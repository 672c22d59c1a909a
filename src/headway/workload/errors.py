"""A file that cannot be used as it is."""

from __future__ import annotations

from headway.core.errors import UserError


class WorkloadError(UserError):
    """Its message is one sentence for the user that names the file and the field."""
