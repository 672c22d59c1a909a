"""The shape of simulated nodes as users write it: `8xA100,96cpu,768Gi` or `600:8xA100,96cpu,768Gi`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from headway.lab.errors import LabError

DEFAULT_SHAPE = "8xA100,96cpu,768Gi"
MAX_NODES = 20_000


class NodeGroup(msgspec.Struct, frozen=True):
    """`count` nodes of one shape."""

    count: int
    accelerators: int
    accelerator: str
    """Their type; empty: it is not said."""
    cpus: int
    memory: str


def node_groups(nodes: int, shapes: Sequence[str] = ()) -> list[NodeGroup]:
    """Divides `nodes` among the shapes. Shapes with a count get it; the others share the rest evenly."""
    if not 0 <= nodes <= MAX_NODES:
        raise LabError(f"a lab can have 0 to {MAX_NODES} simulated nodes, not {nodes}")
    groups = [_parse(shape) for shape in (shapes or ([DEFAULT_SHAPE] if nodes else []))]
    rest = nodes - sum(group.count for group in groups)
    open_ended = [index for index, group in enumerate(groups) if group.count == 0]
    if rest < 0 or (rest > 0 and not open_ended):
        raise LabError(f"the shapes are for {nodes - rest} nodes in all and --nodes says {nodes}")
    for place, index in enumerate(open_ended):
        share = rest // len(open_ended) + (place < rest % len(open_ended))
        groups[index] = msgspec.structs.replace(groups[index], count=share)
    return [group for group in groups if group.count]


def _parse(shape: str) -> NodeGroup:
    head, separator, body = shape.rpartition(":")
    if separator and not (head.isdecimal() and int(head) > 0):
        raise LabError(f"shape '{shape}': write the number of nodes before the colon, as in 600:{DEFAULT_SHAPE}")
    found: dict[str, tuple[str, ...]] = {}
    for word in body.split(","):
        kind, values = _word(word.strip(), shape)
        if kind in found:
            raise LabError(f"shape '{shape}' says its {kind} twice")
        found[kind] = values
    for kind in ("cpus", "memory"):
        if kind not in found:
            raise LabError(f"shape '{shape}' does not say its {kind}: write it as in {DEFAULT_SHAPE}")
    number, accelerator = found.get("accelerators", ("0", ""))
    return NodeGroup(int(head or 0), int(number), accelerator, int(found["cpus"][0]), found["memory"][0])


def _word(word: str, shape: str) -> tuple[str, tuple[str, ...]]:
    if match := re.fullmatch(r"([1-9]\d{0,3})x([A-Za-z0-9][A-Za-z0-9._-]*)", word):
        return "accelerators", (match[1], match[2])
    if match := re.fullmatch(r"([1-9]\d{0,4})cpus?", word):
        return "cpus", (match[1],)
    if match := re.fullmatch(r"([1-9]\d{0,6}[KMGT]i)", word):
        return "memory", (match[1],)
    raise LabError(f"shape '{shape}': '{word}' is neither accelerators, cpus nor memory, as in {DEFAULT_SHAPE}")
