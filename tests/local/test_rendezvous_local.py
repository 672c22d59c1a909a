"""Replicas on this machine find each other by the variables that frameworks read."""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import replace

import pytest
from conftest_local import Run

from headway.core.job import Job, JobId, Role
from headway.local.ports import FIRST, LAST, FreePorts
from headway.policies.baselines.fifo import first_fit

pytestmark = pytest.mark.timeout(120)

MEET = """
import json, os, socket, sys, time
env, deadline = os.environ, time.monotonic() + 30
names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG", "HEADWAY_PORT", "JAX_PROCESS_ID")
print(json.dumps({name: env.get(name) for name in names}), flush=True)
if env["RANK"] == "0":
    with socket.create_server((env["MASTER_ADDR"], int(env["MASTER_PORT"]))) as server:
        for _ in range(int(env["WORLD_SIZE"]) - 1):
            server.accept()[0].close()
else:
    while True:
        try:
            socket.create_connection((env["MASTER_ADDR"], int(env["MASTER_PORT"])), 1).close()
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
"""


def a_meeting(name: str, folder, replicas: int, **more: object) -> Job:
    (folder / "meet.py").write_text(MEET)
    role = Role(name="worker", replicas=replicas, min=replicas, max=replicas, request=(("cpu", 100),),
                command=(sys.executable, "meet.py"))  # fmt: skip
    return Job(id=JobId(name), roles=(replace(role, **more),), directory=str(folder))  # type: ignore[arg-type]


def test_jobs_at_once_meet_each_at_its_own_place_and_the_jobs_own_environment_wins(scripts, monkeypatch):
    monkeypatch.setenv("RANK", "17")  # of the shell that started Headway: not of the job
    mine = str(FreePorts().take())
    own = a_meeting("own", scripts, 2, env=(("MASTER_PORT", mine), ("JAX_PROCESS_ID", "mine")))
    run = Run(scripts, [a_meeting("a", scripts, 3), a_meeting("b", scripts, 2), own]).go(first_fit)
    assert [run.state(name) for name in ("a", "b", "own")] == ["FINISHED"] * 3
    seen = {
        (job, index): json.loads(run.output(job, f"worker-{index}").splitlines()[0])
        for job, count in (("a", 3), ("b", 2), ("own", 2)) for index in range(count)
    }  # fmt: skip
    assert [seen["a", i]["RANK"] for i in range(3)] == ["0", "1", "2"]
    assert [seen["b", i]["WORLD_SIZE"] for i in range(2)] == ["2", "2"]
    ports = [one["HEADWAY_PORT"] for one in seen.values()] + [seen["a", 0]["MASTER_PORT"], seen["b", 0]["MASTER_PORT"]]
    assert len(set(ports)) == 9
    config = json.loads(seen["a", 1]["TF_CONFIG"])
    assert config["cluster"]["worker"] == [f"127.0.0.1:{seen['a', i]['HEADWAY_PORT']}" for i in range(3)]
    assert config["task"] == {"type": "worker", "index": 1}
    assert (seen["own", 1]["MASTER_PORT"], seen["own", 1]["JAX_PROCESS_ID"]) == (mine, "mine")


def test_ports_in_use_are_passed_over_and_given_back_ones_come_last():
    ports = FreePorts()
    first = ports.take()
    with socket.create_server(("", first + 1 if first + 1 < LAST else FIRST)):
        third = ports.take()
    assert (third - first) % (LAST - FIRST) >= 2
    ports.give_back([first])
    assert ports.take() != first
