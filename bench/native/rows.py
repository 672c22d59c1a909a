"""The rows of the table, kept in a file so that a run that was interrupted goes on where it was."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from rich.table import Table

from headway.core.errors import UserError

SPEED, CONTENTION = ("throughput", "latency"), "contention"


class Settings(msgspec.Struct, frozen=True):
    """Rows compare only where these are the same."""

    nodes: int
    pods: int
    rate: float
    patience: float


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    by: str
    workload: str
    measure: str
    pods: int
    bound: int = 0
    ceiling: float | None = None
    """Pods a second that a bare client bound in the same lab just before."""
    ceiling_cpu_ms: float | None = None
    """Processor milliseconds for each of these pods, of all parts of the lab and the client together."""
    pods_per_second: float | None = None
    cpu_ms: float | None = None
    first_seconds: float | None = None
    """From the moment the scheduler was started to the first binding, and to the last."""
    last_seconds: float | None = None
    listed_seconds: float | None = None
    """Of Headway: from then until it had listed everything."""
    running_seconds: float | None = None
    """Of TrainingJobs and Jobs: until the last status says that it runs."""
    scheduler_cpu_ms: float | None = None
    """Processor milliseconds of the scheduler (of Jobs: and of the controller manager), for each pod."""
    arrived_per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    gangs: int | None = None
    half_started: int | None = None
    deadlocked: int | None = None
    finished: int | None = None
    others_at_ceiling: float | None = None
    """Cores that other programs of this machine used meanwhile."""
    others: float | None = None
    seconds: float = 0.0
    """The whole row took so long, its lab included."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.by, self.workload, self.measure

    @property
    def ratio(self) -> float | None:
        return self.pods_per_second / self.ceiling if self.pods_per_second and self.ceiling else None


class Kept(msgspec.Struct):
    settings: Settings
    rows: list[Row] = []

    def has(self, key: tuple[str, str, str]) -> bool:
        return any(row.key == key for row in self.rows)

    def put(self, row: Row, path: Path | None) -> None:
        self.rows = [*(one for one in self.rows if one.key != row.key), row]
        if path is not None:
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
            partial.rename(path)

    def find(self, by: str, workload: str, measure: str) -> Row | None:
        return next((row for row in self.rows if row.key == (by, workload, measure)), None)


def load(path: Path | None, settings: Settings) -> Kept:
    """What an earlier run left; rows of other settings are not mixed in."""
    if path is None or not path.exists():
        return Kept(settings)
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Kept)
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"--out {path} holds no rows of this benchmark: {error}") from error
    for name in Settings.__struct_fields__:
        there, here = getattr(kept.settings, name), getattr(settings, name)
        if there != here:
            raise UserError(f"--out {path} holds rows with --{name} {there:g}, not {here:g}: name another file")
    return kept


def plain(kept: Kept) -> dict[str, object]:
    """For `--json`: what is kept, and what follows from it."""
    rows = [{**msgspec.to_builtins(row), "ratio": row.ratio} for row in kept.rows]
    return {"settings": msgspec.to_builtins(kept.settings), "rows": rows}


def tables(kept: Kept) -> list[Table]:
    """How fast, and how well gangs are kept whole; a table without rows is left out."""
    return [table for table in (_speed(kept), _whole(kept)) if table.row_count]


def _speed(kept: Kept) -> Table:
    columns = ("by", "workload", "bound", "pods/s", "ceiling", "ratio", "cpu ms/pod", "ceiling's")
    more = ("scheduler's", "first after s", "listed", "last", "running")
    table = Table(*columns, *more, "p50 ms", "p99 ms", "others", title="binding pods and gangs")
    for by, workload in dict.fromkeys((row.by, row.workload) for row in kept.rows if row.measure in SPEED):
        fast, slow = (kept.find(by, workload, measure) for measure in SPEED)
        speed, waits = _throughput(fast) if fast else ("",) * 11, ("", "")
        if slow:
            waits = _number(slow.p50_ms), _number(slow.p99_ms)
        disturbed = [row.others for row in (fast, slow) if row and row.others is not None]
        table.add_row(by, workload, *speed, *waits, _number(max(disturbed, default=None), 2))
    return table


def _throughput(row: Row) -> tuple[str, ...]:
    speed = (_number(row.pods_per_second), _number(row.ceiling), _number(row.ratio, 2))
    costs = (_number(row.cpu_ms, 1), _number(row.ceiling_cpu_ms, 1), _number(row.scheduler_cpu_ms, 1))
    times = (row.first_seconds, row.listed_seconds, row.last_seconds, row.running_seconds)
    return f"{row.bound}/{row.pods}", *speed, *costs, *(_number(one, 1) for one in times)


def _whole(kept: Kept) -> Table:
    table = Table("by", "gangs", "half-started", "deadlocked", "finished", title="gangs for twice the GPUs")
    for row in kept.rows:
        if row.measure == CONTENTION:
            table.add_row(row.by, *(_number(n) for n in (row.gangs, row.half_started, row.deadlocked, row.finished)))
    return table


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
