from __future__ import annotations

import numpy as np

from headway.core.draft import Draft
from headway.core.placement import Placement
from headway.core.plan import Because, Resize, Scale, Start, Stop
from headway.core.states import State
from make import a_job, a_role, a_snapshot, flying, running, some_nodes


def test_a_draft_leaves_the_snapshot_alone():
    snapshot = a_snapshot(a_job("a", gpus=2), nodes=some_nodes(2))
    before = snapshot.free.copy()
    draft = Draft(snapshot)
    draft.start(0, Placement(((0, 0),)))
    assert (snapshot.free == before).all()
    assert draft.free.tolist() == [[2, 4]]
    assert draft.plan().decisions == (Start("a", Placement(((0, 0),))),)


def test_a_trial_that_fails_leaves_the_draft_alone():
    draft = Draft(a_snapshot(a_job("a"), running(a_job("b", gpus=2), (0, 0)), nodes=some_nodes(1)))
    trial = draft.copy()
    trial.stop(1)
    trial.start(0, Placement(((0,),)))
    assert draft.free.tolist() == [[2]]
    assert not draft.plan().decisions
    draft.adopt(trial)
    assert draft.free.tolist() == [[1]]
    assert [type(decision) for decision in draft.plan().decisions] == [Stop, Start]


def test_what_is_stopped_is_coming_but_not_free():
    draft = Draft(a_snapshot(running(a_job("b", gpus=3), (0, 0, 0)), nodes=some_nodes(1)))
    draft.stop(0, Because.SUSPENDED)
    assert draft.free.tolist() == [[1]]
    assert draft.soon().tolist() == [[4]]


def test_what_earlier_plans_have_stopped_is_coming_too():
    stopping = flying(a_job("b", gpus=3), State.STOPPING, at=Placement(((0, 0, 0),)))
    draft = Draft(a_snapshot(stopping, nodes=some_nodes(1)))
    assert draft.free.tolist() == [[1]]
    assert draft.soon().tolist() == [[4]]


def test_scale_takes_for_the_new_and_gives_back_later():
    role = a_role(replicas=2, min=1, max=4)
    draft = Draft(a_snapshot(running(a_job("a", roles=[role]), (0, 0)), nodes=some_nodes(2)))
    draft.scale(0, 0, (0, 1, 1))
    assert draft.free.tolist() == [[2, 2]]
    assert draft.soon().tolist() == [[3, 2]]
    assert draft.plan().decisions == (Scale("a", "worker", (0, 1, 1)),)


def test_resize_takes_the_growth_only():
    role = a_role(cpu=1, memory=100)
    nodes = some_nodes(1, gpus=0, cpu=4, memory=1000)
    draft = Draft(a_snapshot(running(a_job("a", roles=[role]), (0,)), nodes=nodes))
    draft.resize(0, 0, 2500, 50)
    assert draft.free[:, 0].tolist() == [1500, 900]
    assert np.asarray(draft.soon())[:, 0].tolist() == [1500, 950]
    assert draft.plan().decisions == (Resize("a", "worker", 2500, 50),)


def test_waking_keeps_the_earliest_moment_that_is_not_past():
    draft = Draft(a_snapshot(now=10.0))
    for at in (5.0, 30.0, 20.0, 40.0):
        draft.wake(at)
    assert draft.plan().until == 20.0
