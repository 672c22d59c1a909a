"""What is meant for a job: its state, where it is and where it goes, and what is remembered of it. Pure.

Times are on the cluster's clock. The board keeps state, placements and times; what it has no place for is the job's
`Memory`. Reconciliation looks at both as one `Intent`. All of it is written to the TrainingJob's status before anything
is done, and read again after a restart.

A job that is taken down, for whatever reason, is STOPPING with `draining` set, and `goal` says what it will be once its
pods are gone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from headway.core.gang import Losses
from headway.core.job import Amounts, Job
from headway.core.node import Nodes
from headway.core.placement import Placement, Shape, Vector
from headway.core.plan import Action, Because, Move, Resize, Scale, Start, Stop
from headway.core.states import State
from headway.kube.settings import KubeTimeouts


@dataclass(frozen=True, slots=True)
class RoleAllocation:
    """The nodes of one role, and what each of its replicas holds."""

    role: str
    nodes: tuple[str, ...]
    amounts: Amounts


Allocation = tuple[RoleAllocation, ...]
"""One entry per role, in the job's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered of a job beside what the board keeps."""

    attempt: int = 0
    """The number of times it was started and taken down before. Pods of another attempt are ignored."""
    goal: State = State.WAITING
    """What a stopping job will be."""
    draining: bool = False
    """The pods of a stopping job are deleted, whatever they report."""
    saved: bool = False
    """A moving job has saved: it no longer stays where it was."""
    losses: Losses = Losses()
    refusals: int = 0
    """Starts that were refused in a row."""
    declined: int = 0
    """Changes that were asked of it in a row while it ran, in vain."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """State and memory of one job as one value: what reconciliation works on."""

    state: State = State.WAITING
    allocation: Allocation | None = None
    """Where it is."""
    target: Allocation | None = None
    """Where it will be when the change has ended."""
    since: float = 0.0
    until: float = math.inf
    """When the change is given up."""
    attempt: int = 0
    goal: State = State.WAITING
    draining: bool = False
    saved: bool = False
    losses: Losses = Losses()
    refusals: int = 0
    declined: int = 0
    reason: str = ""
    message: str = ""

    def memory(self) -> Memory:
        return Memory(**{name: getattr(self, name) for name in _REMEMBERED})


_REMEMBERED = tuple(field.name for field in fields(Memory))


def intent_of(memory: Memory, state: State, since: float) -> Intent:
    """The intent of a job that holds nothing."""
    return Intent(state=state, since=since, **{name: getattr(memory, name) for name in _REMEMBERED})


def wanted(intent: Intent) -> Allocation | None:
    """The allocation whose pods should be there now."""
    if intent.state in (State.STARTING, State.SCALING, State.RESIZING) or (
        intent.state is State.MOVING and intent.saved
    ):
        return intent.target
    if intent.state is State.STOPPING and intent.draining:
        return None
    return intent.allocation


def begun(intent: Intent, action: Action, target: Allocation | None, now: float, timeouts: KubeTimeouts) -> Intent:
    """The intent once this action was decided; `target` is where the job will be when it has ended."""
    fresh = replace(
        intent, target=target, since=now, saved=False, draining=False, goal=State.WAITING, message="", reason=""
    )
    match action:
        case Start():
            return replace(fresh, state=State.STARTING, until=now + timeouts.start)
        case Scale():
            return replace(fresh, state=State.SCALING, until=now + timeouts.scale)
        case Resize():
            return replace(fresh, state=State.RESIZING, until=now + timeouts.resize)
        case Move():
            return replace(fresh, state=State.MOVING, until=now + timeouts.save)
        case Stop(because=because):
            goal = State.CANCELLED if because is Because.CANCELLED else State.WAITING
            reason = because.value.capitalize()
            return replace(fresh, state=State.STOPPING, until=now + timeouts.save, goal=goal, reason=reason)


def adopted(intent: Intent, now: float, timeouts: KubeTimeouts) -> Intent:
    """After a restart of the scheduler: a change that was begun gets its full time again."""
    waits = {
        State.STARTING: timeouts.start, State.SCALING: timeouts.scale, State.RESIZING: timeouts.resize,
        State.MOVING: timeouts.start if intent.saved else timeouts.save, State.STOPPING: timeouts.save,
    }  # fmt: skip
    if intent.state not in waits or intent.draining:
        return intent
    return replace(intent, until=max(intent.until, now + waits[intent.state]))


# ── nodes by name and by number ─────────────────────────────────────────────────────────────────────────────


def allocation_of(placement: Placement, job: Job, shape: Shape, nodes: Nodes) -> Allocation:
    """Only kinds that the role asks for: a pod without a memory limit must not be given one by a resize."""
    roles = []
    for number, role in enumerate(job.roles):
        vector = placement.vector(shape, number)
        amounts = tuple(
            (kind, int(vector[nodes.kinds.index(kind)]) if kind in nodes.kinds else amount)
            for kind, amount in role.request
        )
        names = tuple(nodes.nodes[node].name for node in placement.nodes[number])
        roles.append(RoleAllocation(role.name, names, amounts))
    return tuple(roles)


def placement_of(allocation: Allocation, job: Job, nodes: Nodes) -> Placement:
    """The inverse of `allocation_of`. A role that the allocation does not name has no replicas."""
    given = {one.role: one for one in allocation}
    where: list[tuple[int, ...]] = []
    requests: list[Vector | None] = []
    for role in job.roles:
        one = given.get(role.name, RoleAllocation(role.name, (), role.request))
        where.append(tuple(nodes.index[name] for name in one.nodes if name in nodes.index))
        if one.amounts == role.request:
            requests.append(None)
            continue
        known = tuple((kind, amount) for kind, amount in one.amounts if kind in nodes.kinds)
        vector = nodes.vector(known)
        assert vector is not None
        requests.append(tuple(int(amount) for amount in vector))
    return Placement(tuple(where), tuple(requests) if any(requests) else None)
