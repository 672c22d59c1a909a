"""Stock scripts, which know nothing of Headway, train on this machine, also after a change of size."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest_local import Run

from headway.core.job import Job
from headway.core.plan import Plan, Scale
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.local.settings import LocalTimeouts
from headway.policies.baselines.fifo import first_fit
from headway.workload.jobsfile import load

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.timeout(150)


def jobs_of(file: str) -> list[Job]:
    """With a whole core each, which the examples do not ask for: a framework takes long to load."""
    jobs = load(EXAMPLES / file).jobs
    return [replace(job, roles=tuple(replace(role, request=(("cpu", 1000),)) for role in job.roles)) for job in jobs]


def test_no_script_knows_headway():
    scripts = list((EXAMPLES / "frameworks").glob("*.py"))
    assert len(scripts) == 3
    for script in scripts:
        assert not re.search(r"^\s*(import|from) headway|HEADWAY", script.read_text(), re.MULTILINE)


class Changes:
    """Starts all jobs; changes the workers of each once, as soon as it has saved."""

    def __init__(self, folder: Path, workers: dict[str, int]) -> None:
        self.folder, self.left = folder / "state/checkpoints", dict(workers)

    def __call__(self, snapshot: Snapshot) -> Plan:
        decisions = []
        for name in list(self.left):
            saved = any((self.folder / name).glob("*.npz")) or any((self.folder / name).glob("*.pt"))
            if name in snapshot.jobs.row_of and snapshot.state(name) is State.RUNNING and saved:
                decisions.append(Scale(name, "worker", (0,) * self.left.pop(name)))
        plan = Plan(tuple(decisions)) if decisions else first_fit(snapshot)
        return replace(plan, until=snapshot.now + 0.2)


def starts(run: Run, job: str, replica: str) -> list[tuple[int, int, int]]:
    """Of each start: its rank, the number of ranks, and from which step it went on."""
    found = re.findall(r"(\d+) of (\d+): from (?:step|epoch) (\d+)", run.output(job, replica))
    return [tuple(map(int, one)) for one in found]  # type: ignore[misc]


def test_a_parameter_server_and_jax_distributed_train_before_and_after_a_change_of_size(tmp_path):
    patience = LocalTimeouts(save=30, stop=30, start=90, grace=1)
    run = Run(tmp_path, jobs_of("frameworks.yaml"), patience, cpu=8000).go(
        Changes(tmp_path, {"servers": 3, "jax": 1}), seconds=120
    )
    assert (run.state("servers"), run.state("jax")) == ("FINISHED", "FINISHED"), run.notes
    # two workers, then three: no rank is missing, and all go on from the server's checkpoint
    for index in range(3):
        *before, (rank, size, first) = starts(run, "servers", f"worker-{index}")
        assert [one[:2] for one in before] == ([(index, 2)] if index < 2 else [])
        assert (rank, size) == (index, 3)
        assert 0 < first < 200
        assert "done at step 200" in run.output("servers", f"worker-{index}")
    assert float(run.output("servers", "worker-0").split("loss ")[-1]) < 0.01
    # two processes, then one: jax saves when it is told to end
    assert starts(run, "jax", "worker-0")[0] == (0, 2, 0)
    assert starts(run, "jax", "worker-1") == [(1, 2, 0)]
    told = int(re.findall(r"saved at step (\d+), and ends", run.output("jax", "worker-0"))[0])
    assert starts(run, "jax", "worker-0")[1] == (0, 1, told)
    assert float(run.output("jax", "worker-0").split("loss ")[-1]) < 0.1
