"""The native kube-scheduler's DefaultPreemption: room for a pod by deleting pods of lower priority on one node.

On each node, all pods of lower priority are thought away; then as many of them are left as the pod allows, the most
important first (priority, then age). Of the nodes where that makes room, the one with the least important victim is
taken, then that with the smallest sum of priorities, the fewest victims, and the youngest ones. Gangs mean nothing
here: one replica of a job may go, and the others hold their nodes and train nothing.

A job whose pods all go saves before it stops. Really its script would have to do that by itself, on SIGTERM.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from headway.core.draft import Draft
from headway.core.node import IntArray
from headway.core.placement import RoleShape
from headway.policies.placing.room import fits_on


class Victim(NamedTuple):
    priority: int
    since: float
    """When its job started."""
    row: int
    role: int
    vector: IntArray


class Preemption:
    """Room for pods of one plan. Jobs that this plan decides on, or that are on their way, are no victims."""

    def __init__(self, draft: Draft) -> None:
        self._draft, self._soon = draft, draft.soon()
        self._on: dict[int, list[Victim]] = defaultdict(list)
        self._gone: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        """By job and role: nodes from which replicas go."""
        for victim, node in _running(draft):
            self._on[node].append(victim)
        self.lowest = min((one.priority for found in self._on.values() for one in found), default=None)

    def make_room(self, row: int, role: RoleShape) -> bool:
        """For one pod. Whether there will be room, by this or by what goes already."""
        nodes, priority = self._draft.snapshot.nodes, int(self._draft.snapshot.jobs.priority[row])
        there = np.flatnonzero(fits_on(nodes, self._soon, role))
        if len(there):
            self._soon[:, there[0]] -= role.vector
            return True
        if self.lowest is None or priority <= self.lowest:
            return False
        best = min(self._candidates(role, priority), default=None)
        if best is None:
            return False
        node, victims = best[-1], self._victims(best[-1], role, priority)
        for one in victims:
            self._on[node].remove(one)
            self._gone[one.row, one.role][node] += 1
            self._soon[:, node] += one.vector
        self._soon[:, node] -= role.vector
        return True

    def apply(self) -> None:
        snapshot = self._draft.snapshot
        for (row, role), gone in self._gone.items():
            if self._draft.decided(row) is not None:
                continue  # of several roles one goes now, the others when it is asked again
            placement, left = snapshot.placements[row], list[int]()
            for node in placement.nodes[role]:
                if gone[node] > 0:
                    gone[node] -= 1
                else:
                    left.append(node)
            if left or any(nodes for number, nodes in enumerate(placement.nodes) if number != role):
                self._draft.scale(row, role, tuple(left))
                self._draft.until = min(self._draft.until, math.nextafter(snapshot.now, math.inf))  # its room is free
            else:
                self._draft.stop(row)

    def _candidates(self, role: RoleShape, priority: int) -> Iterator[tuple[int, int, int, float, int]]:
        """The first is the best; last, the number of the node."""
        nodes = self._draft.snapshot.nodes
        free = self._soon.copy()
        for node, found in self._on.items():
            for one in found:
                if one.priority < priority:
                    free[:, node] += one.vector
        for node in np.flatnonzero(fits_on(nodes, free, role)).tolist():
            victims = self._victims(node, role, priority)
            if victims:
                priorities = [one.priority for one in victims]
                oldest = min(one.since for one in victims)
                yield max(priorities), sum(priorities), len(victims), -oldest, node

    def _victims(self, node: int, role: RoleShape, priority: int) -> list[Victim]:
        lower = sorted((one for one in self._on[node] if one.priority < priority), key=_importance)
        free = self._soon[:, node] + _sum(lower, len(self._soon))
        victims = []
        for one in lower:
            if (free - one.vector >= role.vector)[role.vector > 0].all():
                free = free - one.vector
            else:
                victims.append(one)
        return victims


def _importance(one: Victim) -> tuple[int, float]:
    return -one.priority, one.since


def _sum(victims: Iterable[Victim], kinds: int) -> IntArray:
    total: IntArray = np.zeros(kinds, np.int32)
    for one in victims:
        total += one.vector
    return total


def _running(draft: Draft) -> Iterator[tuple[Victim, int]]:
    snapshot, jobs = draft.snapshot, draft.snapshot.jobs
    for row in jobs.running().tolist():
        if draft.decided(row) is not None:
            continue
        shape, placement = jobs.shape_at(row), snapshot.placements[row]
        priority, since = int(jobs.priority[row]), float(jobs.since[row])
        for number, (role, nodes) in enumerate(zip(shape.roles, placement.nodes, strict=True)):
            for node in nodes:
                yield Victim(priority, since, row, number, role.vector), node
