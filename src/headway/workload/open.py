"""One entry for every workload file: what format is it, and its jobs."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headway.workload import own
from headway.workload.collect import stem
from headway.workload.errors import WorkloadError
from headway.workload.formats import (
    acme,
    chronus,
    elasticflow,
    gavel,
    helios,
    hydra,
    openb,
    pai,
    philly,
    pollux,
    tiresias,
)
from headway.workload.jobsfile import load
from headway.workload.rows import bare_name, first_line
from headway.workload.trace import Trace


@dataclass(frozen=True, slots=True)
class Format:
    read: Callable[[Path], Trace]
    about: str
    needs: tuple[str, ...] = ()
    """Columns by which a csv file is recognised."""
    endings: tuple[str, ...] = ()
    """Ends of the file's name, without .gz, by which others are."""


def _jobsfile(path: Path) -> Trace:
    found = load(path)
    return Trace(name=f"yaml/{stem(path)}", jobs=found.jobs, nodes=found.nodes, simulate=found.simulate)


FORMATS: dict[str, Format] = {
    "yaml": Format(_jobsfile, "our own jobs file", endings=(".yaml", ".yml")),
    "jsonl": Format(own.read_lines, "our own, one job per line as JSON", endings=(".jsonl",)),
    "csv": Format(own.read_csv, "our own, one job per row", ("name", "submit", "seconds")),
    "philly": Format(philly.read, "Microsoft Philly, reduced to seconds", philly.NEEDS),
    "philly-log": Format(philly.read_raw, "Microsoft Philly, the raw log", endings=("cluster_job_log", "job_log.json")),
    "itp": Format(elasticflow.read_itp, "Microsoft ITP with ElasticFlow's deadlines", elasticflow.NEEDS_ITP),
    "elasticflow": Format(elasticflow.read, "ElasticFlow's own form", elasticflow.NEEDS),
    "chronus": Format(chronus.read, "Chronus, in minutes", chronus.NEEDS),
    "pollux": Format(pollux.read, "Pollux and Sia", pollux.NEEDS),
    "tiresias": Format(tiresias.read, "Tiresias", tiresias.NEEDS),
    "gavel": Format(gavel.read, "Gavel and Shockwave", endings=(".trace",)),
    "openb": Format(openb.read, "Alibaba openb pods, with nodes where they lie beside", openb.NEEDS),
    "helios": Format(helios.read, "SenseTime Helios", helios.NEEDS),
    "lucid": Format(helios.read_lucid, "Lucid: Helios with models", helios.NEEDS_LUCID),
    "acme": Format(acme.read, "Shanghai AI Lab Acme (Seren, Kalos)", acme.NEEDS),
    "acme-converted": Format(acme.read_converted, "Acme with iterations", acme.NEEDS_CONVERTED),
    "pai": Format(pai.read, "Alibaba PAI, the job extract", pai.NEEDS),
    "pai-tasks": Format(pai.read_tasks, "Alibaba PAI, the task table", endings=("pai_task_table.csv",)),
    "hydra": Format(hydra.read, "Hydra, durations per accelerator", hydra.NEEDS),
}


def open_workload(path: Path, format: str = "") -> Trace:  # noqa: A002  the command line's word
    """Reads any workload. Without a format it is told by the file's name, or by the columns of its header."""
    name = format or guess(path)
    if name not in FORMATS:
        raise WorkloadError(f"--format {name}: there is no such format; choose one of {', '.join(FORMATS)}")
    return FORMATS[name].read(path)


def guess(path: Path) -> str:
    """The format's name. Of several whose columns are there, the one that asks for most of them."""
    bare = bare_name(path)
    for name, form in FORMATS.items():
        if form.endings and bare.endswith(form.endings):
            return name
    line = first_line(path)
    if not line.strip():
        raise WorkloadError(f"{path}: the file is empty")
    header = {cell.strip() for cell in next(csv.reader([line]), [])}
    fitting = [(len(form.needs), name) for name, form in FORMATS.items() if form.needs and header >= set(form.needs)]
    if not fitting and "name" in header and header <= set(own.CSV_COLUMNS):
        return "csv"
    if not fitting:
        raise WorkloadError(
            f"{path}: its format cannot be told from name and header; give --format, one of {', '.join(FORMATS)}"
        )
    return max(fitting)[1]
