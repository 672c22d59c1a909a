"""Jobs that are added, removed or changed while the run goes on, and what becomes of each.

Example: a job that trains is taken out of the file. It is asked to save, it is stopped, and it is cancelled; its
checkpoint stays. The rules are those by which the next start of Headway would go on: `record.differences` has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.errors import UserError
from headway.core.job import Can, Job, JobId
from headway.core.jobs.view import Jobs
from headway.core.placement import Placement
from headway.core.plan import Because
from headway.core.states import IN_FLIGHT, OVER, State
from headway.local.flights import FlightSteps, Landing, Pilot
from headway.local.gang import Gang
from headway.local.leaving import leave
from headway.local.roster import Roster
from headway.record.differences import as_edited, keeps_checkpoint, runs_the_same, same_terms, submitted_at


@dataclass(frozen=True, slots=True)
class Wish:
    """The jobs as their user wants them now."""

    jobs: Sequence[Job]
    again: Collection[JobId] = ()
    """Those that run again if they have failed, although nothing about them has changed."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a run learns what its user wants; by default nobody ever wants anything else."""

    first: Sequence[Job] = ()
    """The jobs with which the run begins."""
    newer: Callable[[bool], Wish | None] = lambda _: None
    """Another wish, if there is one; with True it is looked for at once, as the run is about to end."""
    set_aside: Callable[[JobId], object] = lambda _: None
    """Moves the folders of a job that starts afresh out of the way. Raises UserError where that cannot be done."""
    key: bytes = b""
    """Of the marks that jobs of an earlier run have in place of env values."""


NO_WISHES = Wishes()
OTHER_ARGUMENTS = "other arguments: it goes on from its checkpoint (or fresh: true)"
MOST_GONE = 200
"""Jobs that are over and no longer wanted, of which it is remembered how they ended."""


