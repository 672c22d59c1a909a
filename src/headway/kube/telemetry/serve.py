"""One process, seen from outside: what its threads, its Lease and its trained policy show at a probe or a scrape."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.kube.telemetry.metrics import Metrics, Sources
from headway.kube.telemetry.server import Health, TelemetryServer

if TYPE_CHECKING:
    from headway.kube.cluster import KubeCluster
    from headway.kube.writes.worker import ApiWorker


class Telemetry:
    """Served from the start: while the cluster is listed, and while another scheduler leads."""

    def __init__(self, listen: str, guard: Callable[[], str] = lambda: "") -> None:
        """`guard` says whether a trained policy decides."""
        self._worker: ApiWorker | None = None
        self._cluster: KubeCluster | None = None
        self.metrics = Metrics(Sources(
            queued=lambda rank: 0 if self._worker is None else self._worker.queued(rank),
            under_way=lambda: 0 if self._worker is None else self._worker.under_way(),
            allowed=lambda: 0 if self._worker is None else self._worker.allowed(),
            watches=lambda: [] if self._worker is None else self._worker.watches(),
            epoch=lambda: 0 if self._worker is None else self._worker.fence.epoch,
            leads=lambda: self._cluster is not None and self._cluster.leads,
            guard=guard,
            ages=self._ages,
        ))  # fmt: skip
        self._server = TelemetryServer(listen, self.metrics, Health(self._ages, self._listed))
        self.port = self._server.port

    def follow(self, *, worker: ApiWorker | None = None, cluster: KubeCluster | None = None) -> None:
        """From now on these are seen, too."""
        self._worker = worker or self._worker
        self._cluster = cluster or self._cluster

    def close(self) -> None:
        self._server.close()

    def _ages(self) -> dict[str, float]:
        now, at = time.monotonic(), dict[str, float | None]()
        if self._worker is not None:
            at |= {"worker": self._worker.beat_at, "lease": self._worker.lease.beat_at}
        if self._cluster is not None:
            at |= {"decider": self._cluster.turned_at, "listener": self._cluster.listened_at}
        return {name: now - then for name, then in at.items() if then is not None}

    def _listed(self) -> bool:
        """Nodes, jobs and pods."""
        watches = [] if self._worker is None else self._worker.watches()
        return bool(watches) and all(lists for _, _, lists in watches)
