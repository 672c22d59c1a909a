"""Saves and restores a checkpoint: one .npz file, written whole or not at all.

It knows nothing of models: a state is any tree of arrays.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from headway import progress


class Checkpoint:
    """The checkpoint of one part of one run. Without a directory it saves and restores nothing."""

    def __init__(self, directory: Path | None, name: str, run: str) -> None:
        self._path = None if directory is None else directory / f"{name}.npz"
        self._run = run  # what the state belongs to: another model's state must not be loaded

    def save(self, step: int, state: Any) -> None:
        if self._path is None:
            return
        leaves = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with progress.whole_file(self._path) as file:
            np.savez(file, step=np.int64(step), run=np.array(self._run), **leaves)

    def load(self, state: Any) -> tuple[int, Any]:
        """Returns the saved step and the state after it, or 0 and the given state if there is none."""
        if self._path is None or not self._path.exists():
            return 0, state
        with np.load(self._path) as saved:
            if str(saved["run"]) != self._run:
                sys.exit(f"{self._path} belongs to {saved['run']}, not to {self._run}")
            structure = jax.tree.structure(state)
            leaves = [saved[f"leaf{i}"] for i in range(structure.num_leaves)]
            return int(saved["step"]), jax.tree.unflatten(structure, leaves)
