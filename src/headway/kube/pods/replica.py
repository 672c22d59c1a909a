"""One of our pods as reconciliation sees it: which replica it is, its phase, what it holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from headway.core.gang import Phase, ReplicaFact, exit_sentence, phase_of_exit
from headway.core.job import Amounts
from headway.core.quantity import CPU, MEMORY, QuantityError, parse
from headway.kube.api.objects import Pod, Resources, unix
from headway.kube.pods.gate import Gate
from headway.kube.pods.marks import read_pod_name

MAIN = "main"
"""The container that trains."""
OUT_OF_MEMORY = "OOMKilled"
_STUCK = frozenset({"InvalidImageName", "CreateContainerConfigError", "CreateContainerError"})
_PASSING = "failed to create subPath directory"
"""Two pods of a new namespace made its folder of the checkpoint volume in the same moment. Kubelets try again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    name: str
    role: str
    index: int
    attempt: int = 0
    node: str = ""
    """Its node in the plan."""
    uid: str = ""
    bound: bool = True
    phase: Phase = Phase.PENDING
    deleting: bool = False
    grace: int | None = None
    """Seconds that a pod that is being deleted was given to end."""
    ends_at: float | None = None
    """When a pod that is being deleted is killed, on the cluster's clock."""
    finished_at: float | None = None
    """On the cluster's clock."""
    why: str = ""
    """Why it ended, in a sentence."""
    spec: Amounts = ()
    """cpu and memory that the pod requests now."""
    given: Amounts | None = None
    """cpu and memory that the kubelet gives; None if it does not say."""
    cannot_resize: str = ""
    turned_away: bool = False
    """Its kubelet did not take it: no room, or a rule of the node. No container was started."""
    gate: Gate | None = None
    """It is held back from the native scheduler, by our gate alone."""
    made_anew: bool = False
    """Its owner makes another in its place if it is deleted."""
    told: str = ""
    """Why it has no node, as its own status says."""
    version: str = field(default="", compare=False)

    def member(self, *, gone: bool, since: float) -> ReplicaFact:
        """The replica for the gang rule. `gone`: its node is lost. `since`: its end if the kubelet does not say."""
        if gone and not self.over:
            return ReplicaFact(self.role, self.index, Phase.LOST, why=f"node {self.node} is gone")
        ended_at, cause = since if self.finished_at is None else self.finished_at, OUT_OF_MEMORY in self.why
        return ReplicaFact(self.role, self.index, self.phase, ended_at, self.why or self.phase.value, cause)

    @property
    def over(self) -> bool:
        return self.phase not in (Phase.PENDING, Phase.UP)


def replica_of(pod: Pod, job: str, began: float, planned: str = "") -> Replica | None:
    """The replica of a pod of this job; None if the pod's name does not say which one.

    `planned` is its node as long as it is not bound.
    """
    named, status = read_pod_name(pod.metadata.name, job), pod.status
    if named is None:
        return None
    attempt, role, index = named
    main = next((c for c in pod.spec.containers if c.name == MAIN), None)
    seen = next((c for c in status.containerStatuses if c.name == MAIN), None)
    ended = seen.state.terminated if seen is not None else None
    phase, why = phase_of(pod)
    return Replica(
        name=pod.metadata.name, role=role, index=index, attempt=attempt,
        node=pod.spec.nodeName or planned, uid=pod.metadata.uid, version=pod.metadata.resourceVersion,
        bound=bool(pod.spec.nodeName), phase=phase, deleting=pod.metadata.deletionTimestamp is not None,
        grace=pod.metadata.deletionGracePeriodSeconds, ends_at=_moment(pod.metadata.deletionTimestamp, began),
        finished_at=_moment(ended.finishedAt, began) if ended is not None else None, why=why,
        spec=_amounts(main.resources) if main is not None else (),
        given=None if seen is None or seen.resources is None else _amounts(seen.resources),
        cannot_resize=_infeasible(pod), turned_away=phase is Phase.REFUSED and status.phase == "Failed",
    )  # fmt: skip


def _moment(written: str | None, began: float) -> float | None:
    """On the cluster's clock, which showed zero at `began`."""
    return unix(written) - began if unix(written) else None


def phase_of(pod: Pod) -> tuple[Phase, str]:
    """And why it ended, in a sentence."""
    status = pod.status
    match status.phase:
        case "Running":
            return Phase.UP, ""
        case "Succeeded":
            return Phase.DONE, ""
        case "Failed":
            return _judge_failed(pod)
    for container in status.containerStatuses:
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in _STUCK and not waiting.message.startswith(_PASSING):
            return Phase.REFUSED, f"{waiting.reason}: {waiting.message}"
    return Phase.PENDING, ""


def _judge_failed(pod: Pod) -> tuple[Phase, str]:
    name, status = pod.metadata.name, pod.status
    ended = [c.state.terminated for c in status.containerStatuses if c.state.terminated is not None]
    if not ended:
        why = f"{name}: {status.reason or 'failed'}: {status.message}".rstrip(": ")
        lost = status.reason in ("Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting")
        return (Phase.LOST if lost else Phase.REFUSED), why
    worst = max(ended, key=lambda end: end.exitCode)
    if worst.reason == OUT_OF_MEMORY:
        return Phase.FAILED, f"{name} used more memory than it asked for and was killed ({OUT_OF_MEMORY})"
    if worst.reason in ("StartError", "ContainerCannotRun"):
        return Phase.FAILED, f"{name} could not be started: {worst.message[:300]}"
    if status.reason:
        return Phase.LOST, f"{name}: {status.reason}"
    return phase_of_exit(worst.exitCode), exit_sentence(name, worst.exitCode)


def _infeasible(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending" and condition.reason == "Infeasible":
            return condition.message or "the node cannot give it"
    return ""


def _amounts(resources: Resources) -> Amounts:
    found = []
    for kind in (CPU, MEMORY):
        try:
            if kind in resources.requests:
                found.append((kind, parse(kind, resources.requests[kind])))
        except QuantityError:
            continue
    return tuple(found)
