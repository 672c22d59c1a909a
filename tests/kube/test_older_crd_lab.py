"""A CRD older than the scheduler, on a real API server: training goes on, it is told, and a newer CRD ends it."""

from __future__ import annotations

import copy
import time

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainingjobs.headway.dev"
JSON = "application/json"


@pytest.fixture
def older(installed):
    """It knows neither epochs nor a job that stops. What it is replaced with is the CRD of this version."""
    newer = installed.api.get(CRD)
    found = copy.deepcopy(newer)
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]["properties"]
    del status["epoch"]
    status["phase"]["enum"].remove("Stopping")
    schema["x-kubernetes-validations"] = [
        rule for rule in schema["x-kubernetes-validations"] if "epoch" not in rule["rule"]
    ]
    replace(installed, found)
    yield lambda: replace(installed, newer)
    replace(installed, newer)


def replace(lab, crd: dict) -> None:
    version = lab.api.get(CRD)["metadata"]["resourceVersion"]
    body = {**crd, "metadata": {**crd["metadata"], "resourceVersion": version}}
    lab.api.request("PUT", CRD, body, JSON)
    time.sleep(2.0)  # the API server serves it a moment later


def test_a_crd_that_lacks_a_field_and_a_phase_stops_no_training(older, schedule):
    schedule.start()
    schedule.submit("old", {"worker": {"replicas": 2}}, ["--steps", "6000"])
    schedule.wait("old", "Running")
    assert schedule.job("old")["status"]["epoch"] >= 1, "fields that it does not know are kept"
    before = {pod["metadata"]["uid"] for pod in schedule.pods("old")}
    path = f"/apis/headway.dev/v1alpha1/namespaces/{schedule.namespace}/trainingjobs/old"
    schedule.lab.api.patch(path, {"spec": {"suspend": True}})
    deadline = time.monotonic() + 60.0
    while "its status is refused, it is written again later" not in schedule.words():
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.2)
    step = schedule.job("old")["status"].get("progress", {}).get("step", 0)
    time.sleep(3.0)
    here = schedule.pods("old")
    assert {pod["metadata"]["uid"] for pod in here} == before, "nothing is deleted that no status asks for"
    assert not [pod for pod in here if "deletionTimestamp" in pod["metadata"]]
    assert schedule.phase("old") == "Running"
    older()
    status = schedule.wait("old", "Suspended", seconds=60)["status"]
    assert status["epoch"] >= 1
    schedule.lab.api.patch(path, {"spec": {"suspend": False}})
    schedule.wait("old", "Running")
    assert schedule.job("old")["status"]["progress"]["step"] >= step
