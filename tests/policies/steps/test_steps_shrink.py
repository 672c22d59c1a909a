"""Shrinking running jobs for a waiting one."""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.plan import Scale
from headway.policies.elastic import Elastic
from headway.policies.steps.shrink import shrink_for
from headway.policies.value.terms import Terms
from headway.policies.value.worth import Worth
from make import a_job, a_snapshot, decided, running, some_nodes, waiting

STILL = Terms(cool_down=0.0, restart=0.0, margin=0.0)


def linear(job, counts):
    return counts[0] / job.roles[0].replicas


def elastic_job(name, gpus=1, *, least=1, most=8, **more):
    return a_job(name, gpus, min=least, max=most, **more)


def test_others_shrink_only_for_what_is_worth_more():
    """The newcomer asks one GPU of a job that loses as much by it: a short one gets it at once, a long one later."""

    def at(left, waited=100.0):
        return Elastic(patience=3600.0)(
            a_snapshot(
                running(elastic_job("a", 4), [0] * 4, touched=0.0, since=0.0),
                waiting(a_job("new"), since=5000.0 - waited),
                nodes=some_nodes(1, gpus=4), now=5000.0, left={"a": 1000, "new": left}, speed=linear,
            )
        )  # fmt: skip

    assert at(100.0).decisions == (Scale("a", "worker", (0, 0, 0)),)
    assert at(100_000.0).decisions == ()
    assert at(100_000.0, waited=3600.0).decisions == (Scale("a", "worker", (0, 0, 0)),)
    assert at(100_000.0).until == 5000.0 + 3500.0


def test_room_is_made_whole_or_not_at_all_and_by_no_more_than_are_needed():
    """A rigid job of three: two can give one each, which is not enough; with a third it is, and a fourth keeps all."""

    def at(givers):
        jobs = [running(elastic_job(f"g{n}", 2, least=1, most=2), [0, 0]) for n in range(givers)]
        rest = 8 - 2 * givers
        others = [running(a_job("rest", rest), [0] * rest)] if rest else []
        snapshot = a_snapshot(
            *jobs, *others, waiting(a_job("new", 3)), nodes=some_nodes(1, gpus=8), now=1000.0,
            left={"new": 1} | {f"g{n}": 9000 + n for n in range(givers)}, speed=linear,
        )  # fmt: skip
        draft = Draft(snapshot)
        row = snapshot.jobs.row_of["new"]
        found = shrink_for(draft, row, [(3,)], Worth(snapshot, STILL))
        return found, decided(draft.plan())

    assert at(2) == (None, {})
    placement, plan = at(4)
    assert placement.nodes == ((0, 0, 0),)
    assert len(plan) == 3
