"""The rate at which each simulated job trains, and therefore when it ends."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.board import Board
from headway.core.job import Job, computes
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.quantity import CPU
from headway.core.states import TRAINING
from headway.estimates.models.profiles import AllReduce, Layout, ProfileForm, Servers
from headway.sim.agenda import Agenda
from headway.sim.gangs import Gangs
from headway.sim.sharing import Tenants
from headway.sim.speed import ALONE, SharingEffect, Speed, SpeedOf
from headway.sim.work import Work
from headway.sim.world import World


def used_cores(speed: SpeedOf, job: Job, placement: Placement, nodes: Nodes, effect: SharingEffect) -> float | None:
    """Cores used by all replicas together; None if usage is not measured."""
    if effect.cpu is not None:
        parallel = speed.parallel_cpu if isinstance(speed, Speed) else 1.0
        each = (_shared(role.amount(CPU), cpu, parallel) for role, cpu in zip(job.roles, effect.cpu, strict=True))
        return sum(cpu * len(at) for cpu, at in zip(each, placement.nodes, strict=True)) / 1000
    return _metered(speed, job, placement, nodes) if isinstance(speed, Speed) and speed.metered else None


def _shared(asked: float, cpu: float, parallel: float) -> float:
    """Mean cpu use of one replica. In its serial part it uses no more than its request."""
    return cpu if cpu <= asked or asked <= 0 else asked / ((1.0 - parallel) + parallel * asked / cpu)


def _metered(speed: Speed, job: Job, placement: Placement, nodes: Nodes) -> float:
    if CPU not in nodes.kinds or any(len(at) < role.min for role, at in zip(job.roles, placement.nodes, strict=True)):
        return 0.0
    profile, kind, used = speed.profiles.get(job.model), nodes.kinds.index(CPU), 0.0
    busy = 1.0 if profile is None else computing(profile.form, Layout.of(job, placement))
    for number, (role, where) in enumerate(zip(job.roles, placement.nodes, strict=True)):
        vector = None if placement.requests is None else placement.requests[number]
        has = role.amount(CPU) if vector is None else vector[kind]
        if computes(role.name):
            used += len(where) * busy * min(has, speed.needs.get(job.id, 1.0) * role.amount(CPU))
        else:
            used += len(where) * (1.0 - busy) * has
    return used / 1000.0


def computing(form: ProfileForm, layout: Layout) -> float:
    """The share of a step during which workers compute."""
    throughput = form(layout)
    if throughput <= 0:
        return 0.0
    match form:
        case Servers():
            return min(1.0, (form.a * form.batch / layout.workers + form.b) * throughput / form.batch)
        case AllReduce():
            return min(1.0, form.compute * throughput / layout.workers)
    return 1.0


class Rates:
    __slots__ = ("_agenda", "_board", "_gangs", "_tenants", "_work", "_world")

    def __init__(self, world: World, board: Board, work: Work, agenda: Agenda, gangs: Gangs | None) -> None:
        self._world, self._board, self._work, self._agenda, self._gangs = world, board, work, agenda, gangs
        self._tenants = Tenants(world.sharing, board) if world.sharing else None

    def put(self, row: int, placement: Placement | None, now: float) -> None:
        """Tells where the job is from now on (None: nowhere). Neighbours whose rate that changes get a new end."""
        if self._tenants is not None:
            self._notice(self._tenants.put(row, placement), now)

    def retime(self, row: int, now: float) -> bool:
        """Computes the job's present rate. Where it changed, books the work done so far and sets a new end."""
        board, world = self._board, self._world
        job, placement = board.job(row), board.placement(row)
        assert placement is not None
        effect = ALONE if self._tenants is None else self._tenants.effect(row)
        rate = world.speed(job, placement, board.nodes, effect)
        if (cores := used_cores(world.speed, job, placement, board.nodes, effect)) is not None:
            board.uses(row, cores)
        if effect.neighbours:
            rate *= 1.0 - world.sharing.neighbour_loss * effect.neighbours
        if self._gangs is not None:
            rate *= self._gangs.speed(job.id)
        work, agenda = self._work, self._agenda
        if world.costs.save and work.every.item(row) and rate > 0:
            rate *= world.trains(work.total.item(row) / rate, work.every.item(row))
        if rate == work.rate.item(row) and job.id in agenda.ends:
            return False
        if rate != 1.0:
            work.plain = False
        left = work.set_rate(row, rate, now)
        if rate > 0:
            agenda.expect(now + left / rate, job.id, agenda.ends)
        else:
            agenda.ends.pop(job.id, None)
        return True

    def renumber(self, kept: list[int]) -> None:
        if self._tenants is not None:
            self._tenants.renumber(kept)

    def _notice(self, rows: Iterable[int], now: float) -> None:
        for row in sorted(rows):
            if self._board.state(row) in TRAINING and self.retime(row, now):
                self._board.touch(row)
