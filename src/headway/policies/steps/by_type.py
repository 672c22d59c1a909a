"""Running jobs on the types of accelerators where they gain most: the last step where nodes are unlike.

1. *Lists.* Each job joins the list of one type (`lists`), and has its turn in it (`turns`).
2. *Now.* The first of each list run, as many as there is room for. Jobs that are in their trial, were just started or
   may not be stopped keep their room.
3. *What is idle* takes jobs of other lists, those first that gain most, where that saves more than the restart costs.
4. *Places.* A job runs on one type only. A running job is stopped where another takes its room, or where it goes to
   another type. What a stop frees is given away in a later snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import OnTypes
from headway.core.job import Can
from headway.core.node import BoolArray, FloatArray, IntArray, Nodes
from headway.core.placement import Placement, Shape, take
from headway.core.plan import Start
from headway.core.quantity import GPU
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.pack import place
from headway.policies.placing.room import empty
from headway.policies.steps.preempt import SOON, fewest_behind
from headway.policies.steps.start import fits_empty
from headway.policies.value.in_time_by_type import DeadlineTerms, types_in_time
from headway.policies.value.lists import Demand, Types, members
from headway.policies.value.ranking import Ranking
from headway.policies.value.times import Rows
from headway.policies.value.turns import turns

HOPE = 0.8
"""Seconds on a type on which a job was not measured count as this share: so types are tried."""
SAVES = 2.0
"""A job fills what is idle on another type where it is sooner done by this many restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTerms:
    """The settings of `headway` that matter here, and one of its own."""

    trial: float
    restart: float
    look_again: float
    """Seconds after a start: then it has shown its pace, or may be stopped."""
    deadlines: DeadlineTerms | None = None
    """How deadlines are served; None where they do not count."""
    margin: float = 0.1
    """A running job counts as shorter by this share where it is."""


@dataclass(frozen=True, eq=False)
class Dealt:
    """Jobs and where they are to run now. Columns are aligned with `rows`."""

    rows: Rows
    demand: Demand
    member: Types
    """The list of each job."""
    turn: FloatArray
    """Seconds until each job starts in its list."""
    now: Types
    """The type on which it runs now; -1 where it waits."""
    order: Types
    """Places in `rows`, in the order in which jobs get room."""
    urgent: BoolArray
    """Whether its deadline wants it to run now."""


def unlike(snapshot: Snapshot) -> bool:
    """Whether nodes have several types of accelerators, and it is believed how long jobs take on each."""
    return len(snapshot.nodes.types.names) > 1 and snapshot.estimates.known and snapshot.estimates.tells_types


def needs_several(snapshot: Snapshot, rows: Rows) -> BoolArray:
    """Whether each job asks for accelerators and fits on no type alone, but on the empty cluster."""
    width, fits = needs(snapshot, snapshot.jobs.shape[rows])
    found: BoolArray = (width > 0) & ~fits.any(axis=1)
    for at in found.nonzero()[0].tolist():
        found[at] = fits_empty(snapshot, rows.item(at))
    return found


def run_by_type(draft: Draft, ranking: Ranking, first: FloatArray, terms: TypeTerms) -> bool:
    """Starts and stops jobs that fit on one type; later steps of this plan leave them alone. Returns whether other jobs
    wait.
    """
    snapshot, dealt = draft.snapshot, deal(draft, ranking, first, terms)
    if dealt is None:
        return True
    _carry_out(draft, dealt)
    if any(isinstance(draft.decided(row), Start) for row in draft.decided_rows()):
        draft.wake(snapshot.now + terms.look_again)
    others = len(np.setdiff1d(snapshot.jobs.waiting(), dealt.rows)) > 0
    for row in dealt.rows.tolist() if others else ():
        if draft.decided(row) is None:
            draft.leave(row)
    return others


