"""Gathering: a gang that would fit on one node, and is on several, goes to one where there is room.

Example: four replicas started on four nodes, because no node had more than one free. Later a node is empty. Exchange
across nodes makes every step half as long again, and the job has five hours left: it goes to that node.

A gang comes to be apart in busy times and would stay so: nothing else changes where a job is that has its size. It
gathers where it saves several times what the change costs. Where a node has some of its replicas already, those train
on and only the others are made anew; else the whole gang moves.
"""

from __future__ import annotations

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.placement import Placement
from headway.policies.placing.add_remove import SOON, room_for_more
from headway.policies.steps.cool_down import rested_on
from headway.policies.value.times import Rows
from headway.policies.value.worth import Worth

WORTHWHILE = 4.0
"""A job must save this factor of what a change costs: what being apart costs is rarely measured exactly."""
MOST = 8
"""Jobs for which a node is looked for in one plan, those that save most first."""


def gather(draft: Draft, worth: Worth) -> list[int]:
    """Gathers running jobs that are apart. Returns their rows."""
    columns, gathered = worth.columns, list[int]()
    for place in _apart(worth)[:MOST].tolist():
        row = columns.rows.item(place)
        node = None if draft.decided(row) is not None else _node_for(draft, row)
        if node is not None and rested_on(draft, row, worth.terms) and _go(draft, row, node):
            gathered.append(row)
    return gathered


def _apart(worth: Worth) -> Rows:
    """Places in the columns of jobs that would save enough together, those that save most first."""
    columns = worth.columns
    apart = (columns.speed < columns.ideal).nonzero()[0]
    if not len(apart):
        return apart
    saved = columns.seconds[apart] * (1.0 - columns.speed[apart] / columns.ideal[apart])
    enough = saved > WORTHWHILE * worth.terms.restart
    found: Rows = apart[enough][np.argsort(-saved[enough], kind="stable")]
    return found


def _node_for(draft: Draft, row: int) -> int | None:
    """The node on which all replicas fit: with most of them already, else the one that is left fullest."""
    snapshot = draft.snapshot
    placement = snapshot.placements[row]
    takes, has = room_for_more(snapshot, draft.free, row, 0), np.zeros(len(snapshot.nodes), np.int64)
    for node, count in placement.spots[0]:
        has[node] = count
    fits = (takes + has >= len(placement.nodes[0])).nonzero()[0]
    if not len(fits):
        return None
    best: int = fits[np.lexsort((takes[fits], -has[fits]))].item(0)
    return best


def _go(draft: Draft, row: int, node: int) -> bool:
    """Whether the job may go there; if so, the plan says that it does."""
    snapshot = draft.snapshot
    placement = snapshot.placements[row]
    there = (node,) * len(placement.nodes[0])
    if node in placement.nodes[0]:
        draft.scale(row, 0, there)
    elif int(snapshot.jobs.can[row]) & Can.MOVE and snapshot.jobs.job(row).checkpoints:
        draft.move(row, Placement((there,), placement.requests))
    else:
        return False
    draft.wake(snapshot.now + SOON)
    return True
