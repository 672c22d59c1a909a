"""What is sent about a job: status, requests about pods, and why it waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from intents import NOW, create

from headway.core.board import Board
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.plan import Plan
from headway.core.states import State
from headway.kube import outgoing
from headway.kube.api.objects import Meta
from headway.kube.job.intent import Intent
from headway.kube.job.status import TrainingProgress
from headway.kube.outgoing import explain_waiting, status_for, work_for
from headway.kube.reconcile.model import Bind, NextStep, RequestCheckpoint
from headway.kube.settings import KubeSettings, PodDefaults
from headway.kube.tracked import Tracked
from make import a_job, a_snapshot, running

BIND = Bind("p", "uid-p", "n1")


def some_jobs(count: int = 1, cpu: int = 9000) -> tuple[Board, dict[JobId, Tracked]]:
    board = Board(Nodes.of([Node(name="n1", capacity=(("cpu", 4000),))]))
    jobs = {}
    for number in range(count):
        job = Job(id=JobId(f"j{number}"), roles=(Role(name="worker", request=(("cpu", cpu),)),))
        board.add(job, 0.0)
        jobs[job.id] = Tracked(Meta(name=job.id, namespace="team", uid=f"u{number}"), job, {}, board)
    return board, jobs


@pytest.mark.parametrize(
    ("status", "actions", "sent"),
    [
        (None, (), None),
        (None, (RequestCheckpoint(),), None),
        ({"phase": "Waiting"}, (), ()),
        (None, (BIND,), (BIND,)),
        (None, (create(0, "n1"), BIND, RequestCheckpoint()), (create(0, "n1"), BIND)),
    ],
)
def test_work_is_sent_only_if_the_api_server_has_something_to_do(status, actions, sent):
    job = some_jobs()[1][JobId("j0")]
    work = work_for(job, Intent(), status, NextStep(Intent(), actions), PodDefaults())
    assert (None if work is None else tuple(request.action for request in work.requests)) == sent
    if work is not None:
        assert (work.uid, work.namespace, work.name, work.status) == ("u0", "team", "j0", status)
        assert work.token == (Intent(), None), "what was written comes back with the result"


@pytest.mark.parametrize(("shown", "left"), [(True, 20.0), (False, None)])
def test_the_status_shows_the_estimate_of_the_snapshot(shown, left):
    snapshot = a_snapshot(running(a_job("j0"), [0]), now=100.0, left={"j0": 30.0}) if shown else None
    job = some_jobs()[1][JobId("j0")]
    before = status_for(job, Intent(state=State.RUNNING), snapshot, 110.0, 0.0)["progress"]
    assert (before or {}).get("left") == left, "also before the first report"
    assert status_for(job, Intent(state=State.FINISHED), snapshot, 110.0, 0.0)["progress"] is None
    job.reports.progress = TrainingProgress(5, 10)
    progress = status_for(job, Intent(), snapshot, 110.0, 0.0)["progress"]
    assert (progress["text"], progress["left"]) == ("5/10", left)


EVERY = KubeSettings(began=0.0, progress_seconds=60.0)


def test_a_waiting_job_is_told_why_with_numbers_and_not_too_often():
    board, jobs = some_jobs()
    job = jobs[JobId("j0")]
    explain_waiting(jobs, board.snapshot(NOW), Plan(), NOW, EVERY)
    assert (job.memory.reason, "9" in job.memory.message) == ("LargerThanAnyNode", True)
    for now, message, said in (
        (NOW + 59.0, job.memory.message, NOW),
        (NOW + 99.0, job.memory.message, NOW),  # it is there already
        (NOW + 59.0, "other numbers", NOW),
        (NOW + 60.0, "other numbers", NOW + 60.0),
    ):
        job.memory = replace(job.memory, message=message)
        job.attention.dirty = False
        explain_waiting(jobs, board.snapshot(now), Plan(), now, EVERY)
        assert (job.explained_at, job.attention.dirty) == (said, said == now)


def test_another_reason_is_said_at_once():
    board, jobs = some_jobs(cpu=3000)
    job = jobs[JobId("j0")]
    explain_waiting(jobs, board.snapshot(NOW), Plan(), NOW, EVERY)
    assert job.memory.reason == "BehindOthers"
    board.set_nodes(Nodes.of([Node(name="n1", capacity=(("cpu", 2000),))]))
    explain_waiting(jobs, board.snapshot(NOW), Plan(), NOW + 0.5, EVERY)
    assert (job.memory.reason, job.explained_at) == ("LargerThanAnyNode", NOW + 0.5)


def test_only_a_few_jobs_of_a_long_queue_are_explained_per_cycle_and_each_in_its_turn(monkeypatch):
    monkeypatch.setattr(outgoing, "MAX_EXPLAINED", 2)
    board, jobs = some_jobs(5)
    for cycle, explained in ((1, 2), (2, 4), (3, 5)):
        explain_waiting(jobs, board.snapshot(NOW), Plan(), NOW + cycle, EVERY)
        assert sum(job.explained_at > 0 for job in jobs.values()) == explained, cycle
