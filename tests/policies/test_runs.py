"""Every policy runs a small mixed workload to its end: no refusals, nobody forgotten, nobody stopped over and over."""

from __future__ import annotations

import random

import pytest

from headway.core.job import Job
from headway.core.plan import Start, Stop
from headway.core.states import State
from headway.cycle.loop import Decided, run
from headway.estimates.plain_books import OracleBook
from headway.policies.registry import POLICIES
from headway.sim.cluster import Costs, SimCluster, World
from make import a_job, a_role, some_nodes

COSTS = {"free": Costs(), "costly": Costs(start=5, save=3, stop=2, scale=4)}


def workload(count: int = 24) -> list[Job]:
    dice = random.Random(7)
    jobs, submit = [], 0.0
    for number in range(count):
        submit += dice.expovariate(1 / 60)
        width, seconds = dice.choice([1, 2, 4, 8]), dice.choice([60, 300, 900]) * dice.uniform(0.5, 1.5)
        workers = a_role("worker", width, min=max(1, width // 2), max=2 * width, gpu=1, cpu=1, near=("ps",))
        servers = [a_role("ps", max(1, width // 4), min=1, max=4, cpu=2)] if dice.random() < 0.4 else []
        deadline = submit + seconds * dice.uniform(0.8, 3.0)
        user = dice.choice(["ann", "bob"])
        jobs.append(
            a_job(f"j{number}", roles=[*servers, workers], submit=submit, seconds=seconds, user=user, deadline=deadline)
        )
    return jobs


@pytest.mark.parametrize("costs", sorted(COSTS))
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_runs_to_the_end(name: str, costs: str) -> None:
    jobs = workload()
    sim = SimCluster(some_nodes(4, gpus=4, cpu=16), jobs, World(costs=COSTS[costs], samples=False))
    cycles, done = 0, 0
    stopped: dict[str, float] = {}

    def observe(decided: Decided) -> None:
        nonlocal cycles, done
        cycles += 1
        done += sum(decided.snapshot.jobs.state_of(row) is State.FINISHED for row in decided.snapshot.changed)
        assert decided.refusals == ()
        assert cycles < 60 * len(jobs), "it decides over and over"
        for decision in decided.plan.decisions:
            if isinstance(decision, Stop):
                stopped[decision.job] = decided.snapshot.now
            if isinstance(decision, Start):
                assert stopped.get(decision.job) != decided.snapshot.now, "stopped and started again at once"

    run(sim, POLICIES[name](), OracleBook(sim.truth), observe)
    assert sim.board.unfinished == 0
    assert done == len(jobs)