def deal(draft: Draft, ranking: Ranking, first: FloatArray, terms: TypeTerms) -> Dealt | None:
    """`first`: by row of the ranking, its class of priority; the smallest comes before others in every list."""
    snapshot = draft.snapshot
    jobs = snapshot.jobs
    width, fits = needs(snapshot, jobs.shape[ranking.rows])
    at = types_now(snapshot, ranking.rows)
    decided = np.zeros(jobs.count, np.bool_)
    decided[draft.decided_rows()] = True
    ours = (fits.any(axis=1) & (at != _SEVERAL) & ~decided[ranking.rows]).nonzero()[0]
    slots = slots_of(draft, at[ours], width[ours])
    fits &= width[:, None] <= slots
    fits[(at >= 0).nonzero()[0], at[at >= 0]] = width[at >= 0] <= slots[at[at >= 0]]
    ours = ours[fits[ours].any(axis=1) & ((at < 0) | fits[np.arange(len(at)), at])[ours]]
    if not len(ours):
        return None
    rows, width, fits, at = ranking.rows[ours], width[ours], fits[ours], at[ours]
    times, sure = table(snapshot.estimates.on_types(rows.tolist()))
    seconds = _seconds(snapshot, ranking, ours, terms, times * np.where(sure, 1.0, HOPE))
    runs = at >= 0
    here = np.zeros(fits.shape, np.bool_)
    here[runs.nonzero()[0], at[runs]] = True
    restart, margin = terms.restart, terms.margin
    favoured = np.where(here, seconds / (1.0 + margin), seconds + restart)
    at_most = np.where(here, seconds * (1.0 + 2.0 * margin) + 2.0 * restart, seconds)
    fixed = runs & (ranking.in_trial[ours] | ranking.cooling[ours] | stays(snapshot, rows))
    demand, urgent = (
        Demand(
            np.where(fits, favoured, np.inf), width, np.maximum(slots, 1.0), _numbered(first[ours]), at, fixed, at_most
        ),
        np.zeros(len(rows), np.bool_),
    )
    if terms.deadlines is not None:
        demand, urgent = _in_time(snapshot, rows, demand, times, terms.deadlines)
    member = members(demand)
    turn = turns(demand, member)
    nobody = np.full(len(rows), -1)
    return _now(Dealt(rows, demand, member, turn, nobody, np.empty(0, np.intp), urgent), restart)


_SEVERAL = -2
"""In place of a type: the job runs on several."""


def needs(snapshot: Snapshot, shape: IntArray) -> tuple[FloatArray, BoolArray]:
    """By job: the accelerators that it asks for, and (jobs, types) whether the empty nodes of a type take it."""
    nodes, kind = snapshot.nodes, snapshot.nodes.kinds.index(GPU)
    types, shapes = nodes.types, snapshot.jobs.shapes
    width, fits = np.zeros(len(shapes)), np.zeros((len(shapes), len(types.names)), np.bool_)
    for number in np.unique(shape).tolist():
        one = shapes[number]
        width[number] = sum(int(role.vector[kind]) * role.replicas for role in one.roles)
        if width[number] and not one.missing:
            known = nodes.memo.get((run_by_type, one))
            if known is None:
                each = [place(snapshot, on_type(snapshot, empty(nodes), t), one) for t in range(len(types.names))]
                known = nodes.keep((run_by_type, one), [found is not None for found in each])
            fits[number] = known
    return width[shape], fits[shape]


def on_type(snapshot: Snapshot, free: IntArray, number: int) -> IntArray:
    """The same without the accelerators of other types."""
    nodes, kind = snapshot.nodes, snapshot.nodes.kinds.index(GPU)
    masked = free.copy()
    masked[kind] = np.where(nodes.types.of_node == number, free[kind], 0)
    return masked


def types_now(snapshot: Snapshot, rows: Rows) -> Types:
    """The type of each job's accelerators, or of those that it will have when its start has landed; -1: it has none."""
    state, types, kind = snapshot.jobs.state[rows], _type_of_each(snapshot.nodes), snapshot.nodes.kinds.index(GPU)
    at = np.full(len(rows), -1)
    up = ((state != int(State.WAITING)) & (state != int(State.STOPPING))).nonzero()[0]
    found = []
    for row in rows[up].tolist():
        where = _held(snapshot, row)
        roles = () if where is None else zip(snapshot.jobs.shape_at(row).roles, where.nodes, strict=True)
        kinds = {types[node] for role, nodes in roles if role.vector[kind] for node in nodes} - {-1}
        found.append(kinds.pop() if len(kinds) == 1 else _SEVERAL if kinds else -1)
    at[up] = found
    return at


def _held(snapshot: Snapshot, row: int) -> Placement | None:
    """Where the job is, or will be when what is under way has landed."""
    flight = snapshot.flights.get(row)
    return snapshot.placements.get(row) if flight is None else flight.towards


