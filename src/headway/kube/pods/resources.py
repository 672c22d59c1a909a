"""What a pod holds of its node, counted as the Kubernetes scheduler counts it. Pure.

Example: containers of 1 and 2 cpu, a sidecar of 1 and an init container of 5 hold max(1 + 2 + 1, 1 + 5) = 6 cpu, if the
sidecar starts before the init container. Amounts are exact until a pod is summed up; only then they become whole MiB.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from headway.core.job import Role
from headway.core.quantity import CPU, GPU, HUGE_PAGES, LARGEST, MEMORY, PODS, STORAGE, QuantityError, count, planned
from headway.kube.api.objects import GROUP, Container, ContainerStatus, Pod, Quantities, Resources
from headway.kube.pods.constraints import Demands, Unplaceable
from headway.kube.values import replace

log = logging.getLogger("headway.kube")
Counted = dict[str, int]
"""Resource name to amount: cpu in thousandths, bytes or units of all else."""
GPU_NAMES = ("nvidia.com/gpu", f"{GROUP}/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
GPU_LABEL = f"{GROUP}/gpu-resource"
"""Label of nodes in plans: the resource name of their GPUs. A role that asks for one vendor's runs on these only."""
OVER_PHASES = ("Succeeded", "Failed")
_ALWAYS = "Always"


def counted(quantities: Quantities) -> Counted:
    found: Counted = {}
    for name, value in quantities.items():
        try:
            found[name] = count(name, str(value).strip())
        except QuantityError:
            log.warning("resource %s: the amount %r cannot be read; counting it as 0", name, value)
    return found


def held_by(pod: Pod) -> dict[str, int]:
    """What a pod holds, in the units of plans: also its place among the pods of the node."""
    return _planned(_requests(pod)) | {PODS: 1}


def allocatable(quantities: Quantities) -> dict[str, int]:
    """What a node has for pods, in the units of plans. Rounded down: it must not seem larger than it is."""
    found = {}
    for name, amount in counted(quantities).items():
        if _is_planned(name):
            found[name] = max(0, min(planned(name, amount, floor=True), LARGEST - 1))
    return found


def gpu_name(amounts: Mapping[str, int]) -> str:
    """The resource name of the GPUs of a node: the first that we know; empty if it has none."""
    return next((name for name in GPU_NAMES if amounts.get(name)), "")


def with_gpu(amounts: Mapping[str, int], gpu: str) -> dict[str, int]:
    """The same amounts with the resource of this name as plain `gpu`, which is what plans ask for."""
    found = {name: amount for name, amount in amounts.items() if name != gpu}
    return found | ({GPU: found.get(GPU, 0) + amounts[gpu]} if gpu in amounts else {})


def _planned(amounts: Counted) -> dict[str, int]:
    return {name: max(0, min(planned(name, amount), LARGEST)) for name, amount in amounts.items() if _is_planned(name)}


def _is_planned(name: str) -> bool:
    return name in (CPU, MEMORY, STORAGE, PODS) or "/" in name or name.startswith(HUGE_PAGES)


# ── the scheduler's rule ────────────────────────────────────────────────────────────────────────────────────


def _requests(pod: Pod) -> Counted:
    """The sum of the containers or the largest moment of the start, whichever is more; then the pod's own numbers."""
    statuses = {s.name: s for s in (*pod.status.containerStatuses, *pod.status.initContainerStatuses)}
    spec, refused = pod.spec, _resize_is_refused(pod)
    running, sidecars, starting = Counted(), Counted(), Counted()
    for container in spec.containers:
        _add(running, _of_container(container, statuses.get(container.name), refused))
    for container in spec.initContainers:
        if container.restartPolicy == _ALWAYS:
            own = _of_container(container, statuses.get(container.name), refused)
            _add(running, own)
            _add(sidecars, own)
            moment = sidecars
        else:
            moment = counted(container.resources.requests)
            _add(moment, sidecars)
        _raise(starting, moment)
    _raise(running, starting)
    running |= _of_whole_pod(pod, refused)
    _add(running, counted(spec.overhead))
    return running


def _of_container(container: Container, status: ContainerStatus | None, refused: bool) -> Counted:
    """After a resize the largest of what is asked for, allocated and in use; without the first if it was refused."""
    asked = counted(container.resources.requests)
    if status is None or status.resources is None:
        return asked
    return _largest(asked, status.resources, status.allocatedResources, refused)


def _of_whole_pod(pod: Pod, refused: bool) -> Counted:
    whole = pod.spec.resources
    if whole is None:
        return {}
    asked = {name: amount for name, amount in counted(whole.requests).items() if _may_be_of_pod(name)}
    if not asked or pod.status.resources is None:
        return asked
    found = _largest(asked, pod.status.resources, pod.status.allocatedResources, refused)
    return {name: found.get(name, amount) for name, amount in asked.items()}


def _largest(asked: Counted, used: Resources, given: Quantities, refused: bool) -> Counted:
    found = counted(used.requests)
    _raise(found, counted(given))
    if not refused:
        _raise(found, asked)
    return found


def _may_be_of_pod(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)


def _resize_is_refused(pod: Pod) -> bool:
    pending: Iterable[str] = (c.reason for c in pod.status.conditions if c.type == "PodResizePending")
    return next(iter(pending), "") == "Infeasible"


def _add(total: Counted, more: Counted) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Counted, other: Counted) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, 0), amount)


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
