"""The simulator with random decisions in random worlds: what must hold after every step."""

from __future__ import annotations

import math
import random

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headway.core.job import JobId
from headway.core.node import Node, Nodes
from headway.core.placement import Placement, take
from headway.core.plan import Because, Move, Plan, Resize, Scale, Start, Stop
from headway.core.states import OVER, TRAINING, State
from headway.cycle.loop import decide
from headway.sim.cluster import Costs, SimCluster, World
from headway.sim.faults import Faults
from headway.sim.sharing import Sharing
from make import a_job, a_role

NODES = Nodes.of(
    Node(name=f"n{i}", capacity=(("cpu", 8000), ("gpu", 4)), domain=f"rack{i // 2}", accelerator=("t4", "v100")[i % 2])
    for i in range(3)
)
ONE = a_role(replicas=2, gpu=1, cpu=1, min=1, max=4, limit=(("cpu", 4000),))
PS = (a_role("ps", 1, cpu=1), a_role("worker", 2, gpu=1, cpu=1, near=("ps",), min=2, max=3))
SECONDS = st.sampled_from((0.0, 1.0, 2.5, 10.0, 40.0))
WORLDS = st.builds(
    World,
    costs=st.builds(Costs, start=SECONDS, save=SECONDS, stop=SECONDS, scale=SECONDS, resize=SECONDS),
    sharing=st.builds(Sharing, cpu=st.booleans(), neighbour_loss=st.sampled_from((0.0, 0.3))),
    faults=st.builds(
        Faults, mean_seconds_between=st.sampled_from((0.0, 30.0, 200.0)), mean_repair_seconds=st.just(15.0),
        refused_starts=st.sampled_from((0.0, 0.4)), stragglers=st.sampled_from((0.0, 0.5)),
    ),
    checkpoint_seconds=st.sampled_from((0.0, 5.0)),
    seed=st.integers(0, 3),
)  # fmt: skip
JOBS = st.lists(st.tuples(SECONDS, SECONDS, st.booleans(), st.booleans()), min_size=1, max_size=8)


class Life(RuleBasedStateMachine):
    """Each step draws decisions at random, lets the check take out what is not allowed, and applies the rest."""

    @initialize(world=WORLDS, jobs=JOBS)
    def begin(self, world, jobs) -> None:
        made = [
            a_job(
                f"j{i}", roles=PS if servers else (ONE,), submit=submit, seconds=seconds, steps=100, checkpoints=saves
            )
            for i, (submit, seconds, servers, saves) in enumerate(jobs)
        ]
        self.sim = SimCluster(NODES, made, world)
        self.twin = SimCluster(NODES, made, world)
        self.ended = False
        self.then = -math.inf
        self.done = {job.id: 0.0 for job in made}
        self.total = {job.id: job.seconds for job in made}
        self.rates: dict[JobId, float] = {}

    @precondition(lambda self: hasattr(self, "sim") and not self.ended)
    @rule(dice=st.integers(0, 2**32), eager=st.floats(0, 1))
    def step(self, dice, eager) -> None:
        snapshot, same = self.sim.next_snapshot(), self.twin.next_snapshot()
        if snapshot is None:
            assert same is None
            self.ended = True
            return
        assert same is not None
        assert (snapshot.now, snapshot.changed, snapshot.notes) == (same.now, same.changed, same.notes)
        assert snapshot.samples == same.samples
        assert snapshot.now >= self.then, "time went back"
        self._integrate(snapshot)
        columns = {name: snapshot.jobs.column(name).copy() for name in ("state", "attained", "saved")}
        plan = decide(lambda s: _anything(s, random.Random(dice), eager), snapshot).plan
        self.sim.apply(plan)
        self.twin.apply(plan)
        for name, column in columns.items():
            assert np.array_equal(snapshot.jobs.column(name), column), "the snapshot changed"
        self._note_rates()

    @precondition(lambda self: hasattr(self, "sim") and self.ended)
    @rule()
    def end_stays_the_end(self) -> None:
        assert self.sim.next_snapshot() is None

    def _integrate(self, snapshot) -> None:
        """Work done since, by rates that were true since; what was lost is taken off again."""
        seconds = snapshot.now - self.then if math.isfinite(self.then) else 0.0
        for job_id, rate in self.rates.items():
            self.done[job_id] += rate * seconds
        self.then = snapshot.now
        for row in snapshot.changed:
            job, left = snapshot.jobs.job(row), self.sim.work.left_at(row, snapshot.now)
            true = self.total[job.id] - left
            lost = any(name == job.id and "lost" in sentence for name, sentence in snapshot.notes)
            if snapshot.jobs.state_of(row) is State.FINISHED:
                assert abs(self.done[job.id] - self.total[job.id]) < 1e-6 * max(1, self.total[job.id])
            elif lost:
                assert true <= self.done[job.id] + 1e-6
                self.done[job.id] = true
            else:
                assert abs(self.done[job.id] - true) < 1e-6 * max(1.0, true)

    def _note_rates(self) -> None:
        board = self.sim.board
        self.rates = {
            board.job(row).id: float(self.sim.work.rate[row])
            for row in range(board.table.count)
            if board.state(row) in TRAINING
        }

    @invariant()
    def capacity_adds_up(self) -> None:
        if not hasattr(self, "sim"):
            return
        board = self.sim.board
        free = np.where(board.nodes.ready, board.nodes.capacity, 0).astype(np.int32)
        for row, held in board._held.items():
            for placement in held:
                take(free, placement, board.table.shapes[board.table.get("shape", row)])
        assert np.array_equal(free, board._free)
        assert (free >= 0).all()

    @invariant()
    def gangs_are_whole_and_somewhere(self) -> None:
        if not hasattr(self, "sim"):
            return
        board = self.sim.board
        for row in range(board.table.count):
            state, placement = board.state(row), board.placement(row)
            if state in TRAINING:
                assert placement is not None
                roles = board.job(row).roles
                assert all(len(nodes) >= role.min for nodes, role in zip(placement.nodes, roles, strict=True))
                assert all(board.nodes.ready[node] for node in placement.used_nodes())
            elif state in OVER or state is State.WAITING:
                assert placement is None
                assert board.flight(row) is None
                assert not self.sim.work.rate[row]


def _anything(snapshot, dice: random.Random, eager: float) -> Plan:
    decisions = []
    for row in range(snapshot.jobs.count):
        if dice.random() > eager:
            continue
        job, state = snapshot.jobs.job(row), snapshot.jobs.state_of(row)
        counts = [dice.randint(role.min, role.max) for role in job.roles]
        where = Placement(tuple(tuple(dice.randrange(3) for _ in range(count)) for count in counts))
        if state is State.WAITING:
            decisions.append(Start(job.id, where))
        elif state is State.RUNNING:
            role = dice.randrange(len(job.roles))
            kept = tuple(tuple(dice.randrange(3) for _ in nodes) for nodes in snapshot.placements[row].nodes)
            decisions.append(
                dice.choice(
                    (
                        Stop(job.id, dice.choice((Because.PREEMPTED, Because.RECLAIMED, Because.CANCELLED))),
                        Move(job.id, Placement(kept, snapshot.placements[row].requests)),
                        Scale(job.id, job.roles[role].name, where.nodes[role]),
                        Resize(job.id, job.roles[role].name, dice.choice((500, 1000, 3000)), 1),
                    )
                )
            )
    return Plan(tuple(decisions), snapshot.now + dice.choice((1.0, 7.0, math.inf)))


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, deadline=None, stateful_step_count=40)
