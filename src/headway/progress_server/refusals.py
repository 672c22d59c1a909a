"""Tells the administrator of greetings that were refused: one line a minute, however many there are."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

log = logging.getLogger("headway.progress_server")
EVERY_SECONDS = 60.0


@dataclass(slots=True)
class RefusalNotes:
    count: int = 0
    """Since the last line."""
    told: float = -math.inf

    def note(self, why: str, peer: str, now: float) -> None:
        self.count += 1
        if now - self.told >= EVERY_SECONDS:
            log.warning("refused %d greetings of replicas; the last, from %s: %s", self.count, peer or "here", why)
            self.told, self.count = now, 0
