"""The simulated cluster. It jumps from event to event, and makes one snapshot per instant.

The agenda has the expected ends, a sorted list has the arrivals, `NodeFaults` and `Gangs` have the failures. All events
of an instant happen before its snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from headway.core.board import Board
from headway.core.estimates import Beliefs
from headway.core.gang import GangState
from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.plan import Because, Decision, Plan, Reserve, Stop
from headway.core.snapshot import Snapshot
from headway.core.states import IN_FLIGHT, TRAINING, State
from headway.estimates.models.scaling import plain_speed
from headway.sim.agenda import Agenda
from headway.sim.faults import NO_FAULTS, NodeFaults, with_ready
from headway.sim.gangs import Gangs
from headway.sim.rates import Rates
from headway.sim.reporting import Reporter
from headway.sim.speed import ALONE, Speed
from headway.sim.work import Work
from headway.sim.world import Costs, Reports, SimulationError, World

__all__ = ["Costs", "Reports", "SimCluster", "SimulationError", "World"]

MAX_CYCLES_AT_ONE_INSTANT = 100_000
MAX_IDLE_WAKES = 10_000
"""Wake-ups in a row, asked for by the policy, after which a simulation in which nothing else happens ends."""


_UP = TRAINING | IN_FLIGHT
_DOWN = frozenset({State.MOVING, State.STOPPING})
"""States in which a job has saved and no longer trains."""


class SimCluster:
    def __init__(self, nodes: Nodes, jobs: Iterable[Job], world: World | None = None, now: float = 0.0) -> None:
        self.world = world or World()
        self.board = Board(nodes, self._compacted)
        self.now = now
        self.work = Work()
        self._arrivals = sorted(jobs, key=lambda job: job.submit)
        self._next_arrival = 0
        self._agenda = Agenda()
        self._stop_reasons: dict[JobId, Because] = {}
        faulty = self.world.faults is not NO_FAULTS
        self._node_faults = NodeFaults(self.world.faults, nodes, self.world.seed, now) if faulty else None
        self._gangs = Gangs(self.world.faults, self.world.seed) if faulty else None
        self._rates = Rates(self.world, self.board, self.work, self._agenda, self._gangs)
        self._reporter = Reporter(self.world, self.board, self.work) if self.world.samples else None
        self._wake = math.inf
        self._again = False
        self._cycles_now = 0
        self._idle_wakes = 0
        self._speed_on: dict[JobId, Mapping[str, float]] = {}

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        if not self._again and not self._advance():
            return None
        self._again = False
        if self._reporter is not None:
            self._reporter.report(self.now)
        return self.board.snapshot(self.now)

    def apply(self, plan: Plan) -> None:
        self.board.compact()
        self._wake = plan.until
        for decision in plan.decisions:
            self._begin(decision)

    def truth(self, snapshot: Snapshot) -> Beliefs:
        """For an oracle: true seconds left at the present rate; at the requested size for jobs that wait."""
        return self.work.truth(snapshot)

    def speed_at(self, job: Job, counts: tuple[int, ...]) -> float:
        """For an oracle: true speed at another size, in the best place of this cluster."""
        speed = self.world.speed
        return speed.at_size(job, counts, self.board.nodes) if isinstance(speed, Speed) else plain_speed(job, counts)

    def speed_on(self, job: Job) -> Mapping[str, float]:
        """For an oracle: true speed by type of accelerators, as if one node of the type held the whole job."""
        known = self._speed_on.get(job.id)
        if known is None:
            nodes, found = self.board.nodes, dict[str, float]()
            for node, kind in enumerate(nodes.types.of_node.tolist()):
                if kind >= 0 and nodes.types.names[kind] not in found:
                    there = Placement(tuple((node,) * role.replicas for role in job.roles))
                    found[nodes.types.names[kind]] = self.world.speed(job, there, nodes, ALONE)
            known = self._speed_on[job.id] = found
        return known

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────

    def _advance(self) -> bool:
        """Jumps to the next instant and handles all its events. False when nothing will ever happen again."""
        agenda, arrivals = self._agenda, self._arrivals
        arrival = arrivals[self._next_arrival].submit if self._next_arrival < len(arrivals) else math.inf
        event = agenda.next()
        repair = self._node_faults.next if self._node_faults is not None else math.inf
        exit_ = self._gangs.next if self._gangs is not None else math.inf
        instant = min(arrival, event, self._wake, repair, exit_)
        if instant == math.inf or (arrival == event == math.inf and self._nothing_left()):
            return False
        self._count_cycle(instant)
        self.now = max(self.now, instant)
        if self._wake <= self.now:
            self._wake = math.inf
        if event <= self.now:
            while (happening := agenda.take(self.now)) is not None:
                self._happen(*happening)
        if exit_ <= self.now:
            self._replicas_ended()
        if repair <= self.now:
            self._nodes_failed()
        while self._next_arrival < len(arrivals) and arrivals[self._next_arrival].submit <= self.now:
            self.arrive(arrivals[self._next_arrival])
            self._next_arrival += 1
        return True

    def _nothing_left(self) -> bool:
        """Whether no job will ever change again: all jobs are over, or no event can let the waiting ones start."""
        if not self.board.unfinished:
            return True
        all_up = self._node_faults is None or not self._node_faults.any_down
        return all_up and (math.isinf(self._wake) or self._idle_wakes > MAX_IDLE_WAKES)

    def _count_cycle(self, instant: float) -> None:
        self._cycles_now = self._cycles_now + 1 if instant <= self.now else 0
        self._idle_wakes = (
            0 if self._agenda.ends or self._agenda.landings or instant < self._wake else self._idle_wakes + 1
        )
        if self._cycles_now > MAX_CYCLES_AT_ONE_INSTANT:
            raise SimulationError(f"the policy makes decisions without end at second {self.now:g}: time does not go on")

    def arrive(self, job: Job, left: float | None = None) -> int:
        work = self.world.work(job)
        if work is None and left is None:
            raise SimulationError(f"job {job.id!r}: field seconds is needed to simulate it")
        row = self.board.add(job, self.now)
        if work and job.target is not None:
            work *= self.world.reach(job)
        self.work.add(row, max(work or 0.0, left or 0.0), self.now, left, self.world.save_every(job))
        return row

    def _happen(self, job_id: JobId, landing: bool) -> None:
        row = self.board.row(job_id)
        assert row is not None
        if landing:
            self.land(row)
            return
        self.work.set_rate(row, 0.0, self.now)
        self.work.left[row] = 0.0
        self._end(row, State.FINISHED)

    def _end(self, row: int, state: State) -> None:
        job_id = self.board.job(row).id
        self._settle(row, state)
        self._agenda.forget(job_id)
        self._stop_reasons.pop(job_id, None)
        if self._gangs is not None:
            self._gangs.forget(job_id)

    def _nodes_failed(self) -> None:
        """Takes nodes down and up, and judges each gang that has a replica on a node that went down."""
        assert self._node_faults is not None
        down, up = self._node_faults.change(self.now)
        board = self.board
        held = [*board.placements().items(), *((row, flight.towards) for row, flight in board.flights().items())]
        for row, placement in held:
            if placement and board.state(row) in _UP and not down.isdisjoint(placement.used_nodes()):
                self._judge(row, placement, down)
        if down or up:
            board.set_nodes(with_ready(board.nodes, down, up))

    def _replicas_ended(self) -> None:
        assert self._gangs is not None
        for job_id in self._gangs.due(self.now):
            row = self.board.row(job_id)
            placement = None if row is None else self.board.placement(row)
            if row is not None and placement is not None and self.board.state(row) in TRAINING:
                self._judge(row, placement, frozenset())

    def _judge(self, row: int, placement: Placement, down: AbstractSet[int]) -> None:
        assert self._gangs is not None
        board = self.board
        job, starting = board.job(row), board.state(row) not in TRAINING
        verdict = self._gangs.verdict(job, placement, board.nodes, self.now, down=down, starting=starting)
        match verdict.state:
            case GangState.DONE:
                self._happen(job.id, landing=False)
            case GangState.FAILED if self._gangs.may_retry(job):
                self._interrupt(row, verdict.why)
            case GangState.FAILED:
                self._fail(row, verdict.why)
            case GangState.LOST:
                done = float(self.work.total[row]) - self.work.left_at(row, self.now)
                losses = self._gangs.lose(job, self.now, done)
                if losses.too_many(self._gangs.limits.of(job.restarts)):
                    self._fail(row, losses.sentence(verdict.why))
                else:
                    self._interrupt(row, verdict.why)

    def _fail(self, row: int, why: str) -> None:
        self.work.set_rate(row, 0.0, self.now)
        self.board.note(self.board.job(row).id, why)
        self._end(row, State.FAILED)

    def _interrupt(self, row: int, why: str) -> None:
        """The gang is lost: the job waits and goes on from its last checkpoint."""
        job = self.board.job(row)
        training = self.board.state(row) in TRAINING
        cancelled = self._stop_reasons.pop(job.id, None) is Because.CANCELLED
        self.work.set_rate(row, 0.0, self.now)
        self._settle(row, State.CANCELLED if cancelled else State.WAITING)
        self._agenda.forget(job.id)
        lost = self.work.lose(row) if training else 0.0
        if lost:
            attained: float = self.board.table.get("attained", row)
            self.board.saved(row, max(0.0, attained - lost))
            self.board.rewind(row)
        self.board.note(job.id, f"{why}: {lost:.0f} s of training are lost" if training else why)

    # ── decisions ───────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, decision: Decision) -> None:
        if isinstance(decision, Reserve):
            return
        board, job_id = self.board, decision.job
        row = board.row(job_id)
        assert row is not None
        state, towards = board.aim(row, decision)
        ends = state in _DOWN or (state is State.SCALING and board.job(row).saves_itself)
        seconds = self.world.costs.of(decision, board.placement(row), board.job(row))
        if ends:
            self.work.set_rate(row, 0.0, self.now)
            self.work.save(row)
            self._agenda.ends.pop(job_id, None)
            board.saved(row, board.trained_seconds(row, self.now))
        if isinstance(decision, Stop):
            self._stop_reasons[job_id] = decision.because
        board.begin(row, state, towards, self.now, self.now + seconds)
        if seconds > 0:
            self._agenda.expect(self.now + seconds, job_id, self._agenda.landings)
            if ends:
                self._rates.put(row, None, self.now)
        else:
            self.land(row)

    def land(self, row: int) -> None:
        """Ends a change in flight: the job is up in its new place, stopped, or refused."""
        board, job = self.board, self.board.job(row)
        flight = board.flight(row)
        assert flight is not None
        if flight.towards is None:
            cancelled = self._stop_reasons.pop(job.id, None) is Because.CANCELLED
            self._settle(row, State.CANCELLED if cancelled else State.WAITING)
            self.work.at[row] = self.now
            self._again = True
            return
        if not self._comes_up(row):
            return
        board.settle(row, State.RUNNING, flight.towards, self.now)
        self._rates.put(row, flight.towards, self.now)
        self._rates.retime(row, self.now)

    def _comes_up(self, row: int) -> bool:
        """Whether a gang that starts comes up. If a node refuses a replica, the job waits again or fails."""
        if self._gangs is None:
            return True
        job = self.board.job(row)
        if self.board.state(row) not in (State.STARTING, State.MOVING) or self._gangs.start(job, self.now):
            return True
        self._again = True
        if too_often := self._gangs.refused_too_often(job):
            self._fail(row, too_often)
            return False
        self._settle(row, State.WAITING)
        self.board.note(job.id, "a node refused a replica: the gang was released whole")
        return False

    def resume(self, row: int) -> None:
        """Goes on with a job that already trained before this simulation began."""
        self._rates.put(row, self.board.placement(row), self.now)
        self._rates.retime(row, self.now)

    def snapshot_now(self) -> None:
        """The next snapshot is of the present instant."""
        self._again = True

    def resume_change(self, row: int, until: float) -> None:
        """Goes on with a change that was in flight already. If its duration is unknown, it ends at once."""
        lands = until if self.now <= until < math.inf else self.now
        self._agenda.expect(lands, self.board.job(row).id, self._agenda.landings)

    def _settle(self, row: int, state: State) -> None:
        """Puts the job into a state in which it holds no resources."""
        self.board.settle(row, state, None, self.now)
        self._rates.put(row, None, self.now)

    def _compacted(self, kept: list[int]) -> None:
        self.work.renumber(kept)
        self._rates.renumber(kept)
        if self._reporter is not None:
            self._reporter.renumber(kept)
