"""Making room for jobs within their queue's quota: borrowers give back what is guaranteed to others.

First those that this very plan would start or grow; they lose nothing. Then whole running jobs are stopped, those with
least unsaved work first, as few as will do, and only if that makes room and the policy would then start the job. Such
a stop is final: a job that does not save in time goes back to its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.draft import Draft
from headway.core.node import IntArray
from headway.core.placement import Placement, take
from headway.core.plan import Because, Start, Stop
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import place_any_size
from headway.policies.steps.order import rows_to_stop
from headway.policies.steps.victims import fewest_to_stop
from headway.policies.value.times import unsaved
from headway.policies.wrappers.quota import QueueUse

MOST_RECLAIMS = 8
"""Jobs for which room is made in one plan."""
Wants = Callable[[int, IntArray, list[int]], bool]
"""Whether the policy would start this waiting job if so much were free and these running jobs were gone."""


@dataclass(slots=True)
class Claims:
    """What jobs within their quota claim of a plan."""

    draft: Draft
    use: QueueUse
    """With the plan, and with the jobs for which there is or will be room."""
    wants: Wants
    borrowed: Mapping[int, Placement]
    """By row: what the plan takes for jobs whose queue then is over its quota."""
    soon: IntArray
    """What is free for others once everything that stops or moves is gone."""
    spoilt: set[int] = field(default_factory=set)
    """Rows of `borrowed` that take what is claimed."""

    @property
    def left(self) -> IntArray:
        """What others may take now."""
        left: IntArray = np.minimum(self.draft.free, self.soon)
        return left


def reclaim(
    draft: Draft, use: QueueUse, wants: Wants, borrowed: Mapping[int, Placement], *, asked_alone: bool = False
) -> Claims:
    """Stops borrowers for waiting jobs that are within their quota and find no room, now or soon.

    `asked_alone`: the policy saw these jobs without the borrowers. One that it did not start then, although there is
    room, claims nothing.
    """
    snapshot, claims = draft.snapshot, Claims(draft, use, wants, borrowed, draft.soon())
    waiting = [row for row in snapshot.jobs.waiting().tolist() if not isinstance(draft.decided(row), Start)]
    served, unwanted = 0, set[tuple[int, int]]()
    for row in sorted(waiting, key=lambda row: (-int(snapshot.jobs.priority[row]), row)):
        amounts, kind = use.least(row), (int(snapshot.jobs.shape[row]), int(snapshot.jobs.can[row]))
        if served == MOST_RECLAIMS or kind in unwanted or not use.guaranteed(row, amounts):
            continue
        if asked_alone and place_any_size(snapshot, claims.left, row) is not None:
            continue
        placement = place_any_size(snapshot, claims.soon, row)
        if placement is None:
            placement = _stop_for(claims, row)
        elif place_any_size(snapshot, claims.left, row) is None:
            _insist(claims, row, placement)
        if placement is not None:
            take(claims.soon, placement, snapshot.jobs.shape_at(row))
            use.add(row, amounts)
            served += 1
        else:
            unwanted.add(kind)
    return claims


def _insist(claims: Claims, row: int, placement: Placement) -> None:
    """The job counts on room that the policy itself takes from borrowers: their stops are final, too."""
    draft, trial = claims.draft, claims.use.copy()
    for victim in draft.decided_rows():
        decision, queue = draft.decided(victim), int(trial.queue_of[victim])
        if not isinstance(decision, Stop) or decision.because is not Because.PREEMPTED:
            continue
        held = draft.snapshot.placements[victim]
        if trial.borrows(queue) and queue != trial.queue_of[row] and held.used_nodes() & placement.used_nodes():
            trial.add(victim, -trial.amounts(victim, held))
            draft.insist(victim)


def _stop_for(claims: Claims, row: int) -> Placement | None:
    """As few borrowers as will do, the cheapest first, give up what they hold; none where even all are not enough."""
    draft, use, snapshot = claims.draft, claims.use, claims.draft.snapshot
    held = {**snapshot.placements, **claims.borrowed}
    found = fewest_to_stop(
        snapshot, claims.soon, row, _borrowers(claims, row, held), lambda pot: place_any_size(snapshot, pot, row), held
    )
    if found is None:
        return None
    placement, victims = found
    running = [victim for victim in victims if victim not in claims.borrowed]
    if running and not claims.wants(row, _without(claims.soon, snapshot, {one: held[one] for one in victims}), running):
        return None
    for victim in victims:
        take(claims.soon, held[victim], snapshot.jobs.shape_at(victim), +1)
        use.add(victim, -use.amounts(victim, held[victim]))
        if victim in claims.borrowed:
            claims.spoilt.add(victim)
        else:
            draft.stop(victim, Because.RECLAIMED)
    return placement


def _without(soon: IntArray, snapshot: Snapshot, gone: Mapping[int, Placement]) -> IntArray:
    free: IntArray = soon.copy()
    for row, placement in gone.items():
        take(free, placement, snapshot.jobs.shape_at(row), +1)
    return free


def _borrowers(claims: Claims, row: int, held: Mapping[int, Placement]) -> Iterator[int]:
    """Jobs of other queues, the cheapest first, as long as their queue would still borrow without those before."""
    use, trial = claims.use, claims.use.copy()
    for victim in [*reversed(list(claims.borrowed)), *_cheapest(claims.draft, use)]:
        queue = int(use.queue_of[victim])
        if trial.borrows(queue) and queue != int(use.queue_of[row]) and victim not in claims.spoilt:
            trial.add(victim, -trial.amounts(victim, held[victim]))
            yield victim


def _cheapest(draft: Draft, use: QueueUse) -> list[int]:
    """Running jobs of borrowing queues that may be stopped, those that lose least work first."""
    jobs, rows = draft.snapshot.jobs, rows_to_stop(draft.snapshot)
    cheapest = rows[np.lexsort((-jobs.serial[rows], unsaved(draft.snapshot, rows)))]
    return [row for row in cheapest.tolist() if draft.decided(row) is None and use.borrows(int(jobs.queue[row]))]
