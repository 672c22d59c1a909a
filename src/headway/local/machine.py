"""The capacity of this machine, and the logical nodes that share it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.node import Node
from headway.core.quantity import CPU, GPU, MEMORY, show
from headway.local.devices import missing_package

LEFT_ALONE_MIB = 512
"""Memory that jobs do not get."""


def this_machine(gpus: int = 0) -> Node:
    """The machine as one node, with so many GPUs."""
    cores = len(os.sched_getaffinity(0))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    capacity = [(CPU, cores * 1000), (MEMORY, max(256, pages - LEFT_ALONE_MIB))]
    if gpus:
        capacity.append((GPU, gpus))
    return Node(name="here", capacity=tuple(sorted(capacity)))


def check_nodes(where: str, nodes: Sequence[Node], left: Node) -> None:
    """Refuse logical nodes that together have more than the machine, or than what other runs leave of it."""
    machine = dict(left.capacity)
    for kind in {kind for node in nodes for kind, _ in node.capacity}:
        total = sum(dict(node.capacity).get(kind, 0) for node in nodes)
        if total > machine.get(kind, 0):
            raise UserError(
                f"{where}: field nodes: all together have {show(kind, total)}, but this machine has "
                f"{show(kind, machine.get(kind, 0))}; give smaller nodes with --cluster"
            )


def check_jobs(where: str, jobs: Sequence[Job], nodes: Sequence[Node]) -> None:
    """Refuse a request that is larger than every node: the job would wait for ever."""
    for job in jobs:
        for role in job.roles:
            for kind, amount in role.request:
                largest = max((dict(node.capacity).get(kind, 0) for node in nodes), default=0)
                if amount > largest and role.min:
                    raise UserError(
                        f"{where}: job {job.id!r}, role {role.name!r}: field {kind}: asks for {show(kind, amount)}, "
                        f"but the largest node has {show(kind, largest)}; {_remedy(kind, largest)}"
                    )


def _remedy(kind: str, largest: int) -> str:
    if kind != GPU or largest:
        return "ask for less, or give a larger node"
    package = missing_package()
    return f"GPUs are found with {package}" if package else "name GPUs that were not found with --gpus 0,1"


def about_sharing(jobs: Sequence[Job], nodes: Sequence[Node], cores: Sequence[Sequence[int]], *, cgroups: bool) -> str:
    """Where jobs may use more cpu than they ask for: what is not as it would be on nodes of their own; else nothing."""
    named = [job.id for job in jobs if any(role.shares_cpu for role in job.roles)]
    if not named:
        return ""
    whom = f"field limit: {named[0]}" + (f" and {len(named) - 1} more" if len(named) > 1 else "")
    if not cgroups:
        return f"{whom}: without control groups no cpu is shared; a replica has the cores of its request"
    if len(set(map(tuple, cores))) < len(nodes):
        return f"{whom}: there are too few cores for each node to have its own, so all nodes share all cores"
    part = next((node.name for node in nodes if dict(node.capacity).get(CPU, 0) % 1000), "")
    return f"{whom}: node {part} has part of a core, so jobs there may use the rest of that core, too" if part else ""


def cores_of(nodes: Sequence[Node], foreign: AbstractSet[int] = frozenset()) -> list[tuple[int, ...]]:
    """The cores of each logical node: its own if there are enough, otherwise all nodes share all cores.

    `foreign` are cores that other runs plan with.
    """
    everything = sorted(os.sched_getaffinity(0))
    cores = [core for core in everything if core not in foreign]
    wanted = [max(1, math.ceil(dict(node.capacity).get(CPU, 1000) / 1000)) for node in nodes]
    if sum(wanted) > len(cores):
        return [tuple(everything)] * len(nodes)
    given, taken = [], 0
    for count in wanted:
        given.append(tuple(cores[taken : taken + count]))
        taken += count
    return given
