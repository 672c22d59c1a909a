"""Limits of a replica: cores where there are no control groups, processes where there are."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from conftest_local import Can, Run, a_local_job

from headway.core.job import JobId, Role
from headway.core.node import Node
from headway.core.placement import Placement, shape_of
from headway.core.plan import Plan, Resize
from headway.local.affinity import CoreLoads
from headway.local.gang import Gang
from headway.local.limits import ControlGroup, ControlGroups, ReplicaLimits
from headway.local.machine import about_sharing
from headway.policies.baselines.fifo import first_fit

pytestmark = pytest.mark.timeout(250)


def test_replicas_are_spread_over_the_cores_of_their_node():
    loads = CoreLoads()
    assert loads.take("a", 900, (0, 1, 2, 3)) == (0,)
    assert loads.take("b", 900, (0, 1, 2, 3)) == (1,)
    assert loads.take("c", 2000, (0, 1, 2, 3)) == (2, 3)
    assert loads.take("d", 50, (0, 1, 2, 3)) == (0,)
    assert loads.take("e", 50, (0, 1, 2, 3)) == (1,)
    loads.give_back("c")
    loads.give_back("c")
    assert loads.take("f", 1500, (0, 1, 2, 3)) == (2, 3)
    assert loads.change("f", 100) == (2,)
    assert loads.take("g", 500, (0, 1, 2, 3)) == (3,)
    assert loads.change("f", 1100) == (2, 3)
    assert loads.change("nobody", 100) == ()
    assert loads.take("h", 9000, (0, 1)) == (0, 1)


def test_without_control_groups_two_replicas_do_not_share_a_core():
    groups = ControlGroups("test", cgroups=False)
    first = groups.group("a", ReplicaLimits(900), (0, 1))
    second = groups.group("b", ReplicaLimits(900), (0, 1))
    assert (first.cores, second.cores) == ((0,), (1,))
    first.remove()
    first.remove()
    assert groups.group("c", ReplicaLimits(900), (0, 1)).cores == (0,)
    groups.close()


def test_two_jobs_run_on_two_cores(scripts):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    (scripts / "where.py").write_text(
        "import os, time\nfrom headway import progress\nprint(sorted(os.sched_getaffinity(0)), flush=True)\n"
        "with progress.track() as p:\n    p.report(1)\n    open(os.environ['HEADWAY_JOB'], 'w').close()\n"
        "    while not (os.path.exists('a') and os.path.exists('b')): time.sleep(0.05)\n"
    )
    jobs = [a_local_job(name, scripts, "where.py", cpu=400) for name in ("a", "b")]
    run = Run(scripts, jobs, cgroups=False)
    run.cluster.roster.context.cores[:] = [tuple(cores)] * 2  # both nodes share the cores
    run.go(first_fit)
    assert run.output("a") != run.output("b")


def test_a_resize_changes_the_cores_of_all_threads(scripts):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    (scripts / "threads.py").write_text(
        "import os, threading, time\nfrom headway import progress\nstop = threading.Event()\n"
        "threading.Thread(target=stop.wait).start()\n"
        "def of(): return sorted({len(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')})\n"
        "with progress.track() as p:\n"
        "    p.report(1)\n    print(of(), flush=True)\n"
        "    end = time.time() + 9\n"
        "    while of() == [1] and time.time() < end: time.sleep(0.02)\n"
        "    time.sleep(0.2)\n    print(of(), flush=True)\nstop.set()\n"
    )

    def policy(snapshot):
        if snapshot.samples and JobId("a") in snapshot.jobs.row_of and not run.resized:
            run.resized = True
            return Plan((Resize(JobId("a"), "worker", 1500, 1),))
        return first_fit(snapshot)

    run = Run(scripts, [a_local_job("a", scripts, "threads.py", cpu=500, can=Can.RESIZE)], cpu=2000, cgroups=False)
    run.resized = False
    run.cluster.roster.context.cores[:] = [tuple(cores[:2])] * 2
    run.go(policy)
    assert run.output("a").split("\n")[:2] == ["[1]", "[2]"], run.notes


def test_only_processes_are_killed_never_our_own_group(tmp_path, monkeypatch):
    """A process that this namespace does not see has the number 0; os.kill(0) would kill Headway itself."""
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    (tmp_path / "group").mkdir()
    (tmp_path / "group/cgroup.procs").write_text("0\n4711\n")
    monkeypatch.setattr("headway.local.limits.time.sleep", lambda _: (tmp_path / "group/cgroup.procs").unlink())
    ControlGroup((tmp_path / "group",), unified=True).remove()
    assert killed == [(4711, signal.SIGKILL)]
    assert not (tmp_path / "group").exists()


FORK = """
import os, sys, time
from headway import progress
with progress.track() as p:
    p.report(1)
    for number in range(200):
        try:
            if os.fork() == 0:
                time.sleep(600)
        except BlockingIOError:
            print("refused after", number, flush=True)
            sys.exit(0)
