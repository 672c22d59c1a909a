"""Moving running jobs: slow-growing jobs leave nodes that they share with fast-growing ones, for emptier nodes.

Example: two jobs share the cpu of one node, a third node is empty. If one of them moves there, both are done sooner.

A move is weighed by when all jobs on both nodes would be done, without the move and with it. The moving job is down
meanwhile. The move is made if it saves much more than it costs and no other job loses much. There is at most one move
a round. The same job moves again only after a cool-down, and each time it must save more, so it never goes to and fro.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Can, JobId
from headway.core.placement import Placement
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.estimates.models.sharing import ends
from headway.policies.ranges import Count, Factor, Seconds, Share
from headway.policies.steps.cool_down import cool_at
from headway.policies.value.neighbours import Neighbour, Tenancy, tenancy

MOST_NODES = 8
"""Crowded nodes that a move may leave, and empty nodes that it may go to, looked at in one round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """The settings of this step."""

    restart: Seconds = 10.0
    """Seconds that a move costs: save, stop, start elsewhere."""
    margin: Factor = 2.0
    """A move must save this factor of what it costs, over all jobs. The factor doubles with every move of the job."""
    harm: Factor = 0.02
    """The max share of its time left that another job may lose by a move."""
    round: Seconds = 10.0
    """Seconds between two moves."""
    cool_down: Seconds = 60.0
    """Seconds from a job's start or last move to its next."""
    max_moves: Count = 3
    """The max number of moves of one job, interruptions included. 0 moves no job."""
    interval: Seconds = 10.0
    """Seconds after which growth is looked at again while jobs share nodes."""
    parallel: Share = 1.0
    """Share of the work that cpu above the request speeds up (Amdahl). 1: speed is in proportion to cpu."""
    growth: bool = True
    """Slow-growing jobs move before others, to nodes with few fast-growing ones. False: growth counts for nothing."""
    soonest: bool = True
    """The job that is soonest done moves first. False: any, by a hash of its name and of the cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A move, and what it is expected to bring."""

    row: int
    job: JobId
    source: int
    target: int
    slow: bool
    """Whether the mover grows slowly."""
    saved: float
    """Seconds, over all jobs on both nodes, the mover's own time down already taken off."""
    losers: tuple[tuple[JobId, float], ...]
    """Jobs that are done later because of it, and by how many seconds."""


def relocate(draft: Draft, settings: Relocation) -> Proposal | None:
    """Writes at most one move into the draft, and when to look again. Returns the move, and which jobs lose by it."""
    if not settings.max_moves or not _any_shares(draft.snapshot):
        return None
    found = tenancy(draft, settings.parallel)
    if found is None or not any(len(neighbours) > 1 for neighbours in found.on.values()):
        return None
    draft.wake(draft.snapshot.now + settings.interval)
    if _too_soon(draft, settings):
        return None
    best = next(proposals(draft, found, settings), None)
    if best is not None:
        draft.move(best.row, moved(draft.snapshot, best.row, best.target))
    return best


def _any_shares(snapshot: Snapshot) -> bool:
    """Whether any job may use more cpu than it requested. If none may, jobs do not slow each other down."""
    job = snapshot.jobs.job
    return any(role.shares_cpu for row in snapshot.placements for role in job(row).roles)


def verdict(snapshot: Snapshot, row: int, settings: Relocation) -> str:
    """One sentence: whether this running job moves now, what that saves, and which jobs lose; or why it stays."""
    draft = Draft(snapshot)
    found = tenancy(draft, settings.parallel)
    neighbours = (
        [] if found is None else [neighbour for on in found.on.values() for neighbour in on if neighbour.row == row]
    )
    if not neighbours or not _any_shares(snapshot):
        return "stays: no job may use more cpu than it holds (field limit), so none slows another down"
    proposal = relocate(draft, settings)
    if proposal is not None and proposal.row == row:
        where = snapshot.nodes.nodes[proposal.target].name
        losers = ", ".join(f"{job} {seconds:.0f} s" for job, seconds in proposal.losers)
        return f"moves to {where}: saves {proposal.saved:.0f} s over all jobs; {losers or 'nobody'} loses"
    why = why_not(Draft(snapshot), neighbours[0], settings)
    return f"stays: {why or 'no move of it would save enough now'}"


def moved(snapshot: Snapshot, row: int, target: int) -> Placement:
    """All replicas on one other node, each holding what it holds."""
    old = snapshot.placements[row]
    return Placement(tuple((target,) * count for count in old.counts), old.requests)


