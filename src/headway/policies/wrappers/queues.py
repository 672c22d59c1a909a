"""Queues around any policy: it sees the jobs that their queues admit, and its plan is held to the limits of queues.

1. What may each queue hold now? Quotas come first, then fair shares. Waiting jobs beyond that are hidden.
2. Starts in the policy's plan are cut to the size that the limits allow, and growth beyond them is left out. Where a
   start was left out because other jobs of its queue came first, the policy is asked again without that job. What a
   queue holds within its quota is not taken from it for others, whatever their deadlines or priorities are.
3. For a job within its queue's quota that finds no room, whole jobs of queues that borrow are stopped, those with least
   unsaved work first. What they leave is not given to borrowers, because jobs within a quota come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.node import FloatArray, IntArray
from headway.core.placement import Placement, take
from headway.core.plan import Because, Decision, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.policy import Policy, explain_with, is_gangless
from headway.core.quantity import show
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.pack import place_any_size
from headway.policies.steps.order import rows_to_stop
from headway.policies.steps.victims import fewest_to_stop
from headway.policies.value.times import unsaved
from headway.policies.wrappers.quota import Queue, QueueUse, amounts_of, entitled, least_amounts

ROUNDS = 6
"""How often a policy is asked for one plan, at most."""
MOST_RECLAIMS = 8
"""Jobs for which room is made in one plan."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A policy behind queues: itself a policy."""

    policy: Policy
    queues: tuple[Queue, ...]

    @property
    def gangless(self) -> bool:
        return is_gangless(self.policy)

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        return explain_with(self.policy, snapshot, row)

    def beyond(self, snapshot: Snapshot) -> Callable[[int], str]:
        """Of a waiting job's row: why its queue may not hold it, whatever nodes there are; empty if it may."""
        use, names = QueueUse(snapshot, self.queues), {number: name for name, number in snapshot.jobs.queues.items()}

        def of(row: int) -> str:
            queue, asked = int(use.queue_of[row]), least_amounts(snapshot, row)
            over = np.flatnonzero((use.held[queue] + asked > use.most[queue]) & (asked > 0))
            if not over.size:
                return ""
            kind = snapshot.nodes.kinds[int(over[0])]
            most, held, needed = (
                show(kind, int(amounts[over[0]])) for amounts in (use.most[queue], use.held[queue], asked)
            )
            return f"Queue {names[queue]!r} may hold {most} and holds {held}; the job needs {needed}."

        return of

    def __call__(self, snapshot: Snapshot) -> Plan:
        before = QueueUse(snapshot, self.queues)
        limit = entitled(snapshot, before)
        out = [
            row for row in snapshot.jobs.waiting().tolist()
            if not before.may_reach(int(before.queue_of[row]), least_amounts(snapshot, row), limit)
        ]  # fmt: skip
        for _ in range(ROUNDS):
            use = before.copy()
            plan = self.policy(hiding(snapshot, out) if out else snapshot)
            draft, dropped = within_limits(snapshot, plan, use, limit.copy(), out)
            if not dropped:
                break
            out += dropped
        reclaim(draft, use)
        return draft.plan()


def with_queues(policy: Policy, queues: Sequence[Queue]) -> Policy:
    return Queued(policy, tuple(queues)) if queues else policy


def hiding(snapshot: Snapshot, rows: Sequence[int]) -> Snapshot:
    """The same snapshot, in which these jobs no longer wait, as if their users had cancelled them."""
    state = snapshot.jobs.state.copy()
    state[list(rows)] = int(State.CANCELLED)
    state.flags.writeable = False
    return replace(snapshot, jobs=snapshot.jobs.with_state(state))


def within_limits(
    snapshot: Snapshot, plan: Plan, use: QueueUse, limit: QueueUse, hidden: Sequence[int] = ()
) -> tuple[Draft, list[int]]:
    """The plan as a draft, and jobs whose start was left out. `use` then includes the plan."""
    draft, dropped, safe = Draft(snapshot), list[int](), _safe_queues(snapshot, use, hidden)
    for decision in plan.decisions:
        row = snapshot.jobs.row_of[decision.job]
        queue = int(use.queue_of[row])
        if isinstance(decision, Start):
            placement = _cut(snapshot, row, decision.placement, (use, limit))
            if placement is None:
                dropped.append(row)
                continue
            use.add(queue, amounts_of(snapshot, row, placement))
            draft.start(row, placement)
            continue
        more = _growth(snapshot, row, decision)
        if queue in safe and _takes(decision, more):
            continue
        if not (more > 0).any() or limit.may_add(queue, more):
            use.add(queue, more)
            limit.add(queue, more)
            _repeat(draft, row, decision)
    draft.wake(plan.until)
    return draft, dropped


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


