"""Reads clusters: `32x4`, a YAML file with node shapes and racks, or a published list of nodes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from headway.core.errors import UserError
from headway.core.node import Node
from headway.core.quantity import CPU, GPU, MEMORY, QuantityError, parse
from headway.workload.decode import decode
from headway.workload.errors import WorkloadError
from headway.workload.formats.helios import vc_nodes
from headway.workload.formats.openb import NEEDS_NODES, openb_nodes
from headway.workload.jobsfile import MOST_NODES, JobFields, NodeFields, nodes_of
from headway.workload.rows import Rows, bare_name, first_line
from headway.workload.simulate_fields import SimulateFields
from headway.workload.yaml_values import shortened

TIRESIAS = ("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node")
SPOT = ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name")


class ClusterFields(msgspec.Struct, forbid_unknown_fields=True):
    """A cluster file. A jobs file works as well; its jobs are ignored."""

    nodes: list[NodeFields]
    jobs: list[JobFields] = []
    simulate: SimulateFields = msgspec.field(default_factory=SimulateFields)


def open_cluster(source: str | Path) -> list[Node]:
    """Returns the nodes of a text such as `32x4`, or of a file: YAML or a list published with a trace."""
    path = Path(source)
    if isinstance(source, str) and not _is_file(path):
        return parse_cluster(source)
    if bare_name(path).endswith((".yaml", ".yml")):
        nodes = list(nodes_of(path, decode(path, ClusterFields).nodes))
    else:
        nodes = _reader(path)(path)
    if not nodes:
        raise WorkloadError(f"{path}: the file has no node")
    twice = [name for name, count in Counter(node.name for node in nodes).items() if count > 1]
    if twice:
        raise WorkloadError(f"{path}: two nodes are called {twice[0]!r}")
    return nodes


def _is_file(path: Path) -> bool:
    """False also for a text that no file can be called."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _reader(path: Path) -> Callable[[Path], list[Node]]:
    header = set(next(csv.reader([first_line(path)]), []))
    for needs, reader in (
        (TIRESIAS, _tiresias_nodes), (NEEDS_NODES, openb_nodes), (SPOT, _spot_nodes), (("", "num"), vc_nodes),
    ):  # fmt: skip
        if header >= set(needs):
            return reader
    raise WorkloadError(
        f"{path}, line 1: this is not a list of nodes; write YAML with `nodes:`, or csv with {','.join(TIRESIAS)}"
    )


def parse_cluster(text: str) -> list[Node]:
    """`32x4`: nodes x GPUs. `2x1cpu`, `4x8cpu,32Gi,2gpu`: nodes x anything."""
    found = re.fullmatch(r"([0-9]{1,9})x(.+)", text.strip())
    text = shortened(text)
    if not found or not 0 < int(found.group(1)) <= MOST_NODES:
        raise UserError(
            f"--cluster {text}: write nodes x GPUs such as 32x4, or 2x4cpu,16Gi,1gpu, or name an existing file"
        )
    capacity: dict[str, int] = {}
    for part in found.group(2).split(","):
        kind = GPU if part.isdigit() else next((k for k in (CPU, GPU) if part.endswith(k)), MEMORY)
        if not _PART.fullmatch(part):
            raise UserError(
                f"--cluster {text}: {shortened(part)!r} is not an amount: write 4, 4gpu, 8cpu, 500mcpu or 16Gi"
            )
        try:
            capacity[kind] = parse(kind, part.removesuffix(kind))
        except QuantityError as error:
            raise UserError(f"--cluster {text}: {error}") from error
    if not any(capacity.values()):
        raise UserError(f"--cluster {text}: a node must have some resource")
    return [Node(name=f"n{i}", capacity=tuple(sorted(capacity.items()))) for i in range(int(found.group(1)))]


_PART = re.compile(r"(?a)\d+|\d+(\.\d+)?m?cpu|\d+gpu|\d+(\.\d+)?[KMGTP]i?")


def _tiresias_nodes(path: Path) -> list[Node]:
    """Switches are the topology domains; memory is in GB."""
    nodes: list[Node] = []
    for row in Rows(path, TIRESIAS):
        capacity = (
            (CPU, row.amount("num_cpu_p_node", 1000)), (GPU, row.amount("num_gpu_p_node")),
            (MEMORY, row.amount("mem_p_node", 1024)),
        )  # fmt: skip
        switches, each = row.count("num_switch"), row.count("num_node_p_switch")
        if switches * each > MOST_NODES:
            raise row.error("num_switch", f"more than {MOST_NODES} nodes are too many")
        for switch in range(switches):
            for _ in range(each):
                nodes.append(Node(name=f"n{len(nodes)}", capacity=capacity, domain=f"switch{switch}"))
    return nodes


def _spot_nodes(path: Path) -> list[Node]:
    return [
        Node(
            name=f"n{row.text('node_name')}", accelerator=row.text("gpu_model"),
            capacity=((CPU, row.amount("cpu_num", 1000)), (GPU, row.amount("gpu_capacity_num"))),
        )
        for row in Rows(path, SPOT)
    ]  # fmt: skip