def _type_of_each(nodes: Nodes) -> list[int]:
    known: list[int] | None = nodes.memo.get(_type_of_each)
    return nodes.keep(_type_of_each, nodes.types.of_node.tolist()) if known is None else known


def _in_time(
    snapshot: Snapshot, rows: Rows, demand: Demand, times: FloatArray, terms: DeadlineTerms
) -> tuple[Demand, BoolArray]:
    """Jobs whose deadline wants them to run now come before others, on the type on which they are in time; and which
    they are.
    """
    bound = (snapshot.jobs.can[rows] & int(Can.STOP)) == 0
    kind = types_in_time(snapshot, rows, demand, times, bound, terms)
    urgent = kind >= 0
    only = (urgent & ~demand.fixed)[:, None] & (np.arange(len(demand.slots)) != kind[:, None])
    seconds = np.where(only, np.inf, demand.seconds)
    return replace(demand, seconds=seconds, first=_numbered(2.0 * demand.first.astype(np.float64) - urgent)), urgent


def _seconds(snapshot: Snapshot, ranking: Ranking, ours: Rows, terms: TypeTerms, times: FloatArray) -> FloatArray:
    """(jobs, types): seconds left. A job that has shown nothing yet costs a trial, wherever it runs."""
    rows, left = ranking.rows[ours], ranking.expected.seconds[ours]
    shown = ranking.expected.shown[ours]
    trained = snapshot.jobs.trained_seconds(snapshot.now)[rows]
    new = (~shown & (trained < terms.trial))[:, None]
    return np.maximum(np.where(new, np.minimum(left, terms.trial)[:, None], left[:, None] * times), 1.0)


def table(told: list[OnTypes]) -> tuple[FloatArray, BoolArray]:
    """(jobs, types): seconds for each second left, and whether that was measured."""
    many = len(told) * len(told[0].seconds)
    times = np.fromiter(chain.from_iterable([one.seconds for one in told]), np.float64, many)
    sure = np.fromiter(chain.from_iterable([one.measured for one in told]), np.bool_, many)
    return times.reshape(len(told), -1), sure.reshape(len(told), -1)


def slots_of(draft: Draft, at: Types, width: FloatArray) -> FloatArray:
    """By type: accelerators that are free, or will be when what is under way has landed, or that these jobs hold."""
    nodes, here = draft.snapshot.nodes, at >= 0
    types, free = nodes.types, draft.soon()[nodes.kinds.index(GPU)]
    typed = (types.of_node >= 0) & nodes.ready
    slots: FloatArray = np.bincount(types.of_node[typed], np.maximum(free[typed], 0), len(types.names)).astype(float)
    return slots + np.bincount(at[here], width[here], len(types.names))


def stays(snapshot: Snapshot, rows: Rows) -> BoolArray:
    """Jobs under way, those that may not be stopped, and those that were started at this very moment."""
    jobs = snapshot.jobs
    busy = jobs.state[rows] != int(State.RUNNING)
    bound = (jobs.can[rows] & int(Can.STOP)) == 0
    found: BoolArray = busy | bound | (jobs.touched[rows] >= snapshot.now)
    return found


def _numbered(first: FloatArray) -> Types:
    numbers: Types = np.unique(first, return_inverse=True)[1].astype(np.int64)
    return numbers


def _now(dealt: Dealt, restart: float) -> Dealt:
    """Who runs now: those that stay, the first of each list, and then others where something is idle."""
    demand, member = dealt.demand, dealt.member
    jobs = np.arange(len(member))
    now, room = dealt.now.copy(), demand.slots.tolist()
    order = np.lexsort((demand.area[jobs, member], dealt.turn, demand.first, ~demand.fixed))
    width = demand.width.tolist()
    for job, kind in zip(order.tolist(), member[order].tolist(), strict=True):
        if width[job] <= room[kind]:
            room[kind] -= width[job]
            now[job] = kind
    if max(room) > 0:
        order = np.concatenate([order, _fill(dealt, restart, now, np.array(room))])
    return replace(dealt, now=now, order=order)


