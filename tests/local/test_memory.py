"""Memory limits: a replica that uses more than its job requests is killed; without a request there is no limit."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest_local import Run, a_local_job

from headway.core.job import Role
from headway.core.plan import Plan, Resize
from headway.core.snapshot import Snapshot
from headway.jobspec import stated
from headway.local.limits import ControlGroup, ControlGroups, ReplicaLimits
from headway.policies.baselines.fifo import first_fit

pytestmark = pytest.mark.timeout(250)

TAKE = """
import sys, time
from headway import progress
with progress.track(total_steps=len(sys.argv) - 1) as p:
    held = []
    for step, mebibytes in enumerate(sys.argv[1:], 1):
        held.append(b"x" * (int(mebibytes) << 20))
        time.sleep(0.3)
        p.report(step)
        print("took", mebibytes, flush=True)
        while step == 1 and len(sys.argv) > 2 and not open("go").read():
            time.sleep(0.05)
"""


@pytest.fixture
def permitted() -> None:
    groups = ControlGroups(f"try-{os.getpid()}")
    try:
        if groups.group("a", ReplicaLimits(500, 64)).memory is None:
            pytest.skip("this user may not make control groups that limit memory")
    finally:
        groups.close()


@pytest.fixture
def take(scripts: Path) -> Path:
    (scripts / "take.py").write_text(TAKE)
    (scripts / "go").write_text("")
    return scripts


@pytest.mark.usefixtures("permitted")
def test_a_replica_that_takes_more_than_its_memory_is_killed_and_the_note_says_so(take):
    jobs = [a_local_job("greedy", take, "take.py", "300", memory=128),
            a_local_job("fitting", take, "take.py", "20", memory=128),
            a_local_job("free", take, "take.py", "300")]  # fmt: skip
    run = Run(take, jobs).go(first_fit)
    assert run.state("greedy") == "FAILED"
    assert run.notes["greedy"] == ["worker-0 was killed: it used more than its 128 MiB"]
    assert run.state("fitting") == "FINISHED"
    assert run.state("free") == "FINISHED"
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{run.cluster.control_groups._name}"))


@pytest.mark.usefixtures("permitted")
def test_what_a_replica_starts_counts_with_it(take):
    """The kernel may kill only the child. The exit code of its parent is then not the reason."""
    (take / "parent.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'take.py', '300']) and 3)\n"
    )
    run = Run(take, [a_local_job("a", take, "parent.py", memory=128)]).go(first_fit)
    assert run.notes["a"] == ["worker-0 was killed: it used more than its 128 MiB"]


class Once:
    """Resizes the job once, after its first report. The script goes on when the resize is done or was refused."""

    def __init__(self, folder: Path, memory: int) -> None:
        self.folder, self.memory, self.asked = folder, memory, False

    def __call__(self, snapshot: Snapshot) -> Plan:
        if not self.asked and any(sample.step == 1 for sample in snapshot.samples):
            self.asked = True
            return Plan((Resize(snapshot.jobs.job(0).id, "worker", 300, self.memory),))
        if self.asked and not snapshot.flights:
            (self.folder / "go").write_text("on")
        return first_fit(snapshot)


@pytest.mark.usefixtures("permitted")
def test_a_resize_changes_the_limit(take):
    run = Run(take, [a_local_job("a", take, "take.py", "60", "200", memory=128)]).go(Once(take, 512))
    assert run.state("a") == "FINISHED"
    assert run.notes == {}


@pytest.mark.usefixtures("permitted")
def test_a_resize_below_what_is_held_is_refused(take):
    run = Run(take, [a_local_job("a", take, "take.py", "100", "1", memory=256)]).go(Once(take, 64))
    assert run.state("a") == "FINISHED"
    assert run.notes["a"][0].startswith("it was not resized: worker-0 holds 1")
    assert run.notes["a"][0].endswith("MiB, not below 64 MiB")


def test_a_resize_of_a_job_that_names_no_memory_limits_none(take):
    run = Run(take, [a_local_job("a", take, "take.py", "60", "200")]).go(Once(take, 64))
    assert run.state("a") == "FINISHED"


def test_limits_in_both_versions(tmp_path):
    """The files of the kernel: cgroup version 2 has one folder, version 1 has one for each controller."""
    for name in ("memory.max", "memory.swap.max", "memory.oom.group"):
        (tmp_path / name).write_text("max")
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (tmp_path / "memory.stat").write_text(f"anon {70 << 20}\nfile {900 << 20}\nshmem {5 << 20}\n")
    two = ControlGroup((tmp_path,), unified=True, memory=tmp_path)
    two.limit(ReplicaLimits(500, 512))
    assert (tmp_path / "memory.max").read_text() == str(512 << 20)
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    assert (tmp_path / "memory.oom.group").read_text() == "1"
    assert (two.held_memory(), two.killed_for_memory()) == (75, True)
    assert two.join == [str(tmp_path / "cgroup.procs")]

    one, cpu = tmp_path / "memory", tmp_path / "cpu"
    one.mkdir()
    cpu.mkdir()
    (one / "memory.limit_in_bytes").write_text(str(2**60))
    (one / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    (one / "memory.stat").write_text(f"cache {900 << 20}\ntotal_rss {70 << 20}\ntotal_shmem {5 << 20}\n")
    group = ControlGroup((cpu, cpu), unified=False, memory=one)
    group.limit(ReplicaLimits(500, 512))
    assert (one / "memory.limit_in_bytes").read_text() == str(512 << 20)
    assert not (one / "memory.memsw.limit_in_bytes").exists()
    assert (group.held_memory(), group.killed_for_memory()) == (75, False)
    assert group.join[-1] == str(one / "cgroup.procs")
    plain = ControlGroup((cpu, cpu), unified=False)
    plain.limit(ReplicaLimits(500, 64))
    assert (plain.held_memory(), plain.killed_for_memory()) == (0, False)


@pytest.mark.usefixtures("permitted")
def test_a_job_that_names_nothing_holds_the_memory_that_it_needs(take, monkeypatch):
    """Each holds a quarter of the machine at first, its share. A third finds room once the others were measured."""
    monkeypatch.setattr("headway.local.gang.MEMORY_SETTLE_SECONDS", 1.0)
    script = "import time; held = b'x' * ({} << 20); time.sleep(10)"

    def bare(name: str, mebibytes: int):
        role = stated(Role(name="worker", command=(sys.executable, "-c", script.format(mebibytes))))
        return a_local_job(name, take, roles=(role,))

    third = a_local_job("third", take, "-c", "pass", cpu=0, memory=3000)
    run = Run(take, [bare("large", 400), bare("small", 1), third], cpu=2000)
    held: dict[str, list[int]] = {"large": [], "small": []}

    def policy(snapshot: Snapshot) -> Plan:
        for name, seen in held.items():
            row = snapshot.jobs.row_of[name]
            if row in snapshot.placements:
                kind = snapshot.nodes.kinds.index("memory")
                seen.append(int(snapshot.placements[row].vector(snapshot.jobs.shape_at(row), 0)[kind]))
        return replace(first_fit(snapshot), until=snapshot.now + 0.3)

    run.go(policy)
    assert held["large"][0] == held["small"][0] == 2048
    assert 500 <= held["large"][-1] < 800, "never less than it took, and a margin"
    assert held["small"][-1] == 128
    assert run.state("third") == "FINISHED"
    ends = {name: next(s.now for s in run.snapshots if s.state(name).name == "FINISHED") for name in ("third", "small")}
    assert ends["third"] < ends["small"], "it did not wait for the end of the others"
