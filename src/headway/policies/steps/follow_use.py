"""What a job holds follows what it uses: cpu that it leaves idle is free for others, and it has it back when needed.

Example: a job asks for 4 cores and uses 1.2. After a minute it holds 1.24, and 2.76 are free. Its limit stays, so that
it may use more at any time where the node has it; when it does, it holds more again, as far as there is room.

A job whose user names no resources holds one core until it was measured, and then as much as it uses, up to a node.
Usage is measured for the whole job, so only jobs of one role follow it. Jobs whose number of replicas may change keep
their cpu, because their speeds at other sizes are known with it; jobs with a limit above their request are lent cpu
(`spare_cpu`).
"""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.quantity import CPU, MEMORY
from headway.core.states import State
from headway.policies.steps.cool_down import rested

HEADROOM = 0.03
"""Share that a job holds above what it uses."""
WORTHWHILE = 0.1
"""A change of less than this share of what is held is none."""
FULL = 0.985
"""A job that uses this share of what it holds may want more."""
STEP = 1.5
"""By how much it then holds more at once."""
SMALLEST = 50
"""Thousandths of a core that a replica always holds."""


def follow_use(draft: Draft, settle: float) -> None:
    """Resizes running jobs to what they use: to less once they have been left alone for `settle` seconds, to more at
    once.
    """
    snapshot = draft.snapshot
    if not snapshot.used_cpu or CPU not in snapshot.nodes.kinds:
        return
    for row in sorted(snapshot.used_cpu):
        if row not in snapshot.placements or draft.decided(row) is not None or not _may(draft, row):
            continue
        held, wanted = _held(draft, row, CPU), _wanted(draft, row)
        if wanted > held:
            wanted = min(wanted, held + _spare(draft, row))
        if abs(wanted - held) < WORTHWHILE * held:
            continue
        if wanted > held or rested(draft, row, settle):
            draft.resize(row, 0, wanted, max(_held(draft, row, MEMORY), 1))


def ceiling(draft: Draft, row: int) -> int:
    """Thousandths of a core that one replica may hold: what it asks for; a node where its user names nothing."""
    snapshot, role = draft.snapshot, draft.role(row, 0)
    if role.unstated:
        return snapshot.nodes.largest(snapshot.nodes.kinds.index(CPU))
    return role.amount(CPU)


def _may(draft: Draft, row: int) -> bool:
    jobs, shape = draft.snapshot.jobs, draft.snapshot.jobs.shape_at(row)
    if len(shape.roles) != 1 or shape.elastic or jobs.state_of(row) is not State.RUNNING:
        return False
    may = int(jobs.can[row]) & Can.RESIZE and not dict(draft.role(row, 0).limit).get(CPU)
    return bool(may) and _held(draft, row, CPU) > 0


def _wanted(draft: Draft, row: int) -> int:
    """Thousandths of a core that each replica should hold."""
    snapshot = draft.snapshot
    used = 1000.0 * snapshot.used_cpu[row] / max(len(snapshot.placements[row].nodes[0]), 1)
    held, most = _held(draft, row, CPU), ceiling(draft, row)
    if used >= FULL * held:
        return max(held, min(most, round(max(used * (1.0 + HEADROOM), held * STEP))))
    return min(most, max(SMALLEST, round(used * (1.0 + HEADROOM))))


def _held(draft: Draft, row: int, kind: str) -> int:
    """What each replica holds for its training, without its overhead."""
    snapshot, shape = draft.snapshot, draft.snapshot.jobs.shape_at(row)
    if kind not in snapshot.nodes.kinds:
        return 0
    number = snapshot.nodes.kinds.index(kind)
    return int(snapshot.placements[row].vector(shape, 0)[number]) - dict(shape.roles[0].overhead).get(number, 0)


def _spare(draft: Draft, row: int) -> int:
    """Thousandths of a core by which each replica could grow."""
    kind, nodes = draft.snapshot.nodes.kinds.index(CPU), draft.snapshot.placements[row].nodes[0]
    return max(0, min((int(draft.free[kind, node]) // nodes.count(node) for node in set(nodes)), default=0))
