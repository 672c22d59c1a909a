"""Queues around any policy: it sees the jobs that their queues admit, and its plan is held to the limits of queues.

1. What may each queue hold now? Quotas come first, then fair shares. Waiting jobs beyond that are hidden.
2. Starts in the policy's plan are cut to the size that the limits allow, and growth beyond them is left out. Where a
   start was left out because other jobs of its queue came first, the policy is asked again without that job. What a
   queue holds within its quota is not taken from it for others, whatever their deadlines or priorities are.
3. For a job within its queue's quota that finds no room, room is made (`reclaim`).
4. Where the plan would give that room to a borrower, the policy is asked anew: first about jobs within quotas alone,
   then about borrowers, who see what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.node import FloatArray, IntArray
from headway.core.placement import Placement, beyond, only_role, resized, take
from headway.core.plan import Because, Decision, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.policy import Around, Policy
from headway.core.quantity import CPU, DEFAULT_CPU, MEMORY, show
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.wrappers.quota import Queue, QueueUse, entitled
from headway.policies.wrappers.reclaim import Claims, Wants, reclaim

ROUNDS = 6
"""How often a policy is asked for one plan, at most."""


@dataclass(frozen=True, slots=True)
class Queued(Around):
    """A policy behind queues: itself a policy."""

    policy: Policy
    queues: tuple[Queue, ...]

    def beyond(self, snapshot: Snapshot) -> Callable[[int], str]:
        """Of a waiting job's row: why its queue may not hold it, whatever nodes there are; empty if it may."""
        use, names = QueueUse(snapshot, self.queues), {number: name for name, number in snapshot.jobs.queues.items()}

        def of(row: int) -> str:
            queue, asked = int(use.queue_of[row]), use.least(row)
            for most, held, which in (
                (use.max[queue], use.held[queue], ""),
                (use.most_fixed(row), use.fixed[queue], " in what cannot be stopped"),
            ):
                over = np.flatnonzero((held + asked > most) & (asked > 0) & use.managed)
                if over.size and (not which or not use.can_stop(row)):
                    kind = snapshot.nodes.kinds[int(over[0])]
                    may, has, needs = (show(kind, int(amounts[over[0]])) for amounts in (most, held, asked))
                    return f"Queue {names[queue]!r} may hold {may}{which} and holds {has}; the job needs {needs}."
            return ""

        return of

    def __call__(self, snapshot: Snapshot) -> Plan:
        before = QueueUse(snapshot, self.queues)
        limit = entitled(before)
        out = [
            row for row in snapshot.jobs.waiting().tolist() if not before.may_reach(row, before.least(row), limit)
        ]  # fmt: skip
        asked = self._asked(before, limit, out)
        if reclaim(asked.draft, asked.use, self._wants(snapshot), asked.borrowed).spoilt:
            asked = self._quotas_first(before, limit, out)
        return asked.draft.plan()

    def _asked(self, before: QueueUse, limit: QueueUse, out: Sequence[int], *, grow: bool = True) -> Allowed:
        """What the policy plans without the jobs in `out`, as far as the limits allow it."""
        snapshot, hidden = before.snapshot, list(out)
        for _ in range(ROUNDS):
            plan = self.policy(hiding(snapshot, hidden) if hidden else snapshot)
            allowed = within_limits(plan, before.copy(), limit.copy(), hidden, grow=grow)
            if not allowed.dropped:
                break
            hidden += allowed.dropped
        return allowed

    def _quotas_first(self, before: QueueUse, limit: QueueUse, out: Sequence[int]) -> Allowed:
        """Jobs within their queue's quota start, or keep what is free or coming for them; then borrowers start."""
        waiting = set(before.snapshot.jobs.waiting().tolist()).difference(out)
        borrowers = {row for row in waiting if not before.guaranteed(row, before.least(row))}
        wants = self._wants(before.snapshot)
        for _ in range(ROUNDS):
            asked = self._asked(before, limit, [*out, *borrowers], grow=False)
            claims = reclaim(asked.draft, asked.use, wants, asked.borrowed, asked_alone=True)
            if not claims.spoilt:
                break
            borrowers |= claims.spoilt
        self._borrow(asked, claims, limit, {*out, *(waiting - borrowers)})
        return asked

    def _wants(self, snapshot: Snapshot) -> Wants:
        def wants(row: int, free: IntArray, gone: list[int]) -> bool:
            placements = {other: at for other, at in snapshot.placements.items() if other not in gone}
            others = [other for other in snapshot.jobs.waiting().tolist() if other != row]
            plan = self.policy(hiding(replace(snapshot, free=free, placements=placements), [*others, *gone]))
            job = snapshot.jobs.job(row).id
            return any(isinstance(decision, Start) and decision.job == job for decision in plan.decisions)

        return wants

    def _borrow(self, asked: Allowed, claims: Claims, limit: QueueUse, out: AbstractSet[int]) -> None:
        """Starts borrowers beside what is claimed."""
        snapshot, left = asked.use.snapshot, claims.left
        plan = self.policy(hiding(replace(snapshot, free=left.copy()), sorted(out)))
        for decision in plan.decisions:
            row = snapshot.jobs.row_of[decision.job]
            if not isinstance(decision, Start) or row in out:
                continue
            placement, shape = _cut(row, decision.placement, asked.use, limit), snapshot.jobs.shape_at(row)
            if placement is None:
                continue
            take(left, placement, shape)
            if (left[:, list(placement.used_nodes())] < 0).any():
                take(left, placement, shape, +1)
                continue
            asked.use.add(row, asked.use.amounts(row, placement))
            asked.draft.start(row, placement)
        asked.draft.wake(plan.until)


