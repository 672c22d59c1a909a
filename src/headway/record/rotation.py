"""A log of weeks is several files: NAME is written, NAME.1 is the one before it, and so on. Old ones are removed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

KEPT_FILES = 4
MIB = 1 << 20
GROWTH = 2
"""A new file begins with the whole state. It is not worth it before the file has this many times that size."""


def before(path: Path, number: int = 1) -> Path:
    """The file that was put aside last, or earlier ones."""
    return path.with_name(f"{path.name}.{number}")


@dataclass(frozen=True, slots=True)
class Rotation:
    most_bytes: int

    def due(self, path: Path, size: int, first: int) -> bool:
        """Whether the file is to be put aside; `first` bytes of it are the state with which it began."""
        return size > max(self.most_bytes, GROWTH * first) and path.is_file()

    def shift(self, path: Path) -> bool:
        """Renames the files. Returns False if that cannot be done: then the file is written on."""
        names = [path, *(before(path, number) for number in range(1, KEPT_FILES + 1))]
        try:
            for old, new in reversed(list(pairwise(names))):
                if old.exists():
                    os.replace(old, new)  # noqa: PTH105  the test stands in for it
        except OSError:
            return False
        return True
