"""Jobs are added, removed and changed while the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from conftest_local import Can, Run, a_local_job

from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.core.states import State
from headway.local.editing import OTHER_ARGUMENTS, Wish, Wishes
from headway.policies.baselines.fifo import first_fit

pytestmark = pytest.mark.timeout(250)


class Edited(Run):
    """A run whose user changes the jobs when `when` is true, and asks for some again when it is true once more."""

    def __init__(self, scripts, jobs: Sequence[Job], then: Sequence[Job], then_again=(), set_aside=None) -> None:
        self.then: list[Wish] = [Wish(tuple(then), then_again)] * bool(then_again) + [Wish(tuple(then))]
        self.told: list[Wish] = []
        self.aside: list[str] = []
        wishes = Wishes(tuple(jobs), self._newer, set_aside or self.aside.append)
        super().__init__(scripts, list(jobs), wishes=wishes)

    def _newer(self, _at_once: bool) -> Wish | None:
        return self.told.pop() if self.told else None

    def edit_when(self, when: Callable[..., bool]) -> Edited:
        def policy(snapshot):
            if self.then and when(snapshot):
                self.told.append(self.then.pop())
            return first_fit(snapshot)

        self.go(policy, 60)
        return self


def _at_step(job: str, step: int = 3):
    return lambda snapshot: any(sample.job == job and sample.step >= step for sample in snapshot.samples)


def _with_cpu(job: Job, cpu: int) -> Job:
    return replace(job, roles=(replace(job.roles[0], request=(("cpu", cpu),)),))


def test_jobs_are_added_removed_and_changed_while_others_train(scripts):
    a, b, c, d = (a_local_job(name, scripts, "count.py", "60", cpu=700) for name in "abcd")
    short = a_local_job("new", scripts, "count.py", "3", cpu=200)
    other = a_local_job("d", scripts, "count.py", "2", cpu=200, fresh=True)
    run = Edited(scripts, [a, b, c, d], [replace(b, priority=7, deadline=500.0), other, short])
    run.edit_when(_at_step("a"))
    assert {job: run.state(job) for job in ("a", "b", "c", "d", "new")} == {
        "a": "CANCELLED", "b": "FINISHED", "c": "CANCELLED", "d": "FINISHED", "new": "FINISHED",
    }  # fmt: skip
    assert run.notes["a"] == ["it was saved and stopped; its checkpoint stays"]
    assert int((run.folder / "checkpoints/a/count").read_text()) >= 3
    assert run.notes["c"] == ["it was removed while it waited"]
    assert run.output("b") == "from 0\ndone\n", "it trained on"
    assert run.notes["b"] == ["it was edited: it goes on under its new terms"]
    row = run.cluster.board.row(JobId("b"))
    assert (run.cluster.board.job(row).priority, run.cluster.board.job(row).deadline) == (7, 500.0)
    assert run.cluster.board.table.read(row).attained > 2.0, "what it trained before counts"
    assert run.aside == ["d"]
    assert run.output("d") == "from 0\ndone\n"
    times = {
        name: job.submit for name in ("b", "new") for job in [run.cluster.board.job(run.cluster.board.row(JobId(name)))]
    }
    assert times["b"] == 0.0
    assert times["new"] > 0.0
    last = run.snapshots[-1]
    assert not last.placements
    assert not last.used_cpu
    assert (last.free == last.nodes.capacity).all()


def test_another_size_counts_from_the_next_start_which_comes_at_once_if_the_job_can_save(scripts):
    job = a_local_job("a", scripts, "count.py", "40", cpu=300)
    run = Edited(scripts, [job], [_with_cpu(job, 500)]).edit_when(_at_step("a", 5))
    assert run.state("a") == "FINISHED"
    first, second = (int(line.split()[1]) for line in run.output("a").splitlines() if line.startswith("from"))
    assert (first, second >= 5) == (0, True)
    held = [snapshot.free[0].sum() for snapshot in run.snapshots if snapshot.placements]
    assert {2000 - 300, 2000 - 500} <= set(held)


def test_a_job_that_may_not_be_stopped_keeps_its_size(scripts):
    job = a_local_job("a", scripts, "count.py", "80", cpu=300, can=Can.NOTHING)
    run = Edited(scripts, [job], [_with_cpu(job, 500)]).edit_when(_at_step("a"))
    assert run.output("a") == "from 0\ndone\n"
    assert run.notes["a"] == ["its new size counts from its next start: it may not be stopped"]


def test_other_bounds_that_allow_the_present_size_count_at_once(scripts):
    job = a_local_job("a", scripts, "count.py", "80", cpu=300)
    wider = replace(job, roles=(replace(job.roles[0], max=3),))
    run = Edited(scripts, [job], [wider]).edit_when(_at_step("a"))
    assert run.output("a") == "from 0\ndone\n"
    assert run.cluster.board.job(run.cluster.board.row(JobId("a"))).roles[0].max == 3


def test_a_job_that_trains_longer_goes_on_from_its_checkpoint(scripts):
    """It trains, waits or has finished: other arguments of the same script keep what it has learned."""
    job, short = a_local_job("a", scripts, "count.py", "400"), a_local_job("b", scripts, "count.py", "20")
    longer = [a_local_job("a", scripts, "count.py", "80"), a_local_job("b", scripts, "count.py", "40")]
    (scripts / "state/checkpoints/b").mkdir(parents=True)
    (scripts / "state/checkpoints/b/count").write_text("20")
    run = Edited(scripts, [job, short], longer)
    run.edit_when(lambda snapshot: snapshot.jobs.state_of(1) is State.FINISHED and _at_step("a")(snapshot))
    assert (run.state("a"), run.state("b"), run.aside) == ("FINISHED", "FINISHED", [])
    starts = [int(line.split()[1]) for line in run.output("a").splitlines() if line.startswith("from")]
    assert starts[0] == 0 < starts[1]
    assert run.output("b") == "from 20\ndone\nfrom 20\ndone\n"
    assert OTHER_ARGUMENTS in run.notes["a"]
    assert OTHER_ARGUMENTS in run.notes["b"]
    assert f"it goes on from step {starts[1]}" in run.notes["a"]


def test_a_running_job_with_another_command_is_stopped_set_aside_and_starts_afresh(scripts):
    job = a_local_job("a", scripts, "count.py", "400")
    run = Edited(scripts, [job], [a_local_job("a", scripts, "count.py", "3", fresh=True)]).edit_when(_at_step("a"))
    assert run.state("a") == "FINISHED"
    assert run.aside == ["a"]
    states = [snapshot.jobs.state_of(0) for snapshot in run.snapshots]
    assert states[-1] is State.CANCELLED
    assert run.notes["a"][-1] == "it runs something else now: it starts afresh, its old folder is set aside"


def test_what_cannot_be_set_aside_is_told_and_the_others_go_on(scripts):
    def refuse(job):
        raise UserError(f"{job}: cannot be set aside: Read-only file system")

    job, beside = a_local_job("a", scripts, "count.py", "400"), a_local_job("b", scripts, "count.py", "20")
    run = Edited(
        scripts, [job, beside], [a_local_job("a", scripts, "count.py", "3", fresh=True), beside], set_aside=refuse
    )
    run.edit_when(_at_step("a"))
    assert (run.state("a"), run.state("b")) == ("CANCELLED", "FINISHED")
    assert run.notes["a"][-1].startswith("it does not start afresh: a: cannot be set aside")


def test_a_failed_job_runs_again_when_it_is_asked_for_and_not_because_another_is_edited(scripts):
    (scripts / "fails.py").write_text("import sys\nprint('ran', flush=True)\nsys.exit(3)\n")
    failed, beside = a_local_job("f", scripts, "fails.py"), a_local_job("a", scripts, "count.py", "60")
    edited = replace(beside, priority=1)

    def f_failed(snapshot):
        return "f" in snapshot.jobs.row_of and snapshot.state("f") is State.FAILED

    run = Edited(scripts, [failed, beside], [failed, edited], then_again=["f"]).edit_when(f_failed)
    assert run.output("f").count("ran") == 2
    assert run.notes["f"].count("it runs again from its checkpoint") == 1
    assert run.notes["a"] == ["it was edited: it goes on under its new terms"]


def test_a_job_that_has_not_come_yet_can_be_changed_and_removed(scripts):
    first = a_local_job("a", scripts, "count.py", "20")
    late, never = (a_local_job(name, scripts, "count.py", "3", submit=600.0) for name in ("late", "never"))
    run = Edited(scripts, [first, late, never], [first, replace(late, submit=0.0)]).edit_when(_at_step("a"))
    assert run.state("late") == "FINISHED"
    assert run.cluster.board.row(JobId("never")) is None
