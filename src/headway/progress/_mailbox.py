"""The messages between the training thread and the connection's thread, and their form on the wire.

Its size is bounded, and so is the length of a line. The wire carries newline-delimited JSON. It knows nothing of
sockets and calls none of the training's functions.
"""

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

LONGEST_LINE_BYTES = 65536
MOST_VALUES = 64


@dataclass(frozen=True, slots=True)
class Report:
    """One report of the training. Values are read when it is sent, because reading may wait for a device."""

    step: int
    loss: object
    values: Mapping[str, object]
    at: float  # seconds since the tracking began
    first: int  # the first step reported in this block

    def line(self) -> bytes:
        values = {str(name)[:100]: number(value) for name, value in list(self.values.items())[:MOST_VALUES]}
        said = {"step": self.step, "loss": number(self.loss), "values": values, "at": round(self.at, 4)}
        return line({**said, "first": self.first})


def number(value: object) -> float | str | None:
    """A number for JSON; "nan", "inf" or "-inf" for numbers that JSON lacks; None for anything else."""
    if value is None:
        return None
    try:
        real = float(value)  # type: ignore[arg-type]  # anything with __float__: arrays, tensors, decimals
    except Exception:  # noqa: BLE001  a foreign type may raise anything, and a report must not break training
        return None
    return real if math.isfinite(real) else str(real)


def line(message: Mapping[str, object]) -> bytes:
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


class TooLongError(Exception):
    """The other side sent a line above the limit: it does not speak this protocol."""


class Lines:
    """Splits a stream into messages. Lines that are not a JSON object are ignored."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, object]]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE_BYTES:
            raise TooLongError
        return [message for text in whole if (message := _read(text)) is not None]


def _read(text: bytes) -> dict[str, object] | None:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


MOST_KEPT = 64

SaveId = int | str
T = TypeVar("T")


class Mailbox:
    """The newest report and the answers go out; requests to save and the newest size come in."""

    def __init__(self, *, can_save: bool) -> None:
        self._lock = threading.RLock()  # a signal handler may report while its thread holds the lock
        self._can_save = can_save
        self._report: Report | None = None
        self._last_sent: Report | None = None
        self._answers: OrderedDict[SaveId, bytes] = OrderedDict()
        self._under_way: OrderedDict[SaveId, bytes] = OrderedDict()  # taken, and perhaps not sent
        self._saves: OrderedDict[SaveId, None] = OrderedDict()
        self._saved: OrderedDict[SaveId, tuple[int, float]] = OrderedDict()  # step, seconds that it took
        self._size: dict[str, object] | None = None
        self.requested = False  # read without the lock on every report: only a hint that a request waits

    # Called by the training thread.

    def put_report(self, report: Report) -> bool:
        """Keeps the newest report. True if the mailbox was empty, so that the other thread must be woken."""
        with self._lock:
            was_empty = self._report is None
            self._report = report
        return was_empty

    def take_requests(self, *, resizes: bool) -> tuple[list[SaveId], dict[str, object] | None]:
        """All requested saves and the newest size. Without `resizes` the size stays in the mailbox."""
        with self._lock:
            self.requested = False
            saves = [save for save in self._saves if not self._answer_again(save)]
            self._saves.clear()
            size = self._size if resizes else None
            if resizes:
                self._size = None
        return saves, size

    def ask_again_for_size(self) -> None:
        with self._lock:
            self.requested = self.requested or self._size is not None

    def answer_saved(self, save: SaveId, step: int, seconds: float) -> None:
        with self._lock:
            _keep(self._saved, save, (step, seconds))
            self._answer_again(save)

    def answer_failed(self, save: SaveId, why: str) -> None:
        with self._lock:
            _keep(self._answers, save, line({"save_failed": save, "why": why[:1000]}))

    # Called by the thread of the connection.

    def take_answers(self) -> bytes:
        """Called when all that it returned before has been sent."""
        with self._lock:
            self._under_way, self._answers = self._answers, OrderedDict()
            return b"".join(self._under_way.values())

    def has_report(self) -> bool:
        return self._report is not None

    def take_report(self) -> Report | None:
        with self._lock:
            report, self._report = self._report, None
            self._last_sent = report or self._last_sent
        return report

    def repeat(self) -> None:
        """After a reconnect: the last report, because the server may have restarted and never have seen it, and the
        answers that were not sent to their end.
        """
        with self._lock:
            self._report = self._report or self._last_sent
            for save, answer in self._under_way.items():
                if save not in self._answers:
                    _keep(self._answers, save, answer)
            self._under_way = OrderedDict()

    def take_message(self, message: dict[str, object]) -> None:
        """Takes a message of Headway. Unknown messages are ignored: a newer Headway may send more kinds."""
        save, size = message.get("save"), message.get("resize")
        with self._lock:
            if isinstance(save, int | str) and not isinstance(save, bool) and not self._answer_again(save):
                if self._can_save:
                    _keep(self._saves, save, None)
                    self.requested = True
                else:
                    _keep(
                        self._answers,
                        save,
                        line({"save_failed": save, "why": "the script gave no save function"}),
                    )
            if isinstance(size, dict):
                self._size = size
                self.requested = True

    def _answer_again(self, save: SaveId) -> bool:
        known = self._saved.get(save)
        if known is None:
            return False
        _keep(self._answers, save, line({"saved": save, "step": known[0], "seconds": round(known[1], 4)}))
        return True


def _keep(kept: "OrderedDict[SaveId, T]", save: SaveId, value: T) -> None:
    """Keeps the newest `MOST_KEPT` entries."""
    kept[save] = value
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)