"""


def _limits_processes() -> bool:
    groups = ControlGroups(f"try-{os.getpid()}")
    try:
        return groups.group("a", ReplicaLimits(500)).pids is not None
    finally:
        groups.close()


def test_a_fork_bomb_is_stopped_and_cleared_away(scripts):
    if not _limits_processes():
        pytest.skip("this user may not make control groups that limit processes")
    (scripts / "fork.py").write_text(FORK)
    run = Run(scripts, [a_local_job("a", scripts, "fork.py")], max_processes=40).go(first_fit)
    assert run.state("a") == "FINISHED"
    assert 30 <= int(run.output("a").split()[-1]) < 40
    assert not [folder for folder in run.cluster.control_groups._roots if folder.exists()]


def test_processes_are_limited_in_both_versions(tmp_path):
    for unified in (True, False):
        folder = tmp_path / str(unified)
        (folder / "pids").mkdir(parents=True)
        (folder / "cpu.max").write_text("")
        for name in ("cpu.cfs_period_us", "cpu.cfs_quota_us"):
            (folder / name).write_text("")
        pids = folder if unified else folder / "pids"
        (pids / "pids.max").write_text("max")
        group = ControlGroup((folder,), unified, pids=pids)
        group.limit(ReplicaLimits(500, processes=77))
        assert (pids / "pids.max").read_text() == "77"
        assert group.join == [f"{path}/cgroup.procs" for path in dict.fromkeys((folder, pids))]


def test_a_replica_weighs_what_it_holds_and_may_use_its_limit_in_both_versions(tmp_path):
    for unified, weight, names in (
        (True, "10", ("cpu.weight", "cpu.max")),
        (False, "102", ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")),
    ):
        folder = tmp_path / str(unified)
        folder.mkdir()
        for name in names:
            (folder / name).write_text("")
        ControlGroup((folder,), unified).limit(ReplicaLimits(1000, held=100))
        assert (folder / names[0]).read_text() == weight
        assert (folder / names[1]).read_text().split()[0] == "20000", "a whole core"


@pytest.mark.parametrize("cgroups", [True, False])
def test_a_limit_above_the_request_counts_only_where_cpu_can_be_shared(scripts, cgroups):
    role = Role(name="worker", request=(("cpu", 100), ("memory", 64)), limit=(("cpu", 800), ("memory", 128)))
    job = a_local_job("a", scripts, roles=(replace(role, command=("true",)),))
    run = Run(scripts, [job], cgroups=cgroups)
    groups = run.cluster.control_groups.by_cgroup
    gang = Gang(job, shape_of(job, run.cluster.board.nodes), run.cluster.roster.context)
    limits = gang.limits_of(Placement(((0,),)), 0)
    assert (limits.held, limits.cpu, limits.memory) == ((100, 800, 128) if groups else (100, 100, 64))
    said = run.cluster.about_sharing([job])
    run.cluster.close()
    assert ("" if groups else "without control groups no cpu is shared") in said


def test_what_is_said_of_nodes_without_cores_of_their_own():
    role = Role(name="worker", request=(("cpu", 100),), limit=(("cpu", 1000),))
    job = a_local_job("a", Path(), roles=(role,))
    left, right = (Node(name=name, capacity=(("cpu", 1000),)) for name in ("left", "right"))
    own, part = [(0,), (1,)], replace(right, capacity=(("cpu", 500),))
    assert about_sharing([job], [left, right], own, cgroups=True) == ""
    assert "all nodes share all cores" in about_sharing([job], [left, right], [(0, 1)] * 2, cgroups=True)
    assert "node right has part of a core" in about_sharing([job, job], [left, part], own, cgroups=True)
    plain = replace(job, roles=(replace(role, limit=()),))
    assert about_sharing([plain], [left, right], [(0, 1)] * 2, cgroups=False) == ""