def proposals(draft: Draft, found: Tenancy, settings: Relocation) -> Iterator[Proposal]:
    """The moves that are worth it, the best first.

    They go from the most crowded node to the node with fewest jobs, and of those to the one with fewest fast-growing
    jobs. Slow-growing jobs move before others, the soonest done first: jobs that still learn share what they leave.
    """
    snapshot = draft.snapshot
    capacity = snapshot.nodes.capacity[found.kind].clip(min=1)
    crowd = np.array([found.wanted(node) for node in range(len(capacity))]) / capacity
    for source in np.argsort(-crowd, kind="stable")[:MOST_NODES].tolist():
        neighbours = found.on.get(source, [])
        movers = [
            neighbour for neighbour in neighbours if neighbour.whole and why_not(draft, neighbour, settings) == ""
        ]
        if crowd[source] <= 1.0 or len(neighbours) < 2 or not movers:
            continue
        movers.sort(key=lambda neighbour: _turn(snapshot, neighbour, settings))
        before = found.ends(source, float(capacity[source]))
        emptier = [node for node in range(len(capacity)) if crowd[node] < crowd[source]]
        emptier.sort(key=lambda node: (len(found.on.get(node, ())), settings.growth * found.fast(node), node))
        for target in emptier[:MOST_NODES]:
            for mover in movers:
                if _fits(draft, mover.row, target):
                    proposal = weigh(draft, found, settings, (mover, source, target, before))
                    if proposal is not None:
                        yield proposal


def _turn(snapshot: Snapshot, neighbour: Neighbour, settings: Relocation) -> tuple[bool, float, int]:
    """Which of the jobs on a node moves first: where this is smallest."""
    name = f"{snapshot.jobs.job(neighbour.row).id} {snapshot.cycle}"
    rank = neighbour.tenant.work if settings.soonest else crc32(name.encode())
    return settings.growth and neighbour.fast, rank, neighbour.row


def why_not(draft: Draft, neighbour: Neighbour, settings: Relocation) -> str:
    """Why this job may not be moved now, in a sentence; empty where it may."""
    snapshot, row = draft.snapshot, neighbour.row
    jobs = snapshot.jobs
    if jobs.state_of(row) is not State.RUNNING or draft.decided(row) is not None:
        return "it is not simply running"
    if not neighbour.believed:
        return "nothing that is believed tells how long it has left"
    if not int(jobs.can[row]) & Can.MOVE or not jobs.job(row).checkpoints:
        return "it may not be moved, or cannot save"
    stops = jobs.value(row, "stops")
    if stops >= settings.max_moves:
        return f"it was interrupted {stops} times already"
    rest = cool_at(snapshot, row, settings.cool_down) - snapshot.now
    if rest > 0:
        return f"it rests for {rest:.0f} more seconds after its start or last move"
    return ""


def weigh(
    draft: Draft, found: Tenancy, settings: Relocation, move: tuple[Neighbour, int, int, list[float]]
) -> Proposal | None:
    """Compares when all jobs on both nodes are done without the move and with it. None where it is not worth it."""
    mover, source, target, before = move
    jobs, capacity = draft.snapshot.jobs, draft.snapshot.nodes.capacity[found.kind]
    here, there = found.on[source], found.on.get(target, [])
    beside = found.ends(target, float(capacity[target]))
    joined = found.ends(target, float(capacity[target]), replace(mover.tenant, begins=settings.restart))
    own = before[here.index(mover)]
    if any(not after - end <= settings.harm * end for end, after in zip([*beside, own], joined, strict=True)):
        return None
    stay = [neighbour for neighbour in here if neighbour is not mover]
    left = ends(float(capacity[source]), [neighbour.tenant for neighbour in stay], found.parallel)
    without = dict(zip([neighbour.row for neighbour in [*here, *there]], [*before, *beside], strict=True))
    saved, losers = 0.0, list[tuple[JobId, float]]()
    for neighbour, end in zip([*stay, *there, mover], [*left, *joined], strict=True):
        gain = without[neighbour.row] - end
        saved += gain
        if gain < -1e-6:
            losers.append((jobs.job(neighbour.row).id, -gain))
    if not saved >= settings.restart * settings.margin * 2.0 ** int(jobs.value(mover.row, "stops")):
        return None
    return Proposal(
        row=mover.row, job=jobs.job(mover.row).id, source=source, target=target, slow=not mover.fast, saved=saved,
        losers=tuple(losers),
    )  # fmt: skip


def _too_soon(draft: Draft, settings: Relocation) -> bool:
    """Whether something is moving, or has been moved within this round."""
    jobs, now = draft.snapshot.jobs, draft.snapshot.now
    if any(jobs.state_of(row) is State.MOVING for row in draft.snapshot.flights):
        return True
    touched = jobs.touched[(jobs.stops > 0) & (jobs.state == int(State.RUNNING))]
    return bool(len(touched)) and bool(now < float(touched.max()) + settings.round)


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
