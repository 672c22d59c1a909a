"""Whether a line of a log can follow those before it."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.core.job import Can, Job, start_order
from headway.core.node import Node
from headway.core.quantity import LARGEST
from headway.core.states import STATES
from headway.record.lines import (
    VERSION,
    Change,
    CycleLine,
    End,
    Head,
    JobLine,
    Line,
    NodesLine,
    PackedJob,
    PackedPlacement,
    unpack_job,
    unpack_plan,
    wrong_sample,
)

NOWHERE = Node(name="", capacity=())


class Past:
    """What the lines so far have said, as far as the next must fit to it."""

    def __init__(self) -> None:
        self._begun = False
        self._nodes = self._kinds = self._last = self._cycle = -1
        self._roles: dict[int, int] = {}
        """Arrival number to number of roles."""
        self._named: dict[str, tuple[str, ...]] = {}
        """Job to the names of its roles."""

    def wrong(self, line: Line) -> str:
        """Why the line cannot follow, in a few words; empty if it can."""
        if isinstance(line, Head):
            return self._head(line)
        if not self._begun:
            return "the first line must be a head line"
        if isinstance(line, NodesLine):
            return self._table(line)
        if self._nodes < 0 and not isinstance(line, End):
            return "a job or a cycle comes before the nodes"
        if isinstance(line, JobLine):
            return self._job(line)
        return self._changes(line) if isinstance(line, CycleLine) else ""

    def _table(self, line: NodesLine) -> str:
        if line.at is not None and (self._nodes < 0 or len(line.kinds) != self._kinds):
            return "some nodes change before all are told"
        if line.at is None:
            self._nodes, self._kinds = len(line.nodes), len(line.kinds)
        else:
            whole = line.table([NOWHERE] * self._nodes)
            self._nodes = len(whole)
        sound = all(0 <= amount <= LARGEST for node in line.nodes for _, amount in node.capacity)
        known = {kind for node in line.nodes for kind, _ in node.capacity} <= set(line.kinds)
        return "" if sound and known else "a node has an amount that no node can have"

    def _head(self, line: Head) -> str:
        """A resumed run counts anew."""
        self._begun = True
        self._nodes = self._kinds = self._last = self._cycle = -1
        self._roles, self._named = {}, {}
        if line.version != VERSION:
            return f"this is a log of version {line.version}; this Headway reads version {VERSION}"
        return ""

    def _job(self, line: JobLine) -> str:
        if line.serial <= self._last:
            return f"job number {line.serial} comes after job number {self._last}"
        job = unpack_job(line.job)
        line.job = PackedJob(line.job, job)
        self._last, self._roles[line.serial] = line.serial, len(job.roles)
        self._named[job.id] = tuple(role.name for role in job.roles)
        return wrong_job(job)

    def _changes(self, line: CycleLine) -> str:
        if line.cycle != self._cycle + 1:
            return f"cycle {line.cycle} comes where cycle {self._cycle + 1} is due"
        self._cycle = line.cycle
        for change in line.changed:
            roles = self._roles.get(change.serial)
            if roles is None:
                return f"the line of job number {change.serial} is missing"
            why = self._change(change, roles)
            if why:
                return f"job number {change.serial}: {why}"
        unpack_plan(line)
        for packed in line.plan:
            why = self._decision(packed)
            if why:
                return f"the plan cannot be: {why}"
        if any(wrong_sample(sample) for sample in line.samples):
            return "a sample is malformed"
        unknown = [told[0] for told in (*line.beliefs, *line.speeds, *line.scalings) if told[0] not in self._roles]
        return f"the line of job number {unknown[0]} is missing" if unknown else ""

    def _decision(self, packed: list[Any]) -> str:
        names = self._named.get(packed[1])
        if names is None:
            return "it names a job that is not there"
        if packed[0] in ("scale", "resize"):
            if packed[2] not in names:
                return "it names a role that is not there"
            return self._misplaced([[packed[3]]], 1) if packed[0] == "scale" else ""
        return "" if packed[0] == "stop" else self._misplaced(msgspec.convert(packed[2], PackedPlacement), len(names))

    def _change(self, change: Change, roles: int) -> str:
        if not 0 <= change.state < len(STATES) or not 0 <= change.stops <= LARGEST:
            return "it has a state that no job can have"
        places = (change.placement, None if change.flight is None else change.flight[0])
        return next((why for place in places if place is not None and (why := self._misplaced(place, roles))), "")

    def _misplaced(self, place: PackedPlacement, roles: int) -> str:
        if not 1 <= len(place) <= 2 or any(len(part) != roles for part in place):
            return "its placement has another number of roles"
        for role in place[0]:
            if role is None or (role and not (min(role) >= 0 and max(role) < self._nodes)):
                return f"it is on a node that is not among the {self._nodes} nodes"
        for vector in place[1] if len(place) > 1 else ():
            if vector is not None and (len(vector) > self._kinds or not all(0 <= each <= LARGEST for each in vector)):
                return "it holds an amount that no node can have"
        return ""


def wrong_job(job: Job) -> str:
    """Why no cluster could take it, in a few words; empty if one could."""
    try:
        start_order(job.roles)
    except ValueError as error:
        return f"job {job.id[:60]!r}: {str(error)[:200]}"
    if len({role.name for role in job.roles}) < len(job.roles):
        return f"job {job.id[:60]!r} has two roles of one name"
    if abs(job.priority) > LARGEST or not 0 < job.replicas <= LARGEST or not 0 <= job.can <= Can.everything():
        return f"job {job.id[:60]!r} has a number that no job can have"
    amounts = [amount for role in job.roles for pairs in (role.request, role.limit) for _, amount in pairs]
    if any(not 0 <= role.min <= role.replicas <= role.max for role in job.roles):
        return f"job {job.id[:60]!r} has numbers of replicas that no job can have"
    sound = all(0 <= amount <= LARGEST for amount in amounts)
    return "" if sound else f"job {job.id[:60]!r} has an amount that no job can have"
