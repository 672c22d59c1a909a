"""Moving: slow-growing jobs off nodes that hold fast-growing ones, and from crowded nodes to emptier ones.

The last step of a plan. Every move that is allowed is weighed by when all jobs on both nodes would be done without it
and with it, the mover being down meanwhile; the best one is taken if it saves much more than it costs and nobody loses
much. At most one a round, and the same job only after a rest, each time for more: a job never goes to and fro.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Growth
from headway.core.job import Can, JobId
from headway.core.placement import Placement
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.tenancy import Share, Tenancy, tenancy
from headway.predict.sharing import Tenant, ends

MOST_NODES = 8
"""Of the most crowded nodes and of the emptiest ones so many are looked at in one round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    restart: float = 10.0
    """Seconds that a move costs: save, stop, start elsewhere."""
    margin: float = 2.0
    """A move must save so many times what it costs, over all jobs; doubled with every move the job has behind it."""
    harm: float = 0.05
    """Share of its time left that a move may cost a job which is not asked."""
    fast_weight: float = 1.0
    """A second saved to a fast-growing job counts so much."""
    round: float = 30.0
    """Seconds between two moves."""
    cool_down: float = 90.0
    """Seconds from a job's start or last move to its next."""
    most_moves: int = 3
    """Of one job, interruptions counted."""
    interval: float = 10.0
    """Seconds after which growth is looked at again while jobs share nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A move, and what it is expected to bring."""

    row: int
    job: JobId
    source: int
    target: int
    saved: float
    """Seconds, over all jobs on both nodes, the mover's own time down already taken off."""
    worth: float
    """The same with seconds of fast-growing jobs weighed."""
    losers: tuple[tuple[JobId, float], ...]
    """Who is done later by it, and by how many seconds."""


def separate(draft: Draft, settings: Separation) -> Proposal | None:
    """Writes at most one move into the draft, and when to look again; tells what was decided and who loses."""
    snapshot = draft.snapshot
    found = tenancy(draft)
    if found is None or not found.on:
        return None
    if any(len(shares) > 1 for shares in found.on.values()):
        draft.wake(snapshot.now + settings.interval)
    if _too_soon(draft, settings):
        return None
    best = max(proposals(draft, found, settings), key=lambda one: (one.worth, -one.row), default=None)
    if best is not None:
        draft.move(best.row, moved(snapshot, best.row, best.target))
    return best


def moved(snapshot: Snapshot, row: int, target: int) -> Placement:
    """All replicas on one other node, each holding what it holds."""
    old = snapshot.placements[row]
    return Placement(tuple((target,) * count for count in old.counts), old.requests)


def proposals(draft: Draft, found: Tenancy, settings: Separation) -> Iterator[Proposal]:
    """The moves that are worth it."""
    capacity = draft.snapshot.nodes.capacity[found.kind]
    crowd = [(found.wanted(node) / max(1.0, float(capacity[node])), node) for node in range(len(capacity))]
    sources = [node for want, node in sorted(crowd, key=lambda one: (-one[0], one[1])) if want > 1.0][:MOST_NODES]
    for source in sources:
        shares = found.on[source]
        movers = [share for share in shares if share.whole and may_move(draft, share, settings)]
        if not movers or len(shares) < 2:
            continue
        before = ends(float(capacity[source]), [share.tenant for share in shares])
        for target in _targets(crowd, found, source):
            for mover in movers:
                if _fits(draft, mover.row, target):
                    proposal = _weigh(draft, found, settings, (mover, source, target, before))
                    if proposal is not None:
                        yield proposal


def may_move(draft: Draft, share: Share, settings: Separation) -> bool:
    """Whether this job may be moved now: it runs, allows it, is believed, rested, and not nearly done."""
    snapshot, row = draft.snapshot, share.row
    jobs = snapshot.jobs
    if jobs.state_of(row) is not State.RUNNING or draft.decided(row) is not None or not share.believed:
        return False
    if not int(jobs.can[row]) & Can.MOVE or not jobs.job(row).checkpoints:
        return False
    if jobs.value(row, "stops") >= settings.most_moves:
        return False
    return bool(snapshot.now >= jobs.value(row, "touched") + settings.cool_down)


def _too_soon(draft: Draft, settings: Separation) -> bool:
    """Whether something is moving, or has been moved within this round."""
    jobs, now = draft.snapshot.jobs, draft.snapshot.now
    if any(jobs.state_of(row) is State.MOVING for row in draft.snapshot.flights):
        return True
    moved_ = jobs.touched[(jobs.stops > 0) & (jobs.state == int(State.RUNNING))]
    return bool(len(moved_)) and bool(now < float(moved_.max()) + settings.round)


def _targets(crowd: list[tuple[float, int]], found: Tenancy, source: int) -> list[int]:
    """Nodes that are less crowded than the source; fewest fast-growing jobs first among equals."""
    here = next(want for want, node in crowd if node == source)
    fewer = [(want, found.fast(node), node) for want, node in crowd if node != source and want < here]
    return [node for _, _, node in sorted(fewer)][:MOST_NODES]


def _fits(draft: Draft, row: int, target: int) -> bool:
    snapshot = draft.snapshot
    shape, placement = snapshot.jobs.shape_at(row), snapshot.placements[row]
    need = np.zeros(len(snapshot.nodes.kinds), np.int64)
    for number, nodes in enumerate(placement.nodes):
        if nodes:
            if not snapshot.nodes.mask(shape.roles[number].constraint)[target]:
                return False
            need += len(nodes) * placement.vector(shape, number).astype(np.int64)
    return bool((draft.free[:, target] >= need)[need > 0].all())


def _weigh(
    draft: Draft, found: Tenancy, settings: Separation, move: tuple[Share, int, int, list[float]]
) -> Proposal | None:
    """When everybody on both nodes is done without the move and with it; None where it is not worth it."""
    mover, source, target, before = move
    snapshot, capacity = draft.snapshot, draft.snapshot.nodes.capacity[found.kind]
    here, there = found.on[source], found.on.get(target, [])
    stay = [share for share in here if share is not mover]
    arrives: Tenant = replace(mover.tenant, begins=settings.restart)
    without = dict(zip([share.row for share in here], before, strict=True))
    without |= zip(
        [share.row for share in there], ends(float(capacity[target]), [share.tenant for share in there]), strict=True
    )
    left = ends(float(capacity[source]), [share.tenant for share in stay])
    joined = ends(float(capacity[target]), [*(share.tenant for share in there), arrives])
    after = zip([*stay, *there, mover], [*left, *joined], strict=True)
    saved = worth = 0.0
    losers = list[tuple[JobId, float]]()
    for share, end in after:
        gain = without[share.row] - end
        saved += gain
        worth += gain * (settings.fast_weight if share.growth is not Growth.CONVERGING else 1.0)
        if gain < -settings.harm * without[share.row]:
            return None
        if gain < -1e-6:
            losers.append((snapshot.jobs.job(share.row).id, -gain))
    behind = int(snapshot.jobs.value(mover.row, "stops"))
    if saved < settings.restart * settings.margin * 2.0**behind:
        return None
    return Proposal(
        row=mover.row, job=snapshot.jobs.job(mover.row).id, source=source, target=target, saved=saved, worth=worth,
        losers=tuple(losers),
    )  # fmt: skip
