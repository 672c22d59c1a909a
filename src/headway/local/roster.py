"""The jobs of a run on this machine: their rows on the board, their processes, and what is under way with each."""

from __future__ import annotations

from collections.abc import Sequence

from headway.core.board import Board
from headway.core.gang import GangState, StepsSeen, due_saves
from headway.core.job import Job, JobId
from headway.core.plan import Action, Move, Resize, Scale, Start, Stop
from headway.core.states import OVER, TRAINING, State
from headway.core.text import lasting
from headway.local.flights import FlightSteps, Landing, Pilot
from headway.local.gang import Gang, RunContext
from headway.local.over import CommandsAtEnd


class Roster:
    """Begins what was decided, carries it on step by step, and books how it ends."""

    def __init__(self, board: Board, jobs: Sequence[Job], pilot: Pilot, context: RunContext) -> None:
        self.board = board
        self.pilot = pilot
        self.arrivals = sorted(jobs, key=_submit)
        """Jobs that are not on the board yet, in order of submission."""
        self.gangs: dict[JobId, Gang] = {}
        self.flights: dict[JobId, FlightSteps] = {}
        self.happened = False
        """Since the last snapshot, something that may need a decision."""
        self.context = context
        self.attempts: dict[JobId, int] = {}
        """Of jobs that are over: one that comes again counts on."""
        self.failures: dict[JobId, int] = {}
        """Of jobs that an earlier run has left: how often they failed."""
        self.reached: dict[JobId, StepsSeen] = {}
        """How far jobs came that have no gang now."""
        self.commands = CommandsAtEnd(context.folder)

    def now(self) -> float:
        return self.pilot.clock()

    def expect(self, job: Job) -> None:
        """The job arrives at the time of its submission."""
        self.arrivals = sorted([*self.arrivals, job], key=_submit)

    def arrive(self) -> None:
        """Takes in the jobs whose time has come."""
        while self.arrivals and self.arrivals[0].submit <= self.now():
            self.board.add(self.arrivals.pop(0), self.now())
            self.happened = True

    # ── processes ───────────────────────────────────────────────────────────────────────────────────────

    def judge(self) -> None:
        """Ends jobs, or takes them down, whose processes are done, failed or lost."""
        for job_id, gang in list(self.gangs.items()):
            row = self.board.row(job_id)
            if row is not None and self.board.state(row) in TRAINING and job_id not in self.flights:
                self._judge(row, gang)

    def _judge(self, row: int, gang: Gang) -> None:
        verdict = gang.verdict(self.now(), self.pilot.timeouts.grace)
        if verdict.state is GangState.DONE and not gang.alive():
            self.land(row, gang, Landing(State.FINISHED, None))
        elif verdict.state is GangState.DONE:
            self._bring_down(row, gang, Landing(State.FINISHED, None))
        elif verdict.state in (GangState.FAILED, GangState.LOST):
            self._bring_down(row, gang, self.pilot.after_break(gang, verdict))

    def _bring_down(self, row: int, gang: Gang, landing: Landing) -> None:
        """Stop what is left of the gang. The job is in flight meanwhile, so no policy touches it."""
        self.take_off(row, self.pilot.take_down(gang, landing), self.pilot.timeouts.stop)

    def save_by_time(self) -> None:
        """Asks the job to save whose turn it is. One at a time: all checkpoints are on one disk."""
        now, patience = self.now(), self.pilot.timeouts.save
        turns, busy = [], set()
        for job_id, gang in self.gangs.items():
            row = self.board.row(job_id)
            if gang.is_saving(now, patience):
                busy.add(gang.save_turn().disk)
            elif row is not None and self.board.state(row) in TRAINING and job_id not in self.flights:
                asked = gang.job.checkpoints and not gang.job.saves_itself and self.pilot.who_saves(gang)
                turns += [gang.save_turn()] if asked else []
        for job_id in due_saves(turns, busy, now):
            gang = self.gangs[job_id]
            if gang.saves.is_open:
                self.board.note(job_id, f"it has not answered a request to save for {lasting(now - gang.asked_at)}")
            self.pilot.ask_to_save(gang)

    # ── flights ─────────────────────────────────────────────────────────────────────────────────────────

    def take_off(self, row: int, flight: FlightSteps, seconds: float) -> None:
        """The job begins to stop. This takes the place of any other flight of it."""
        self.board.begin(row, State.STOPPING, None, self.now(), self.now() + seconds)
        self.flights[self.board.job(row).id] = flight
        self.happened = True

    def advance(self) -> None:
        """One step of every flight."""
        self.commands.look()
        for job_id in list(self.flights):
            try:
                next(self.flights[job_id])
            except StopIteration as ended:
                del self.flights[job_id]
                row = self.board.row(job_id)
                assert row is not None
                self.land(row, self.gangs[job_id], ended.value)

    def land(self, row: int, gang: Gang, landing: Landing) -> None:
        """The job's flight has ended: record its state, and what it refused."""
        if gang.broken is not None:
            landing, gang.broken = self.pilot.after_break(gang, gang.broken), None
        if landing.refused:
            landing = self.pilot.after_refusal(gang, landing)
        if landing.state is State.WAITING and not landing.saved:
            self.board.settle(row, State.WAITING, None, self.now())
            self.board.rewind(row)
        else:
            self.board.settle(row, landing.state, landing.placement, self.now())
        if landing.why:
            self.board.note(gang.job.id, landing.why)
        if landing.state is State.RUNNING:
            gang.refusals = 0
        if landing.state is State.RUNNING and landing.why:
            gang.declined, gang.declined_at = gang.declined + 1, self.now()
        else:
            gang.declined = 0
        if landing.state in OVER:
            self.commands.run(gang.job, landing.state, gang.exit_code())
        if landing.state in OVER and not gang.alive():
            self.attempts[gang.job.id], self.reached[gang.job.id] = gang.attempt, gang.seen
            del self.gangs[gang.job.id]
            gang.release_ports()
        self.happened = True

    # ── decisions ───────────────────────────────────────────────────────────────────────────────────────

    def begin(self, decision: Action) -> None:
        row = self.board.row(decision.job)
        assert row is not None
        job, old = self.board.job(row), self.board.placement(row)
        gang = self.gangs.get(job.id) or self._new_gang(row)
        state, target = self.board.aim(row, decision)
        self.board.begin(row, state, target, self.now(), self.now() + self.pilot.timeouts.start)
        match decision:
            case Start(placement=placement):
                gang.begin_attempt(gang.attempt + 1)
                self.flights[job.id] = self.pilot.start(gang, placement)
            case Scale() if old is not None and target is not None:
                self.flights[job.id] = self.pilot.scale(gang, old, target)
            case Resize() if old is not None and target is not None:
                self.flights[job.id] = self.pilot.resize(gang, old, target)
            case Move() if old is not None and target is not None:
                self.flights[job.id] = self.pilot.move(gang, old, target)
            case Stop(because=because) if old is not None:
                self.flights[job.id] = self.pilot.stop(gang, old, because)

    def _new_gang(self, row: int) -> Gang:
        table = self.board.table
        gang = Gang(self.board.job(row), table.shape_at(row), self.context)
        gang.attempt = max(int(table.get("stops", row)), self.attempts.pop(gang.job.id, 0))
        gang.seen = self.reached.pop(gang.job.id, gang.seen)
        gang.failures = self.failures.pop(gang.job.id, 0)
        self.gangs[gang.job.id] = gang
        return gang


def _submit(job: Job) -> float:
    return job.submit
