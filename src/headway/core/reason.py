"""Why does a job not run? Answered on demand, with numbers that a user can act on. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from headway.core.job import JobId
from headway.core.node import BoolArray, Constraint, FloatArray, IntArray
from headway.core.placement import RoleShape, Shape, take
from headway.core.plan import Plan, Reserve, Start
from headway.core.quantity import show
from headway.core.snapshot import Snapshot
from headway.core.states import IN_FLIGHT, State
from headway.core.text import lasting

_OVER = {State.FINISHED: "It has finished.", State.FAILED: "It failed.", State.CANCELLED: "It was cancelled."}


class Code(enum.StrEnum):
    """Stable: scripts and dashboards may rely on these."""

    RUNNING = "running"
    OVER = "over"
    IN_FLIGHT = "in_flight"
    STARTS_NOW = "starts_now"
    NO_SUCH_RESOURCE = "no_such_resource"
    NO_SUITABLE_NODE = "no_suitable_node"
    LARGER_THAN_ANY_NODE = "larger_than_any_node"
    LARGER_THAN_CLUSTER = "larger_than_cluster"
    NOT_ENOUGH_FREE = "not_enough_free"
    FRAGMENTED = "fragmented"
    RESERVED = "reserved"
    BEHIND_OTHERS = "behind_others"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one job does not run."""

    code: Code
    sentence: str
    kind: str = ""
    """The resource of which there is too little, if any."""
    need: int = 0
    have: int = 0
    blocked_by: tuple[JobId, ...] = ()
    """Jobs whose end would help, those with the most replicas first."""
    remedy: str = ""
    """A change that would help."""

    @property
    def gap(self) -> int:
        return max(0, self.need - self.have)

    @property
    def brief(self) -> str:
        """For a narrow column: what is asked for and what is there, where that is the reason."""
        match self.code:
            case Code.NOT_ENOUGH_FREE:
                return f"needs {show(self.kind, self.need)}; {show(self.kind, self.have)} is free"
            case Code.FRAGMENTED:
                return f"{self.have} of {_counted(self.need)} fit: what is free is scattered"
            case Code.LARGER_THAN_ANY_NODE:
                return f"one replica asks for {show(self.kind, self.need)}, a node has {show(self.kind, self.have)}"
            case Code.LARGER_THAN_CLUSTER:
                return f"needs {_counted(self.need)}, the empty cluster holds {self.have}"
            case Code.BEHIND_OTHERS:
                return f"behind {_named(self.blocked_by)}" if self.blocked_by else "its turn has not come"
        return self.sentence


def explain(snapshot: Snapshot, plan: Plan, job_id: JobId) -> Reason:
    """Why this job does not run, given what the policy decided on this snapshot."""
    return Reasons(snapshot, plan).of(job_id)


