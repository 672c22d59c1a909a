"""What pods really use, read from the cluster: by the metrics API, or by the summaries of the kubelets.

Nothing here decides anything. A kubelet that does not answer in time is left out; its pods then count as not measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from headway.core.quantity import CPU, MEMORY, QuantityError, count
from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, NotFound
from headway.kube.pods.replica import MAIN

METRICS = "/apis/metrics.k8s.io/v1beta1"
AT_ONCE = 4
"""Kubelets that are asked at the same time."""
KUBELET_SECONDS = 10.0
MIB = 1 << 20

PodKey = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What the container that trains uses."""

    cores: float
    memory: int
    """MiB that it holds and that cannot be reclaimed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The answer to a request to measure."""

    pods: Mapping[PodKey, PodUsage]
    why: str = ""
    """Why nothing, or not everything, was measured."""


class _Ref(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Cpu(msgspec.Struct, frozen=True):
    usageNanoCores: int | None = None  # noqa: N815  Kubernetes' spelling, here and below


class _Memory(msgspec.Struct, frozen=True):
    workingSetBytes: int | None = None  # noqa: N815


class _ContainerStats(msgspec.Struct, frozen=True):
    name: str = ""
    cpu: _Cpu = _Cpu()
    memory: _Memory = _Memory()


class _PodStats(msgspec.Struct, frozen=True):
    podRef: _Ref = _Ref()  # noqa: N815
    containers: list[_ContainerStats] | None = None


class _Summary(msgspec.Struct, frozen=True):
    pods: list[_PodStats] | None = None


class _ContainerMetrics(msgspec.Struct, frozen=True):
    name: str = ""
    usage: dict[str, str] = {}


class _PodMetrics(msgspec.Struct, frozen=True):
    metadata: _Ref = _Ref()
    containers: list[_ContainerMetrics] | None = None


class _PodMetricsList(msgspec.Struct, frozen=True):
    items: list[_PodMetrics] | None = None


_summaries = msgspec.json.Decoder(_Summary)
_metrics = msgspec.json.Decoder(_PodMetricsList)


async def by_metrics(client: Client, inside: str) -> Measured:
    """One request for all pods of a namespace (`namespaces/NAME/`), or of all if that is empty."""
    try:
        return Measured(read_metrics(await client.get(f"{METRICS}/{inside}pods")))
    except NotFound:
        return Measured({}, "the cluster has no metrics API")
    except (ApiError, msgspec.MsgspecError) as error:
        return Measured({}, f"metrics API: {error}")


async def by_kubelets(client: Client, nodes: Iterable[str]) -> Measured:
    """One request for each node, through the API server."""
    turns, found, troubles = asyncio.Semaphore(AT_ONCE), dict[PodKey, PodUsage](), list[str]()

    async def ask(node: str) -> None:
        try:
            async with turns, asyncio.timeout(KUBELET_SECONDS):
                raw = await client.get(f"/api/v1/nodes/{quote(node, safe='')}/proxy/stats/summary")
            found.update(read_summary(raw))
        except (ApiError, TimeoutError, msgspec.MsgspecError) as error:
            troubles.append(f"the kubelet of {node}: {error or 'does not answer'}")

    await asyncio.gather(*(ask(node) for node in nodes))
    return Measured(found, troubles[0] if troubles else "")


def read_summary(raw: bytes) -> dict[PodKey, PodUsage]:
    """The containers that train, of a kubelet's summary. One that has just started has no numbers yet."""
    return {
        (pod.podRef.namespace, pod.podRef.name): PodUsage(main.cpu.usageNanoCores / 1e9, held // MIB)
        for pod in _summaries.decode(raw).pods or ()
        for main in pod.containers or ()
        if main.name == MAIN and main.cpu.usageNanoCores is not None
        for held in [main.memory.workingSetBytes or 0]
    }


def read_metrics(raw: bytes) -> dict[PodKey, PodUsage]:
    found = {}
    for pod in _metrics.decode(raw).items or ():
        for main in pod.containers or ():
            try:
                if main.name == MAIN and CPU in main.usage:
                    cores, held = _cores(main.usage[CPU]), count(MEMORY, main.usage.get(MEMORY, "0"))
                    found[pod.metadata.namespace, pod.metadata.name] = PodUsage(cores, held // MIB)
            except QuantityError:
                continue
    return found


def _cores(written: str) -> float:
    """Metrics have parts of thousandths (`1234567n`), which amounts do not: those are rounded up."""
    if written.endswith("n") and written[:-1].isdecimal():
        return int(written[:-1]) / 1e9
    return count(CPU, written) / 1000
