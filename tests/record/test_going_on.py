"""What a log left behind, and how the jobs of a file go on from there."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from headway.core.job import Job
from headway.core.node import Node
from headway.core.states import State
from headway.record.differences import program
from headway.record.lines import Change, CycleLine, End, Head, JobLine, NodesLine, pack_job, unpack_job
from headway.record.log import LogWriter
from headway.record.resume import Left, go_on, left_behind
from make import a_job, a_role

NODES = NodesLine([Node(name="left", capacity=(("cpu", 1000),))], ["cpu"])
HEAD = Head("local", "fifo", "none", {}, 0, 1000.0, "jobs.yaml abc")


def a_change(serial: int, state: State, *, since: float = 5.0, attained: float = 0.0, saved: float = 0.0) -> Change:
    placement = [[[0]]] if state is State.RUNNING else None
    return Change(serial, int(state), since, attained, 0.0, None, None, saved, 0, placement, None)


def left(*jobs: tuple[Job, Change], now: float = 20.0, complete: bool = False) -> Left:
    return Left(HEAD, complete, {c.serial: j for j, c in jobs}, {c.serial: c for _, c in jobs}, now)


def trained(name: str = "a", command: str = "train.py", env: str = "1", cpu: float = 1, **more: object) -> Job:
    role = a_role(cpu=cpu, command=("python", command), env=(("SEED", env),))
    return a_job(name, roles=[role], **more)


@pytest.fixture
def log(tmp_path):
    def write(*lines: object):
        path = tmp_path / "run.log"
        writer = LogWriter(path, HEAD)
        for line in lines:
            writer._write(line)
        writer.close()
        return path

    return write


def test_a_run_that_ended_before_its_first_cycle_forgets_nothing(log):
    job = trained()
    past = [NODES, JobLine(0, dict(pack_job(job))), CycleLine(0, 9.0, [a_change(0, State.FINISHED)]), End(9.0)]
    for lines in ([*past, HEAD], [*past, HEAD, NODES, JobLine(0, dict(pack_job(trained("b"))))]):
        found = left_behind(log(*lines))
        assert [one.id for one in found.jobs.values()] == ["a"]
        assert found.last[0].state == State.FINISHED
        assert found.complete
    resumed = left_behind(log(*past, HEAD, NODES, JobLine(0, dict(pack_job(job))), CycleLine(0, 12.0, [])))
    assert resumed.now == 12.0
    assert not resumed.complete


def test_a_finished_job_stays_finished_and_a_failed_one_comes_again():
    done, broken = trained("a"), trained("b")
    past = left((done, a_change(0, State.FINISHED)), (broken, a_change(1, State.FAILED)), complete=True)
    going = go_on(past, [done, broken, trained("c", deadline=60.0)], now=20.0)
    assert (going.found.finished, going.found.again, going.found.new) == (["a"], ["b"], ["c"])
    assert [State(change.state) for _, change in going.restored] == [State.FINISHED, State.FAILED]
    assert [(job.id, job.submit, job.deadline) for job in going.arriving] == [("b", 20.0, None), ("c", 20.0, 80.0)]
    assert go_on(left((done, a_change(0, State.FINISHED))), [done], now=20.0).is_idle


@pytest.mark.parametrize("state", [State.FINISHED, State.FAILED, State.RUNNING, State.WAITING])
def test_a_job_with_other_arguments_goes_on_from_its_checkpoint_unless_it_says_fresh(state):
    old, longer = (a_job(roles=[a_role(cpu=1, command=("python", "train.py", "--steps", n))]) for n in ("400", "600"))
    going = go_on(left((old, a_change(0, state))), [longer], now=30.0)
    assert (going.found.other_arguments, going.found.afresh, going.is_idle) == (["a"], [], False)
    if state in (State.FINISHED, State.FAILED):
        assert going.arriving[0].roles == longer.roles
    else:
        assert going.arriving == []
        assert going.restored[0][0].roles == longer.roles
        assert State(going.restored[0][1].state) is State.WAITING
    assert go_on(left((old, a_change(0, state))), [replace(longer, fresh=True)], now=30.0).found.afresh == ["a"]
    same = replace(old, fresh=True)
    assert go_on(left((old, a_change(0, state))), [same], now=30.0).found.afresh == [], "its command is the same"


@pytest.mark.parametrize(
    ("command", "words"),
    [("python train.py --lr 1", 2), ("python -u -m pkg.train --lr 1", 4), ("./train --steps 5", 1), ("sh -c x y", 3),
     ("torchrun --nproc-per-node 2 run.py -m 5", 4), ("python train.py --init other.py", 2), ("", 0)],
)  # fmt: skip
def test_what_of_a_command_is_the_program(command, words):
    assert program(tuple(command.split())) == tuple(command.split())[:words]


@pytest.mark.parametrize("state", [State.FINISHED, State.FAILED, State.RUNNING, State.WAITING])
@pytest.mark.parametrize("changed", [{"command": "other.py"}, {"env": "2"}])
def test_a_job_that_runs_something_else_starts_afresh(state, changed):
    going = go_on(left((trained(), a_change(0, state))), [trained(**changed)], now=30.0)
    assert going.found.afresh == ["a"]
    assert [job.id for job in going.arriving] == ["a"]
    assert State(going.restored[0][1].state) is (state if state in (State.FINISHED, State.FAILED) else State.CANCELLED)


def test_a_job_with_another_size_goes_on_from_its_checkpoint():
    going = go_on(left((trained(), a_change(0, State.RUNNING))), [trained(cpu=2)], now=30.0)
    assert (going.found.edited, going.found.afresh) == (["a"], [])
    assert going.arriving == []
    [(job, change)] = going.restored
    assert (job.roles[0].amount("cpu"), State(change.state)) == (2000, State.WAITING)
    assert not going.is_idle


def test_an_edit_moves_neither_the_submission_nor_where_the_deadline_counts_from():
    old = trained(submit=10.0, deadline=70.0)
    for edited, deadline in ((trained(priority=3, deadline=60.0), 70.0), (trained(deadline=30.0), 40.0)):
        [(job, _)] = go_on(left((old, a_change(0, State.RUNNING))), [edited], now=30.0).restored
        assert (job.submit, job.deadline, job.priority) == (10.0, deadline, edited.priority)


def test_env_is_compared_by_marks_of_the_same_key_only():
    def logged(key: bytes) -> Job:
        return unpack_job(msgspec.json.decode(msgspec.json.encode(dict(pack_job(trained(env="1"), key)))))

    def kind(key: bytes, env: str) -> str:
        found = go_on(left((logged(key), a_change(0, State.RUNNING))), [trained(env=env)], 30.0, key=b"mine").found
        return "afresh" if found.afresh else "same" if found.unfinished else "?"

    assert (kind(b"mine", "1"), kind(b"mine", "2")) == ("same", "afresh")
    assert (kind(b"lost", "1"), kind(b"", "1")) == ("same", "same"), "no checkpoint is given up on a guess"


def test_an_unfinished_job_keeps_its_times_and_loses_what_it_did_not_save():
    job = trained(submit=3.0, deadline=90.0)
    past = left((job, a_change(0, State.RUNNING, since=5.0, attained=4.0, saved=2.0)))
    [(same, change)] = go_on(past, [replace(job, submit=0.0, deadline=87.0)], now=100.0).restored
    assert (same.submit, same.deadline) == (3.0, 90.0)
    assert (change.state, change.placement) == (State.WAITING, None)
    assert (change.attained, change.saved, change.stops) == (2.0, 2.0, 1)
    assert change.since == 20.0, "it did not run while Headway was away"


@pytest.mark.parametrize(
    ("wrote", "saved", "since"), [(15.0, 14.0, 20.0), (22.0, 21.0, 22.0), (3.0, 2.0, 20.0), (0.0, 2.0, 20.0)]
)
def test_a_checkpoint_that_the_script_made_by_itself_counts(wrote, saved, since):
    past = left((trained(), a_change(0, State.RUNNING, since=5.0, attained=4.0, saved=2.0)))
    [(_, change)] = go_on(past, [trained()], 100.0, lambda _: wrote).restored
    assert (change.attained, change.since) == (saved, since)


def test_a_job_that_was_removed_is_cancelled_and_may_come_back():
    past = left((trained("a"), a_change(0, State.RUNNING)), (trained("b"), a_change(1, State.FINISHED)))
    going = go_on(past, [trained("b")], now=30.0)
    assert (going.found.removed, going.found.finished) == (["a"], ["b"])
    again = Left(HEAD, True, past.jobs, {c.serial: c for _, c in going.restored}, 40.0)
    assert go_on(again, [trained("a"), trained("b")], now=40.0).found.again == ["a"]


def test_a_job_that_has_not_arrived_keeps_its_time_in_an_unfinished_run():
    past = left((trained("a"), a_change(0, State.RUNNING)))
    going = go_on(past, [trained("a"), trained("b", submit=50.0), trained("c", submit=10.0)], now=30.0)
    assert [job.submit for job in going.arriving] == [50.0, 40.0]


def test_a_name_that_came_twice_means_its_last_arrival():
    first, second = trained(), trained(command="other.py")
    past = left((first, a_change(0, State.CANCELLED)), (second, a_change(1, State.RUNNING)))
    going = go_on(past, [second], now=30.0)
    assert going.found.unfinished == ["a"]
    assert [State(change.state) for _, change in going.restored] == [State.CANCELLED, State.WAITING]