def with_queues(policy: Policy, queues: Sequence[Queue]) -> Policy:
    return Queued(policy, tuple(queues)) if queues else policy


def hiding(snapshot: Snapshot, rows: Sequence[int]) -> Snapshot:
    """The same snapshot, in which these jobs no longer wait, as if their users had cancelled them."""
    state = snapshot.jobs.state.copy()
    state[list(rows)] = int(State.CANCELLED)
    state.flags.writeable = False
    return replace(snapshot, jobs=snapshot.jobs.with_state(state))


@dataclass(slots=True)
class Allowed:
    """A policy's plan as far as the limits of queues allow it."""

    draft: Draft
    use: QueueUse
    """With the plan."""
    dropped: list[int] = field(default_factory=list)
    """Jobs whose start was left out."""
    borrowed: dict[int, Placement] = field(default_factory=dict)
    """By row: what the plan takes for jobs whose queue then is over its quota."""


def within_limits(
    plan: Plan, use: QueueUse, limit: QueueUse, hidden: Sequence[int] = (), *, grow: bool = True
) -> Allowed:
    """Without `grow` no job of a queue that borrows takes more than it has."""
    snapshot = use.snapshot
    draft, safe = Draft(snapshot), _safe_queues(snapshot, use, hidden)
    allowed = Allowed(draft, use)
    for decision in plan.decisions:
        row = snapshot.jobs.row_of[decision.job]
        queue = int(use.queue_of[row])
        if isinstance(decision, Start):
            placement = _cut(row, decision.placement, use, limit)
            if placement is None:
                allowed.dropped.append(row)
                continue
            use.add(row, use.amounts(row, placement))
            draft.start(row, placement)
            if use.borrows(queue):
                allowed.borrowed[row] = placement
            continue
        more = _growth(use, row, decision)
        if queue in safe and _takes(decision, more):
            continue
        taken = _taken(snapshot, row, decision) if use.borrows(queue, more) else None
        if taken is not None and not grow:
            continue
        if not (more > 0).any() or limit.may_add(row, more):
            if taken is not None:
                allowed.borrowed[row] = taken
            use.add(row, more)
            limit.add(row, more)
            _repeat(draft, row, decision)
    draft.wake(plan.until)
    return allowed


def _taken(snapshot: Snapshot, row: int, decision: Decision) -> Placement | None:
    """What a decision about a running job takes of what is free; None where it takes nothing."""
    match decision:
        case Move(placement=placement):
            return placement
        case Scale(role=name, nodes=nodes):
            held, role = snapshot.placements[row], _role(snapshot, row, name)
            more = beyond(nodes, held.nodes[role])
            return only_role(held, role, more) if more else None
        case Resize(role=name):
            held, role = snapshot.placements[row], _role(snapshot, row, name)
            growth = tuple(max(0, int(amount)) for amount in _resized(snapshot, row, role, decision))
            return only_role(held, role, held.nodes[role]).with_request(role, growth) if any(growth) else None
    return None


