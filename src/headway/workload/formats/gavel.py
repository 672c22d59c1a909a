"""Gavel's and Shockwave's `.trace` files: tab-separated, no header, three layouts with different numbers of columns.

Gavel gives steps, not seconds. Durations come from a throughput table in the folder of the trace or up to four above
(`simulation_throughputs.json` or another `*throughputs.json`, plain or gzipped), for every accelerator type in it. The
declared duration is that on the fastest type. A scale without a measurement has the speed of the next smaller one. The
model is the job type without its batch size, such as `gavel-resnet-18`. Shockwave gives an expected duration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from headway.core.job import Job
from headway.workload.errors import WorkloadError
from headway.workload.rows import Collector, Rows, first_line, opened, plain_name
from headway.workload.trace import Trace

MSR = ("type", "command", "step_argument", "needs_data", "steps", "arrival", "scale")
PHYSICAL = (
    "type", "command", "directory", "step_argument", "needs_data", "steps", "scale", "weight", "slo", "arrival",
)  # fmt: skip
SHOCKWAVE = (
    "type", "command", "directory", "step_argument", "needs_data", "steps", "scale", "mode", "weight", "slo",
    "duration", "arrival",
)  # fmt: skip
LAYOUTS = {len(layout): layout for layout in (MSR, PHYSICAL, SHOCKWAVE)}

Speeds = Mapping[tuple[str, int], Mapping[str, float]]
"""From job type and scale to steps per second by accelerator type."""


def read(path: Path) -> Trace:
    line = first_line(path)
    if not line:
        raise WorkloadError(f"{path}: the file is empty")
    layout = LAYOUTS.get(line.count("\t") + 1)
    if layout is None:
        raise WorkloadError(f"{path}, line 1: has {line.count(chr(9)) + 1} columns; such traces have 7, 10 or 12")
    table = find_table(path)
    speeds = _speeds(table) if table else {}
    jobs = Collector(Rows(path, layout, header=layout, separator="\t"))
    for row, gpus in jobs.asking("scale"):
        measured = max((scale for kind, scale in speeds if kind == row.text("type") and scale <= gpus), default=gpus)
        if measured != gpus:
            jobs.remarks["have the speed of the next smaller scale, because theirs was not measured"] += 1
        _add(jobs, row, gpus, speeds.get((row.text("type"), measured), {}))
    name = "shockwave" if layout is SHOCKWAVE else "gavel"
    known = f"speeds are from {table.name}" if table else "no throughput table was found"
    return jobs.trace(name, known)


def _add(jobs: Collector, row: Rows, gpus: int, speeds: Mapping[str, float]) -> None:
    steps = row.count("steps")
    seconds_on = {kind: steps / speed for kind, speed in speeds.items() if speed > 0}
    if row.has("duration"):
        seconds: float | None = row.seconds("duration")
    else:
        seconds = min(seconds_on.values(), default=None)
        if seconds is None:
            jobs.remarks["have no duration: give a throughput table"] += 1
    submit = row.number("arrival")
    slo = row.number("slo") if row.has("slo") else -1.0
    job = Job(
        id=jobs.job_id(str(row.line - 1), "line"), roles=jobs.roles(gpus, "scale"), submit=submit, seconds=seconds,
        deadline=submit + slo * seconds if slo > 0 and seconds is not None else None, steps=steps or None,
        model=f"gavel-{plain_name(row.text('type').partition(' (')[0])}",
    )  # fmt: skip
    if seconds_on:
        jobs.seconds_on[job.id] = seconds_on
    jobs.add(job)


def find_table(path: Path) -> Path | None:
    for folder in list(path.resolve().parents)[:5]:
        for pattern in ("simulation_throughputs.json*", "*throughputs.json", "*throughputs.json.gz"):
            found = sorted(folder.glob(pattern))
            if found:
                return found[0]
    return None


_KEY = re.compile(r"\('(.*)', (\d+)\)")


def _speeds(path: Path) -> Speeds:
    """Speeds of jobs that do not share their GPUs. Entries for shared GPUs are left out."""
    speeds: dict[tuple[str, int], dict[str, float]] = {}
    with opened(path) as text:
        try:
            table = msgspec.json.decode(text.read(), type=dict[str, dict[str, dict[str, float | list[float]]]])
        except (msgspec.DecodeError, RecursionError) as error:
            raise WorkloadError(f"{path}: not a throughput table: {error}") from error
    for kind, types in table.items():
        for key, entries in types.items():
            found, alone = _KEY.fullmatch(key), entries.get("null")
            if found and isinstance(alone, float) and "unconsolidated" not in kind:
                speeds.setdefault((found.group(1), int(found.group(2))), {})[kind] = alone
    return speeds
