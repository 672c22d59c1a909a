"""A training script that starts quickly, and a cluster to run it on. Real training is in tests/conformance."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.core.job import Can, Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.cycle.loop import run
from headway.estimates.progress import ProgressBook
from headway.local.cluster import LocalCluster
from headway.local.editing import NO_WISHES, Wishes
from headway.local.settings import LocalSettings, LocalTimeouts

COUNT = '''
"""Counts to N in steps of 50 ms, saves on request, goes on from there."""
import json, sys, time
from pathlib import Path
from headway import progress

total = int(sys.argv[1])
file = (progress.checkpoint_dir() or Path(".")) / "count"
first = int(file.read_text()) if file.exists() else 0
print("from", first, flush=True)

def save(step):
    part = file.with_suffix(".part")
    part.write_text(str(step))
    part.replace(file)

with progress.track(total_steps=total, save=save) as p:
    p.on_resize(lambda size: print("resized", json.dumps(size.replicas), size.cpu, flush=True))
    for step in range(first + 1, total + 1):
        time.sleep(0.05)
        p.report(step, loss=1.0 / step)
print("done", flush=True)
'''


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "count.py").write_text(COUNT)
    return tmp_path


def a_local_job(name: str, scripts: Path, *command: str, cpu: int = 200, memory: int = 0, **more: object) -> Job:
    request = (("cpu", cpu), ("memory", memory)) if memory else (("cpu", cpu),)
    role = Role(name="worker", request=request, command=(sys.executable, *command))
    return Job(id=JobId(name), roles=more.pop("roles", (role,)), directory=str(scripts), **more)  # type: ignore[arg-type]


class Run:
    """A run on this machine; it keeps the snapshots, notes and plans for the test."""

    def __init__(
        self,
        folder: Path,
        jobs: list[Job],
        timeouts: LocalTimeouts | None = None,
        *,
        cpu: int = 1000,
        wishes: Wishes = NO_WISHES,
        **more: object,
    ) -> None:
        nodes = Nodes.of([Node(name=n, capacity=(("cpu", cpu), ("memory", 4096))) for n in ("left", "right")])
        self.folder = folder / "state"
        settings = LocalSettings(
            folder=self.folder, began=time.time(), timeouts=timeouts or LocalTimeouts(save=30, stop=30, start=90),
            **more,  # type: ignore[arg-type]
        )  # fmt: skip
        self.cluster = LocalCluster(nodes, jobs, settings, wishes)
        self.snapshots: list[Snapshot] = []
        self.notes: dict[str, list[str]] = {}
        self.plans: list[Plan] = []

    def go(self, policy: Callable[[Snapshot], Plan], seconds: float = 200) -> Run:
        give_up = time.monotonic() + seconds

        def watched(snapshot: Snapshot) -> Plan:
            assert time.monotonic() < give_up, f"not over after {seconds} s: {self.notes}"
            self.snapshots.append(snapshot)
            for job, note in snapshot.notes:
                self.notes.setdefault(job, []).append(note)
            plan = policy(snapshot)
            self.plans.append(plan)
            return plan

        try:
            run(self.cluster, watched, ProgressBook())
        finally:
            self.cluster.close()
        return self

    def output(self, job: str, replica: str = "worker-0") -> str:
        return (self.folder / "output" / job / f"{replica}.log").read_text()

    def state(self, job: str) -> str:
        board = self.cluster.board
        return board.state(board.table.row_of[JobId(job)]).name


__all__ = ["Can", "Run", "a_local_job"]