def _fill(dealt: Dealt, restart: float, now: Types, room: FloatArray) -> Types:
    """Gives idle accelerators to jobs of other lists, and returns those jobs."""
    demand, member, turn = dealt.demand, dealt.member, dealt.turn
    idle: Types = ((now < 0) & (demand.width <= room.max())).nonzero()[0]
    if not len(idle):
        return idle
    own = member[idle]
    gain = demand.seconds[idle, own][:, None] / demand.seconds[idle]
    saves = np.minimum(np.maximum(turn[idle], 0.0)[:, None], demand.seconds[idle]) * gain
    stays = demand.at[idle][:, None] == np.arange(len(room))
    may = (saves > np.where(stays, 0.0, SAVES * restart)) & (np.arange(len(room)) != own[:, None])
    behind = _behind(dealt)[idle] / demand.slots[own]
    worth = gain * (1.0 / demand.width[idle] + behind)[:, None] * np.where(stays, 1.1, 1.0)
    places, kinds = (may & demand.fits[idle]).nonzero()
    best = np.lexsort((-worth[places, kinds], demand.first[idle[places]]))
    chosen = []
    for job, kind in zip(idle[places[best]].tolist(), kinds[best].tolist(), strict=True):
        if now[job] < 0 and demand.width[job] <= room[kind]:
            room[kind] -= demand.width[job]
            now[job] = kind
            chosen.append(job)
    return np.array(chosen, np.intp)


def _behind(dealt: Dealt) -> FloatArray:
    """How many jobs of its list come a round or more behind each job."""
    demand, member, behind = dealt.demand, dealt.member, np.zeros(len(dealt.member))
    for kind, slots in enumerate(demand.slots.tolist()):
        mine = demand.order[kind][member[demand.order[kind]] == kind]
        upto = demand.width[mine].cumsum()
        behind[mine] = len(mine) - np.searchsorted(upto, upto + slots - 1e-9)
    return behind


def _carry_out(draft: Draft, dealt: Dealt) -> None:
    """Finds places, starts what has room now, and stops what gives up its room."""
    snapshot, jobs = draft.snapshot, draft.snapshot.jobs
    now, at = dealt.now, dealt.demand.at
    if not ((now != at) & (now >= 0)).any():
        return
    pot = draft.soon()
    pot[:, ~snapshot.nodes.ready] = 0
    gives = ((at >= 0) & (now != at) & ~dealt.demand.fixed).nonzero()[0]
    for row in dealt.rows[gives].tolist():
        take(pot, snapshot.placements[row], jobs.shape_at(row), +1)
    found, cleared, spare = set[int](), dict[tuple[int, int], bool](), np.zeros(len(dealt.demand.slots))
    for job in dealt.order[(now != at)[dealt.order] & (now >= 0)[dealt.order]].tolist():
        row, kind = int(dealt.rows[job]), int(now[job])
        if _claim(draft, pot, row, kind):
            found.add(job)
            continue
        alike = (kind, int(jobs.shape[row]))
        if alike not in cleared:  # one at a time: what is stopped for several could go to others
            cleared[alike] = _clear(draft, pot, dealt, job)
        spare[kind] += 0.0 if cleared[alike] else dealt.demand.width[job]
    for job in dealt.order[: len(at)][np.isin(dealt.order[: len(at)], gives)].tolist():
        row = int(dealt.rows[job])
        held, shape = snapshot.placements[row], jobs.shape_at(row)
        if job not in found and _still_there(pot, held, shape):
            take(pot, held, shape)
        else:
            draft.stop(row)
    _fill_spare(draft, pot, dealt, spare)


def _clear(draft: Draft, pot: IntArray, dealt: Dealt, job: int) -> bool:
    """For a job that fits on no nodes though there are accelerators enough: stops those of the jobs behind it that are
    in its way. Where some are in their trial or were just started, nodes are kept free from others until those are not.
    """
    snapshot, demand = draft.snapshot, dealt.demand
    row, kind, order = int(dealt.rows[job]), int(dealt.now[job]), dealt.order[: len(demand.at)]
    there = (demand.at == kind) & (dealt.now == kind) & ~np.isin(dealt.rows, draft.decided_rows())
    later = order[int((order == job).argmax()) + 1 :]
    behind = dealt.rows[later[(there & ~demand.fixed)[later]][::-1]].tolist()
    free = on_type(snapshot, pot, kind)
    victims = fewest_behind(snapshot, free, row, behind)
    may = (snapshot.jobs.can[dealt.rows] & int(Can.STOP)) != 0
    for other in victims or [*behind, *dealt.rows[there & demand.fixed & may].tolist()]:
        held = _held(snapshot, other)
        assert held is not None
        take(free, held, snapshot.jobs.shape_at(other), +1)
        if victims:
            take(pot, held, snapshot.jobs.shape_at(other), +1)
            draft.stop(other)
            draft.wake(snapshot.now + SOON)
    where = place(snapshot, free, snapshot.jobs.shape_at(row))
    if where is not None:
        take(pot, where, snapshot.jobs.shape_at(row))
    return where is not None


