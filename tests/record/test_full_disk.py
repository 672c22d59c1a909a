"""A log that cannot be written: nothing is lost, nothing new begins, and a sentence says so."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.cycle.loop import Decided
from headway.cycle.loop import run as run_loop
from headway.estimates.plain_books import DeclaredBook, NoEstimates
from headway.policies.registry import POLICIES
from headway.record import log_gate as gate_module
from headway.record import logfile as logfile_module
from headway.record.lines import CycleLine, Head
from headway.record.log import LogWriter, read
from headway.record.log_gate import LogGate
from headway.record.logfile import LogError
from headway.record.replay import ReplayCluster
from headway.record.resume import left_behind
from headway.record.rotation import Rotation
from headway.sim.cluster import SimCluster, World
from make import a_job, some_nodes

HEAD = Head("sim", "fifo", "declared")


class SmallDisk:
    """A file on a disk that takes `room` bytes."""

    closed = False

    def __init__(self, path: Path, room: int) -> None:
        self.path, self.room = path, room

    def write(self, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = bytes(data[: self.room])
        with self.path.open("ab") as file:
            file.write(part)
        self.room -= len(part)
        return len(part)

    def close(self) -> None:
        self.closed = True


def _full_at(path: Path, room: int) -> tuple[LogWriter, SmallDisk]:
    writer, disk = LogWriter(path, HEAD, durable=True, fresh=True), SmallDisk(path, room)
    writer._file._file.close()
    writer._file._file = disk
    return writer, disk


class Watched:
    """Virtual time that remembers what was begun. There is room again after some plans."""

    def __init__(self, sim: SimCluster, disk: SmallDisk, plans: int) -> None:
        self.sim, self.disk, self.left = sim, disk, plans
        self.begun: list[tuple[bool, Plan]] = []

    def next_snapshot(self) -> Snapshot | None:
        return self.sim.next_snapshot()

    def apply(self, plan: Plan) -> None:
        full = self.disk.room <= 0
        self.begun.append((full, plan))
        self.left -= full
        if not self.left:
            self.disk.room = 10**9
        self.sim.apply(plan)


@pytest.mark.parametrize("room", [0, 100, 700, 1500])
def test_while_the_disk_is_full_nothing_begins_and_no_line_is_lost(tmp_path, room):
    jobs = [a_job(f"j{i}", gpus=4, seconds=5.0, submit=float(i)) for i in range(4)]
    sim = SimCluster(some_nodes(1), jobs, World())
    writer, disk = _full_at(tmp_path / "log", room)
    cluster, said = Watched(sim, disk, plans=3), []

    def observe(decided: Decided) -> None:
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)

    run_loop(LogGate(cluster, writer, said.append), POLICIES["fifo"](), DeclaredBook(), observe)
    writer.end(sim.now, sim.board.unfinished)
    assert not sim.board.unfinished
    assert all(not plan.decisions for full, plan in cluster.begun if full)
    assert [sentence.split(": ")[-1] for sentence in said] == [
        "No space left on device; what runs goes on, and nothing else starts until it can be written",
        "the log is written again",
    ]
    replayed = ReplayCluster(tmp_path / "log")
    run_loop(replayed, POLICIES["fifo"](), NoEstimates())
    assert replayed.complete
    assert not replayed.differences


@pytest.mark.parametrize("plans", [40, 10**6], ids=["room comes while jobs run", "room comes after the last job"])
def test_what_is_kept_while_the_disk_is_full_is_bounded(tmp_path, monkeypatch, plans):
    monkeypatch.setattr(logfile_module, "MOST_PENDING_BYTES", 1000)
    monkeypatch.setattr(gate_module.time, "sleep", lambda _: setattr(disk, "room", 10**9))
    jobs = [a_job(f"j{i}", gpus=1, seconds=9.0 + 30 * i) for i in range(4 if plans > 40 else 9)]
    sim = SimCluster(some_nodes(1), jobs, World())
    writer, disk = _full_at(tmp_path / "log", 10**9)
    kept = []

    def observe(decided: Decided) -> None:
        disk.room = 0 if decided.snapshot.cycle == 1 else disk.room
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        kept.append(len(writer._file._pending))

    run_loop(LogGate(Watched(sim, disk, plans), writer, lambda _: None), POLICIES["fifo"](), DeclaredBook(), observe)
    writer.end(sim.now, sim.board.unfinished)
    assert 1000 <= max(kept) < 1000 + 1000, "the limit and one line"
    assert len(kept) > sum(isinstance(line, CycleLine) for line in read(tmp_path / "log")), "some were skipped"
    left = left_behind(tmp_path / "log")
    assert left.complete
    assert [State(change.state) for change in left.last.values()] == [State.FINISHED] * len(jobs)
    replayed = ReplayCluster(tmp_path / "log")
    run_loop(replayed, POLICIES["fifo"](), NoEstimates())
    assert not replayed.differences


def test_jobs_that_leave_the_table_while_the_disk_is_full_are_told_to_be_over(tmp_path, monkeypatch):
    """Of 150 jobs 149 end while no line is kept, and the table is compacted before there is room."""
    monkeypatch.setattr(logfile_module, "MOST_PENDING_BYTES", 100)
    jobs = [a_job(f"j{i}", gpus=1, seconds=10.0 + i / 10) for i in range(149)] + [a_job("last", seconds=900.0)]
    sim = SimCluster(some_nodes(1, gpus=150), jobs, World())
    writer, disk = _full_at(tmp_path / "log", 10**9)

    def observe(decided: Decided) -> None:
        if decided.snapshot.cycle == 1:
            disk.room = 0
        elif sim.board.table.generation and sim.board.unfinished == 1:
            disk.room = 10**9
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)

    run_loop(LogGate(sim, writer, lambda _: None), POLICIES["fifo"](), DeclaredBook(), observe)
    assert sim.board.table.generation
    writer.end(sim.now, sim.board.unfinished)
    left = left_behind(tmp_path / "log")
    assert {State(change.state) for change in left.last.values()} == {State.FINISHED}
    assert len(left.last) == 150
    replayed = ReplayCluster(tmp_path / "log")
    run_loop(replayed, POLICIES["fifo"](), NoEstimates())
    assert replayed.complete
    assert not replayed.differences


@pytest.mark.parametrize("pending", [200, 4000])
def test_a_log_that_is_full_for_a_while_and_long_is_several_files_that_are_decided_alike(
    tmp_path, monkeypatch, pending
):
    monkeypatch.setattr(logfile_module, "MOST_PENDING_BYTES", pending)
    path = tmp_path / "run.log"
    jobs = [a_job(f"j{i}", gpus=2, submit=20.0 * i, seconds=45.0) for i in range(120)]
    sim = SimCluster(some_nodes(1), jobs, World())
    writer = LogWriter(path, HEAD, durable=True)
    writer.rotation = Rotation(6000)
    full, writes = [False], logfile_module.LogFile.flush

    def flush(file):
        if full[0] and file._pending:
            file.trouble = "full"
            return False
        return writes(file)

    monkeypatch.setattr(logfile_module.LogFile, "flush", flush)

    def observe(decided: Decided) -> None:
        full[0] = 30 <= decided.snapshot.cycle % 60 < 45
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)

    run_loop(LogGate(sim, writer, lambda _: None), POLICIES["fifo"](), DeclaredBook(), observe)
    full[0] = False
    writer.end(sim.now, sim.board.unfinished)
    files = sorted(tmp_path.glob("run.log*"))
    assert len(files) > 2
    for file in files:
        replayed = ReplayCluster(file)
        run_loop(replayed, POLICIES["fifo"](), NoEstimates())
        assert replayed.cycles > 0
        assert not replayed.differences
    assert left_behind(path).complete


def test_the_end_of_the_last_job_waits_for_room(tmp_path, monkeypatch):
    sim = SimCluster(some_nodes(1), [a_job("a", seconds=5.0)], World())
    writer, disk = _full_at(tmp_path / "log", 10**9)
    waited = []

    def room_comes(seconds: float) -> None:
        waited.append(seconds)
        disk.room = 10**9 if len(waited) == 3 else 0

    def observe(decided: Decided) -> None:
        if not sim.board.unfinished:
            disk.room = 0
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)

    monkeypatch.setattr(gate_module.time, "sleep", room_comes)
    said: list[str] = []
    run_loop(LogGate(sim, writer, said.append), POLICIES["fifo"](), DeclaredBook(), observe)
    monkeypatch.undo()
    writer.end(sim.now, 0)
    assert len(waited) == 3
    assert "ends as soon as the log can be written" in said[1]
    replayed = ReplayCluster(tmp_path / "log")
    run_loop(replayed, POLICIES["fifo"](), NoEstimates())
    assert replayed.complete


def test_a_cluster_that_keeps_its_own_state_is_not_held_at_the_end(tmp_path):
    writer, _ = _full_at(tmp_path / "log", 0)
    writer.retry()
    ended = SimCluster(some_nodes(1), [], World())
    assert LogGate(ended, writer, lambda _: None, waits=False).next_snapshot() is None
    with pytest.raises(LogError, match="cannot be written"):
        writer.close()


def test_a_log_that_is_still_full_at_the_end_is_told_in_a_sentence(tmp_path):
    writer, _ = _full_at(tmp_path / "log", 10)
    with pytest.raises(LogError, match="log: cannot be written: No space left"):
        writer.close()
    writer.close()
    assert list(read(tmp_path / "log")) == []


def test_a_simulation_ends_with_a_sentence(tmp_path):
    """/dev/full: every write to it fails."""
    (tmp_path / "jobs.yaml").write_text("nodes: [{cpu: 1}]\njobs: [{name: a, cpu: 1, seconds: 5}]\n")
    words = [sys.executable, "-m", "headway", "simulate", "jobs.yaml", "--log", "file/run.log"]
    writer = LogWriter(Path("/dev/full"), HEAD)
    with pytest.raises(LogError, match="No space left"):
        writer.end(0.0, 0)
    (tmp_path / "file").write_text("")
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)


JOBS = """
nodes: [{cpu: 1}]
jobs:
  - {name: first, cpu: 1, command: [python, train.py, go]}
  - {name: second, cpu: 1, command: [python, train.py, .]}
