"""Who uses the processor meanwhile: the lab, this program, and others, who spoil a measurement."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headway.lab import Lab

TICK = os.sysconf("SC_CLK_TCK")
IDLE_CORES = 0.3
"""A thousand idle nodes keep the lab busy below that."""
IDLE_SECONDS = 2.0
LONGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor seconds used up to a moment."""

    at: float
    machine: float
    ours: float

    @classmethod
    def of(cls, lab: Lab) -> Self:
        pids = [part.pid for part in lab.status().parts if part.pid is not None]
        return cls(time.monotonic(), _machine(), sum(process_seconds(pid) for pid in (*pids, os.getpid())))

    def with_more(self, seconds: float) -> Self:
        """With what a process used that is no part of the lab."""
        return type(self)(self.at, self.machine, self.ours + seconds)


def others(before: Usage, after: Usage) -> float:
    """How many cores others used in between, on average."""
    used = (after.machine - before.machine) - max(0.0, after.ours - before.ours)
    return max(0.0, used) / (after.at - before.at)


def spent(before: Usage, after: Usage, pods: int) -> float | None:
    """Processor milliseconds of the whole lab and this client for each pod: others on the cores change it little."""
    return 1000 * (after.ours - before.ours) / pods if pods else None


async def idle(lab: Lab) -> float:
    """Wait until the lab has nothing left to do; the seconds that took."""
    began = time.monotonic()
    before = Usage.of(lab)
    while time.monotonic() - began < LONGEST_SECONDS:
        await asyncio.sleep(IDLE_SECONDS)
        after = Usage.of(lab)
        if (after.ours - before.ours) / (after.at - before.at) < IDLE_CORES:
            break
        before = after
    return time.monotonic() - began


def _machine() -> float:
    """Of all processes: user, nice, system, irq and softirq."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (sum(fields[:3]) + sum(fields[5:7])) / TICK


def process_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK
