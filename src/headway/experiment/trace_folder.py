"""The folder of published traces, which HEADWAY_TRACES names. `headway traces` says where its files come from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headway.core.errors import UserError
from headway.experiment.case import Cell, Experiment

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


def with_traces(experiment: Experiment, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Those cells of which the folder has all files; all of them if it has none."""
    return [cell for cell in cells if all(map(_is_there, experiment.traces(cell)))] or cells


def _is_there(file: str) -> bool:
    try:
        return trace_path(file).exists()
    except UserError:
        return False
