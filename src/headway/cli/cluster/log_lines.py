"""What `headway schedule` says on stderr while it works: lines for people, or JSON for whatever collects logs.

Example: `{"time": "2026-11-19T08:25:37.120Z", "level": "info", "logger": "headway.kube",
"message": "job bert: running", "job": "bert", "cycle": 17}`.
"""

from __future__ import annotations

import enum
import json
import logging
import sys
import threading
import time
from types import TracebackType
from typing import Annotated

import typer

from headway.core.text import clean


class LogFormat(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Write lines to stderr as text, or as JSON for a collector of logs.")
]
_here = threading.local()


def begin_log_lines(how: LogFormat) -> None:
    """From now on all loggers of this process write so; with JSON also what ends it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    if how is LogFormat.JSON:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
        logging.captureWarnings(capture=True)
        sys.excepthook = _ended
        threading.excepthook = _thread_ended


def writes_json() -> bool:
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers)


def in_cycle(number: int) -> None:
    """What this thread says from now on belongs to this cycle."""
    _here.cycle = number


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line. `job` and `cycle` are there where they are known, `error` where a trace is."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{at}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), "logger": record.name,
            "message": clean(record.getMessage()),
        }  # fmt: skip
        cycle = getattr(_here, "cycle", None)
        known = {"job": getattr(record, "job", None), "cycle": cycle}
        if record.exc_info:
            known["error"] = self.formatException(record.exc_info)
        return json.dumps(line | {name: value for name, value in known.items() if value is not None})


def _ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """In place of a trace of many lines."""
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("headway").critical("it ends: %s", error, exc_info=(kind, error, trace))


def _thread_ended(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is not None:
        _ended(given.exc_type, given.exc_value, given.exc_traceback)
