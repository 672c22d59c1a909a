"""Using sizes in a given order: start, shrink others, stop those far behind, grow when no job waits."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.draft import Draft
from headway.policies.steps.scale import AT_ONCE, FAR_BEHIND, HOPELESS, ROUNDS, use_sizes
from headway.policies.value.terms import Terms
from make import a_job, a_role, a_snapshot, decided, running, some_nodes

NOW = 10_000.0


def linear(_job, counts):
    return float(counts[0])


def plan(*entries, rank, patience=1e9, gpus=4):
    names = {entry.job.id if hasattr(entry, "job") else entry.id for entry in entries}
    snapshot = a_snapshot(
        *entries, nodes=some_nodes(1, gpus=gpus), now=NOW, left=dict.fromkeys(names, 5000.0), speed=linear
    )
    draft = Draft(snapshot)
    use_sizes(draft, np.array(rank), Terms(cool_down=60.0), patience)
    return decided(draft.plan())


def up(name, gpus, least=1, most=8, **job):
    return running(a_job(name, gpus, min=least, max=most, **job), [0] * gpus, touched=0.0)


CASES = [
    ("no job waits: it grows", (up("a", 2),), [0.0], {"a": "scale"}),
    ("there is room: it starts", (up("a", 3), a_job("new")), [0.0, 0.0], {"new": "start"}),
    ("no room: another shrinks", (up("a", 4), a_job("new")), [0.0, 0.0], {"a": "scale"}),
    ("it cannot shrink and ranks near", (up("a", 4, 4, 4), a_job("new")), [FAR_BEHIND, 0.0], {}),
    ("it ranks far behind", (up("a", 4, 4, 4), a_job("new")), [FAR_BEHIND + 1, 0.0], {"a": "stop"}),
    ("it may not be stopped", (up("a", 4, 4, 4, checkpoints=False), a_job("new")), [9e9, 0.0], {}),
]


@pytest.mark.parametrize(("why", "entries", "rank", "expected"), CASES)
def test_use_sizes(why, entries, rank, expected):
    assert plan(*entries, rank=rank) == expected, why


@pytest.mark.parametrize("count", [70, 500])
def test_jobs_that_fit_nowhere_do_not_keep_others_from_starting(count):
    """Anybody may submit a hundred of them. They are small, and rank first."""
    hopeless = [a_job(f"h{number}", gpus=9) for number in range(count)]
    assert plan(up("a", 1), *hopeless, a_job("new"), rank=[0.0, *range(count), 1e6])["new"] == "start"


def test_shapes_that_count_as_fitting_and_never_do_not_keep_others_from_starting():
    apart = [a_job(f"h{n}", roles=[a_role("x", gpu=1, apart=("x",), replicas=2, memory=n + 1)]) for n in range(100)]
    assert plan(up("a", 1), *apart, a_job("new"), rank=[0.0, *range(100), 1e6])["new"] == "start"


def test_more_such_shapes_than_are_tried_in_one_plan_keep_no_other_user_from_starting():
    many = AT_ONCE * ROUNDS + 10
    apart = [
        a_job(f"h{n}", roles=[a_role("x", gpu=1, apart=("x",), replicas=2, memory=n + 1)], user="eve")
        for n in range(many)
    ]
    assert plan(up("a", 1), *apart, a_job("new", user="ann"), rank=[0.0, *range(many), 1e6])["new"] == "start"


def test_thousands_that_fit_keep_no_other_user_waiting_for_them_all():
    jobs = [*(a_job(f"e{n}", user="eve") for n in range(3 * AT_ONCE)), a_job("new", user="ann")]
    found = plan(*jobs, rank=[*range(3 * AT_ONCE), 1e6], gpus=4 * AT_ONCE)
    assert found["new"] == "start"
    assert all(found[f"e{n}"] == "start" for n in range(AT_ONCE)), "those that rank first start first"
    full = plan(*jobs, rank=[*range(3 * AT_ONCE), 1e6], gpus=AT_ONCE - 1)
    assert sorted(full) == sorted(f"e{n}" for n in range(AT_ONCE - 1)), "where room is short, the rank alone counts"


def test_room_is_made_for_another_user_beyond_any_number_of_hopeless_shapes():
    hopeless = [a_job(f"h{number}", gpus=9 + number, user="eve") for number in range(HOPELESS + 10)]
    rank = [0.0, *range(HOPELESS + 10), 1e6]
    assert plan(up("a", 4), *hopeless, a_job("new", user="ann"), rank=rank) == {"a": "scale"}


def test_room_is_made_although_jobs_that_fit_nowhere_come_first():
    hopeless = [a_job(f"h{number}", gpus=9 + number) for number in range(20)]
    assert plan(up("a", 4), *hopeless, a_job("new"), rank=[0.0, *range(20), 1e6]) == {"a": "scale"}