"""
SCRIPT = """
import sys, time
from pathlib import Path
from headway import progress
with progress.track(total_steps=1) as p:
    p.report(1)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
"""


def test_a_real_run_goes_on_when_there_is_room_again(tmp_path):
    """The limit of file sizes stands in for the end of a disk: it can be set and lifted from outside."""
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / "train.py").write_text(SCRIPT)
    said, log = tmp_path / "stderr", tmp_path / ".headway/jobs/run.log"
    words = [sys.executable, "-m", "headway", "run", "jobs.yaml", "--policy", "fifo", "--no-cgroups", "--json"]
    with said.open("wb") as stderr, (tmp_path / "stdout").open("wb") as stdout:
        run = subprocess.Popen(words, cwd=tmp_path, stdout=stdout, stderr=stderr)
        try:
            _wait(run, said, lambda: list(tmp_path.glob(".headway/jobs/output/first/*")))
            _, most = resource.prlimit(run.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (log.stat().st_size, most))
            (tmp_path / "go").touch()
            _wait(
                run, said, lambda: "nothing else starts until it can be written" in " ".join(said.read_text().split())
            )
            assert not (tmp_path / ".headway/jobs/output/second").exists()
            resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (most, most))
            assert run.wait(120) == 0, said.read_text()
        finally:
            run.kill()
            run.wait()
    assert "the log is written again" in said.read_text()
    replayed = ReplayCluster(log)
    run_loop(replayed, POLICIES["fifo"](), NoEstimates())
    assert replayed.complete
    assert not replayed.differences


def _wait(run: subprocess.Popen, said: Path, true) -> None:
    give_up = time.monotonic() + 120
    while not true():
        assert run.poll() is None, said.read_text()
        assert time.monotonic() < give_up
        time.sleep(0.02)
