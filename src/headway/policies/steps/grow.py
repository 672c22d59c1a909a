"""Growing into idle capacity: running jobs get one more replica where it gains most, again and again.

A job does not grow where the estimate says that more replicas slow it down, where its estimate is not usable, or where
it saves less time than the change costs. It does not grow again before its cool-down is over. New replicas go next to
the job's own ones, on the fewest nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from headway.core.draft import Draft
from headway.core.flags import any_of
from headway.core.node import FloatArray
from headway.core.placement import Placement
from headway.estimates.sizes.table import FURTHER, SizeTable
from headway.policies.placing.add_remove import next_nodes
from headway.policies.steps.cool_down import rested_on
from headway.policies.steps.idle_room import GrowthStep, IdleRoom, Rooms
from headway.policies.value.columns import SizeColumns
from headway.policies.value.times import Rows
from headway.policies.value.worth import Worth


def grow_into_idle(draft: Draft, worth: Worth) -> list[int]:
    """Grows running jobs into what is free in the draft. Returns the jobs that grow.

    At most one role of each, because a plan decides once about a job. The other role can grow in a later plan. Rows
    about which the draft has decided already are skipped. Jobs come by what they could gain at best; nodes are chosen
    when a job's turn comes.
    """
    snapshot, idle = draft.snapshot, IdleRoom(draft)
    sizes: dict[int, Placement] = {}
    roles: dict[int, int] = {}
    for step in _best_first(draft, worth, idle, steps := _first_steps(draft, worth, idle)):
        row, now = step.row, sizes.get(step.row, snapshot.placements[step.row])
        if step.nodes and idle.give(row, now, step):
            sizes[row], roles[row] = now.with_role(step.role, (*now.nodes[step.role], *step.nodes)), step.role
        following = _best_step(worth, idle, row, sizes.get(row, now), roles.get(row))
        if following is not None:
            heapq.heappush(steps, following)
    for row, placement in sizes.items():
        draft.scale(row, roles[row], placement.nodes[roles[row]])
    return list(sizes)


def _first_steps(draft: Draft, worth: Worth, idle: IdleRoom) -> list[GrowthStep]:
    """Steps of the few jobs that are looked at one by one, as a heap."""
    steps = []
    for row in worth.columns.others:
        if draft.decided(row) is None and worth.known(row) and not worth.cut(row):
            step = _best_step(worth, idle, row, draft.snapshot.placements[row], None)
            if step is not None and rested_on(draft, row, worth.terms):
                steps.append(step)
    heapq.heapify(steps)
    return steps


def _best_first(draft: Draft, worth: Worth, idle: IdleRoom, steps: list[GrowthStep]) -> Iterator[GrowthStep]:
    """Takes steps out of the heap, the best first, and between them the jobs of the columns, by what they could gain.

    Jobs that may grow later do not come; the plan asks to be called for the first that would grow.
    """
    columns, shapes = worth.columns, draft.snapshot.jobs.shapes
    places, prices = _promising(draft, worth, idle)
    if not len(places):
        while steps:
            yield heapq.heappop(steps)
        return
    order = np.lexsort((columns.rows[places], prices))
    hopes = zip(prices[order].tolist(), columns.rows[places[order]].tolist(), strict=True)
    alike = {number: (shapes[number].roles[0].asks, shapes[number].roles[0].constraint)
             for number in set(columns.shape[places].tolist())}  # fmt: skip
    open_ = set(alike.values())
    for price, row in hopes:
        while steps and steps[0] < (price, row):
            yield heapq.heappop(steps)
        if idle.is_full(row):
            open_.discard(alike[draft.snapshot.jobs.columns.shapes[row]])
            if not open_:
                break
        else:
            yield GrowthStep(price, row, 0, ())
    while steps:
        yield heapq.heappop(steps)


def _promising(draft: Draft, worth: Worth, idle: IdleRoom) -> tuple[Rows, FloatArray]:
    """Places in the columns of the jobs that may grow now, and the price of the best step of each.

    Of those that may grow later, the plan asks to be called for the first that would.
    """
    columns, now = worth.columns, draft.snapshot.now
    rooms = idle.rooms(columns)
    places = _might_grow(columns, rooms) if any_of(rooms) else np.empty(0, np.intp)
    decided = draft.decided_rows()
    if decided and len(places):
        places = places[~np.isin(columns.rows[places], decided)]
    due = columns.due[places]
    if not len(places):
        return places, np.empty(0)
    places, due = places[due < draft.until], due[due < draft.until]
    prices = _best_prices(columns, places, rooms) if len(places) else np.empty(0)
    gains = np.isfinite(prices)
    places, prices, due = places[gains], prices[gains], due[gains]
    later = (due > now).nonzero()[0]
    for number in later[due[later].argsort(kind="stable")].tolist():
        row, at = columns.rows.item(places[number]), due.item(number)
        if at >= draft.until:
            break
        if _best_step(worth, idle, row, draft.snapshot.placements[row], None):
            draft.wake(at)
    return places[due <= now], prices[due <= now]


def _might_grow(columns: SizeColumns, rooms: Rooms) -> Rows:
    """Places in the columns of the jobs that could gain enough if all that is free were in the best place."""
    terms = columns.terms
    fastest: FloatArray = np.where(rooms > 0, columns.above, 0.0)
    gains = (fastest > columns.speed).nonzero()[0]
    saved: FloatArray = columns.seconds_at(columns.speed, gains) - columns.seconds_at(fastest, gains)
    found: Rows = gains[saved > terms.restart]
    return found


def _best_prices(columns: SizeColumns, places: Rows, rooms: Rooms) -> FloatArray:
    """The price of the best step of each if its nodes were the best ones; infinite where it would not gain enough."""
    terms, more = columns.terms, np.array(FURTHER)
    count, speed, work = columns.count[places], columns.speed[places], columns.work[places]
    value, held = columns.values_at(places, speed), columns.share_at(places, count)
    faster = columns.further[:, places].T
    enough = speed[:, None] * (1.0 + terms.margin * np.minimum(1.0, more / np.maximum(count, 1)[:, None]))
    fits = (more <= rooms[places][:, None]) & (faster > 0.0) & (faster >= enough)
    saved = (work / speed)[:, None] - np.divide(work[:, None], faster, out=np.full(faster.shape, np.inf), where=fits)
    chosen, option = (fits & (saved > terms.restart)).nonzero()
    at, then = places[chosen], faster[chosen, option]
    gain = columns.values_at(at, then) - value[chosen]
    gain /= np.maximum(columns.share_at(at, count[chosen] + more[option]) - held[chosen], 1e-9)
    best: FloatArray = np.full(len(places), np.inf)
    np.minimum.at(best, chosen, np.where(gain > 0.0, -gain, np.inf))
    return best


def _best_step(worth: Worth, idle: IdleRoom, row: int, now: Placement, only: int | None) -> GrowthStep | None:
    """The role and the number of further replicas that gain most per share; None where nothing is gained.

    Several at once are tried too: the first replica beyond a node may cost speed that the fourth brings back.
    """
    shape, terms = worth.snapshot.jobs.shape_at(row), worth.terms
    best: GrowthStep | None = None
    if idle.is_full(row):
        return None
    table = worth.table(row)
    if table is not None and now.requests is None:
        more = shape.roles[0].max - len(now.nodes[0])
        where = next_nodes(worth.snapshot, idle.takes(row, 0), 0, now, terms.affinity, more)
        if len(now.nodes[0]) + len(where) <= table.span.max:
            return _best_of_table(worth, table, row, now, where)
    speed = worth.speed(row, now)
    rooms = [idle.takes(row, number) for number in range(len(shape.roles))]
    if speed <= 0:
        return None
    seconds, value, share = worth.seconds(row, speed), worth.value_at(row, speed), worth.share(row, now.counts)
    for number, role in enumerate(shape.roles):
        has = len(now.nodes[number])
        if (only is not None and number != only) or has >= role.max:
            continue
        where = next_nodes(worth.snapshot, rooms[number], number, now, terms.affinity)
        most = min(len(where), role.max - has)
        for count in [further for further in FURTHER if further <= most]:
            faster = worth.speed_with(row, now, number, where[:count])
            enough = speed * (1.0 + terms.margin * min(1.0, count / max(has, 1)))
            if faster < enough or seconds - worth.seconds(row, faster) <= terms.restart:
                continue
            counts = (*now.counts[:number], has + count, *now.counts[number + 1 :])
            gain = (worth.value_at(row, faster) - value) / max(worth.share(row, counts) - share, 1e-9)
            step = GrowthStep(-gain, row, number, where[:count])
            best = step if gain > 0 and (best is None or step < best) else best
    return best


def _best_of_table(
    worth: Worth, table: SizeTable, row: int, now: Placement, where: tuple[int, ...]
) -> GrowthStep | None:
    """The same for a job of one role. `where`: the nodes of further replicas, the best first."""
    has, terms, most, best = len(now.nodes[0]), worth.terms, 0.0, 0
    spots = now.spots[0]
    speed = table.placed(has, len(spots))
    if speed <= 0:
        return None
    work, value, share = worth.work(row), worth.value_at(row, speed), worth.share(row, (has,))
    seconds = work / speed
    alone = len(spots) == 1 and (not where or where[0] == spots[0][0])
    for more in FURTHER:
        if more > len(where):
            break
        alone = alone and where[more - 1] == where[0]
        faster = table.placed(has + more, 1 if alone else 2)
        # Most steps end here: jobs are compared more often than they gain.
        if faster <= speed or faster < speed * (1.0 + terms.margin * min(1.0, more / max(has, 1))):
            continue
        if seconds - work / faster <= terms.restart:
            continue
        gain = (worth.value_at(row, faster) - value) / max(worth.share(row, (has + more,)) - share, 1e-9)
        if gain > most:
            most, best = gain, more
    return GrowthStep(-most, row, 0, where[:best]) if best else None
