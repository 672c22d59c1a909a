"""The steps that choose sizes, in plain scalar code: every plan looks at every job. The reference for `steps`."""

from __future__ import annotations

import heapq
import math

from plain_worth import PlainWorth

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.placement import Placement
from headway.policies.placing.add_remove import SOON, leaving_order, may_scale, next_nodes, room_for_more, without
from headway.policies.placing.affinity import place_near
from headway.policies.steps.cool_down import rested_on
from headway.policies.steps.elastic_start import MANY, _best_place
from headway.policies.steps.shrink import _needed
from headway.policies.steps.start import may_fit
from headway.policies.value.sizes import FURTHER, demand
from headway.policies.value.worth import Worth


def _plain(worth: Worth) -> PlainWorth:
    return PlainWorth(worth.snapshot, worth.terms)


def _running(draft: Draft, worth: PlainWorth) -> list[int]:
    rows = draft.snapshot.jobs.running().tolist()
    return [row for row in rows if may_scale(draft.snapshot, row) and worth.known(row)]


# ── elastic start ───────────────────────────────────────────────────────────────────────────────────────────────


def start_elastic(draft: Draft, ordered, fast: Worth) -> None:
    snapshot, failed, worth = draft.snapshot, set(), _plain(fast)
    rows = may_fit(draft, ordered).tolist()
    sizes = _starting_sizes(draft, rows[:MANY], worth) if rows else {}
    for row in rows:
        alike = (int(snapshot.jobs.shape[row]), int(snapshot.jobs.can[row]))
        placement = None if alike in failed else _best_place(draft, row, sizes.get(row), worth)
        if placement is not None:
            draft.start(row, placement)
        elif row not in sizes or sizes[row] == worth.path(row)[0]:
            failed.add(alike)


def _starting_sizes(draft: Draft, rows: list[int], worth: PlainWorth) -> dict[int, Counts]:
    snapshot = draft.snapshot
    budget = draft.free.clip(min=0).sum(axis=1).astype(float)
    sizes: dict[int, Counts] = {}
    for row in rows:
        cost = demand(snapshot, row, worth.path(row)[0])
        if (cost <= budget).all():
            sizes[row], budget = worth.path(row)[0], budget - cost
    now = sizes | {row: snapshot.placements[row].counts for row in _running(draft, worth)}
    steps = [step for row in now if (step := _next(worth, row, now[row])) is not None]
    heapq.heapify(steps)
    while steps:
        _, row, counts = heapq.heappop(steps)
        cost = demand(snapshot, row, counts) - demand(snapshot, row, now[row])
        if not (cost <= budget).all():
            continue
        budget, now[row] = budget - cost, counts
        if (step := _next(worth, row, counts)) is not None:
            heapq.heappush(steps, step)
    return {row: now[row] for row in sizes}


def _next(worth: PlainWorth, row: int, counts: Counts):
    larger = next((size for size in worth.path(row) if sum(size) > sum(counts)
                   and all(a >= b for a, b in zip(size, counts, strict=True))), None)  # fmt: skip
    if larger is None:
        return None
    gain = worth.value_at(row, worth.best_speed(row, larger)) - worth.value_at(row, worth.best_speed(row, counts))
    share = worth.share(row, larger) - worth.share(row, counts)
    return (-gain / max(share, 1e-9), row, larger) if gain > 0 else None


# ── shrinking ───────────────────────────────────────────────────────────────────────────────────────────────


def shrink_for(draft: Draft, row: int, sizes, fast: Worth, *, forced: bool = False) -> Placement | None:
    snapshot, worth, free = draft.snapshot, _plain(fast), draft.soon()
    margin, given, total = 1.0 + worth.terms.margin, {}, 0.0
    gifts = _gifts(draft, worth)
    found, value, lost = None, 0.0, 0.0
    for counts in sizes:
        must = forced and found is None
        most = math.inf if must else lost + (worth.value_at(row, worth.best_speed(row, counts)) - value) / margin
        shape = snapshot.jobs.shape_at(row)
        while (placement := place_near(snapshot, free, shape, counts, worth.terms.affinity)) is None:
            if not gifts or total >= most:
                break
            _, giver, role, many = heapq.heappop(gifts)
            before = given.get(giver, snapshot.placements[giver])
            nodes = leaving_order(before, role)[:many]
            after = without(before, role, nodes)
            for node in nodes:
                free[:, node] += before.vector(snapshot.jobs.shape_at(giver), role)
            total += _value(worth, giver, before) - _value(worth, giver, after)
            given[giver] = after
            if (following := _cheapest(worth, giver, after, role)) is not None:
                heapq.heappush(gifts, following)
        if placement is None:
            break
        then = worth.value_at(row, worth.speed(row, placement))
        if then - value <= margin * (total - lost) and not must:
            break
        found, value, lost = (placement, dict(given)), then, total
    return None if found is None else _shrunk(draft, row, *found)


def _gifts(draft: Draft, worth: PlainWorth):
    gifts = []
    for giver in _running(draft, worth):
        now = draft.snapshot.placements[giver]
        gift = _cheapest(worth, giver, now, None) if draft.decided(giver) is None else None
        if gift is not None and rested_on(draft, giver, worth.terms, for_others=True):
            gifts.append(gift)
    heapq.heapify(gifts)
    return gifts