def _fill_spare(draft: Draft, pot: IntArray, dealt: Dealt, spare: FloatArray) -> None:
    """Gives what jobs were meant to have that found no room to the next of the same lists."""
    demand = dealt.demand
    waits = (dealt.now < 0) & (demand.at < 0)
    for job in dealt.order[: len(waits)][waits[dealt.order[: len(waits)]]].tolist() if spare.any() else ():
        kind = int(dealt.member[job])
        if demand.width[job] <= spare[kind] and _claim(draft, pot, int(dealt.rows[job]), kind):
            spare[kind] -= demand.width[job]


def _claim(draft: Draft, pot: IntArray, row: int, kind: int) -> bool:
    """Starts the job where there is room now; else keeps room for it that is coming."""
    snapshot, shape = draft.snapshot, draft.snapshot.jobs.shape_at(row)
    waits = snapshot.jobs.state_of(row) is State.WAITING
    where = place(snapshot, on_type(snapshot, np.minimum(pot, draft.free), kind), shape) if waits else None
    if where is not None:
        draft.start(row, where)
    else:
        where = place(snapshot, on_type(snapshot, pot, kind), shape)
    if where is None:
        return False
    take(pot, where, shape)
    return True


def _still_there(pot: IntArray, held: Placement, shape: Shape) -> bool:
    trial = pot.copy()
    take(trial, held, shape)
    used = sorted(held.used_nodes())
    return bool((trial[:, used] >= 0).all())


def why_type(snapshot: Snapshot, dealt: Dealt, row: int) -> dict[str, Any]:
    """In which list the job is and why: what it and others gain from the type that is fastest for it, or its deadline.
    Empty for other jobs.
    """
    places = (dealt.rows == row).nonzero()[0]
    if not len(places):
        return {}
    job, names = int(places[0]), [name or "no type" for name in snapshot.nodes.types.names]
    times, _ = table(snapshot.estimates.on_types(dealt.rows.tolist()))
    times = np.where(dealt.demand.fits, times, np.inf)
    own, fastest = int(dealt.member[job]), int(times[job].argmin())
    before = int((dealt.turn[dealt.member == own] < dealt.turn[job]).sum())
    said = f"It is in the list of {names[own]}, where {before} {'job comes' if before == 1 else 'jobs come'} before it"
    than = own if own != fastest else int(np.where(np.isfinite(times[job]), times[job], -1.0).argmax())
    both = np.isfinite(times[:, [than, fastest]]).all(axis=1)
    gains = np.divide(times[:, than], times[:, fastest], out=np.ones(len(times)), where=both)
    others = gains[(dealt.member == fastest) & both]
    if dealt.urgent[job]:
        told = "its deadline wants it there now"
    elif than == fastest:
        told = "it runs on no other type"
    elif own == fastest:
        told = f"it gains {gains[job]:.1f}\N{MULTIPLICATION SIGN} over {names[than]}"
    else:
        told = f"it would gain {gains[job]:.1f}\N{MULTIPLICATION SIGN} on {names[fastest]}"
    if than != fastest and len(others) and not dealt.urgent[job]:
        told += f", the jobs in the list of {names[fastest]} {np.median(others):.1f}\N{MULTIPLICATION SIGN}"
    now = int(dealt.now[job])
    told += f"; {names[now]} is idle and does it meanwhile" if now not in (-1, own) else ""
    found = {"list": names[own], "before": before, "gain": float(gains[job]), "sentence": f"{said}: {told}."}
    first = "It can be in time: it comes before others of its priority."
    return {"type": found, "deadline": first} if dealt.urgent[job] else {"type": found}
