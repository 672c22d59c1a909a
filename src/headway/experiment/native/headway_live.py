"""Headway as the proof sees it: the live scheduler, in a thread of this process, with the clock of the experiment."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from headway.beliefs.books import make_book
from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs
from headway.core.job import Job, JobId
from headway.core.policy import Policy
from headway.cycle.loop import Decided, run
from headway.experiment.native.clocks import FastClock, SteppedClock
from headway.experiment.native.scripts import ScriptLines
from headway.experiment.native.stage import NAMESPACE, SECONDS, Stage
from headway.experiment.native.trainers import Effect, PodSeen
from headway.kube.api.access import load_access
from headway.kube.api.install import install
from headway.kube.api.objects import Pod, TrainingJob, timestamp
from headway.kube.api.watch import Changed, Deleted, Listed, number_of
from headway.kube.cluster import KubeCluster
from headway.kube.inbox import Inbox, Message
from headway.kube.intake.spec import manifest_of
from headway.kube.settings import KubeSettings, PodDefaults
from headway.kube.writes.worker import ApiWorker
from headway.kube.writes.write import Write
from headway.lab import Lab
from headway.lab.simulated_nodes import HANDS_OFF
from headway.policies.baselines.fifo import first_fit
from headway.progress_server import ProgressServer, ServerLimits
from headway.record.lines import Head
from headway.record.log import LogWriter

FOLDER = f"headway.dev/trainingjobs/{NAMESPACE}"
POLL_SECONDS = 0.002
TEMPLATE = {
    "metadata": {"annotations": {HANDS_OFF: ""}},
    "spec": {"containers": [{"name": "main", "image": "any"}], "terminationGracePeriodSeconds": 0},
}


class SeenInbox(Inbox[Message]):
    """Knows up to which version the watches have told all."""

    def __init__(self) -> None:
        super().__init__()
        self.positions: dict[type, int] = {}

    def put(self, message: Message) -> None:
        match message:
            case Listed(kind=kind, version=at):
                self._at(kind, at)
            case Changed(kind=kind, object=found) | Deleted(kind=kind, object=found):
                self._at(kind, number_of(found.metadata.resourceVersion))
        super().put(message)

    def _at(self, kind: type, version: int) -> None:
        self.positions[kind] = max(version, self.positions.get(kind, 0))


class CountingWorker(ApiWorker):
    writes = 0

    def put(self, writes: Sequence[Write], dropped: Sequence[Write] = ()) -> None:
        self.writes += len(writes)
        super().put(writes, dropped)


class CountingServer(ProgressServer):
    """Counts events that it has handed on, and requests to save that it has sent."""

    def __init__(self, address: str, wake: Callable[[], None]) -> None:
        self.events, self.requests = 0, 0

        def count() -> None:
            self.events += 1
            wake()

        limits = ServerLimits(peer_burst=math.inf, replica_burst=math.inf, waiting_per_peer=10_000)
        super().__init__(address, count, limits=limits)

    def save(self, job: JobId, request: int) -> None:
        self.requests += len(self.connected(job))
        super().save(job, request)


class HeadwayScheduler:
    """Use as an async context manager. It is the scheduler, and the scripts' side, of a run."""

    sees_pods, hears_scripts = False, True

    def __init__(
        self, lab: Lab, clock: SteppedClock | FastClock, policy: Policy, beliefs: LearnedBeliefs = NO_BELIEFS,
        log: Path | None = None,
    ) -> None:  # fmt: skip
        self._lab, self._access, self._clock, self._began = lab, load_access(lab.kubeconfig), clock, clock.began
        self._policy, self._book = policy, make_book("progress", beliefs=beliefs)
        self._writer = LogWriter(log, Head("kube", "experiment", "progress", {"set": []}, 0, clock.began, ""))
        self._stored, self._done = 0, (0, 0)
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="headway-decides", daemon=True)

    async def __aenter__(self) -> Self:
        await install(self._access)
        self._inbox = SeenInbox()
        self._worker = CountingWorker(self._access, inbox=self._inbox)
        self._server = CountingServer("tcp:127.0.0.1:0", self._worker.wake)
        self._scripts = ScriptLines(self._server.address, lambda job: f"{NAMESPACE}/{job}")
        self._cluster: KubeCluster | None = None
        self._thread.start()
        await self._soon(lambda: self._cluster is not None, "listed")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._cluster is not None:
            self._cluster.stop()
        await asyncio.to_thread(self._thread.join, SECONDS)
        await self._scripts.close()
        self._writer.close()

    def _run(self) -> None:
        try:
            pods = PodDefaults(template=TEMPLATE, progress=self._server.address)
            settings = KubeSettings(began=self._began, clock=self._clock, pods=pods)
            cluster = KubeCluster(self._worker, self._server, settings)
            self._cluster = cluster
            try:
                run(cluster, self._policy, self._book, self._observe, first_fit)
            finally:
                cluster.close()
        except BaseException as error:  # noqa: BLE001  who waits for it is told
            self._failed = error

    def _observe(self, decided: Decided) -> None:
        assert self._cluster is not None
        self._writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        self._cluster.show(decided.snapshot)

    # ── the scheduler ──

    async def submit(self, _stage: Stage, job: Job) -> None:
        """Stored with the virtual time as its time of creation, which no request could set."""
        moment = self._began + job.submit
        named = replace(job, deadline=None)
        body: dict[str, Any] = manifest_of(named, NAMESPACE, submitted_at=moment)
        body["metadata"] |= {"creationTimestamp": f"{timestamp(moment)[:19]}Z", "generation": 1}
        body = json.loads(json.dumps(body))
        self._stored = await asyncio.to_thread(self._lab.store, FOLDER, [body])

    async def remake(self, _stage: Stage, _job: Job, _pod: PodSeen) -> None:
        """It makes its pods itself."""

    def disturb(self) -> None:
        """Nothing to do: it is asked itself."""

    async def rest(self, barrier: int, _unbound: object) -> bool:
        """When it has seen all up to the barrier, heard all reports, and has nothing to do before a later moment.

        Not if it has written, or asked for a save, since it was last asked: of that something may come.
        """
        assert self._cluster is not None
        positions, cluster = self._inbox.positions, self._cluster
        await self._soon(lambda: positions.get(Pod, 0) >= barrier, "saw a pod")
        await self._soon(lambda: positions.get(TrainingJob, 0) >= self._stored, "saw a job")
        await self._soon(lambda: self._server.events >= self._scripts.sent, "heard a report")
        before = self._done
        await self._soon(self._has_rested(), "came to rest")
        await self._soon(lambda: self._scripts.heard >= self._server.requests, "sent a request to save")
        self._done = self._worker.writes, self._scripts.heard
        return cluster.outbox.is_idle and before == self._done

    def until(self) -> float:
        clock = self._clock
        return clock.until - self._began if isinstance(clock, SteppedClock) else math.inf

    def _has_rested(self) -> Callable[[], bool]:
        """Two whole turns in which nothing was left to do."""
        clock, cluster = self._clock, self._cluster
        assert isinstance(clock, SteppedClock)
        assert cluster is not None
        begun = clock.rests

        def rested() -> bool:
            nonlocal begun
            if not cluster.outbox.is_idle or cluster.intake.to_come:
                begun = clock.rests
            self._worker.wake()
            return clock.rests >= begun + 2

        return rested

    async def _soon(self, there: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + SECONDS
        while not there():
            if self._failed is not None:
                raise self._failed
            if time.monotonic() > give_up:
                raise TimeoutError(f"headway has not {what} within {SECONDS:g} s")
            await asyncio.sleep(POLL_SECONDS)

    # ── the scripts ──

    async def perform(self, effects: Sequence[Effect]) -> None:
        await self._scripts.perform(effects)

    def asked(self) -> list[tuple[JobId, int]]:
        return self._scripts.asked()
