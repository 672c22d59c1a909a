"""The input of reconciliation for one job, and the actions that it may return. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.core.gang import Phase, SaveRound
from headway.core.job import Amounts, Job
from headway.core.restarts import RestartLimits
from headway.core.states import State
from headway.kube.job.intent import Allocation, Intent, RoleAllocation
from headway.kube.job.orders import NO_ORDERS, Orders
from headway.kube.job.replica import PodReplica
from headway.kube.settings import KubeTimeouts


@dataclass(frozen=True, slots=True)
class ApiRefusal:
    """A request that the API server refused."""

    why: str
    permanent: bool = False
    waits: str = ""
    """In a word, what the job waits for: room in a quota, a name that another's pod has. It is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    name: str
    """The TrainingJob's name."""
    job: Job
    intent: Intent
    replicas: tuple[PodReplica, ...]
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
    alive_after: Mapping[str, float] = field(default_factory=dict)
    """By node: a time after which it gave a sign of life."""
    refusal: ApiRefusal | None = None
    withdrawn: bool = False
    orders: Orders = NO_ORDERS
    can_save: bool = False
    """One of its replicas has said that it saves on request."""
    timeouts: KubeTimeouts = field(default_factory=KubeTimeouts)
    limits: RestartLimits = field(default_factory=RestartLimits)

    @property
    def starting(self) -> bool:
        """Whether the gang starts and need not be whole yet; with a new size, too, if its script saves by itself."""
        state, moved = self.intent.state, self.intent.state is State.MOVING and self.intent.saved
        return state is State.STARTING or moved or (state is State.SCALING and self.job.saves_itself)

    def mine(self) -> list[PodReplica]:
        """Pods of the present attempt."""
        return [replica for replica in self.replicas if replica.attempt == self.intent.attempt]

    def alive(self) -> list[PodReplica]:
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


@dataclass(frozen=True, slots=True)
class Delete:
    name: str
    uid: str
    grace: int | None = None
    """Seconds to end in. None: as the pod's spec says. 0: do not wait for a kubelet that does not answer."""


@dataclass(frozen=True, slots=True)
class ResizePod:
    name: str
    uid: str
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class RequestCheckpoint:
    """Asks training to save; goes through the progress server, not the API server."""


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Says in a pod's status why it has no node."""

    name: str
    uid: str


PodAction = Publish | Create | Release | Bind | Delete | ResizePod | RequestCheckpoint | SetCondition


@dataclass(frozen=True, slots=True)
class NextStep:
    """First the intent is written to the job's status, then the actions are taken; at `wake` we reconcile again."""

    intent: Intent
    actions: tuple[PodAction, ...] = ()
    wake: float = float("inf")


def matched(share: RoleAllocation, replicas: list[PodReplica]) -> tuple[list[PodReplica], list[PodReplica], list[str]]:
    """Of one role: the pods on a node of its share, the surplus pods, and the nodes that lack a pod."""
    lacking = Counter(share.nodes)
    fit, surplus = [], []
    for replica in sorted(replicas, key=lambda replica: (not sound(replica), replica.index)):
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


def sound(replica: PodReplica) -> bool:
    """Whether the pod counts towards a whole gang."""
    return not replica.deleting and replica.phase in (Phase.PENDING, Phase.UP, Phase.DONE)


def up(share: RoleAllocation, replicas: list[PodReplica]) -> bool:
    """Whether every replica of the share runs or has ended well."""
    fit, _, lacking = matched(share, replicas)
    return not lacking and all(replica.phase is not Phase.PENDING for replica in fit)


def all_up(allocation: Allocation, replicas: list[PodReplica]) -> bool:
    return all(up(share, replicas) for share in allocation)