def _cut(snapshot: Snapshot, row: int, placement: Placement, limits: tuple[QueueUse, QueueUse]) -> Placement | None:
    """The largest part of the placement that the limits allow; None where that is below the job's min."""
    use, limit = limits
    shape, queue = snapshot.jobs.shape_at(row), int(use.queue_of[row])
    while not _allowed(use, limit, queue, amounts_of(snapshot, row, placement)):
        spare = [len(nodes) - role.least for nodes, role in zip(placement.nodes, shape.roles, strict=True)]
        role = max(range(len(spare)), key=spare.__getitem__)
        if spare[role] <= 0 or not int(snapshot.jobs.can[row]) & Can.SIZE:
            return None
        placement = placement.with_role(role, placement.nodes[role][:-1])
    return placement


def _allowed(use: QueueUse, limit: QueueUse, queue: int, amounts: FloatArray) -> bool:
    """Within what the queue is entitled to; or beyond it, where all entitlements together leave room."""
    if use.may_reach(queue, amounts, limit):
        return True
    beyond = np.maximum(use.held[queue] + amounts - limit.held[queue], 0.0)
    return limit.may_add(queue, beyond)


def _growth(snapshot: Snapshot, row: int, decision: Decision) -> FloatArray:
    """By kind: what a running job would hold beyond what it holds. A move ends with what the job holds now."""
    none: FloatArray = np.zeros(len(snapshot.nodes.kinds))
    if not isinstance(decision, Scale | Resize):
        return none
    placement, shape = snapshot.placements[row], snapshot.jobs.shape_at(row)
    number = _role(snapshot, row, decision.role)
    vector = placement.vector(shape, number)
    if isinstance(decision, Scale):
        return none + vector * float(len(decision.nodes) - len(placement.nodes[number]))
    wanted = vector.astype(np.float64)
    for kind, amount in (("cpu", decision.cpu), ("memory", decision.memory)):
        if kind in snapshot.nodes.kinds:
            wanted[snapshot.nodes.kinds.index(kind)] = amount
    return (wanted - vector) * len(placement.nodes[number])


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


def reclaim(draft: Draft, use: QueueUse) -> None:
    """Stops borrowers for waiting jobs that are within their quota and find no room, now or soon."""
    snapshot, soon = draft.snapshot, draft.soon()
    waiting = [row for row in snapshot.jobs.waiting().tolist() if not isinstance(draft.decided(row), Start)]
    served = 0
    for row in sorted(waiting, key=lambda row: (-int(snapshot.jobs.priority[row]), row)):
        queue, amounts = int(use.queue_of[row]), least_amounts(snapshot, row)
        if served == MOST_RECLAIMS or not use.guaranteed(queue, amounts):
            continue
        placement = place_any_size(snapshot, soon, row) or _stop_for(draft, use, soon, row)
        if placement is not None:
            take(soon, placement, snapshot.jobs.shape_at(row))
            use.add(queue, amounts)
            served += 1


def _stop_for(draft: Draft, use: QueueUse, soon: IntArray, row: int) -> Placement | None:
    """Stops as few borrowers as will do, the cheapest first; none where even all are not enough."""
    snapshot = draft.snapshot
    found = fewest_to_stop(
        snapshot, soon, row, _borrowers(draft, use, row), lambda pot: place_any_size(snapshot, pot, row)
    )
    if found is None:
        return None
    placement, victims = found
    for victim in victims:
        held = snapshot.placements[victim]
        take(soon, held, snapshot.jobs.shape_at(victim), +1)
        draft.stop(victim)
        use.add(int(use.queue_of[victim]), -amounts_of(snapshot, victim, held))
    return placement


def _borrowers(draft: Draft, use: QueueUse, row: int) -> Iterator[int]:
    """Jobs of other queues, the cheapest first, as long as their queue would still borrow without those before."""
    snapshot, trial = draft.snapshot, use.copy()
    for victim in _cheapest(draft, use):
        queue = int(use.queue_of[victim])
        if trial.borrows(queue) and queue != int(use.queue_of[row]):
            trial.add(queue, -amounts_of(snapshot, victim, snapshot.placements[victim]))
            yield victim


def _cheapest(draft: Draft, use: QueueUse) -> list[int]:
    """Running jobs of borrowing queues that may be stopped, those that lose least work first."""
    jobs, rows = draft.snapshot.jobs, rows_to_stop(draft.snapshot)
    cheapest = rows[np.lexsort((-jobs.serial[rows], unsaved(draft.snapshot, rows)))]
    return [row for row in cheapest.tolist() if draft.decided(row) is None and use.borrows(int(jobs.queue[row]))]
