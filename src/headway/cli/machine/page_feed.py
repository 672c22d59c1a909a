"""What the live page shows, collected while a run goes on: states over time, losses, nodes. Only the run changes it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headway.cli.screen.clock_times import times_of
from headway.cli.screen.say import say
from headway.core.errors import UserError
from headway.core.node import IntArray, Nodes
from headway.core.quantity import PODS
from headway.core.snapshot import Snapshot
from headway.core.states import OVER
from headway.page.view import Amount, Curve, JobView, NodeView, RunView, Span

if TYPE_CHECKING:
    from headway.cli.machine.queue_status import JobStatus
    from headway.page.server import PageServer

MOST_POINTS = 300
"""Of a curve. Where there are more reports, every second point goes."""
MOST_CURVES = 24
KEPT_OVER = 8
"""Jobs that are over and whose curves are shown."""
MOST_SPANS = 60
"""States of a job; earlier ones are forgotten."""


class LossCurve:
    """The losses of one job, thinned out evenly. One that goes back to an earlier step forgets what came after."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._losses: list[float] = []
        self._every = 1
        self._count = 0
        self._last = (0, 0.0)

    def add(self, step: int, loss: float) -> None:
        """A report."""
        behind = bisect_left(self._steps, step)
        del self._steps[behind:], self._losses[behind:]
        self._last = (step, loss)
        if self._count % self._every == 0:
            self._steps.append(step)
            self._losses.append(loss)
        self._count += 1
        if len(self._steps) > MOST_POINTS:
            del self._steps[1::2], self._losses[1::2]
            self._every *= 2

    def view(self, job: str) -> Curve:
        step, loss = self._last
        newest = () if self._steps and self._steps[-1] == step else ((step, loss),)
        steps, losses = (*self._steps, *(one for one, _ in newest)), (*self._losses, *(one for _, one in newest))
        return Curve(job, steps, losses)


class PageFeed:
    def __init__(self, title: str, policy: str, server: PageServer, address: str) -> None:
        self.address = address
        self._title, self._policy, self._server = title, policy, server
        self._spans: dict[str, list[Span]] = {}
        self._losses: dict[str, LossCurve] = {}
        self._gpus: dict[str, str] = {}
        self._nodes: tuple[Nodes, IntArray] | None = None

    def show(self, snapshot: Snapshot, began: float) -> None:
        """Takes over what has changed. `began`: when the clock of the run was zero, in seconds since 1970."""
        jobs = snapshot.jobs
        for row in snapshot.changed:
            name, state = jobs.job(row).id, jobs.state_of(row)
            if jobs.row_of.get(name) != row or state in OVER:
                continue
            spans, word = self._spans.setdefault(name, []), state.name.lower()
            if not spans or spans[-1].state != word:
                spans.append(Span(began + float(jobs.since[row]), word))
                del spans[:-MOST_SPANS]
        for sample in snapshot.samples:
            if sample.loss is not None:
                self._losses.setdefault(sample.job, LossCurve()).add(sample.step, sample.loss)
        self._gpus = {jobs.job(row).id: str(use) for row, use in snapshot.gpus.items()}
        self._nodes = snapshot.nodes, snapshot.free

    def tell(self, at: float, jobs: Sequence[JobStatus]) -> None:
        """Publishes how the jobs are."""
        known = {job.name for job in jobs}
        self._spans = {name: spans for name, spans in self._spans.items() if name in known}
        over = [job.name for job in jobs if job.is_over and job.name in self._losses]
        forgotten = set(over[:-KEPT_OVER])
        self._losses = {name: one for name, one in self._losses.items() if name in known and name not in forgotten}
        curves = [self._losses[job.name].view(job.name) for job in jobs if job.name in self._losses]
        nodes = () if self._nodes is None else tuple(_nodes(*self._nodes))
        shown = tuple(self._job(job, at) for job in jobs)
        self._server.publish(RunView(self._title, self._policy, at, shown, nodes, tuple(curves[-MOST_CURVES:])))

    def _job(self, job: JobStatus, now: float) -> JobView:
        starts, done = times_of(job, now)
        ended = job.note if job.is_over and job.state != "finished" else ""
        return JobView(
            name=job.name, state=job.state, is_over=job.is_over, user=job.user, since=job.since, deadline=job.deadline,
            step=job.step, steps=job.steps, loss=job.loss, left=job.left, starts=starts, done=done, where=job.where,
            gpus=self._gpus.get(job.name, ""), why=job.why or ended, spans=tuple(self._spans.get(job.name, ())),
        )  # fmt: skip


def _nodes(nodes: Nodes, free: IntArray) -> Iterator[NodeView]:
    for number, node in enumerate(nodes.nodes):
        amounts = [
            Amount(kind, int(nodes.capacity[row, number] - free[row, number]), int(nodes.capacity[row, number]))
            for row, kind in enumerate(nodes.kinds)
            if kind != PODS and nodes.capacity[row, number]
        ]
        yield NodeView(node.name, tuple(amounts))


@contextmanager
def live_page(title: str, policy: str, *, wanted: bool) -> Iterator[PageFeed | None]:
    """The page of a run, from now until the run ends; None if it is not wanted. Its address is told."""
    if not wanted:
        yield None
        return
    from headway.page.server import PageServer

    server = PageServer(RunView(title, policy, 0.0))
    try:
        address = server.start()
    except OSError as error:
        raise UserError(f"--page: no address of this machine can be had: {error.strerror}") from error
    say(f"page: {address}", error=True)
    try:
        yield PageFeed(title, policy, server, address)
    finally:
        server.close()
