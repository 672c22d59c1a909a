"""The bookkeeping that every cluster shares: the state of each job, where it is, and what is free.

A cluster tells the board what it has begun and what it has observed. The board keeps free capacity and placements
consistent and makes snapshots. The cost of a snapshot depends on what changed, not on what exists. The board decides
nothing and carries out nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from headway.core.estimates import NO_ESTIMATES
from headway.core.job import Job, JobId
from headway.core.jobs.row import JobRow
from headway.core.jobs.table import FEW_DEAD, Table
from headway.core.jobs.view import Jobs
from headway.core.node import IntArray, Nodes
from headway.core.placement import Placement, holds, resized, take
from headway.core.plan import Action, Move, Scale, Start, Stop
from headway.core.quantity import CPU, MEMORY
from headway.core.snapshot import Flight, GpuUse, Sample, Snapshot
from headway.core.states import OVER, STATES, TRAINING, TRANSITIONS, State

Remap = Callable[[list[int]], None]
KEPT = ("since", "attained", "service", "touched", "first_start", "saved", "stops")
"""What a job keeps under other terms."""
_WAITING, _RUNNING, _MOVING = int(State.WAITING), int(State.RUNNING), int(State.MOVING)


class IllegalTransition(Exception):  # noqa: N818  it names a fact, not an error class
    """A cluster reported a change of state that is not allowed: a bug in that cluster."""


class Board:
    """States, placements and free capacity of one cluster. Jobs are named by their row in the table."""

    def __init__(self, nodes: Nodes, on_compact: Remap | None = None) -> None:
        self.nodes = nodes
        self.table = Table(nodes)
        self._free: IntArray = np.where(nodes.ready, nodes.capacity, 0).astype(np.int32)
        self._placements: dict[int, Placement] = {}
        self._flights: dict[int, Flight] = {}
        self._used_cpu: dict[int, float] = {}
        self._gpus: dict[int, GpuUse] = {}
        self._held: dict[int, tuple[Placement, ...]] = {}
        self._shared = self._free_shared = False
        """Whether the last snapshot has the same mappings; whether it has the same free capacity."""
        self._changed: dict[int, None] = {}
        self._samples: list[Sample] = []
        self._notes: list[tuple[JobId, str]] = []
        self._cycle = 0
        self._on_compact = on_compact

    # ── what a cluster writes ───────────────────────────────────────────────────────────────────────────

    def add(self, job: Job, now: float) -> int:
        """Adds a waiting job; returns its row."""
        row = self.table.append(job, now)
        self._changed[row] = None
        return row

    def begin(self, row: int, state: State, towards: Placement | None, now: float, until: float) -> None:
        """A change begins: the job is in flight and holds resources in its old and in its new place."""
        self._own()
        source = self._placements.get(row)
        self._hold(row, holds(state, source, towards, self.table.shape_at(row)))
        self._flights[row] = Flight(towards, now, until)
        self._enter(row, state, now).touched = float(now)
        self.table.last_touched = max(self.table.last_touched, now)

    def prolong(self, row: int, since: float, until: float) -> None:
        """A change in flight has reached its next stage, with new times."""
        self._own()
        self._flights[row] = Flight(self._flights[row].towards, since, until)
        self._changed[row] = None

    def settle(self, row: int, state: State, placement: Placement | None, now: float) -> None:
        """A change has ended, or the job has ended or was lost: sets its state and placement."""
        if self._shared:
            self._own()
        self._hold(row, () if placement is None else (placement,))
        self._flights.pop(row, None)
        state_before = self.table.columns.rows[row].state
        moved = state_before == _MOVING and placement is not None and placement != self._placements.get(row)
        if placement is None:
            self._placements.pop(row, None)
            self._used_cpu.pop(row, None)
            self._gpus.pop(row, None)
        else:
            self._placements[row] = placement
        fields = self._enter(row, state, now)
        fields.size = 0 if placement is None else placement.width()
        if moved:
            fields.stops += 1

    def restore(self, row: int, state: State, placement: Placement | None, flight: Flight | None) -> None:
        """Sets the state of a job from a log or status, from any earlier state. The caller sets the other columns."""
        self._own()
        shape = self.table.shape_at(row)
        held = holds(state, placement, None if flight is None else flight.towards, shape)
        self._hold(row, held)
        for mapping, value in ((self._placements, placement), (self._flights, flight)):
            mapping.pop(row, None)
            if value is not None:
                mapping[row] = value  # type: ignore[assignment]
        if placement is None:
            self._used_cpu.pop(row, None)
            self._gpus.pop(row, None)
        was_over = self.state(row) in OVER
        self.table.set("state", row, state)
        self.table.set("size", row, 0 if placement is None else placement.width())
        self.table.dead += (state in OVER) - was_over
        self._changed[row] = None

    def replace(self, row: int, job: Job, now: float) -> int:
        """The job goes on as it is under other terms, in a new row, which is returned. The old row is cancelled."""
        fields, placement, flight = self.table.read(row).copy(), self._placements.get(row), self._flights.get(row)
        cores, gpus = self._used_cpu.get(row), self._gpus.get(row)
        fresh = self.add(job, now)
        self.restore(row, State.CANCELLED, None, None)
        self.table.set("since", row, now)
        self.restore(fresh, STATES[fields.state], placement, flight)
        for name in KEPT:
            self.table.set(name, fresh, getattr(fields, name))
        if cores is not None:
            self.uses(fresh, cores)
        self.uses_gpus(fresh, gpus)
        return fresh

    def holds_now(self, row: int, placement: Placement) -> None:
        """A job that stays where it is holds other amounts, as was measured."""
        self._own()
        self._hold(row, (placement,))
        self._placements[row] = placement
        self._changed[row] = None

    def touch(self, row: int) -> None:
        """Marks the job as changed, for a change that no column shows, such as its true speed."""
        self._changed[row] = None

    def sampled(self, sample: Sample) -> None:
        """Adds a progress report to the next snapshot."""
        self._samples.append(sample)

    def note(self, job_id: JobId, sentence: str) -> None:
        """Adds a sentence for users to the next snapshot: why the job failed, why it was not moved."""
        self._notes.append((job_id, sentence))

    def saved(self, row: int, trained_seconds: float) -> None:
        """The job saved a checkpoint of this many trained seconds."""
        self.table.set("saved", row, trained_seconds)
        self._changed[row] = None

    def rewind(self, row: int) -> None:
        """The work since the last checkpoint is lost."""
        self.table.set("attained", row, self.table.get("saved", row))
        self._changed[row] = None

    def uses(self, row: int, cores: float) -> None:
        """Sets the cores that the job really uses."""
        if row in self._placements:
            self._own()
            self._used_cpu[row] = cores

    def uses_gpus(self, row: int, use: GpuUse | None) -> None:
        """Sets the GPUs that the job has, and what it uses of them."""
        if row in self._placements and self._gpus.get(row) != use:
            self._own()
            self._gpus.pop(row, None)
            if use is not None:
                self._gpus[row] = use

    def set_nodes(self, nodes: Nodes) -> None:
        """Replaces the table of nodes. The cluster itself settles the jobs on lost nodes."""
        self._own()
        self.nodes = nodes
        self.table.set_nodes(nodes)
        self._free_shared = False
        self._free = np.where(nodes.ready, nodes.capacity, 0).astype(np.int32)
        for row, held in self._held.items():
            for placement in held:
                take(self._free, placement, self.table.shape_at(row))

    def adjust(self, nodes: Nodes, changed: Iterable[int]) -> None:
        """The same nodes, of which these have changed: as `set_nodes`, at the cost of these."""
        self._own()
        if self._free_shared:
            self._free, self._free_shared = self._free.copy(), False
        for number in changed:
            before = self.nodes.capacity[:, number] * self.nodes.ready[number]
            self._free[:, number] += nodes.capacity[:, number] * nodes.ready[number] - before
        self.nodes = nodes
        self.table.adjust_nodes(nodes)

    def aim(self, row: int, decision: Action) -> tuple[State, Placement | None]:
        """The state into which a decision brings the job, and its placement when the change has ended."""
        match decision:
            case Start():
                return State.STARTING, decision.placement
            case Stop():
                return State.STOPPING, None
            case Move():
                return State.MOVING, decision.placement
        old, number = self._placements[row], self.role_number(row, decision.role)
        if isinstance(decision, Scale):
            return State.SCALING, old.with_role(number, decision.nodes)
        amounts = {CPU: decision.cpu, MEMORY: decision.memory}
        shape = self.table.shape_at(row)
        return State.RESIZING, resized(old, shape, number, self.nodes.kinds, amounts)

    # ── what a cluster reads ────────────────────────────────────────────────────────────────────────────

    def row(self, job_id: JobId) -> int | None:
        return self.table.row_of.get(job_id)

    def state(self, row: int) -> State:
        return STATES[self.table.columns.rows[row].state]

    def job(self, row: int) -> Job:
        return self.table.jobs[row]

    def role_number(self, row: int, name: str) -> int:
        return next(number for number, role in enumerate(self.job(row).roles) if role.name == name)

    def placement(self, row: int) -> Placement | None:
        return self._placements.get(row)

    def held(self, row: int) -> tuple[Placement, ...]:
        return self._held.get(row, ())

    def free(self) -> IntArray:
        return self._free.copy()

    def placements(self) -> dict[int, Placement]:
        return self._placements

    def flight(self, row: int) -> Flight | None:
        return self._flights.get(row)

    def flights(self) -> dict[int, Flight]:
        return self._flights

    def trained_seconds(self, row: int, now: float) -> float:
        fields = self.table.read(row)
        return fields.attained + (now - fields.since if fields.state in TRAINING else 0.0)

    @property
    def unfinished(self) -> int:
        return self.table.count - self.table.dead

    def snapshot(self, now: float) -> Snapshot:
        self._shared = self._free_shared = True
        changed, samples, notes = tuple(self._changed), tuple(self._samples), tuple(self._notes)
        self._changed, self._samples, self._notes = {}, [], []
        snapshot = Snapshot.of({
            "now": now, "cycle": self._cycle, "nodes": self.nodes, "free": self._free, "jobs": Jobs(self.table),
            "placements": self._placements, "flights": self._flights, "used_cpu": self._used_cpu,
            "gpus": self._gpus, "samples": samples, "changed": changed, "notes": notes, "estimates": NO_ESTIMATES,
        })  # fmt: skip
        self._free.flags.writeable = False
        self._cycle += 1
        return snapshot

    def compact(self) -> None:
        """Removes the rows of finished jobs if they are more than half. A cluster calls it between cycles."""
        if self.table.dead < FEW_DEAD or self._changed:
            return
        kept = self.table.compact()
        if kept is None:
            return
        new_row = {int(old): new for new, old in enumerate(kept)}
        self._placements = {new_row[row]: value for row, value in self._placements.items()}
        self._flights = {new_row[row]: value for row, value in self._flights.items()}
        self._used_cpu = {new_row[row]: value for row, value in self._used_cpu.items()}
        self._gpus = {new_row[row]: value for row, value in self._gpus.items()}
        self._held = {new_row[row]: value for row, value in self._held.items()}
        self._shared = self._free_shared = False
        self._free = self._free.copy()
        if self._on_compact is not None:
            self._on_compact([int(row) for row in kept])

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _own(self) -> None:
        """Copies what the last snapshot shares with the board, before the first write after it."""
        if self._shared:
            self._placements = self._placements.copy()
            self._flights = self._flights.copy()
            self._used_cpu = self._used_cpu.copy()
            self._gpus = self._gpus.copy()
            self._shared = False

    def _hold(self, row: int, placements: tuple[Placement, ...]) -> None:
        held = self._held.get(row, ())
        if held == placements:
            return
        if self._free_shared:
            self._free, self._free_shared = self._free.copy(), False
        shape = self.table.shape_at(row)
        for placement in held:
            take(self._free, placement, shape, +1)
        for placement in placements:
            take(self._free, placement, shape, -1)
        if placements:
            self._held[row] = placements
        else:
            del self._held[row]

    def _enter(self, row: int, state: State, now: float) -> JobRow:
        """Books the time in the old state and enters the new one; returns the row, open for further changes."""
        fields = self.table.write(row)
        old = fields.state
        if old != state and (old, state) not in TRANSITIONS:
            raise IllegalTransition(f"job {self.job(row).id}: {STATES[old].name} cannot become {state.name}")
        if old in TRAINING:
            seconds = now - fields.since
            if seconds:
                fields.attained += seconds
                fields.service += seconds * fields.size
        if state == _RUNNING:
            if math.isnan(fields.first_start):
                fields.first_start = float(now)
        elif state == _WAITING:
            fields.stops += 1
        elif state in OVER:
            self.table.dead += 1
        fields.state, fields.since = int(state), float(now)
        self._changed[row] = None
        return fields
