"""The state at the start: all nodes, jobs and pods, before the first decision."""

from __future__ import annotations

import gc
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from headway.core.job import Job, JobId
from headway.kube.api.errors import ApiError, KubeError, NotFound
from headway.kube.api.objects import NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Listed, WatchFailed
from headway.kube.gangs.recover import Recovered
from headway.kube.inbox import Inbox, Message, WorkerEnded
from headway.kube.intake.dry_runs import DryRunDone
from headway.kube.intake.table import Intake
from headway.kube.pods.marks import owner_uid

log = logging.getLogger("headway.kube")
INITIAL_STATE_SECONDS = 60.0
NOT_SHOWN = (401, 403, 404)
LISTS_SECONDS = 900.0
"""A large cluster on a slow server is listed in minutes."""


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

    def messages(self) -> list[Message]:
        """All that it has taken."""
        return [one for one in (self.nodes, self.jobs, self.pods) if one is not None] + self.later


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


def read_initial_state(
    inbox: Inbox[Message], seconds: float = INITIAL_STATE_SECONDS, at_most: float = LISTS_SECONDS
) -> InitialState:
    """Waits for the first list of each kind, however long a large one takes. Gives up if the server cannot be reached
    for so many seconds, and at once if it refuses.
    """
    look, failing_since, trouble = InitialState(), math.inf, "no answer"
    give_up = time.monotonic() + at_most
    while not look.whole:
        if not inbox.wait(min(give_up, failing_since + seconds) - time.monotonic()):
            waited = seconds if math.isfinite(failing_since) else at_most
            raise KubeError(f"the API server cannot be reached within {waited:g} seconds: {trouble}")
        message = inbox.next()
        assert message is not None
        match message:
            case WatchFailed(error=error) if error.status in NOT_SHOWN:
                raise refusal(error)
            case WatchFailed(error=error):
                failing_since, trouble = min(failing_since, time.monotonic()), str(error)
            case WorkerEnded(why=why):
                raise KubeError(f"the thread that talks to the API server has ended: {why}")
            case _:
                failing_since = math.inf
                look.take(message)
    return look


def refusal(error: ApiError) -> KubeError:
    """A list that the API server does not know or does not show."""
    if isinstance(error, NotFound):
        return KubeError("the cluster does not know TrainingJobs: run `headway schedule --install` first")
    return KubeError(f"the API server refuses access: {error}; check the kubeconfig and the roles")


def first_gangs(
    intake: Intake, inbox: Inbox[Message], jobs: Sequence[TrainingJob], pods: Iterable[Pod]
) -> list[Recovered]:
    """Jobs that hold something come in, whatever time that takes. Others, as far as they are read and their dry runs
    are answered within `KubeTimeouts.dry_runs` seconds: the rest comes in during the first decisions.
    """
    give_up = time.monotonic() + intake.settings.timeouts.dry_runs
    intake.begin(jobs, _by_owner(pods, {found.metadata.uid for found in jobs}))
    _read_answers(inbox, intake, give_up, lambda: False)
    found = intake.first(jobs)

    def some() -> bool:
        intake.new_turn()
        found.extend(intake.some())
        return intake.waiting

    _read_answers(inbox, intake, give_up, some)
    serials = intake.settings.serials
    return sorted(found, key=lambda one: _order(one.gang.job, serials))


def _order(job: Job, serials: Mapping[JobId, int]) -> tuple[float, float, str]:
    """Jobs of the start in the order of an earlier run with the same log, then by age."""
    return serials.get(job.id, math.inf), job.submit, job.id


def _by_owner(pods: Iterable[Pod], uids: Container[str]) -> Mapping[str, Sequence[Pod]]:
    """By the uid of a TrainingJob: the pods that say that they belong to it."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if (uid := owner_uid(pod)) in uids:
            found[uid].append(pod)
    return found


def _read_answers(inbox: Inbox[Message], intake: Intake, give_up: float, work: Callable[[], bool]) -> None:
    """Takes answers until all that was asked for is known, and does other work, until it says that none is left; both
    until `give_up` at most. Other messages stay in the inbox.
    """
    others = list[Message]()
    while (more := work()) or intake.dry_runs.awaited:
        inbox.wait(0.0 if more else give_up - time.monotonic())
        while (message := inbox.next()) is not None:
            if isinstance(message, DryRunDone):
                intake.hear(message)
            else:
                others.append(message)
        if time.monotonic() >= give_up:
            break
    if intake.dry_runs.awaited:
        log.warning("%d dry runs have no answer yet; decisions begin without these jobs", intake.dry_runs.awaited)
    inbox.put_back(others)
