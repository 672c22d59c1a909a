"""The gang rule in virtual time, by the table of cases."""

from __future__ import annotations

import pytest

from gang_cases import CASES, MEMORY, NODE, Case
from headway.core.node import Node, Nodes
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.plain_books import DeclaredBook
from headway.policies.baselines.fifo import first_fit
from headway.sim.cluster import SimCluster, World
from headway.sim.faults import Faults, Outage, ReplicaExit
from make import a_job, a_role


def _faults(case: Case) -> Faults:
    exits, outages = [], []
    for exit_ in case.exits:
        if exit_.code == NODE:
            outages.append(Outage("left", exit_.after, 5.0))
            continue
        code = exit_.code if isinstance(exit_.code, int) else 137
        exits.append(ReplicaExit(
            job="gang", role=exit_.role, index=exit_.index, after=exit_.after, code=code,
            out_of_memory=exit_.code == MEMORY, attempt=0 if case.every_attempt else 1,
        ))  # fmt: skip
    return Faults(exits=tuple(exits), outages=tuple(outages))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table_of_cases_in_virtual_time(case):
    nodes = Nodes.of([Node(name=name, capacity=(("cpu", 400),)) for name in ("left", "right")])
    cluster = SimCluster(nodes, [case.job], World(faults=_faults(case)))
    states, notes = [], []

    def policy(snapshot):
        states.append(snapshot.jobs.state_of(0))
        notes.extend(sentence for _, sentence in snapshot.notes)
        return first_fit(snapshot)

    run(cluster, policy, DeclaredBook())
    assert states[-1] is (State.FAILED if case.outcome == "failed" else State.FINISHED)
    assert (State.WAITING in states[1:]) is (case.outcome == "restarted" or case.every_attempt)
    assert cluster.now >= case.not_before
    assert bool(notes) is (case.outcome != "finished"), "what went wrong is told"


@pytest.mark.parametrize(
    ("retries", "rule", "outcome"),
    [
        (0, {}, State.FAILED), (1, {}, State.FINISHED), (1, {"retry_on": (2, "a text")}, State.FAILED),
        (1, {"retry_on": (1,)}, State.FINISHED), (1, {"retry_not_on": (1,)}, State.FAILED),
    ],
)  # fmt: skip
def test_a_job_that_fails_once_is_tried_again_as_it_says(retries, rule, outcome):
    nodes = Nodes.of([Node(name="only", capacity=(("cpu", 400),))])
    job = a_job("a", roles=[a_role(cpu=0.1)], seconds=60.0, retries=retries, **rule)
    fault = ReplicaExit(job="a", role="worker", index=0, after=5.0, code=1, attempt=1)
    cluster = SimCluster(nodes, [job], World(faults=Faults(exits=(fault,))))
    run(cluster, first_fit, DeclaredBook())
    assert cluster.board.state(0) is outcome


def test_a_start_that_is_always_refused_fails_in_the_end():
    case = CASES[0]
    nodes = Nodes.of([Node(name="only", capacity=(("cpu", 400),))])
    cluster = SimCluster(nodes, [case.job], World(faults=Faults(refused_starts=1.0)))
    notes = []

    def policy(snapshot):
        notes.extend(sentence for _, sentence in snapshot.notes)
        return first_fit(snapshot)

    run(cluster, policy, DeclaredBook())
    assert cluster.board.state(0) is State.FAILED
    assert "11 times in a row" in notes[-1]
