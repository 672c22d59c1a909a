"""Sentences on the terminal. A terminal would break a long line in the midst of a word; scripts get it on one line."""

from __future__ import annotations

import logging
import shutil
import sys
import textwrap

from headway.cli.cluster.log_lines import writes_json
from headway.cli.screen.steady import SteadyStream
from headway.core.text import clean

WARNING = "warning: "


def say(sentence: str, *, error: bool = False, hang: int = 0) -> None:
    """Prints a sentence, to stderr if it is no result; there as JSON if log lines are.

    On a terminal it goes on below, indented by `hang`.
    """
    stream = SteadyStream(sys.stderr) if error else sys.stdout
    text = clean(sentence)
    if error and writes_json():
        warns = text.startswith(WARNING)
        text = text.removeprefix(WARNING).removeprefix("headway: ")
        logging.getLogger("headway").log(logging.WARNING if warns else logging.CRITICAL, "%s", text)
        return
    if stream.isatty():
        text = wrapped(text, shutil.get_terminal_size().columns, hang)
    print(text, file=stream, flush=True)


def wrapped(text: str, width: int, hang: int = 0) -> str:
    """The text in lines of this width, broken between words. A word that is longer stays whole."""
    return textwrap.fill(
        text, width=max(20, width), subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False, drop_whitespace=True,
    )  # fmt: skip
