"""Host names on real kubelets: every replica reaches every other by the names in HEADWAY_HOSTS."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

MEET = """
import json, os, socket, time
server = socket.create_server(("", int(os.environ["HEADWAY_PORT"])))
for host in [one for role in json.loads(os.environ["HEADWAY_HOSTS"]).values() for one in role]:
    name, _, port = host.rpartition(":")
    for _ in range(300):
        try:
            socket.create_connection((name, int(port)), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    else:
        raise SystemExit(f"{host} was not found")
time.sleep(1)  # until the others have seen this one
"""


def test_all_replicas_of_all_roles_reach_each_other_by_name(schedule):
    lab, namespace = schedule.lab, schedule.namespace
    schedule.start()
    meet = {"command": ["python", "-c", MEET]}
    schedule.submit("meet", {"chief": {**meet}, "worker": {"replicas": 2, "min": 2, "max": 2, **meet}}, [])
    uid = schedule.wait("meet", "Succeeded", "Failed", seconds=90)["metadata"]["uid"]
    status = schedule.job("meet")["status"]
    assert status["phase"] == "Succeeded", status
    services = lab.api.get(f"/api/v1/namespaces/{namespace}/services")["items"]
    assert [one["metadata"]["name"] for one in services] == [f"meet-{uid[:8]}"]
    assert services[0]["metadata"]["ownerReferences"][0]["uid"] == uid, "it is deleted with its job"
    assert schedule.stop() == 0
