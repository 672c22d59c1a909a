"""A log of weeks is several files: each can be read and decided again alone, and a start reads the last one only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.cycle.loop import run as run_loop
from headway.estimates.plain_books import NoEstimates
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.record.lines import Head, JobLine
from headway.record.log import LogWriter, read
from headway.record.replay import ReplayCluster, snapshots
from headway.record.resume import left_behind
from headway.record.rotation import KEPT_FILES, Rotation
from headway.sim.cluster import SimCluster, World
from make import a_job, a_role, some_nodes

HEAD = Head("kube", "x", "progress", began=5.0)


def a_long_run(path, policy: str, rotation: Rotation | None, count: int = 120) -> int:
    """Returns the size of the largest file that was seen."""
    jobs = [a_job(f"j{n}", roles=[a_role(min=1, max=4)], submit=25.0 * n, seconds=60.0) for n in range(count)]
    cluster, writer = SimCluster(some_nodes(2), jobs, World()), LogWriter(path, HEAD, durable=True)
    writer.rotation = rotation
    largest = 0

    def observe(decided):
        nonlocal largest
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        largest = max(largest, path.stat().st_size)

    run_loop(cluster, POLICIES[policy](), ProgressBook(), observe)
    writer.end(0.0, 0)
    return largest


@pytest.mark.parametrize("policy", ["optimus", "headway", "fifo"])
def test_each_file_is_a_log_of_its_own_that_is_decided_alike(tmp_path, policy):
    whole, path = tmp_path / "whole.log", tmp_path / "run.log"
    a_long_run(whole, policy, None)
    largest = a_long_run(path, policy, Rotation(whole.stat().st_size // 3))
    files = sorted(tmp_path.glob("run.log*"))
    assert 2 < len(files) <= KEPT_FILES + 1
    assert largest < 0.7 * whole.stat().st_size
    cycles = 0
    for file in files:
        first, *_ = read(file)
        assert first == HEAD
        replayed = ReplayCluster(file)
        run_loop(replayed, POLICIES[policy](), NoEstimates())
        assert not replayed.differences
        cycles += sum(1 for _ in snapshots(file))
    assert cycles == sum(1 for _ in snapshots(whole)), "no cycle is lost"
    assert (tmp_path / "run.log").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "run.log.1").stat().st_mode & 0o777 == 0o600


def test_the_last_file_alone_tells_what_goes_on(tmp_path):
    whole, path = tmp_path / "whole.log", tmp_path / "run.log"
    a_long_run(whole, "fifo", None)
    a_long_run(path, "fifo", Rotation(whole.stat().st_size // 3))
    expected, found = left_behind(whole), left_behind(path)
    there = {serial: (found.jobs[serial].id, change) for serial, change in found.last.items()}
    assert there == {serial: (expected.jobs[serial].id, expected.last[serial]) for serial in there}
    numbers = [line.serial for line in read(path) if isinstance(line, JobLine)]
    assert max(numbers) == max(expected.jobs), "the numbers of jobs go on"
    assert 0 < len(numbers) < len(expected.jobs)


def test_only_some_old_files_are_kept(tmp_path):
    path = tmp_path / "run.log"
    a_long_run(path, "fifo", Rotation(3000))
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["run.log", *(f"run.log.{number}" for number in range(1, KEPT_FILES + 1))]


def test_a_state_that_is_larger_than_the_limit_is_not_written_anew_each_cycle(tmp_path):
    path = tmp_path / "run.log"
    a_long_run(path, "fifo", Rotation(10))
    assert path.stat().st_size > 1000 or (tmp_path / "run.log.1").stat().st_size > 1000


def test_what_cannot_be_renamed_is_written_on(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "no")

    path = tmp_path / "run.log"
    monkeypatch.setattr("headway.record.rotation.os.replace", refused)
    a_long_run(path, "fifo", Rotation(3000), count=40)
    assert [file.name for file in tmp_path.iterdir()] == ["run.log"]
    replayed = ReplayCluster(path)
    run_loop(replayed, POLICIES["fifo"](), NoEstimates())
    assert not replayed.differences


def test_a_device_is_never_renamed():
    assert not Rotation(10).due(Path(os.devnull), 100, 1)
