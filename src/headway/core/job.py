"""What a user asks for: a job, its roles, and what may be done to it. Frozen; one object per submitted job."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NewType, Protocol

from headway.core.quantity import CPU
from headway.core.restarts import Restarts

JobId = NewType("JobId", str)
SAVE_EVERY_SECONDS = 600.0
Amounts = tuple[tuple[str, int], ...]
"""Resource kind and amount, sorted by kind, in the units of `quantity`."""


class Can(enum.IntFlag):
    """What a scheduler may do to a job. A user may forbid moves; the job of another operator may allow nothing."""

    NOTHING = 0
    SIZE = 1
    """Choose the number of replicas at the start, between min (`min`) and max (`max`)."""
    SCALE = 2
    """Add or remove replicas while it runs."""
    RESIZE = 4
    """Change cpu and memory of replicas in place."""
    MOVE = 8
    """Save, stop and start elsewhere."""
    STOP = 16
    """Save, stop, and start again later."""

    @classmethod
    def everything(cls) -> Can:
        return _EVERYTHING


_EVERYTHING = Can.SIZE | Can.SCALE | Can.RESIZE | Can.MOVE | Can.STOP
"""Combined once: combining flags costs microseconds, and every job of a trace needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A kind of replica inside a job, such as `ps` or `worker`. All replicas of a role are alike."""

    name: str
    replicas: int = 1
    """How many replicas the user asks for."""
    min: int = 1
    """Min replicas: the gang does not train with fewer and is never started with fewer."""
    max: int = 1
    """Max replicas."""
    request: Amounts = ()
    """What one replica is promised. Plans count requests and nothing else."""
    limit: Amounts = ()
    """What one replica may use where the node has spare capacity; empty means as requested."""
    selector: tuple[tuple[str, str], ...] = ()
    """Labels that the node must carry."""
    tolerates: tuple[str, ...] = ()
    """Taints that these replicas accept: `slow`, `team=vision`, `team=vision:NoExecute`, `*`."""
    affinity: tuple[str, ...] = ()
    """Selectors such as `zone in (a, b), !spot`, one of which the node must match; empty: any node."""
    overhead: Amounts = ()
    """What one replica holds beside its request: of a pod, its sidecars and its place among the node's pods."""
    accelerator: str = ""
    """The accelerator type that the node must have; of several, with commas, any of them; empty means any at all."""
    after: tuple[str, ...] = ()
    """Roles whose replicas must be up before these are started."""
    near: tuple[str, ...] = ()
    """Roles of the same job that these replicas exchange data with."""
    apart: tuple[str, ...] = ()
    """Roles of the same job that these replicas should not share a node with."""
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    unstated: bool = False
    """Its user names neither cpu nor memory: the cpu of its request is a default, and follows what it uses."""

    def amount(self, kind: str) -> int:
        return dict(self.request).get(kind, 0)

    @property
    def named(self) -> Amounts:
        """What its user asks for, of its request."""
        return tuple(one for one in self.request if one[0] != CPU) if self.unstated else self.request

    @property
    def shares_cpu(self) -> bool:
        """Whether a replica may use more cpu than it asks for."""
        return bool(self.limit) and dict(self.limit).get(CPU, 0) > self.amount(CPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A job stops by itself when this metric reaches this value."""

    metric: str = "loss"
    """The name under which the training script reports it."""
    value: float
    higher: bool = False
    """Whether a higher value is better."""

    def reached(self, value: float) -> bool:
        return value >= self.value if self.higher else value <= self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """Which replicas must end well for the job to have succeeded; in the shape of JobSet's success policy."""

    roles: tuple[str, ...] = ()
    """Empty: `chief` or `master` if there is one, else the roles that no other role comes after."""
    any_replica: bool = False
    """One replica of these roles is enough; else all of them must end well."""


_DEFAULT_SUCCESS = Success()
_DEFAULT_RESTARTS = Restarts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training job as submitted. Nothing here changes during its life."""

    id: JobId
    roles: tuple[Role, ...]
    user: str = ""
    queue: str = ""
    priority: int = 0
    submit: float = 0.0
    """Seconds on the cluster's clock."""
    deadline: float | None = None
    """Seconds on the cluster's clock by which the job should be done."""
    steps: int | None = None
    """Training steps in all, where the user knows them; their max where there is a target."""
    target: Target | None = None
    """Where the job stops, if it stops before its steps are done."""
    seconds: float | None = None
    """Training time at the requested size, as the user declares it."""
    can: Can = _EVERYTHING
    success: Success = _DEFAULT_SUCCESS
    restarts: Restarts = _DEFAULT_RESTARTS
    """How often it may start again, as far as its user says so and the cluster allows it."""
    retries: int = 0
    """How often it starts again, from its checkpoint, after it ended with an error."""
    retry_on: tuple[int | str, ...] = ()
    """Exit codes, and texts that a replica printed last, after which it does; empty: after any."""
    retry_not_on: tuple[int | str, ...] = ()
    """The same, after which it does not."""
    on_end: tuple[str, ...] = ()
    """A command of its user that runs when the job is over, however it ended."""
    on_failure: tuple[str, ...] = ()
    """The same, only where it failed."""
    checkpoints: bool = True
    """The job saves a checkpoint on request and resumes from it. Without this no policy moves or stops it."""
    saves_itself: bool = False
    """Its script saves by itself, as stock scripts do. It is not asked to: a signal ends it, and it goes on from its
    last checkpoint. A change of size is a new start, because every replica must know the new size."""
    save_every: float = SAVE_EVERY_SECONDS
    """Seconds of training after which it is asked to save, so that a loss costs no more; 0: only before it is stopped
    or moved."""
    fresh: bool = False
    """Where its command has changed, it starts afresh; else, with the same program, from its checkpoint."""
    model: str = ""
    """The name under which speed profiles and the history of like jobs are kept."""

    directory: str = ""
    """The working directory of its commands."""

    def role(self, name: str) -> Role:
        return next(role for role in self.roles if role.name == name)

    @property
    def replicas(self) -> int:
        return sum(role.replicas for role in self.roles)

    @property
    def min(self) -> int:
        """Min replicas of the gang, over all roles."""
        return sum(role.min for role in self.roles)

    @property
    def elastic(self) -> bool:
        return any(role.max > role.min for role in self.roles)


class Named(Protocol):
    @property
    def name(self) -> str: ...


def computes(role: str) -> bool:
    """Whether replicas of this role train: all but parameter servers do."""
    return role != "ps"


def worker_role(roles: Sequence[Named]) -> int:
    """The number of the role that its workers have: the first that trains, or the first where none does."""
    return next((number for number, role in enumerate(roles) if computes(role.name)), 0) if len(roles) > 1 else 0


def start_order(roles: tuple[Role, ...]) -> tuple[int, ...]:
    """Role numbers such that each role comes after the roles it waits for; the file's order where that is free.

    Raises ValueError, with a sentence, where roles wait for each other in a circle or for a role that is not there.
    """
    number_of = {role.name: number for number, role in enumerate(roles)}
    for role in roles:
        for name in role.after:
            if name not in number_of:
                raise ValueError(f"role {role.name!r} comes after {name!r}, which is no role of this job")
    sorter = TopologicalSorter({n: [number_of[name] for name in role.after] for n, role in enumerate(roles)})
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError(f"role {roles[min(error.args[1])].name!r} waits for itself through `after`") from error
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        order.append(ready.pop(0))
        sorter.done(order[-1])
    return tuple(order)
