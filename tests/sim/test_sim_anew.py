"""A job that saves by itself starts anew with its new size: it is down for that time, which a live change is not."""

from __future__ import annotations

from headway.core.placement import Placement
from headway.core.plan import Plan, Scale, Start
from headway.cycle.loop import run
from headway.estimates.plain_books import NoEstimates
from headway.sim.cluster import Costs, SimCluster, World
from make import a_job, a_role, some_nodes

COSTS = Costs(start=5.0, save=1.0, stop=2.0, scale=8.0)


def end_of(*, saves_itself: bool) -> float:
    job = a_job("a", roles=[a_role(replicas=1, min=1, max=2)], seconds=100, saves_itself=saves_itself)
    cluster = SimCluster(some_nodes(1), [job], World(costs=COSTS))
    moments = []

    def policy(snapshot):
        moments.append(snapshot.now)
        row = 0
        if len(snapshot.jobs.waiting()):
            return Plan((Start(job.id, Placement(((0,),))),))
        grown = row in snapshot.placements and len(snapshot.placements[row].nodes[0]) == 2
        if grown or not len(snapshot.jobs.running()):
            return Plan()
        return Plan((Scale(job.id, "worker", (0, 0)),)) if snapshot.now >= 25.0 else Plan((), 25.0)

    run(cluster, policy, NoEstimates())
    return moments[-1]


def test_its_training_stands_still_while_it_starts_anew():
    live, anew = end_of(saves_itself=False), end_of(saves_itself=True)
    # eight seconds at the old pace are missing; two replicas, which are not twice as fast, need more than four for them
    assert live + 4.0 < anew < live + 6.0