def _shrunk(draft: Draft, row: int, placement: Placement, given) -> Placement | None:
    snapshot, kept = draft.snapshot, _needed(draft, given, row, placement)
    if not kept:
        return None
    for giver, size in kept.items():
        number = next(i for i, nodes in enumerate(size.nodes) if nodes != snapshot.placements[giver].nodes[i])
        draft.scale(giver, number, size.nodes[number])
    draft.wake(snapshot.now + SOON)
    return placement


def _cheapest(worth: PlainWorth, row: int, now: Placement, only: int | None):
    best = None
    for number, role in enumerate(worth.snapshot.jobs.shape_at(row).roles):
        spare = len(now.nodes[number]) - role.min
        if spare <= 0 or (only is not None and number != only):
            continue
        order = leaving_order(now, number)
        for count in {1, min(spare, order.count(order[0]))}:
            smaller = without(now, number, order[:count])
            freed = max(worth.share(row, now.counts) - worth.share(row, smaller.counts), 1e-9)
            gift = ((_value(worth, row, now) - _value(worth, row, smaller)) / freed, row, number, count)
            best = gift if best is None or gift < best else best
    return best


def _value(worth: PlainWorth, row: int, placement: Placement) -> float:
    return worth.value_at(row, worth.speed(row, placement))


def release_useless(draft: Draft, fast: Worth) -> None:
    worth = _plain(fast)
    for row in _running(draft, worth):
        if draft.decided(row) is not None or fast.cut(row):
            continue
        now, role = draft.snapshot.placements[row], None
        while (gift := _cheapest(worth, row, now, role)) is not None:
            after = without(now, gift[2], leaving_order(now, gift[2])[: gift[3]])
            if worth.speed(row, after) < worth.speed(row, now):
                break
            now, role = after, gift[2]
        if role is not None and rested_on(draft, row, worth.terms):
            draft.scale(row, role, now.nodes[role])
            draft.wake(draft.snapshot.now + SOON)


# ── growing ─────────────────────────────────────────────────────────────────────────────────────────────────


def grow_into_idle(draft: Draft, fast: Worth) -> list[int]:
    snapshot, free, worth = draft.snapshot, draft.free.copy(), _plain(fast)
    sizes, roles, steps = {}, {}, []
    for row in _running(draft, worth):
        if draft.decided(row) is not None or fast.cut(row):
            continue
        step = _best_step(worth, free, row, snapshot.placements[row], None)
        if step is not None and not rested_on(draft, row, worth.terms):
            continue
        if worth.tabled(row):  # its turn comes by what it could gain at best
            price = worth.best_price(row, int(room_for_more(snapshot, free, row, 0).sum()))
            step = (price, row, 0, ()) if math.isfinite(price) and snapshot.now >= _due(draft, row, worth) else None
        if step is not None:
            steps.append(step)
    heapq.heapify(steps)
    while steps:
        _, row, role, nodes = heapq.heappop(steps)
        now = sizes.get(row, snapshot.placements[row])
        if nodes and _taken(free, now.vector(snapshot.jobs.shape_at(row), role), nodes):
            sizes[row], roles[row] = now.with_role(role, (*now.nodes[role], *nodes)), role
        following = _best_step(worth, free, row, sizes.get(row, now), roles.get(row))
        if following is not None:
            heapq.heappush(steps, following)
    for row, placement in sizes.items():
        draft.scale(row, roles[row], placement.nodes[roles[row]])
    return list(sizes)


def _due(draft: Draft, row: int, worth: PlainWorth) -> float:
    estimates, terms, jobs = draft.snapshot.estimates, worth.terms, draft.snapshot.jobs
    seconds = terms.cool_down
    if terms.cool_down_share and estimates.beliefs.rich:
        trained = float(jobs.attained[row]) + float(jobs.touched[row]) - float(jobs.since[row])
        seconds = max(seconds, terms.cool_down_share * trained)
    return float(jobs.touched[row]) + seconds


def _taken(free, vector, nodes) -> bool:
    for done, node in enumerate(nodes):
        if (free[:, node] < vector).any():
            for other in nodes[:done]:
                free[:, other] += vector
            return False
        free[:, node] -= vector
    return True


def _best_step(worth: PlainWorth, free, row: int, now: Placement, only: int | None):
    best, speed, terms = None, worth.speed(row, now), worth.terms
    for number, role in enumerate(worth.snapshot.jobs.shape_at(row).roles):
        has = len(now.nodes[number])
        if speed <= 0 or (only is not None and number != only) or has >= role.max:
            continue
        takes = room_for_more(worth.snapshot, free, row, number)
        where = next_nodes(worth.snapshot, takes, number, now, terms.affinity)
        for count in [more for more in FURTHER if more <= min(len(where), role.max - has)]:
            larger = now.with_role(number, (*now.nodes[number], *where[:count]))
            faster = worth.speed(row, larger)
            enough = speed * (1.0 + terms.margin * min(1.0, count / max(has, 1)))
            if faster < enough or worth.seconds(row, speed) - worth.seconds(row, faster) <= terms.restart:
                continue
            share = max(worth.share(row, larger.counts) - worth.share(row, now.counts), 1e-9)
            gain = (worth.value_at(row, faster) - worth.value_at(row, speed)) / share
            step = (-gain, row, number, where[:count])
            best = step if gain > 0 and (best is None or step < best) else best
    return best
