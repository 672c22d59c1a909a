"""The power fails: what was on the disk is there again, what was only in memory is not.

`Disk` stands for the disk: it has of each file what it had at its last fsync, and of each folder the names that it had
at its own. A file whose name is on the disk and whose content is not comes back empty, as on a real one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from headway.beliefs.whole_file import write_whole
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.cycle.loop import Decided, run
from headway.estimates.plain_books import DeclaredBook
from headway.local.added import added_jobs, put
from headway.local.state_folder import env_key
from headway.policies.registry import POLICIES
from headway.progress import whole_file
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.resume import left_behind
from headway.sim.cluster import SimCluster
from make import a_job, some_nodes


class Disk:
    def __init__(self) -> None:
        self.content: dict[int, bytes] = {}
        self.names: dict[str, dict[str, int]] = {}

    def fsync(self, descriptor: int) -> None:
        status, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}").readlink()
        if stat.S_ISDIR(status.st_mode):
            self.names[str(path)] = {one.name: one.inode() for one in os.scandir(path)}
        else:
            self.content[status.st_ino] = path.read_bytes()

    def after_the_cut(self, folder: Path) -> dict[str, bytes]:
        """Files by name."""
        return {name: self.content.get(inode, b"") for name, inode in self.names.get(str(folder), {}).items()}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(os, "fsync", found.fsync)
    return found


def test_a_checkpoint_is_the_old_one_or_the_new_one(disk: Disk, tmp_path: Path) -> None:
    for old, new in (("", "first"), ("first", "second")):
        with whole_file(tmp_path / "model") as file:
            file.write(new.encode())
            file.flush()
            assert disk.after_the_cut(tmp_path).get("model", b"") == old.encode()
        assert disk.after_the_cut(tmp_path) == {"model": new.encode()}
    with pytest.raises(TypeError), whole_file(tmp_path / "model") as file:
        file.writelines([b"half", "not bytes"])  # type: ignore[list-item]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == b"second"


def test_what_headway_keeps_in_whole_files_is_on_the_disk_when_it_is_written(disk: Disk, tmp_path: Path) -> None:
    write_whole(tmp_path / "beliefs", b"learned", private=True)
    key = env_key(tmp_path)
    assert disk.after_the_cut(tmp_path) == {"beliefs": b"learned", "env-key": key}
    assert (tmp_path / "env-key").stat().st_mode & 0o777 == 0o600
    put(tmp_path, [a_job("added")], tmp_path / "more.yaml")
    kept = disk.after_the_cut(tmp_path / "added")["added.json"]
    (tmp_path / "added" / "added.json").write_bytes(kept)
    assert list(added_jobs(tmp_path)) == ["added"]


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        write_whole(tmp_path / "none" / "file", b"")


def test_the_log_of_a_decision_is_on_the_disk_before_it_is_carried_out(disk: Disk, tmp_path: Path) -> None:
    path, decisions = tmp_path / "run.log", 0
    writer = LogWriter(path, Head("local", "first-fit", "declared", {}, 0, 0.0, "f"), durable=True)
    writer.synced = True

    def observe(decided: Decided) -> None:
        nonlocal decisions
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        if decided.plan.decisions:
            decisions += 1
            assert disk.after_the_cut(tmp_path)["run.log"] == path.read_bytes()

    jobs = [a_job(name, 4, seconds=10.0) for name in "abc"]
    run(SimCluster(some_nodes(1, gpus=4), jobs), POLICIES["first-fit"](), DeclaredBook(), observe)
    assert decisions == 3
    writer.end(30.0, 0)
    path.write_bytes(disk.after_the_cut(tmp_path)["run.log"])
    assert left_behind(path).complete
    assert left_behind(path).newest().keys() == {JobId("a"), JobId("b"), JobId("c")}
