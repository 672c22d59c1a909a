"""What a library prints for its own authors is no part of what a command prints."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def asides() -> Iterator[None]:
    """Whatever is printed in here goes to the standard error. HiGHS (scipy 1.17) leaves lines on C's output."""
    library = ctypes.CDLL(None)
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        library.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
