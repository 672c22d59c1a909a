"""An agent of Order-v0 schedules TrainingJobs on real kubelets; what its guard found survives a restart."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from headway.learn.agents import agent_name

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

AGENT = """
def last(seen):
    "The newest job that fits; it waits only where it must."
    return int(seen["action_mask"][:-1].nonzero()[0][-1]) if seen["action_mask"][:-1].any() else 128
"""


def test_an_agent_decides_where_its_guard_allows_it(schedule):
    file, kept = schedule.folder / "mine.py", schedule.log.with_name("run.log.guard")
    file.write_text(AGENT)
    agent = f"{file}:last"
    options = ("--policy", agent, "--env", "headway/Order-v0")
    schedule.start(*options)
    schedule.submit("a", {"worker": {"replicas": 2}}, ["--steps", "3"])
    schedule.wait("a", "Succeeded", seconds=60)
    assert schedule.stop() == 0
    found = json.loads(kept.read_text())
    assert (found["policy"], found["mode"], found["finished"]) == (agent_name(agent), "shadow", 1)
    said = zlib.compress(json.dumps({**found, "mode": "on", "why": "a test says so"}).encode())
    secret = "/api/v1/namespaces/headway-system/secrets/headway-state"  # it counts more than the file
    part = {f"{schedule.namespace}.guard": base64.b64encode(said).decode()}
    schedule.lab.api.patch(secret, {"data": part})
    schedule.start(*options)
    schedule.submit("b", {"worker": {"replicas": 2}}, ["--steps", "3"])
    schedule.wait("b", "Succeeded", seconds=60)
    assert schedule.stop() == 0
    found = json.loads(kept.read_text())
    assert (found["mode"], found["finished"]) == ("on", 2)
    assert '"standing":["on","a test says so"]' in schedule.log.read_text()
    assert schedule.replay().returncode == 0
