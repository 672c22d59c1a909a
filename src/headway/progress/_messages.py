"""The lines that go over the wire: newline-delimited JSON, always valid, never longer than a fixed bound.

Must not know sockets or threads.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_LINE_BYTES = 65536
MOST_VALUES = 64


@dataclass(frozen=True, slots=True)
class Report:
    """One report as the training gave it. Values are read when it is sent: reading may wait for a device."""

    step: int
    loss: object
    values: Mapping[str, object]
    at: float  # seconds since the tracking began

    def line(self) -> bytes:
        values = {str(name)[:100]: number(value) for name, value in list(self.values.items())[:MOST_VALUES]}
        return line({"step": self.step, "loss": number(self.loss), "values": values, "at": round(self.at, 4)})


def number(value: object) -> float | str | None:
    """A JSON number; "nan", "inf" or "-inf" for what JSON has no number for; null for what is none at all."""
    if value is None:
        return None
    try:
        real = float(value)  # type: ignore[arg-type]  # whatever has __float__: arrays, tensors, decimals
    except Exception:  # noqa: BLE001  a foreign type may raise anything, and a report must not break training
        return None
    return real if math.isfinite(real) else str(real)


def line(message: Mapping[str, object]) -> bytes:
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


class TooLongError(Exception):
    """The other side sent a line beyond the bound: it does not speak this protocol."""


class Lines:
    """Cuts a stream into messages; lines that are no JSON object are passed over."""

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
