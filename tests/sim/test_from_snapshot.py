"""A simulation from a snapshot goes on as the original would have."""

from __future__ import annotations

import pytest

from headway.core.states import State
from headway.cycle.loop import decide
from headway.estimates.plain_books import OracleBook
from headway.policies.registry import POLICIES
from headway.sim.cluster import Costs, SimCluster, SimulationError, World
from headway.sim.from_snapshot import from_snapshot
from make import a_job, a_snapshot, flying, running, some_nodes, waiting

NODES = some_nodes(2, gpus=4)


def _ends(sim: SimCluster, policy: str, cut: int | None = None):
    """When each job finishes; with a cut, the annotated snapshot at that cycle too, before anything is decided."""
    chosen, book, ends, cycle = POLICIES[policy](), OracleBook(sim.truth), {}, 0
    while (snapshot := sim.next_snapshot()) is not None:
        states = {str(snapshot.jobs.job(row).id): snapshot.jobs.state_of(row) for row in snapshot.changed}
        ends |= {job: snapshot.now for job, state in states.items() if state is State.FINISHED}
        annotated = book.annotate(snapshot)
        if cycle == cut:
            return ends, annotated
        sim.apply(decide(chosen, annotated).plan)
        cycle += 1
    return ends, None


@pytest.mark.parametrize("cut", [1, 5, 11, 20])
@pytest.mark.parametrize("policy", ["first-fit", "fifo", "adaptive"])
def test_the_rest_of_a_run_is_the_same_from_any_snapshot(policy, cut) -> None:
    world = World(costs=Costs(start=2.0, save=1.0, stop=1.0, scale=3.0))
    jobs = [a_job(f"j{i:02}", 1 + i % 4, seconds=20.0 + 3 * i, submit=float(2 * i), min=1, max=6) for i in range(16)]
    whole, _ = _ends(SimCluster(NODES, jobs, world), policy)
    before, snapshot = _ends(SimCluster(NODES, jobs, world), policy, cut)
    assert snapshot is not None
    later = [job for job in jobs if job.submit > snapshot.now]
    sim = from_snapshot(snapshot, world, later)
    after, _ = _ends(sim, policy)
    assert {**before, **after}.keys() == whole.keys()
    if policy != "adaptive":  # which looks at when it last touched a job, and wakes by the clock
        assert {**before, **after} == pytest.approx(whole)


def test_what_is_in_flight_lands_and_what_runs_goes_on() -> None:
    snapshot = a_snapshot(
        running(a_job("runs", 2, seconds=10.0), [0, 0], since=4.0),
        flying(a_job("stops", 2, seconds=10.0), State.STOPPING, at=running(a_job(), [1, 1]).placement, since=5.0),
        waiting(a_job("waits", 1, seconds=3.0)),
        nodes=NODES, now=7.0,
    )  # fmt: skip
    sim = from_snapshot(snapshot)
    ends, _ = _ends(sim, "first-fit")
    assert ends["runs"] == pytest.approx(14.0)
    assert ends["waits"] == pytest.approx(10.0)
    assert ends["stops"] == pytest.approx(605.0 + 10.0)


def test_work_left_comes_from_estimates_before_declarations() -> None:
    job = a_job("a", 2, seconds=100.0)
    snapshot = a_snapshot(running(job, [0, 0], since=0.0), nodes=NODES, now=7.0, left={"a": 5.0})
    ends, _ = _ends(from_snapshot(snapshot), "first-fit")
    assert ends == {"a": 12.0}


def test_a_job_of_which_nothing_is_known_is_named() -> None:
    snapshot = a_snapshot(waiting(a_job("riddle")), nodes=NODES, left={})
    with pytest.raises(SimulationError, match="job 'riddle': field seconds"):
        from_snapshot(snapshot)
