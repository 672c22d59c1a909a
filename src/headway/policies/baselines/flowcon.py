"""FlowCon-like: on every node, jobs that still grow get more cpu than jobs that hardly do. A baseline; no job moves.

Jobs are placed by spreading. Of n jobs on a node, of which c are converging, a converging one has the floor of 1/(2n)
of the cpu. The others share the rest evenly, by requests that are changed in place. FlowCon itself uses the growth of
each job as a number and sets limits. Here the book gives classes of growth, and requests decide how a node is shared.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from headway.core.draft import Draft
from headway.core.estimates import Growth
from headway.core.job import Can
from headway.core.plan import Plan
from headway.core.quantity import CPU, MEMORY
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.spread import replicas, spread_out
from headway.policies.ranges import Factor, Seconds
from headway.policies.steps.cool_down import cool_at


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCon:
    interval: Seconds = 30.0
    """Seconds between two changes of a job, and until growth is looked at again."""
    change: Factor = 0.1
    """Changes of a request by less than this share are not made."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        for row in snapshot.jobs.waiting().tolist():
            placement = spread_out(snapshot, draft.free, snapshot.jobs.shape_at(row), replicas(draft))
            if placement is not None:
                draft.start(row, placement)
        if snapshot.estimates.known and {CPU, MEMORY} <= set(snapshot.nodes.kinds):
            self._share(draft)
        return draft.plan()

    def _share(self, draft: Draft) -> None:
        snapshot = draft.snapshot
        growth, _ = snapshot.estimates.growth()
        on: dict[int, list[int]] = defaultdict(list)
        for row, placement in snapshot.placements.items():
            if placement.width() == 1:
                on[next(iter(placement.used_nodes()))].append(row)
        for rows in on.values():
            slow = [row for row in rows if growth[row] == Growth.CONVERGING]
            times = (2 * len(rows) - len(slow)) / (len(rows) - len(slow)) if len(slow) < len(rows) else 1.0
            for row in sorted(rows, key=lambda row: growth[row] != Growth.CONVERGING):
                self._resize(draft, row, 1.0 if growth[row] == Growth.CONVERGING else times)

    def _resize(self, draft: Draft, row: int, times: float) -> None:
        """Resizes towards `times` the request, where that is free and the cool-down is over."""
        snapshot = draft.snapshot
        jobs, shape, placement = snapshot.jobs, snapshot.jobs.shape_at(row), snapshot.placements[row]
        if jobs.state_of(row) is not State.RUNNING or not int(jobs.can[row]) & Can.RESIZE:
            return
        draft.wake(snapshot.now + self.interval)
        if snapshot.now < cool_at(snapshot, row, self.interval):
            return
        kinds = snapshot.nodes.kinds
        role = next(number for number, nodes in enumerate(placement.nodes) if nodes)
        held, asked = placement.vector(shape, role), shape.roles[role].vector
        cpu, memory = kinds.index(CPU), kinds.index(MEMORY)
        wanted = round(float(asked[cpu]) * times)
        more = wanted - int(held[cpu])
        node = placement.nodes[role][0]
        if not wanted or not held[memory] or abs(more) < self.change * held[cpu] or more > draft.free[cpu, node]:
            return
        draft.resize(row, role, wanted, int(held[memory]))
