"""Reports of one job: which count, and when progress is written to the status."""

from __future__ import annotations

import math

import pytest

from headway.core.gang import Phase
from headway.core.job import Job, JobId, Role
from headway.core.snapshot import Sample
from headway.core.states import State
from headway.kube.api.objects import Meta
from headway.kube.api.usage import PodUsage
from headway.kube.gangs.gang import Around, Gang, Reports, TrainingProgress, Written
from headway.kube.gangs.intent import Intent, RoleAllocation, as_written
from headway.kube.gangs.messages import Heard, StatusWritten, UsageSeen
from headway.kube.gangs.model import WriteStatus
from headway.kube.gangs.step import step
from headway.kube.gangs.take import take
from headway.kube.pods.replica import Replica
from headway.kube.values import replace
from headway.progress_server import Reported

FIRST, SECOND = ("worker", 0), ("worker", 1)
J = JobId("j")
AROUND = Around(progress_seconds=60.0)


def a_gang(attempt: int = 1) -> Gang:
    """It runs with two pods, and its status is written."""
    job = Job(id=J, roles=(Role(name="worker", replicas=2, min=2, max=2),), steps=100)
    here = (RoleAllocation("worker", ("n", "n"), job.roles[0].request),)
    wanted = Intent(state=State.RUNNING, allocation=here, attempt=attempt)
    names = [(one, f"j-{one}-worker-{index}", index) for one in (attempt, attempt + 1) for index in (0, 1)]
    pods = {
        name: Replica(name=name, uid=name, role="worker", index=index, attempt=one, node="n", phase=Phase.UP)
        for one, name, index in names
        if one == attempt
    }
    return Gang(meta=Meta(name="j", uid="u"), job=job, wanted=wanted, pods=pods, written=Written(as_written(wanted)))


def again(gang: Gang) -> Gang:
    """The next attempt of it."""
    return replace(a_gang(gang.wanted.attempt + 1), reports=replace(gang.reports, reporter=None))


def heard(gang: Gang, replica: tuple[str, int], step_: int, loss=None, total=None, at: float = 1.0) -> Gang:
    return take(gang, Heard(Reported(J, *replica, gang.wanted.attempt, step_, loss, total), at))


@pytest.mark.parametrize(
    ("replica", "attempt", "report", "counts", "progress"),
    [
        (FIRST, 1, (6, 0.4), True, TrainingProgress(6, 100, 0.4, 1.0, 1)),
        (FIRST, 1, (6,), True, TrainingProgress(6, 100, 0.5, 1.0, 1)),
        (FIRST, 1, (5, 0.1), True, TrainingProgress(5, 100, 0.1, 1.0, 1)),
        (FIRST, 1, (6, None, 80), True, TrainingProgress(6, 80, 0.5, 1.0, 1)),
        (FIRST, 1, (4,), False, TrainingProgress(5, 100, 0.5, 1.0, 1)),
        (FIRST, 2, (4,), True, TrainingProgress(4, 100, None, 1.0, 2)),
        (SECOND, 1, (9,), False, TrainingProgress(5, 100, 0.5, 1.0, 1)),
        (SECOND, 2, (9,), True, TrainingProgress(9, 100, None, 1.0, 2)),
    ],
)
def test_what_a_report_changes(replica, attempt, report, counts, progress):
    gang = heard(a_gang(), FIRST, 5, 0.5)
    gang = replace(gang, reports=replace(gang.reports, sample=None))
    gang = gang if attempt == 1 else again(gang)
    gang = heard(gang, replica, *report)
    assert gang.reports.progress == progress
    loss, total = (*report, None, None)[1:3]
    assert gang.reports.sample == (Sample(J, 1.0, report[0], loss, total) if counts else None)


@pytest.mark.parametrize(
    ("progress", "written", "now", "due"),
    [
        (None, None, 99.0, False),
        (TrainingProgress(1), None, 10.0, True),
        (TrainingProgress(1, attempt=2), TrainingProgress(1, attempt=1), 10.0, True),
        (TrainingProgress(2), TrainingProgress(1), 69.9, False),
        (TrainingProgress(1), TrainingProgress(1), 99.0, False),
        (TrainingProgress(2), TrainingProgress(1), 99.0, True),
    ],
)
def test_the_first_report_is_written_at_once_and_others_not_too_often(progress, written, now, due):
    gang = a_gang()
    told = replace(gang.written, progress=written, at=10.0)
    gang = replace(gang, reports=Reports(progress), written=told)
    assert (gang.progress_at(60.0) <= now) is due
    stepped, effects = step(gang, AROUND, now)
    assert (WriteStatus() in effects) is due
    assert stepped.wake <= 70.0 or due or progress == written, "else it wakes when it is time"
    if due:
        done = take(stepped, StatusWritten(as_written(gang.wanted), progress, None))
        assert done.progress_at(60.0) == math.inf


def test_what_it_uses_is_written_as_often_as_what_it_reports():
    gang = a_gang()
    gang = take(replace(gang, written=replace(gang.written, at=10.0)), UsageSeen(PodUsage(0.5, 7)))
    assert gang.progress_at(60.0) == 70.0
    assert step(gang, AROUND, 69.0)[1] == ()
    stepped, effects = step(gang, AROUND, 70.0)
    assert effects == (WriteStatus(),)
    assert take(stepped, StatusWritten(as_written(gang.wanted), None, gang.usage)).progress_at(60.0) == math.inf
