"""What the lab raises when the user or the machine, not the code, is at fault: one sentence, no traceback."""

from __future__ import annotations

from headway.core.errors import UserError


class LabError(UserError):
    """Something the user can act on, told in one sentence."""


class Unavailable(LabError):  # noqa: N818 - it reads as what it is
    """This machine cannot carry the lab that was asked for (no root, no Go, a missing package)."""
