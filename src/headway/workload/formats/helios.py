"""SenseTime's Helios (`cluster_log.csv`), and Lucid's logs, which are Helios's with a model per job.

Jobs without GPUs are dropped and counted. Seconds count from the first submission. If `vc_config.csv` (nodes per
virtual cluster, eight GPUs each) is in the same folder, the trace has those nodes, with the label `vc`.
"""

from __future__ import annotations

from pathlib import Path

from headway.core.job import Job
from headway.core.node import Node
from headway.core.quantity import GPU
from headway.workload.rows import Collector, Rows, beside, plain_name
from headway.workload.trace import Trace, rebase

NEEDS = ("job_id", "user", "vc", "gpu_num", "state", "submit_time", "duration")
NEEDS_LUCID = ("job_id", "user", "vc", "gpu_num", "submit_time", "duration", "model", "dataset", "batchsize")
GPUS_PER_NODE = 8
MOST_NODES = 100_000


def read(path: Path) -> Trace:
    return _read(path, NEEDS, "helios")


def read_lucid(path: Path) -> Trace:
    return _read(path, NEEDS_LUCID, "lucid")


def _read(path: Path, needs: tuple[str, ...], name: str) -> Trace:
    jobs = Collector(Rows(path, needs))
    for row, gpus in jobs.asking("gpu_num", lasting="duration"):
        jobs.add(
            Job(
                id=jobs.job_id(row.text("job_id"), "job_id"), roles=jobs.roles(gpus, "gpu_num"),
                user=row.text("user"), queue=row.text("vc"), submit=submission(row),
                seconds=row.seconds("duration"), model=_model(row),
            )
        )  # fmt: skip
    config = beside(path, "vc_config.csv")
    return rebase(jobs.trace(name, nodes=tuple(vc_nodes(config)) if config else ()))


def _model(row: Rows) -> str:
    return plain_name(f"{row.text('model')}-{row.text('dataset')}") if row.has("model") else ""


def submission(row: Rows) -> float:
    """A date with time or, in Lucid's shorter logs, seconds."""
    text = row.text("submit_time")
    return row.number("submit_time") if text.replace(".", "", 1).isdigit() else row.time("submit_time")


def vc_nodes(path: Path) -> list[Node]:
    """A table of a virtual cluster's name (the column without a name) and its number of nodes."""
    nodes = []
    for row in Rows(path, ("", "num")):
        name, count = row.text(""), row.count("num")
        if count > MOST_NODES:
            raise row.error("num", f"more than {MOST_NODES} nodes are too many")
        nodes += [
            Node(name=f"{name}-{number}", capacity=((GPU, GPUS_PER_NODE),), labels=(("vc", name),))
            for number in range(count)
        ]
    return nodes
