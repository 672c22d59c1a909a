"""Starting in order, with a reservation for a job that has waited too long."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.core.draft import Draft
from headway.core.plan import Reserve, Start, Stop
from headway.policies.placing.pack import place_asked
from headway.policies.steps.reserve import DESPERATE, Guard, Pressing, reservation, start_guarded
from make import a_job, a_snapshot, decided, running, some_nodes

NOW, LIMIT = 1000.0, 500.0


def plan(*waiting, left, urgent=(), below=(), keep_factor=math.inf):
    """One node of four GPUs, of which a running job with 100 seconds left holds three."""
    snapshot = a_snapshot(running(a_job("up", 3), [0, 0, 0]), *waiting, nodes=some_nodes(1, gpus=4), now=NOW,
                          left={"up": 100.0} | left)  # fmt: skip
    draft, rows = Draft(snapshot), snapshot.jobs.waiting()
    pressing = Pressing(np.array(urgent), lambda _: list(below)) if urgent else None
    start_guarded(draft, rows, Guard(LIMIT, keep_factor, pressing), place_asked)
    return draft.plan()


CASES = [
    ("within the limit a wide job is passed", 600.0, 50.0, {"narrow": "start"}),
    ("beyond it, it reserves; a short job passes", 0.0, 50.0, {"wide": "reserve", "narrow": "start"}),
    ("but not one that would be in its way", 0.0, 500.0, {"wide": "reserve"}),
]


@pytest.mark.parametrize(("why", "submit", "seconds", "expected"), CASES)
def test_a_job_that_waited_too_long_reserves(why, submit, seconds, expected):
    wide = a_job("wide", 4, submit=submit)
    found = plan(wide, a_job("narrow", submit=NOW), left={"wide": 900.0, "narrow": seconds})
    assert decided(found) == expected, why
    for decision in found.decisions:
        if isinstance(decision, Reserve):
            assert decision.until == NOW + 100.0, "when the running job ends"


@pytest.mark.parametrize(("waited", "expected"), [(600.0, {"wide": "reserve"}), (550.0, {"narrow": "start"})])
def test_no_place_is_kept_for_longer_than_its_job_has_waited(waited, expected):
    """The running job has 100 seconds left, and the factor is a sixth."""
    wide, narrow = a_job("wide", 4, submit=NOW - waited), a_job("narrow", submit=NOW)
    found = plan(wide, narrow, left={"wide": 900.0, "narrow": 500.0}, keep_factor=1 / 6)
    assert decided(found) == expected


URGENT = [
    ("an urgent job stops another", [0], {"up": "stop"}),
    ("or reserves where none may be stopped", [], {"urgent": "reserve"}),
]


@pytest.mark.parametrize(("why", "below", "expected"), URGENT)
def test_room_is_made_for_an_urgent_job(why, below, expected):
    job = a_job("urgent", 4, submit=NOW)
    assert decided(plan(job, left={"urgent": 10.0}, urgent=[True], below=below)) == expected, why


def test_who_waited_far_beyond_the_limit_comes_before_urgent_jobs():
    old, urgent = a_job("old", submit=NOW - DESPERATE * LIMIT), a_job("urgent", submit=NOW)
    found = plan(old, urgent, left={"old": 10.0, "urgent": 10.0}, urgent=[False, True])
    assert [decision.job for decision in found.decisions if isinstance(decision, Start)] == ["old"]
    assert not any(isinstance(decision, Stop) for decision in found.decisions)


@pytest.mark.parametrize(("left", "seconds"), [({"a": 30.0, "b": 70.0}, 70.0), ({"a": 90.0}, 3600.0)])
def test_a_reservation_is_for_the_first_moment_at_which_it_fits(left, seconds):
    """Both must end; an end that is not known comes last, and counts as an hour."""
    entries = (running(a_job("a", 2), [0, 0]), running(a_job("b", 2), [0, 0]), a_job("wide", 4))
    snapshot = a_snapshot(*entries, nodes=some_nodes(1, gpus=4), left=left)
    found, hole = reservation(Draft(snapshot), 2, snapshot.estimates.left(0.0))
    assert found == seconds
    assert hole is not None
    assert hole.nodes == ((0, 0, 0, 0),)
