"""The root of what may go wrong through no fault of ours."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend. Its message is one sentence; the command line prints it and exits with 2."""
