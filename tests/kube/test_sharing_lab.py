"""Jobs share the core of a real node, by weight where both want it; slow-growing ones move away."""

from __future__ import annotations

import os
import socket

import pytest

from headway.lab.testing import up_for_test
from scheduling import HERE, Schedule, run_headway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
BURN = ["--pace", "0.02", "--burn"]


@pytest.fixture(scope="module")
def apart():
    """Two nodes with a core each."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two nodes with a core each need two cores")
    lab = up_for_test("sharing", kubelets=2, kubelet_cores=1)
    done = run_headway("schedule", "--install", "--kubeconfig", str(lab.kubeconfig))
    assert done.returncode == 0, done.stderr
    yield lab
    lab.down()


@pytest.fixture
def schedule(apart, tmp_path):
    with socket.create_server(("", 0)) as probe:
        port = probe.getsockname()[1]
    apart.api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    schedule = Schedule(apart, "team", tmp_path, port)
    yield schedule
    if schedule.process is not None and schedule.process.poll() is None:
        schedule.kill()


def shares(schedule, name: str, steps: int, loss: str) -> None:
    role = {"cpu": "100m", "limit": {"cpu": "1"}}
    schedule.submit(name, {"worker": role}, ["--steps", str(steps), "--loss", loss, *BURN])


def test_the_slow_growing_job_moves_away_from_the_fast_growing_one(schedule):
    """Two share one core. The one that hardly learns moves to the other node once that is free."""
    schedule.start("--policy", f"{HERE / 'migrate_script.py'}:migrate", "--measure", "off")
    shares(schedule, "slow", 600, "soon")
    schedule.wait("slow", "Running")
    shares(schedule, "brief", 200, "steadily")
    schedule.wait("brief", "Running")
    shares(schedule, "fast", 450, "steadily")
    schedule.wait("fast", "Running")
    nodes = {name: schedule.pods(name)[0]["spec"]["nodeName"] for name in ("slow", "brief", "fast")}
    assert nodes["slow"] == nodes["fast"] != nodes["brief"]
    (pod,) = schedule.pods("slow")
    assert pod["status"]["qosClass"] == "Burstable"
    resources = pod["spec"]["containers"][0]["resources"]
    assert (resources["requests"]["cpu"], resources["limits"]["cpu"]) == ("100m", "1")
    for name in ("brief", "fast", "slow"):
        schedule.wait(name, "Succeeded", seconds=150)
    assert schedule.stop() == 0
    assert "slow: moving" in schedule.words()
    assert "fast: moving" not in schedule.words()
    starts = [line for line in schedule.story("slow") if " from " in line]
    assert len(starts) == 2, "it went on from its checkpoint, once"
    assert int(starts[1].split()[4]) > 0
    assert len([line for line in schedule.story("fast") if " from " in line]) == 1
