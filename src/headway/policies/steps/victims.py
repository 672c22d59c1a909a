"""Which running jobs make room for a waiting one: as few as will do, the cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headway.core.node import IntArray
from headway.core.placement import Placement, take
from headway.core.snapshot import Snapshot


def fewest_to_stop(
    snapshot: Snapshot,
    soon: IntArray,
    row: int,
    victims: Iterable[int],
    place: Callable[[IntArray], Placement | None],
    held: Mapping[int, Placement] | None = None,
) -> tuple[Placement, list[int]] | None:
    """Where the waiting job would go, and the jobs to stop for it; None where all victims together are not enough.

    Victims are taken in their order until `place` finds a placement; those whose room is not used are spared then.
    The jobs to stop are returned in reverse order. `held` is what victims give up; all that they have by default.
    """
    pot, taken, held = soon.copy(), list[int](), snapshot.placements if held is None else held
    for victim in victims:
        take(pot, held[victim], snapshot.jobs.shape_at(victim), +1)
        taken.append(victim)
        placement = place(pot)
        if placement is not None:
            take(pot, placement, snapshot.jobs.shape_at(row))
            return placement, still_needed(snapshot, pot, dict.fromkeys(taken), held)
    return None


def still_needed(
    snapshot: Snapshot,
    pot: IntArray,
    after: Mapping[int, Placement | None],
    before: Mapping[int, Placement] | None = None,
) -> list[int]:
    """The running jobs that must really give something up, the last one first.

    `after` has the placement that each is left with, None where it is stopped. `pot` is what is free then, the waiting
    job placed already; each job in turn takes back what it had (`before`), if that is still free.
    """
    needed, before = [], snapshot.placements if before is None else before
    for row, smaller in reversed(list(after.items())):
        held, shape = before[row], snapshot.jobs.shape_at(row)
        if smaller is not None:
            take(pot, smaller, shape, +1)
        take(pot, held, shape)
        if (pot[:, list(held.used_nodes())] < 0).any():
            take(pot, held, shape, +1)
            if smaller is not None:
                take(pot, smaller, shape)
            needed.append(row)
    return needed
