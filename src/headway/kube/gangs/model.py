"""The input of reconciliation for one job, and the actions that it may return. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from headway.core.gang import Phase, SaveRound
from headway.core.job import Amounts, Job
from headway.core.restarts import RestartLimits
from headway.core.states import State
from headway.kube.gangs.intent import Allocation, Intent, RoleAllocation
from headway.kube.intake.orders import NO_ORDERS, Orders
from headway.kube.pods.gate import Gate
from headway.kube.pods.replica import Replica
from headway.kube.settings import KubeTimeouts


@dataclass(frozen=True, slots=True)
class ApiRefusal:
    """A request that the API server refused."""

    why: str
    permanent: bool = False
    waits: str = ""
    """In a word, what the job waits for: room in a quota, a name that another's pod has. It is tried again."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """The TrainingJob's name."""
    job: Job
    intent: Intent
    replicas: tuple[Replica, ...]
    now: float
    subdomain: str = ""
    """The name of its Service; empty if it needs none."""
    published: bool = False
    """The Service exists."""
    released: frozenset[str] = frozenset()
    """Holds that were released."""
    excused: frozenset[str] = frozenset()
    """Pods, by uid, in whose place another is made on another node."""
    step: int = 0
    """The last step that training reported."""
    gone: frozenset[str] = frozenset()
    """Nodes that were deleted, or are silent for too long."""
    saves: SaveRound = SaveRound()
    doubtful: frozenset[str] = frozenset()
    """Nodes that are not ready, and do not count as gone yet."""
    alive_after: Mapping[str, float] = msgspec.field(default_factory=dict)
    """By node: a time after which it gave a sign of life."""
    refusal: ApiRefusal | None = None
    withdrawn: bool = False
    orders: Orders = NO_ORDERS
    can_save: bool = False
    """One of its replicas has said that it saves on request."""
    timeouts: KubeTimeouts = msgspec.field(default_factory=KubeTimeouts)
    limits: RestartLimits = msgspec.field(default_factory=RestartLimits)

    @property
    def starting(self) -> bool:
        """Whether the gang starts and need not be whole yet; with a new size, too, if its script saves by itself."""
        state, moved = self.intent.state, self.intent.state is State.MOVING and self.intent.saved
        return state is State.STARTING or moved or (state is State.SCALING and self.job.saves_itself)

    def mine(self) -> list[Replica]:
        """Pods of the present attempt."""
        return [replica for replica in self.replicas if replica.attempt == self.intent.attempt]

    def alive(self) -> list[Replica]:
        """Pods of any attempt that hold resources of a node, also while they are deleted."""
        return [replica for replica in self.replicas if not replica.over]


@dataclass(frozen=True, slots=True)
class Create:
    name: str
    role: str
    index: int
    attempt: int
    node: str
    amounts: Amounts
    hosts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Of every role: where its replicas may listen, as `host:port`."""
    counts: tuple[tuple[str, int], ...] = ()
    """Number of replicas of each role."""
    subdomain: str = ""
    """The Service under which its host name is known; empty if nobody asks for it."""
    hold: str = ""
    """What must be there before its container starts; empty if it starts at once."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Makes the host names of the replicas known, by a Service of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Release:
    """The roles before this one are up: its pods may start."""

    name: str
    pods: tuple[tuple[str, str], ...]
    """Some pods of this attempt, by name and uid."""


@dataclass(frozen=True, slots=True)
class Bind:
    name: str
    uid: str
    node: str
    version: str = field(default="", compare=False)
    """The pod as it was when this was decided: a later one is looked at first."""


@dataclass(frozen=True, slots=True)
class Ungate:
    """Lifts the gate of a pod, which may run on this node only from then on."""

    name: str
    uid: str
    node: str
    gate: Gate
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    name: str
    uid: str
    grace: int | None = None
    """Seconds to end in. None: as the pod's spec says. 0: do not wait for a kubelet that does not answer."""
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ResizePod:
    name: str
    uid: str
    amounts: Amounts
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class RequestCheckpoint:
    """Asks training to save; goes through the progress server, not the API server."""


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Says in a pod's status why it has no node."""

    name: str
    uid: str
    reason: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Touch:
    """Changes nothing of a pod but its version: what an earlier scheduler sent about it and comes late is refused."""

    name: str
    uid: str


PodAction = Publish | Create | Release | Bind | Ungate | Delete | ResizePod | RequestCheckpoint | SetCondition


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """The object's status shows the gang as it is now."""

    urgent: bool = False
    """A delete waits for it."""


@dataclass(frozen=True, slots=True)
class PostEvent:
    """Tells users of a change of state."""

    old: Intent
    new: Intent


@dataclass(frozen=True, slots=True)
class TellSize:
    """Tells training how many replicas there are, and with what cpu."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class ReadLeases:
    """Asks whether these nodes are alive."""

    nodes: frozenset[str]


Effect = PodAction | WriteStatus | PostEvent | TellSize | ReadLeases


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the gang becomes, and what is to be done; at `wake` we reconcile again."""

    intent: Intent
    actions: tuple[PodAction, ...] = ()
    wake: float = float("inf")


def matched(share: RoleAllocation, replicas: list[Replica]) -> tuple[list[Replica], list[Replica], list[str]]:
    """Of one role: the pods on a node of its share, the surplus pods, and the nodes that lack a pod.

    One that has its node is never surplus to one that has none: a late request of an old leader may have made that.
    """
    lacking = Counter(share.nodes)
    fit, surplus = [], []
    for replica in sorted(replicas, key=lambda replica: (not sound(replica), not replica.bound, replica.index)):
        if replica.role != share.role:
            continue
        if sound(replica) and lacking[replica.node] > 0:
            lacking[replica.node] -= 1
            fit.append(replica)
        else:
            surplus.append(replica)
    return fit, surplus, [node for node in share.nodes if _take(lacking, node)]


def _take(lacking: Counter[str], node: str) -> bool:
    if lacking[node] <= 0:
        return False
    lacking[node] -= 1
    return True


def sound(replica: Replica) -> bool:
    """Whether the pod counts towards a whole gang."""
    return not replica.deleting and replica.phase in (Phase.PENDING, Phase.UP, Phase.DONE)


def up(share: RoleAllocation, replicas: list[Replica]) -> bool:
    """Whether every replica of the share runs or has ended well."""
    fit, _, lacking = matched(share, replicas)
    return not lacking and all(replica.phase is not Phase.PENDING for replica in fit)


def all_up(allocation: Allocation, replicas: list[Replica]) -> bool:
    return all(up(share, replicas) for share in allocation)
