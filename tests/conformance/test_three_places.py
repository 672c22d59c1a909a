"""The same jobs file in virtual time, on this machine and on Kubernetes: jobs start in the same order."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scheduling import Schedule

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples/quickstart.yaml"
ADAPT = ROOT / "examples/adapt.yaml"

COUNT = """
import sys, time
from headway import progress
with progress.track(total_steps=10) as p:
    for step in range(1, 11):
        time.sleep(float(sys.argv[1]) / 10)
        p.report(step, loss=1 / step)
"""

ORDER = """
nodes: [{name: left, cpu: 300m}, {name: right, cpu: 300m}]
jobs:
  - {name: first, cpu: 200m, seconds: 6, command: [python, count.py, "6"]}
  - {name: wide, seconds: 3, command: [python, count.py, "3"], roles: {worker: {replicas: 2, cpu: 200m}}}
  - {name: small, cpu: 100m, submit: 1s, seconds: 9, command: [python, count.py, "9"]}
  - {name: second, cpu: 300m, submit: 2s, seconds: 3, command: [python, count.py, "3"]}
  - {name: late, cpu: 100m, submit: 2500ms, seconds: 1, command: [python, count.py, "1"]}
"""


def _starts(log: Path) -> list[str]:
    """The names of the jobs in the order of their starts; on Kubernetes an id is namespace/name."""
    plans = [json.loads(line).get("plan", []) for line in log.read_text().splitlines()]
    return [decision[1].rpartition("/")[2] for plan in plans for decision in plan if decision[0] == "start"]


@pytest.mark.timeout(200)
@pytest.mark.parametrize("policy", ["fifo", "first-fit", "backfill"])
def test_jobs_start_in_the_same_order_in_virtual_time_and_here(headway, tmp_path, policy):
    (tmp_path / "count.py").write_text(COUNT)
    (tmp_path / "jobs.yaml").write_text(ORDER)
    headway("simulate", "jobs.yaml", "--policy", policy, "--log", "sim.log", "--estimates", "declared")
    headway("run", "jobs.yaml", "--policy", policy, "--json", "--estimates", "declared")
    assert _starts(tmp_path / "sim.log") == _starts(tmp_path / ".headway/jobs/run.log")


def _leave_free(schedule: Schedule, node: str, cpu: int) -> None:
    """A pod of another scheduler takes the cpu of a node, except for this much (in thousandths of a core)."""
    api = schedule.lab.api
    allocatable = api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]["cpu"]
    total = int(allocatable[:-1]) if allocatable.endswith("m") else int(allocatable) * 1000
    pod = schedule.lab.pod_template()
    request = {"requests": {"cpu": f"{total - cpu}m"}}
    pod["spec"]["containers"][0] |= {"command": ["sleep", "600"], "resources": request}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"other-{node}"}}
    spec = {**pod["spec"], "nodeName": node, "terminationGracePeriodSeconds": 0}  # gone at once when the test is over
    api.post(f"/api/v1/namespaces/{schedule.namespace}/pods", {**body, "spec": spec})


@pytest.mark.lab
@pytest.mark.timeout(300)
def test_jobs_start_in_the_same_order_in_virtual_time_and_on_kubernetes(headway, tmp_path, schedule):
    """The nodes of the lab have as much cpu left as the file says of its nodes."""
    folder = tmp_path / "code"
    folder.mkdir()
    schedule.code.append(folder)
    for place in (tmp_path, folder):
        (place / "count.py").write_text(COUNT)
        (place / "jobs.yaml").write_text(ORDER)
    for node in schedule.lab.node_names:
        _leave_free(schedule, node, 300)
    policy = ["--policy", "first-fit", "--estimates", "declared"]
    schedule.start(*policy)
    headway("simulate", "jobs.yaml", "--log", "sim.log", *policy)
    here = ["--kubeconfig", str(schedule.lab.kubeconfig), "--namespace", schedule.namespace]
    headway("submit", str(folder / "jobs.yaml"), "--directory", ".", "--wait", *here)
    assert schedule.stop() == 0
    assert _starts(schedule.log) == _starts(tmp_path / "sim.log")


@pytest.mark.train
@pytest.mark.timeout(450)
def test_the_quickstart_trains_here(headway, tmp_path):
    result = json.loads(headway("run", str(QUICKSTART), "--json", "--state", ".headway/quickstart").stdout)
    assert result["finished"] == result["jobs"] == 6
    assert result["refused"] == 0
    log = tmp_path / ".headway/quickstart/run.log"
    losses: dict[str, list[float]] = {}
    for line in log.read_text().splitlines():
        for job, _at, _step, loss, _total in json.loads(line).get("samples", []):
            if loss is not None:
                losses.setdefault(job, []).append(loss)
    assert len(losses) == 6
    for job, curve in losses.items():
        assert min(curve[-3:]) < 0.8 * curve[0], f"{job} did not learn: {curve[0]} to {curve[-3:]}"
    replayed = json.loads(headway("replay", str(log), "--json").stdout)
    assert replayed["differences"] == []
    assert replayed["cycles"] > 6


@pytest.mark.train
@pytest.mark.timeout(650)
def test_every_decision_on_real_training(headway, tmp_path):
    """One job grown, one resized while it trains, one moved, one preempted and resumed, each from its checkpoint."""
    result = json.loads(
        headway("run", str(ADAPT), "--json", "--policy", "adaptive", "--state", ".headway/adapt", seconds=600).stdout
    )
    assert result["finished"] == result["jobs"] == 3
    assert {"start", "scale", "resize", "move", "stop"} <= set(result["decisions"])
    output = tmp_path / ".headway/adapt/output"
    starts = [int(step) for step in re.findall(r"from step (\d+)", (output / "steady/chief-0.log").read_text())]
    starts += [int(step) for step in re.findall(r"from step (\d+)", (output / "roomy/worker-0.log").read_text())]
    assert sum(step > 0 for step in starts) >= 2, starts
    assert json.loads(headway("replay", str(tmp_path / ".headway/adapt/run.log"), "--json").stdout)["differences"] == []


def test_every_decision_in_virtual_time(headway, tmp_path):
    result = json.loads(headway("simulate", str(ADAPT), "--json", "--policy", "adaptive", "--log", "sim.log").stdout)
    assert result["finished"] == 3
    assert {"start", "scale", "resize", "move", "stop"} <= set(result["decisions"])
    assert json.loads(headway("replay", "sim.log", "--json").stdout)["differences"] == []
