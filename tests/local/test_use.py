"""What a job holds follows what it uses, on real processes; and a job that names nothing but its deadline."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest_local import Run, a_local_job

from headway.jobspec import stated
from headway.policies.headway import Headway

pytestmark = pytest.mark.timeout(200)
ROOT = Path(__file__).parents[2]


def _group(run):
    """Quota in microseconds per period, and weight, as the kernel has them."""
    gang = next(iter(run.cluster.roster.gangs.values()), None)
    if gang is None or not gang.replicas or not gang.replicas[0].group.folders:
        return None
    group, folder = gang.replicas[0].group, gang.replicas[0].group.folders[0]
    try:
        if group.unified:
            return int((folder / "cpu.max").read_text().split()[0]), int((folder / "cpu.weight").read_text())
        return int((folder / "cpu.cfs_quota_us").read_text()), int((folder / "cpu.shares").read_text())
    except (OSError, ValueError):
        return None


def _held_and_groups(scripts, job):
    run, policy, seen = Run(scripts, [job]), Headway(idle_after=3.0, moving=False), []
    if not run.cluster.control_groups.by_cgroup:
        run.cluster.close()
        pytest.skip("no control groups here: nothing is measured and nothing is weighed")

    def watched(snapshot):
        placement, kind = snapshot.placements.get(0), snapshot.nodes.kinds.index("cpu")
        if placement is not None and (found := _group(run)) is not None:
            seen.append((int(placement.vector(snapshot.jobs.shape_at(0), 0)[kind]), *found))
        return policy(snapshot)

    run.go(watched)
    assert run.state("a") == "FINISHED"
    return seen


def test_a_job_that_leaves_its_cpu_idle_holds_less_and_keeps_its_limit(scripts):
    seen = _held_and_groups(scripts, a_local_job("a", scripts, "count.py", "240", cpu=800, steps=240))
    assert seen[0][0] == 800
    assert seen[-1][0] < 400, "it sleeps nearly all the time"
    assert seen[-1][1] == seen[0][1], "its quota stays"
    assert seen[-1][2] < seen[0][2] / 2, "its weight falls"


def test_a_job_that_names_nothing_counts_as_one_core_and_may_use_the_node(scripts):
    job = a_local_job("a", scripts, "count.py", "240", steps=240)
    role = stated(replace(job.roles[0], request=()))
    seen = _held_and_groups(scripts, replace(job, roles=(role,)))
    assert seen[0][0] == 1000
    assert seen[-1][0] < 500


def test_the_example_with_nothing_but_deadlines(tmp_path):
    """In time, or told by how much not: the machine may be busy."""
    command = [sys.executable, "-m", "headway", "run", str(ROOT / "examples/deadline-only.yaml")]
    told = subprocess.run(
        [*command, "--state", str(tmp_path / "state")], capture_output=True, text=True, timeout=180, check=False
    )
    assert told.returncode == 0, told.stderr
    assert "deadlines" in told.stdout
    assert "cpu" not in Path(ROOT / "examples/deadline-only.yaml").read_text().split("jobs:")[1]
