"""Starting jobs in order: what fits, what blocks, what waits."""

from __future__ import annotations

from headway.core.draft import Draft
from headway.policies.steps.start import may_fit
from make import a_job, a_snapshot, running, some_nodes


def test_counting_leaves_out_shapes_without_room() -> None:
    waiting = [a_job(f"a{number}", 2) for number in range(40)]
    snapshot = a_snapshot(running(a_job("up", 3), [0] * 3), *waiting, a_job("b", 1), nodes=some_nodes(1, gpus=4))
    rows = may_fit(Draft(snapshot), snapshot.jobs.waiting())
    assert [snapshot.jobs.job(int(row)).id for row in rows] == ["b"]
