"""The intended state of a job: its state, its present and its next allocation, and what is remembered of it. Pure.

Times are on the cluster's clock. It is part of the gang and shown on the board and in the TrainingJob's status. After a
restart it is read from there and from the pods.

A job whose pods are deleted is STOPPING with `draining` set. `goal` is its state once its pods are gone.
"""

from __future__ import annotations

import math

import msgspec

from headway.core.job import Amounts, Job
from headway.core.node import Nodes
from headway.core.placement import Placement, Shape, Vector
from headway.core.plan import Action, Because, Move, Resize, Scale, Start, Stop
from headway.core.restarts import Losses
from headway.core.states import OVER, State
from headway.kube.settings import KubeTimeouts
from headway.kube.values import replace

EVICTED = "PodEvicted"
"""The reason of a job that saves because another hand deletes one of its pods."""
QUOTA_FULL = "QuotaFull"
"""The reason of a job that a full ResourceQuota keeps waiting."""
NAME_TAKEN = "NameTaken"
"""The reason of a job that waits because somebody else's pod has the name of one of its replicas."""
PAUSES = frozenset({QUOTA_FULL, NAME_TAKEN})
"""A job that backs off for such a reason is shown as waiting."""


class RoleAllocation(msgspec.Struct, frozen=True):
    """The nodes of one role's replicas, and what each replica holds."""

    role: str
    nodes: tuple[str, ...]
    amounts: Amounts


Allocation = tuple[RoleAllocation, ...]
"""One entry per role, in the job's order."""


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """State and memory of one job as one value, for reconciliation."""

    state: State = State.WAITING
    allocation: Allocation | None = None
    """Where the job is."""
    target: Allocation | None = None
    """Where the job will be when the change has ended."""
    since: float = 0.0
    until: float = math.inf
    """When the change is given up."""
    attempt: int = 0
    """How often the job was started and stopped before. Pods of another attempt do not count."""
    goal: State = State.WAITING
    """The state of a stopping job once its pods are gone."""
    suspended: bool = False
    """With the goal, or in the state, CANCELLED: its user holds it back and may let it go on. It is off the board."""
    draining: bool = False
    """The pods of a stopping job are deleted, whatever they report."""
    saved: bool = False
    """A moving job has saved: it can no longer stay where it was."""
    losses: Losses = Losses()
    refusals: int = 0
    """Starts that were refused in a row."""
    declined: int = 0
    """Changes in a row that the running job refused."""
    reason: str = ""
    message: str = ""

    @property
    def is_over(self) -> bool:
        """It is on no board: over for good, or suspended."""
        return self.state in OVER

    def nodes(self) -> list[str]:
        """The nodes that it names, now and next."""
        return [name for one in (*(self.allocation or ()), *(self.target or ())) for name in one.nodes]


def wanted(intent: Intent) -> Allocation | None:
    """The allocation whose pods should exist now."""
    if intent.state in (State.STARTING, State.SCALING, State.RESIZING) or (
        intent.state is State.MOVING and intent.saved
    ):
        return intent.target
    if intent.state is State.STOPPING and intent.draining:
        return None
    return intent.allocation


def begun(intent: Intent, action: Action, target: Allocation | None, now: float, timeouts: KubeTimeouts) -> Intent:
    """The intent after this decision; `target` is where the job will be when the change has ended.

    The time limit of a start, a scale and a resize begins once all our own requests for it are answered.
    """
    fresh = replace(
        intent, target=target, since=now, saved=False, draining=False, goal=State.WAITING, suspended=False,
        message="", reason="",
    )  # fmt: skip
    match action:
        case Start():
            return replace(fresh, state=State.STARTING, until=math.inf)
        case Scale():
            return replace(fresh, state=State.SCALING, until=math.inf)
        case Resize():
            return replace(fresh, state=State.RESIZING, until=math.inf)
        case Move():
            return replace(fresh, state=State.MOVING, until=now + timeouts.save)
        case Stop(because=because):
            goal = State.CANCELLED if because is Because.CANCELLED else State.WAITING
            reason = because.value.capitalize()
            return replace(fresh, state=State.STOPPING, until=now + timeouts.save, goal=goal, reason=reason)


def limit_of(intent: Intent, timeouts: KubeTimeouts) -> float | None:
    """Seconds that the change may take once nothing is left for us to send; None if no such change is under way."""
    match intent.state:
        case State.STARTING:
            return timeouts.start
        case State.SCALING:
            return timeouts.scale
        case State.RESIZING:
            return timeouts.resize
        case State.MOVING if intent.saved:
            return timeouts.start
    return None


def adopted(intent: Intent, now: float, timeouts: KubeTimeouts) -> Intent:
    """The intent after a restart of the scheduler: a change in flight gets its full time again."""
    if limit_of(intent, timeouts) is not None:
        return replace(intent, until=math.inf)
    saving = intent.state in (State.MOVING, State.STOPPING) and not intent.draining
    return replace(intent, until=max(intent.until, now + timeouts.save)) if saving else intent


def as_written(intent: Intent) -> Intent:
    """The intent as a status shows it. When a change is given up is counted anew by each process."""
    return replace(intent, until=math.inf) if limit_of(intent, NO_TIMEOUTS) is not None else intent


NO_TIMEOUTS = KubeTimeouts()


# ── nodes by name and by number ─────────────────────────────────────────────────────────────────────────────


def allocation_of(placement: Placement, job: Job, shape: Shape, nodes: Nodes) -> Allocation:
    """A placement with node names. Only kinds that the role requests: a resize must not add a memory limit."""
    roles = []
    for number, role in enumerate(job.roles):
        vector, beside = placement.vector(shape, number), dict(role.overhead)
        amounts = tuple(
            (kind, int(vector[nodes.kinds.index(kind)]) - beside.get(kind, 0) if kind in nodes.kinds else amount)
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
        held = dict(role.overhead)
        for kind, amount in one.amounts:
            held[kind] = held.get(kind, 0) + amount
        vector = nodes.vector(tuple((kind, amount) for kind, amount in held.items() if kind in nodes.kinds))
        assert vector is not None
        requests.append(tuple(int(amount) for amount in vector))
    return Placement(tuple(where), tuple(requests) if any(requests) else None)