class Reasons:
    """The reasons of many jobs on one snapshot. Jobs of one shape share what is costly to compute."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self._snapshot = snapshot
        self._decisions = {decision.job: decision for decision in plan.decisions}
        self._starts = tuple(decision for decision in plan.decisions if isinstance(decision, Start))
        self._reserves = tuple(decision.job for decision in plan.decisions if isinstance(decision, Reserve))
        self._free: IntArray | None = None
        self._by_shape: dict[int, Reason | None] = {}
        self._holders: dict[Constraint, tuple[JobId, ...]] = {}

    def of(self, job_id: JobId) -> Reason:
        snapshot = self._snapshot
        row = snapshot.jobs.row_of[job_id]
        state = snapshot.jobs.state_of(row)
        if state is State.RUNNING:
            return Reason(code=Code.RUNNING, sentence="It is running.")
        if state in IN_FLIGHT:
            flight = snapshot.flights[row]
            sentence = f"It has been {state.name.lower()} for {lasting(snapshot.now - flight.since)}."
            return Reason(code=Code.IN_FLIGHT, sentence=sentence)
        if state is not State.WAITING:
            return Reason(code=Code.OVER, sentence=_OVER[state])
        decision = self._decisions.get(job_id)
        if isinstance(decision, Start):
            return Reason(code=Code.STARTS_NOW, sentence="It starts now.")
        return self._of_shape(row) or self._behind(row, decision)

    def _of_shape(self, row: int) -> Reason | None:
        """What holds for all jobs of this shape: they can never run, or there is no room now."""
        number = int(self._snapshot.jobs.shape[row])
        if number not in self._by_shape:
            shape = self._snapshot.jobs.shapes[number]
            self._by_shape[number] = _never(self._snapshot, shape) or self._no_room(row, shape)
        return self._by_shape[number]

    def _no_room(self, row: int, shape: Shape) -> Reason | None:
        snapshot = self._snapshot
        if self._free is None:
            self._free = snapshot.free.copy()
            for start in self._starts:
                take(self._free, start.placement, snapshot.jobs.shape_at(snapshot.jobs.row_of[start.job]))
        if (reason := self._gang_short_of(row, shape)) is not None:
            return reason
        for role in shape.roles:
            mask = snapshot.nodes.mask(role.constraint)
            room = int(_replicas_that_fit(np.where(mask, self._free, 0), role).sum())
            if room < role.min:
                if role.constraint not in self._holders:
                    self._holders[role.constraint] = _holders(snapshot, mask)
                return _short_of(snapshot, self._free, row, role, (room, self._holders[role.constraint]))
        return None

    def _gang_short_of(self, row: int, shape: Shape) -> Reason | None:
        """What all roles together need beyond what is free on the nodes that suit any of them."""
        snapshot, free = self._snapshot, self._free
        roles = [role for role in shape.roles if role.min]
        if len(roles) < 2 or free is None:
            return None
        masks = [snapshot.nodes.mask(role.constraint) for role in roles]
        mask: BoolArray = np.logical_or.reduce(masks)
        need = sum((role.vector.astype(np.int64) * role.min for role in roles), np.zeros(len(free), np.int64))
        have = np.where(mask, free, 0).clip(min=0).sum(axis=1)
        gap = need - have
        if not (gap > 0).any():
            return None
        kind = int(np.argmax(gap / np.maximum(need, 1)))
        name, holders = snapshot.nodes.kinds[kind], _holders(snapshot, mask)
        return Reason(
            code=Code.NOT_ENOUGH_FREE, kind=name, need=int(need[kind]), have=int(have[kind]), blocked_by=holders,
            sentence=f"The gang needs {show(name, need[kind])} for {_counted(sum(role.min for role in roles))}; "
            f"{show(name, have[kind])} is free ({show(name, gap[kind])} too little).",
            remedy=_remedy(snapshot, row, 0, holders),
        )  # fmt: skip

    def _behind(self, row: int, decision: object) -> Reason:
        snapshot, least = self._snapshot, sum(self._snapshot.jobs.shape_at(row).min)
        if isinstance(decision, Reserve):
            seconds = decision.until - snapshot.now
            return Reason(
                code=Code.RESERVED, need=least,
                sentence=f"Room for its {_counted(least)} is kept for it, free in about {lasting(seconds)}.",
            )  # fmt: skip
        earlier = self._reserves or tuple(start.job for start in self._starts)
        place = int((snapshot.jobs.waiting() < row).sum())
        before = "1 job came" if place == 1 else f"{place} jobs came"
        return Reason(
            code=Code.BEHIND_OTHERS, need=least, blocked_by=earlier[:5],
            sentence=f"Its {_counted(least)} may fit, but "
            + (f"{before} before it in the queue and the policy does not let it pass." if place
               else "the policy does not start it yet."),
            remedy="a higher priority, or a policy that backfills",
        )  # fmt: skip


def _never(snapshot: Snapshot, shape: Shape) -> Reason | None:
    """Reasons for which waiting does not help."""
    nodes = snapshot.nodes
    if shape.missing:
        return Reason(
            code=Code.NO_SUCH_RESOURCE, kind=shape.missing, need=1,
            sentence=f"It asks for {shape.missing}, and no node has any (need at least 1, have 0).",
            remedy=f"add a node with {shape.missing}, or do not ask for it",
        )  # fmt: skip
    for role in shape.roles:
        if role.min == 0:
            continue
        mask = nodes.mask(role.constraint)
        if not mask.any():
            return Reason(
                code=Code.NO_SUITABLE_NODE, need=1,
                sentence=f"None of {len(nodes)} nodes suits role {role.name!r}: {_refusals(snapshot, role)}.",
                remedy="relax its selector, tolerations or accelerator type",
            )  # fmt: skip
        fits = _replicas_that_fit(np.where(mask, nodes.capacity, 0), role)
        if not fits.any():
            kind, need, have = _largest_gap(snapshot, role, mask)
            sentence = (
                f"One replica of role {role.name!r} asks for {show(kind, need)}; "
                f"the largest suitable node has {show(kind, have)} ({show(kind, need - have)} too little)."
            )
            remedy = f"ask for at most {show(kind, have)} per replica"
            return Reason(code=Code.LARGER_THAN_ANY_NODE, kind=kind, need=need, have=have,
                          sentence=sentence, remedy=remedy)  # fmt: skip
        if int(fits.sum()) < role.min:
            room = int(fits.sum())
            return Reason(
                code=Code.LARGER_THAN_CLUSTER, need=role.min, have=room,
                sentence=f"Role {role.name!r} needs {_counted(role.min)}; the empty cluster holds {room}.",
                remedy=f"lower its min replicas (`min`) to {room}",
            )  # fmt: skip
    return None


def _short_of(
    snapshot: Snapshot, free: IntArray, row: int, role: RoleShape, found: tuple[int, tuple[JobId, ...]]
) -> Reason:
    """`found`: how many replicas fit, and the jobs that hold the rest."""
    room, holders = found
    available = np.where(snapshot.nodes.mask(role.constraint), free, 0).clip(min=0)
    need = role.vector.astype(np.int64) * role.min
    have = available.sum(axis=1)
    gap = np.where(role.vector > 0, need - have, -1)
    if (gap > 0).any():
        kind = int(np.argmax(gap / np.maximum(need, 1)))
        name = snapshot.nodes.kinds[kind]
        sentence = (
            f"Role {role.name!r} needs {show(name, need[kind])} for {_counted(role.min)}; "
            f"{show(name, have[kind])} is free ({show(name, gap[kind])} too little)."
        )
        return Reason(
            code=Code.NOT_ENOUGH_FREE, kind=name, need=int(need[kind]), have=int(have[kind]), sentence=sentence,
            blocked_by=holders, remedy=_remedy(snapshot, row, room, holders),
        )  # fmt: skip
    return Reason(
        code=Code.FRAGMENTED, need=role.min, have=room, blocked_by=holders,
        sentence=f"Enough is free in total, but it is fragmented: {room} of the {role.min} replicas of role "
        f"{role.name!r} fit on the nodes as they are.",
        remedy=_remedy(snapshot, row, room, holders),
    )  # fmt: skip


def _remedy(snapshot: Snapshot, row: int, room: int, holders: tuple[JobId, ...]) -> str:
    job = snapshot.jobs.job(row)
    if 0 < room < job.min:
        return f"start with {_counted(room)}, if it can train with fewer"
    return f"wait for {holders[0]}" if holders else ""


def _holders(snapshot: Snapshot, mask: BoolArray) -> tuple[JobId, ...]:
    """The five largest jobs on these nodes."""
    rows = np.fromiter(snapshot.placements, np.intp, len(snapshot.placements))
    largest: list[JobId] = []
    for row in rows[np.lexsort((rows, -snapshot.jobs.size[rows]))].tolist():
        if any(mask[node] for role in snapshot.placements[row].nodes for node in role):
            largest.append(snapshot.jobs.job(row).id)
            if len(largest) == 5:
                break
    return tuple(largest)


def _named(jobs: tuple[JobId, ...]) -> str:
    return str(jobs[0]) if len(jobs) == 1 else f"{jobs[0]} and {len(jobs) - 1} more"


def _counted(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"


def _replicas_that_fit(free: object, role: RoleShape) -> FloatArray:
    amounts = np.asarray(free)
    asked = role.vector > 0
    if not asked.any():
        return np.full(amounts.shape[1], role.max, np.float64)
    each: FloatArray = (amounts[asked].clip(min=0) // role.vector[asked][:, None]).min(axis=0).astype(np.float64)
    return each


def _largest_gap(snapshot: Snapshot, role: RoleShape, mask: BoolArray) -> tuple[str, int, int]:
    largest = np.where(mask, snapshot.nodes.capacity, 0).max(axis=1)
    gap = (role.vector - largest) / np.maximum(role.vector, 1)
    kind = int(np.argmax(gap))
    return snapshot.nodes.kinds[kind], int(role.vector[kind]), int(largest[kind])


def _refusals(snapshot: Snapshot, role: RoleShape) -> str:
    counts: dict[str, int] = {}
    for node in snapshot.nodes.nodes:
        why = role.constraint.refusal(node) or "not ready"
        counts[why] = counts.get(why, 0) + 1
    return ", ".join(f"{count} {why}" for why, count in sorted(counts.items(), key=lambda item: -item[1]))
