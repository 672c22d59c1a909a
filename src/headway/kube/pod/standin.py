"""A role as plans see it, from the pod that its replicas will really be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headway.core.job import Role
from headway.core.quantity import GPU
from headway.kube.pod.constraints import Demands, Unplaceable
from headway.kube.pod.resources import GPU_LABEL, GPU_NAMES


def role_for(role: Role, held: Mapping[str, int], demands: Demands) -> Role:
    """The role with what its pod demands of a node, and with what it holds beside its request as overhead.

    Raises `Unplaceable` for GPUs of two vendors: plans count those of one.
    """
    asked = _with_gpu(dict(role.request))
    overhead = {kind: amount - asked.get(kind, 0) for kind, amount in _with_gpu(held).items()}
    vendors = [name for name in GPU_NAMES if held.get(name)]
    if len(vendors) > 1:
        raise Unplaceable(f"spec.containers: asks for GPUs of two vendors: {', '.join(vendors)}")
    vendor = vendors[0] if vendors else ""
    named = ((GPU_LABEL, vendor),) if vendor and GPU not in dict(role.request) else ()
    return replace(
        role,
        request=tuple(sorted(asked.items())),
        overhead=tuple(sorted((kind, amount) for kind, amount in overhead.items() if amount > 0)),
        selector=tuple(sorted({*role.selector, *demands.selector, *named})),
        tolerates=tuple(dict.fromkeys([*role.tolerates, *demands.tolerates])),
        affinity=demands.affinity,
    )


def _with_gpu(amounts: Mapping[str, int]) -> dict[str, int]:
    """GPUs of any vendor as plain `gpu`: a node has those of one."""
    found: dict[str, int] = {}
    for name, amount in amounts.items():
        kind = GPU if name in GPU_NAMES else name
        found[kind] = found.get(kind, 0) + amount
    return found
