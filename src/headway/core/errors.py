"""The root of all errors that are not bugs."""

from __future__ import annotations


class UserError(Exception):
    """Something that the user can correct. Its message is one sentence; the command line prints it and exits with 2."""
