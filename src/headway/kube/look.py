"""The first look at a cluster: everything that there is, before anything is decided."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from headway.kube.api.errors import KubeError, NotFound
from headway.kube.api.objects import NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Listed, Unwatched
from headway.kube.inbox import Inbox
from headway.kube.worker import Message

FIRST_LOOK_SECONDS = 60.0


@dataclass(slots=True)
class Look:
    nodes: Listed[NodeObject] | None = None
    jobs: Listed[TrainingJob] | None = None
    pods: Listed[Pod] | None = None
    later: list[Message] = field(default_factory=list)
    """What came meanwhile, in order."""

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


def first_look(inbox: Inbox[Message], seconds: float = FIRST_LOOK_SECONDS) -> Look:
    """A server that is slow or restarting is waited for; one that refuses is not."""
    look, give_up = Look(), time.monotonic() + seconds
    trouble = "it does not answer"
    while not look.whole:
        if not inbox.wait(give_up - time.monotonic()):
            raise KubeError(f"the API server cannot be reached: {trouble}")
        message = inbox.next()
        assert message is not None
        match message:
            case Unwatched(error=NotFound()):
                raise KubeError("the cluster does not know TrainingJobs: run `headway schedule --install` first")
            case Unwatched(error=error) if error.status in (401, 403):
                raise KubeError(f"the API server refuses: {error}")
            case Unwatched(error=error):
                trouble = str(error)
            case _:
                look.take(message)
    return look
