"""Errors of the lab that the user or the machine causes: one sentence, no traceback."""

from __future__ import annotations

from headway.core.errors import UserError


class LabError(UserError):
    """A mistake that the user can correct. The message is one sentence."""


class Unavailable(LabError):  # noqa: N818  the name says it
    """This machine cannot run the requested lab: no root, no Go, or a missing package."""
