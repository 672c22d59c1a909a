"""A pod of a gang is evicted on real kubelets, as a drain does it: the gang saves, and goes on from there."""

from __future__ import annotations

import time

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_an_evicted_gang_saves_first_and_loses_nothing(schedule):
    lab, namespace = schedule.lab, schedule.namespace
    schedule.start()
    time_to_save = {"spec": {"terminationGracePeriodSeconds": 30}}
    pair = {"worker": {"replicas": 2, "min": 2, "max": 2}}
    schedule.submit("drained", pair, ["--steps", "100000"], template=time_to_save)
    schedule.wait("drained", "Running", seconds=60)
    deadline = time.monotonic() + 30
    while ((schedule.job("drained")["status"].get("progress") or {}).get("step") or 0) < 20:
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.1)
    name = "drained-0-worker-0"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    lab.api.post(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)
    deadline = time.monotonic() + 60
    while schedule.job("drained")["status"]["attempt"] == 0:
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.1)
    while sum(" 1 from " in line for line in schedule.story("drained")) < 2:
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.1)
    status, story = schedule.job("drained")["status"], schedule.story("drained")
    assert not status.get("losses"), "it is no loss: nothing was lost"
    saved = {line.split()[1]: int(line.split()[-1]) for line in story if " 0 saved " in line}
    again = {line.split()[1]: int(line.split()[4]) for line in story if " 1 from " in line}
    assert set(saved) == {"0", "1"}, story
    assert again == saved, story
    assert schedule.stop() == 0