def _resized(snapshot: Snapshot, row: int, role: int, decision: Resize) -> IntArray:
    """By kind: what each replica of the role holds more after the resize, or less."""
    held, shape = snapshot.placements[row], snapshot.jobs.shape_at(row)
    amounts = {CPU: decision.cpu, MEMORY: decision.memory}
    more: IntArray = resized(held, shape, role, snapshot.nodes.kinds, amounts).vector(shape, role)
    return more - held.vector(shape, role)


def _safe_queues(snapshot: Snapshot, use: QueueUse, hidden: Sequence[int]) -> set[int]:
    """Queues whose running jobs keep what they hold: it is within the quota, and only other queues could gain by it."""
    waiting = set(snapshot.jobs.waiting().tolist()).difference(hidden)
    own = {int(use.queue_of[row]) for row in waiting}
    present = own | {int(use.queue_of[row]) for row in snapshot.placements}
    return {
        queue for queue in present - own
        if len(present) > 1 and (use.quota[queue] > 0).any() and not use.borrows(queue)
    }  # fmt: skip


def _takes(decision: Decision, more: FloatArray) -> bool:
    preempts = isinstance(decision, Stop) and decision.because is Because.PREEMPTED
    return preempts or (isinstance(decision, Scale) and bool((more < 0).any()))


def _cut(row: int, placement: Placement, use: QueueUse, limit: QueueUse) -> Placement | None:
    """The largest part of the placement that the limits allow; None where that is below the job's min."""
    snapshot = use.snapshot
    shape = snapshot.jobs.shape_at(row)
    while not _allowed(use, limit, row, use.amounts(row, placement)):
        spare = [len(nodes) - role.min for nodes, role in zip(placement.nodes, shape.roles, strict=True)]
        role = max(range(len(spare)), key=spare.__getitem__)
        if spare[role] <= 0 or not int(snapshot.jobs.can[row]) & Can.SIZE:
            return None
        placement = placement.with_role(role, placement.nodes[role][:-1])
    return placement


def _allowed(use: QueueUse, limit: QueueUse, row: int, amounts: FloatArray) -> bool:
    """Within what the queue is entitled to; or beyond it, where all entitlements together leave room."""
    if use.may_reach(row, amounts, limit):
        return True
    queue = use.queue_of[row]
    above = np.maximum(use.held[queue] + amounts - limit.held[queue], 0.0)
    return use.may_stay(row, amounts) and limit.may_add(row, above)


def _growth(use: QueueUse, row: int, decision: Decision) -> FloatArray:
    """By kind: what a running job would count for beyond what it does. A move ends with what the job holds now."""
    snapshot = use.snapshot
    none: FloatArray = np.zeros(len(snapshot.nodes.kinds))
    if not isinstance(decision, Scale | Resize):
        return none
    placement, shape = snapshot.placements[row], snapshot.jobs.shape_at(row)
    number = _role(snapshot, row, decision.role)
    if isinstance(decision, Scale):
        more = none + placement.vector(shape, number)
        if use.names_no_cpu(shape.roles[number]):
            more[use.cpu] += DEFAULT_CPU
        return more * float(len(decision.nodes) - len(placement.nodes[number]))
    return none + _resized(snapshot, row, number, decision) * float(len(placement.nodes[number]))


def _role(snapshot: Snapshot, row: int, name: str) -> int:
    return next(number for number, role in enumerate(snapshot.jobs.job(row).roles) if role.name == name)


def _repeat(draft: Draft, row: int, decision: Decision) -> None:
    match decision:
        case Scale(role=role, nodes=nodes):
            draft.scale(row, _role(draft.snapshot, row, role), nodes)
        case Resize(role=role, cpu=cpu, memory=memory):
            draft.resize(row, _role(draft.snapshot, row, role), cpu, memory)
        case Move(placement=placement):
            draft.move(row, placement)
        case Stop(because=because):
            draft.stop(row, because)
        case Reserve(placement=placement, until=until):
            draft.reserve(row, placement, until)
