"""Starting waiting jobs at a size of their own."""

from __future__ import annotations

import pytest

from headway.core.draft import Draft
from headway.core.plan import Start
from headway.policies.steps.elastic_start import smallest_first, start_elastic, starting_sizes
from headway.policies.value.terms import Terms
from headway.policies.value.worth import Worth
from make import a_job, a_snapshot, some_nodes, waiting


def linear(_job, counts):
    return float(counts[0])


def root(_job, counts):
    return float(counts[0]) ** 0.5


def knee(_job, counts):
    return float(min(counts[0], 2))


SIZES = [
    ("alone it takes all that helps", {"a": 1}, linear, 8, {"a": 8}),
    ("never beyond the size at which it is fastest", {"a": 1}, knee, 8, {"a": 2}),
    ("two alike share", {"a": 1, "b": 1}, root, 4, {"a": 2, "b": 2}),
    ("the min of each comes first", {"a": 1, "b": 1}, linear, 2, {"a": 1, "b": 1}),
    ("what does not fit at its min gets nothing", {"a": 2, "b": 2}, linear, 3, {"a": 3}),
]


@pytest.mark.parametrize(("why", "leasts", "speed", "gpus", "sizes"), SIZES)
def test_sizes_of_newcomers(why, leasts, speed, gpus, sizes):
    jobs = [a_job(name, least, min=least, max=8, seconds=5000.0) for name, least in leasts.items()]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=gpus), speed=speed)
    draft = Draft(snapshot)
    worth = Worth(snapshot, Terms())
    found = starting_sizes(draft, list(range(len(jobs))), worth)
    assert {snapshot.jobs.job(row).id: counts[0] for row, counts in found.items()} == sizes, why
    start_elastic(draft, snapshot.jobs.waiting(), worth)
    starts = {one.job: one.placement.width() for one in draft.plan().decisions if isinstance(one, Start)}
    assert starts == sizes, why


ORDER = [
    ("the smallest area first", 0.5, 1e9, ["short", "long", "wide"]),
    ("without favour by arrival", 0.0, 1e9, ["wide", "long", "short"]),
    ("a job that has waited long comes first", 0.5, 100.0, ["wide", "short", "long"]),
]


@pytest.mark.parametrize(("why", "favour", "patience", "order"), ORDER)
def test_smallest_first(why, favour, patience, order):
    jobs = (
        waiting(a_job("wide", 4, seconds=900.0), since=0.0),
        waiting(a_job("long", seconds=1000.0), since=950.0), waiting(a_job("short", seconds=10.0), since=950.0),
    )  # fmt: skip
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=4), now=1000.0)
    rows = smallest_first(Worth(snapshot, Terms(favour=favour)), snapshot.jobs.waiting(), patience)
    assert [snapshot.jobs.job(row).id for row in rows.tolist()] == order, why
