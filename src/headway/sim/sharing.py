"""Jobs that share a node: they share cpu above their requests, and they slow each other down.

Example: two replicas request 1 and 3 cores of a node with 8, with limits of 8. They get 2 and 6. Each replica has
at least its request. The rest of the node is split in proportion to the requests, up to the limits, as a kernel does.
Neighbours slow each other down because they use the same buses and networks: one coefficient, after measured
co-locations.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.board import Board
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.quantity import CPU, GPU
from headway.estimates.models.sharing import Claim, level
from headway.sim.speed import ALONE, SharingEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    cpu: bool = False
    """Replicas may use cpu above their request, up to their limit."""
    neighbour_loss: float = 0.0
    """Share of speed that a job loses when other jobs hold all other accelerators of its busiest node."""

    def __bool__(self) -> bool:
        return self.cpu or self.neighbour_loss > 0


NO_SHARING = Sharing()


class Tenants:
    """Which jobs are on which node. Kept only if jobs share nodes."""

    def __init__(self, sharing: Sharing, board: Board) -> None:
        self.sharing = sharing
        self._board = board
        self._on: dict[int, dict[int, None]] = {}
        self._at: dict[int, frozenset[int]] = {}

    def put(self, row: int, placement: Placement | None) -> set[int]:
        """Records where the job is from now on; returns the other jobs that this may affect."""
        nodes = frozenset(placement.used_nodes()) if placement is not None else frozenset()
        before = self._at.pop(row, frozenset())
        for node in before - nodes:
            del self._on[node][row]
        for node in nodes - before:
            self._on.setdefault(node, {})[row] = None
        if nodes:
            self._at[row] = nodes
        return {other for node in before | nodes for other in self._on.get(node, ())} - {row}

    def effect(self, row: int) -> SharingEffect:
        """What sharing its nodes gives the job and costs it."""
        placement = self._board.placement(row)
        if placement is None:
            return ALONE
        nodes = self._board.nodes
        neighbours = 0.0
        if self.sharing.neighbour_loss and GPU in nodes.kinds:
            neighbours = max((self._neighbours(row, node, nodes) for node in placement.used_nodes()), default=0.0)
        cpu = self._cpu(row, placement, nodes) if self.sharing.cpu and CPU in nodes.kinds else None
        return SharingEffect(cpu=cpu, neighbours=neighbours)

    def renumber(self, kept: list[int]) -> None:
        new_row = {old: new for new, old in enumerate(kept)}
        self._at = {new_row[row]: nodes for row, nodes in self._at.items()}
        self._on = {node: {new_row[row]: None for row in rows} for node, rows in self._on.items()}

    def _held(self, row: int, node: int, kind: int) -> int:
        placement = self._board.placement(row)
        if placement is None:
            return 0
        shape = self._board.table.shapes[self._board.table.get("shape", row)]
        return sum(
            where.count(node) * int(placement.vector(shape, number)[kind])
            for number, where in enumerate(placement.nodes)
        )

    def _neighbours(self, row: int, node: int, nodes: Nodes) -> float:
        kind = nodes.kinds.index(GPU)
        others = sum(self._held(other, node, kind) for other in self._on.get(node, ()) if other != row)
        room = int(nodes.capacity[kind, node]) - self._held(row, node, kind)
        return min(1.0, others / room) if room > 0 else 0.0

    def _cpu(self, row: int, placement: Placement, nodes: Nodes) -> tuple[float, ...]:
        """Per role: the cpu (thousandths of a core) of its replica with the least."""
        kind = nodes.kinds.index(CPU)
        job, shape = self._board.job(row), self._board.table.shapes[self._board.table.get("shape", row)]
        least = []
        for number, (role, where) in enumerate(zip(job.roles, placement.nodes, strict=True)):
            asked = int(placement.vector(shape, number)[kind])
            limit = max(asked, dict(role.limit).get(CPU, asked))
            least.append(min((self._one(asked, limit, node, kind) for node in set(where)), default=float(asked)))
        return tuple(least)

    def _one(self, asked: int, limit: int, node: int, kind: int) -> float:
        """The cpu that one replica gets on the node."""
        if limit <= asked:
            return float(asked)
        reached = level(float(self._board.nodes.capacity[kind, node]), self._claims(node, kind))
        return Claim(asked, limit).part(reached)

    def _claims(self, node: int, kind: int) -> list[Claim]:
        """The claims of all replicas on the node, one per role and job."""
        board, claims = self._board, []
        for row in self._on.get(node, ()):
            placement = board.placement(row)
            if placement is None:
                continue
            shape = board.table.shapes[board.table.get("shape", row)]
            for number, (role, where) in enumerate(zip(board.job(row).roles, placement.nodes, strict=True)):
                count = where.count(node)
                if count:
                    asked = int(placement.vector(shape, number)[kind])
                    claims.append(Claim(asked, max(asked, dict(role.limit).get(CPU, asked)), count))
        return claims