@dataclass(slots=True)
class Editing:
    """Makes the roster what its user wants. A job that runs takes some turns: `step` goes on with it."""

    roster: Roster
    wishes: Wishes
    _wanted: Mapping[JobId, Job] = field(default_factory=dict)
    _open: dict[JobId, Job | None] = field(default_factory=dict)
    """What is still to be done: a job as it shall be, or None where it shall no longer be."""
    _stays: set[JobId] = field(default_factory=set)
    """Jobs that could not be saved: their new size or arguments count from their next start."""
    _zero: dict[JobId, float] = field(default_factory=dict)
    """From when the times of a job count that came while the run went on."""
    _ended: dict[JobId, tuple[Job, State]] = field(default_factory=dict)
    """How jobs ended that have left the board."""

    def __post_init__(self) -> None:
        self._wanted = {job.id: job for job in self.wishes.first}

    def step(self, *, at_once: bool = False) -> None:
        """Looks for another wish, and goes on with what is to be done."""
        wish = self.wishes.newer(at_once)
        if wish is not None:
            self._take(wish)
        for job_id, job in list(self._open.items()):
            if self._is_done(job_id, job):
                del self._open[job_id]
                self._stays.discard(job_id)

    def have_left(self, jobs: Jobs, kept: Collection[int]) -> None:
        """All but these rows have left the board. What became of a job counts for as long as it is wanted."""
        for row in range(jobs.count):
            job = jobs.job(row)
            if row not in kept and jobs.row_of[job.id] == row:
                self._ended[job.id] = (job, jobs.state_of(row))
        self._forget()

    def _forget(self) -> None:
        """Of jobs that are no longer wanted, the newest are remembered: a user may take a job out and put it back."""
        for known in (self._zero, self._ended, self.roster.attempts, self.roster.reached):
            gone = [job_id for job_id in known if job_id not in self._wanted]
            for job_id in gone[:-MOST_GONE]:
                del known[job_id]

    def _take(self, wish: Wish) -> None:
        wanted = {job.id: job for job in wish.jobs}
        for job_id, job in wanted.items():
            if self._wanted.get(job_id) != job or job_id in wish.again:
                self._open[job_id] = job
                self._stays.discard(job_id)
        for job_id in self._wanted:
            if job_id not in wanted:
                self._open[job_id] = None
        self._wanted = wanted
        self._forget()

    def _is_done(self, job_id: JobId, job: Job | None) -> bool:
        """Does what can be done now. False if the job must be looked at again."""
        roster, row = self.roster, self.roster.board.row(job_id)
        was_to_come = any(one.id == job_id for one in roster.arrivals)
        if was_to_come:
            roster.arrivals = [one for one in roster.arrivals if one.id != job_id]
        known = self._ended.get(job_id) if row is None else (roster.board.job(row), roster.board.state(row))
        if known is None or was_to_come:
            if job is not None:
                self._expect(job, was_to_come=was_to_come)
            return True
        old, state = known
        if row is None or state in OVER:
            return self._after_its_end(job, old, state)
        if state is State.WAITING:
            return self._while_it_waits(row, job, old)
        if state is State.STOPPING:
            return False
        if job is None or not keeps_checkpoint(job, old, self.wishes.key):
            self._withdraw(row, old.id)
            return False
        return self._while_it_runs(row, job, old)

    def _expect(self, job: Job, *, was_to_come: bool) -> None:
        self._ended.pop(job.id, None)
        if not was_to_come:
            self._zero[job.id] = self.roster.now()
        self.roster.expect(submitted_at(job, self._zero.get(job.id, 0.0)))

    # ── by its state ────────────────────────────────────────────────────────────────────────────────────

    def _after_its_end(self, job: Job | None, old: Job, state: State) -> bool:
        if job is None:
            return True
        if not keeps_checkpoint(job, old, self.wishes.key):
            return self._start_afresh(job)
        other = not runs_the_same(job, old, self.wishes.key)
        if other or state is not State.FINISHED:
            self.roster.board.note(job.id, OTHER_ARGUMENTS if other else "it runs again from its checkpoint")
            self._expect(job, was_to_come=False)
        return True

    def _while_it_waits(self, row: int, job: Job | None, old: Job) -> bool:
        board, now = self.roster.board, self.roster.now()
        if job is not None and keeps_checkpoint(job, old, self.wishes.key):
            if not same_terms(job, old):
                self._replace(row, job, old)
            return True
        board.settle(row, State.CANCELLED, None, now)
        self.roster.happened = True
        if job is not None:
            return self._start_afresh(job)
        board.note(old.id, "it was removed while it waited")
        self.roster.commands.run(old, State.CANCELLED, None)
        return True

    def _while_it_runs(self, row: int, job: Job, old: Job) -> bool:
        """Its terms change where it is, if it fits; for other sizes or arguments it is saved and stopped first."""
        board = self.roster.board
        if same_terms(job, old):
            return True
        if board.state(row) in IN_FLIGHT or job.id in self._stays:
            return False
        placement = board.placement(row)
        assert placement is not None
        other, gang = not runs_the_same(job, old, self.wishes.key), self.roster.gangs[job.id]
        if not other and _has_room_for(job, old, placement.counts):
            self._replace(row, job, old)
            return True
        if other and not (gang.savers or old.saves_itself):
            self._withdraw(row, job.id)  # it has nothing to lose
            return False
        if not other and not (old.checkpoints and old.can & Can.STOP):
            self._let_it_stay(job.id, "size counts", "it may not be stopped")
            return False
        flight = self.roster.pilot.stop(gang, placement, Because.PREEMPTED)
        what = "arguments count" if other else "size counts"
        self.roster.take_off(row, self._stopped_for(what, flight, job.id), self.roster.pilot.timeouts.save)
        return False

    def _stopped_for(self, what: str, flight: FlightSteps, job_id: JobId) -> FlightSteps:
        landing = yield from flight
        if landing.state is State.RUNNING:
            self._let_it_stay(job_id, what, landing.why.removeprefix("it was not stopped: "))
            return Landing(landing.state, landing.placement)
        return landing

    def _let_it_stay(self, job_id: JobId, what: str, why: str) -> None:
        self._stays.add(job_id)
        self.roster.board.note(job_id, f"its new {what} from its next start: {why}")
        self.roster.happened = True

    # ── what is done ────────────────────────────────────────────────────────────────────────────────────

    def _replace(self, row: int, job: Job, old: Job) -> None:
        board, edited = self.roster.board, as_edited(job, old)
        fresh = board.replace(row, edited, self.roster.now())
        gang = self.roster.gangs.get(job.id)
        if gang is not None:
            gang.job, gang.shape = edited, board.table.shape_at(fresh)
        same = runs_the_same(job, old, self.wishes.key) or math.isnan(board.table.get("first_start", row))
        board.note(job.id, "it was edited: it goes on under its new terms" if same else OTHER_ARGUMENTS)
        self.roster.happened = True

    def _withdraw(self, row: int, job_id: JobId) -> None:
        gang, pilot = self.roster.gangs[job_id], self.roster.pilot
        gang.broken = None
        flight = withdrawn(pilot, gang, self.roster.board.placement(row))
        self.roster.take_off(row, flight, pilot.timeouts.save)

    def _start_afresh(self, job: Job) -> bool:
        try:
            self.wishes.set_aside(job.id)
            self.roster.reached.pop(job.id, None)
        except UserError as error:
            self.roster.board.note(job.id, f"it does not start afresh: {error}")
        else:
            self.roster.board.note(job.id, "it runs something else now: it starts afresh, its old folder is set aside")
            self._expect(job, was_to_come=False)
        self.roster.happened = True
        return True


def withdrawn(pilot: Pilot, gang: Gang, where: Placement | None) -> FlightSteps:
    """Saves, if the job can, and stops for good."""
    landing = yield from leave(pilot, gang, where)
    if landing.state is not State.WAITING:
        return landing
    how = "it was saved and stopped" if landing.saved else f"it was stopped, not saved: {landing.why}"
    return Landing(State.CANCELLED, None, f"{how}; its checkpoint stays")


def _has_room_for(job: Job, old: Job, counts: Sequence[int]) -> bool:
    """Whether a gang of these counts, started for the old terms, is one that the new terms allow."""
    for role, before, count in zip(job.roles, old.roles, counts, strict=True):
        same_place = [getattr(role, name) == getattr(before, name) for name in PLACING]
        if not all(same_place) or not role.min <= count <= role.max:
            return False
    return True


PLACING = ("request", "limit", "selector", "tolerates", "accelerator")
"""What the place of a replica depends on."""
