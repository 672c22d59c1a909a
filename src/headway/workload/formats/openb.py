"""Alibaba's openb (GPU sharing, 2023): pods, and nodes if their list is in the same folder.

A pod is a job of one replica: its GPUs are on one node. The resource `gpu_milli` counts GPUs in thousandths, on nodes
and pods, so a shared GPU is a smaller number. A count per node does not show how shares lie on single GPUs. A pod that
accepts several GPU models has a selector that matches labels of the nodes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from headway.core.job import Amounts, Can, Job, Role
from headway.core.node import Node
from headway.core.quantity import CPU, MEMORY
from headway.workload.rows import Collector, Rows, beside
from headway.workload.trace import Trace

NEEDS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
NEEDS_NODES = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
GPU_MILLI = "gpu_milli"
PRIORITY = {"Guaranteed": 2, "LS": 1, "Burstable": 1, "BE": 0}


def read(path: Path) -> Trace:
    rows = Rows(path, NEEDS)
    jobs = Collector(rows)
    specs: set[str] = set()
    for row in rows:
        each = row.amount("gpu_milli")
        milli = row.amount("num_gpu", each) if each else 0
        amounts: Amounts = ((CPU, row.amount("cpu_milli")), (GPU_MILLI, milli), (MEMORY, row.amount("memory_mib")))
        spec = "|".join(sorted(set(row.text("gpu_spec").split("|"))))
        specs.add(spec)
        timed = row.has("creation_time")
        jobs.add(
            Job(
                id=jobs.job_id(row.text("name"), "name"), roles=_roles(amounts, spec),
                queue=row.text("qos"), priority=PRIORITY.get(row.text("qos"), 0), can=Can.MOVE | Can.STOP,
                submit=row.number("creation_time") if timed else 0.0, seconds=_seconds(jobs, row) if timed else None,
            )
        )  # fmt: skip
        if not timed:
            jobs.remarks["have no times: this list holds none"] += 1
    listed = beside(path, "openb_node_list_all_node.csv", "openb_node_list_gpu_node.csv")
    nodes = tuple(openb_nodes(listed, frozenset(specs))) if listed else ()
    return jobs.trace("openb", nodes=nodes)


def _seconds(jobs: Collector, row: Rows) -> float:
    """From the start on a node to the end. A pod that never started counts from creation to deletion."""
    if row.text("scheduled_time"):
        start = row.number("scheduled_time")
    else:
        start = row.number("creation_time")
        jobs.remarks["were never scheduled and count from creation to deletion"] += 1
    seconds = row.number("deletion_time") - start
    if seconds < 0:
        raise row.error("deletion_time", f"is {-seconds:g} s before the start")
    return seconds


@cache
def _roles(amounts: Amounts, spec: str) -> tuple[Role, ...]:
    request = tuple((kind, amount) for kind, amount in amounts if amount)
    several = "|" in spec
    return (
        Role(
            name="worker", request=request, accelerator="" if several else spec,
            selector=((f"gpu-model-in/{spec}", "yes"),) if several else (),
        ),
    )  # fmt: skip


def openb_nodes(path: Path, specs: frozenset[str] = frozenset()) -> list[Node]:
    nodes = []
    for row in Rows(path, NEEDS_NODES):
        model, milli = row.text("model"), row.amount("gpu", 1000)
        amounts: Amounts = ((CPU, row.amount("cpu_milli")), (GPU_MILLI, milli), (MEMORY, row.amount("memory_mib")))
        labels = [(f"gpu-model-in/{spec}", "yes") for spec in sorted(specs) if "|" in spec and model in spec.split("|")]
        nodes.append(Node(name=row.text("sn"), capacity=amounts, labels=tuple(labels), accelerator=model))
    return nodes
