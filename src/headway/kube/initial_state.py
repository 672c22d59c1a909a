"""The state at the start: all nodes, jobs and pods, before the first decision."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from headway.kube.admission import Admission
from headway.kube.adoption import Admitted, in_order
from headway.kube.api.errors import KubeError, NotFound
from headway.kube.api.objects import NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Listed, WatchFailed
from headway.kube.inbox import Inbox
from headway.kube.rehearsal import Rehearsals, Rehearsed
from headway.kube.work import Message, WorkerEnded

log = logging.getLogger("headway.kube")
INITIAL_STATE_SECONDS = 60.0


@dataclass(slots=True)
class InitialState:
    """All nodes, jobs and pods at the start, before the first decision."""

    nodes: Listed[NodeObject] | None = None
    jobs: Listed[TrainingJob] | None = None
    pods: Listed[Pod] | None = None
    later: list[Message] = field(default_factory=list)
    """Other messages that came meanwhile, in order."""

    def take(self, message: Message) -> None:
        match message:
            case Listed(kind=kind) if kind is NodeObject and self.nodes is None:
                self.nodes = message
            case Listed(kind=kind) if kind is TrainingJob and self.jobs is None:
                self.jobs = message
            case Listed(kind=kind) if kind is Pod and self.pods is None:
                self.pods = message
            case _:
                self.later.append(message)

    @property
    def whole(self) -> bool:
        return self.nodes is not None and self.jobs is not None and self.pods is not None


@contextmanager
def collector_rests() -> Iterator[None]:
    """Meanwhile nobody looks for cycles: thousands of objects come and stay, so that it would be in vain."""
    worked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if worked:
            gc.enable()


def read_initial_state(inbox: Inbox[Message], seconds: float = INITIAL_STATE_SECONDS) -> InitialState:
    """Waits for the first list of each kind. Waits while the server is slow or restarts, but not if it refuses."""
    look, give_up = InitialState(), time.monotonic() + seconds
    trouble = "no answer"
    while not look.whole:
        if not inbox.wait(give_up - time.monotonic()):
            raise KubeError(f"the API server cannot be reached within {seconds:g} seconds: {trouble}")
        message = inbox.next()
        assert message is not None
        match message:
            case WatchFailed(error=NotFound()):
                raise KubeError("the cluster does not know TrainingJobs: run `headway schedule --install` first")
            case WatchFailed(error=error) if error.status in (401, 403):
                raise KubeError(f"the API server refuses access: {error}; check the kubeconfig and the roles")
            case WatchFailed(error=error):
                trouble = str(error)
            case WorkerEnded(why=why):
                raise KubeError(f"the thread that talks to the API server has ended: {why}")
            case _:
                look.take(message)
    return look


def take_in_first(
    admission: Admission, inbox: Inbox[Message], jobs: Sequence[TrainingJob], pods: Sequence[Pod]
) -> list[Admitted]:
    """Jobs that hold something come in, whatever time that takes. Others, as far as they are read and their dry runs
    are answered within `KubeTimeouts.rehearsals` seconds: the rest comes in during the first decisions.
    """
    give_up = time.monotonic() + admission.settings.timeouts.rehearsals
    rehearsals = admission.rehearse(jobs)
    _read_rehearsals(inbox, rehearsals, rehearsals.take, give_up)
    admitted = admission.first(jobs, pods)

    def some() -> bool:
        admission.newcomers.new_turn()
        admitted.extend(admission.some())
        return bool(admission.newcomers.waiting)

    _read_rehearsals(inbox, rehearsals, admission.hear, give_up, some)
    return in_order(admitted, admission.settings.serials)


def _read_rehearsals(
    inbox: Inbox[Message],
    rehearsals: Rehearsals,
    take: Callable[[Rehearsed], object],
    give_up: float,
    work: Callable[[], bool] = lambda: False,
) -> None:
    """Takes answers until all that was asked for is known, and does other work, until it says that none is left; both
    until `give_up` at most. Other messages stay in the inbox.
    """
    others = list[Message]()
    while (more := work()) or rehearsals.awaited:
        inbox.wait(0.0 if more else give_up - time.monotonic())
        while (message := inbox.next()) is not None:
            if isinstance(message, Rehearsed):
                take(message)
            else:
                others.append(message)
        if time.monotonic() >= give_up:
            break
    if rehearsals.awaited:
        log.warning("%d dry runs have no answer yet; decisions begin without these jobs", rehearsals.awaited)
    inbox.put_back(others)
