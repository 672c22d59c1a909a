"""Which running jobs make room for a waiting one."""

from __future__ import annotations

import pytest

from headway.core.draft import Draft
from headway.core.placement import Placement, take
from headway.policies.placing.pack import place_asked
from headway.policies.steps.victims import fewest_to_stop, still_needed
from make import a_job, a_role, a_snapshot, running, some_nodes

FEWEST = [
    ("the first is enough", 1, [1, 2, 3], [1]),
    ("two on one node", 2, [1, 2, 3], [2, 1]),
    ("the first is spared where the others are enough", 2, [3, 1, 2], [2, 1]),
    ("all are not enough", 2, [1, 3], None),
    ("no victims", 1, [], None),
]


@pytest.mark.parametrize(("why", "gpus", "victims", "stopped"), FEWEST)
def test_as_few_as_will_do(why, gpus, victims, stopped):
    """Two nodes of two GPUs: b and c are on the first, d on the second beside a job that stays."""
    new = a_job("new", gpus) if gpus == 1 else a_job("new", roles=[a_role(gpu=gpus)])
    up = [running(a_job(name), [node]) for name, node in (("b", 0), ("c", 0), ("d", 1), ("stays", 1))]
    snapshot = a_snapshot(new, *up, nodes=some_nodes(2, gpus=2))
    found = fewest_to_stop(
        snapshot, Draft(snapshot).soon(), 0, iter(victims), lambda pot: place_asked(snapshot, pot, 0)
    )
    assert (None if found is None else found[1]) == stopped, why
    assert (snapshot.free == 0).all(), "the snapshot is as it was"


def test_a_smaller_size_is_needed_only_where_its_room_is_used():
    up = [running(a_job(name, 2, min=1, max=2), [node, node]) for name, node in (("a", 0), ("b", 1))]
    snapshot = a_snapshot(*up, a_job("new"), nodes=some_nodes(2, gpus=2))
    after = {0: Placement(((0,),)), 1: Placement(((1,),))}
    pot = snapshot.free.copy()
    pot[:] = [[1, 1]]
    take(pot, Placement(((1,),)), snapshot.jobs.shape_at(2))
    assert still_needed(snapshot, pot, after) == [1]
