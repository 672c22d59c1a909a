"""The folder of published traces, which HEADWAY_TRACES names. `headway traces` says where its files come from."""

from __future__ import annotations

import os
from pathlib import Path

from headway.core.errors import UserError

VARIABLE = "HEADWAY_TRACES"


def trace_path(file: str) -> Path:
    """A file or folder of it."""
    root = os.environ.get(VARIABLE, "")
    path = Path(root) / file
    if not root or not path.exists():
        raise UserError(
            f"{VARIABLE}: name a folder of published traces that has {file} in it; `headway traces` says where they "
            "come from"
        )
    return path
