"""A fault in a step for one gang, in a sentence. It is that gang's alone: the gang freezes, and all others go on."""

from __future__ import annotations

from types import TracebackType

from headway.core.text import clean

FAULT = "Fault"
"""The reason in the status of a frozen job."""
LONGEST_TEXT = 300


def sentence(doing: str, error: BaseException) -> str:
    """Example: `Headway could not go on with this job: KeyError: 'worker' (act.py, line 92)`."""
    text = clean(str(error), LONGEST_TEXT)
    return f"Headway could not {doing}: {type(error).__name__}: {text} ({_last_line(error.__traceback__)})"


def _last_line(trace: TracebackType | None) -> str:
    where = "unknown place"
    while trace is not None:
        where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return where
