"""One object ends nothing: its fault is in its own status, also after a restart, and every other job goes on."""

from __future__ import annotations

import json

import pytest
from small_cluster import HEALTHY, MemoryApi, SmallCluster

from headway.core.estimates import Basis, Estimate
from headway.core.states import State
from headway.kube import following as cluster_module
from headway.kube.api.errors import Invalid, KubeError
from headway.kube.gangs import step as step_module
from headway.kube.gangs.gang import TrainingProgress
from headway.kube.gangs.step import reconcile
from headway.kube.inbox import WorkerEnded
from headway.kube.views.status import progress_status
from headway.kube.writes.write import StatusPatch

ROLES = {"worker": {"cpu": "100m"}}


def nested(levels: int) -> dict:
    found: dict = {}
    for _ in range(levels):
        found = {"a": found}
    return found


TEMPLATES = [
    {"spec": 5},
    {"spec": {"containers": "x"}},
    {"metadata": "x"},
    {"metadata": {"labels": ["x"]}},
    {"metadata": {"annotations": {"a": 5}}},
    {"spec": {"containers": [5]}},
    {"spec": {"containers": [{"name": ["x"]}]}},
    {"spec": {"containers": [{"image": "without a name"}]}},
    {"spec": {"containers": [{"name": "main", "env": "x"}]}},
    {"spec": {"containers": [{"name": "main", "env": [5]}]}},
    {"spec": {"containers": [{"name": "main", "resources": 5}]}},
    {"spec": {"volumes": [5]}},
    {"spec": {"tolerations": "x"}},
    {"spec": nested(200)},
]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: json.dumps(template)[:60])
def test_a_template_of_a_wrong_shape_fails_its_job_and_no_other(template):
    small = SmallCluster()
    bad = small.api.submit("bad", {"roles": ROLES, "template": template})
    good = small.api.submit("good", HEALTHY)
    small.turn(6)
    status = small.api.status(bad)
    assert (status["phase"], status["reason"]) == ("Failed", "InvalidSpec")
    assert status["message"].startswith("spec")
    assert small.phase(good) == "Running"
    small.start()
    small.turn(3)
    assert (small.phase(bad), small.phase(good)) == ("Failed", "Running"), "the same after a restart"


@pytest.mark.parametrize(
    "spec",
    [
        {"roles": ROLES, "deadline": 1e300},
        {"roles": ROLES, "seconds": -1},
        {"roles": 5},
        [],
        {"roles": ROLES, "steps": 10**16},
    ],
)
def test_a_spec_that_the_api_server_let_through_fails_its_job_alone(spec):
    small = SmallCluster()
    bad, good = small.api.submit("bad", spec), small.api.submit("good", HEALTHY)
    small.turn(6)
    assert (small.phase(bad), small.phase(good)) == ("Failed", "Running")


@pytest.mark.parametrize(
    "template", [{"spec": None}, {"metadata": None}, {"spec": {"containers": None, "volumes": None}}]
)
def test_null_is_nothing(template):
    small = SmallCluster()
    job = small.api.submit("good", {**HEALTHY, "template": template})
    small.turn(6)
    assert small.phase(job) == "Running"


def test_an_end_beyond_the_last_year_has_no_date():
    far = Estimate(1e12, 0.1, Basis.STEPS, "steps left")
    shown = progress_status(TrainingProgress(1, 10**12), far, now=40.0, began=1.7e9)
    assert (shown["eta"], shown["left"], shown["total"]) == (None, 1e12, 10**12)


# ── statuses ──

RUNS = {"phase": "Running", "attempt": 0, "since": 1.7e9,
        "allocation": [{"role": "worker", "nodes": ["n0"], "amounts": {"cpu": 100}}]}  # fmt: skip
STATUSES = [
    {**RUNS, "allocation": 5},
    {**RUNS, "allocation": [{"role": "worker", "nodes": [["n0"]], "amounts": {}}]},
    {**RUNS, "allocation": [{"role": "other", "nodes": ["n0"], "amounts": {"cpu": 100}}]},
    {**RUNS, "allocation": [{"role": "worker", "nodes": ["n0"] * 50, "amounts": {"cpu": 100}}]},
    {**RUNS, "allocation": [{"role": "worker", "nodes": ["n0"], "amounts": {"cpu": 10**15}}]},
    {**RUNS, "allocation": []},
    {**RUNS, "phase": "Scaling", "target": []},
    {**RUNS, "since": 1e300},
    {**RUNS, "attempt": -1},
    {**RUNS, "attempt": 2**80},
    {**RUNS, "history": {"stops": 1e30, "touched": -1e30}},
    {**RUNS, "losses": {"times": ["x"]}},
    {**RUNS, "progress": {"step": "x"}},
    {**RUNS, "savers": [[5, "x"]]},
    {"phase": "Sleeping"},
    {"phase": 5},
    nested(200),
]


@pytest.mark.parametrize("status", STATUSES, ids=lambda status: json.dumps(status)[:70])
def test_a_status_that_headway_cannot_have_written_is_no_end(status):
    api = MemoryApi()
    odd = api.submit("odd", {"roles": ROLES}, status=status)
    good = api.submit("good", HEALTHY)
    small = SmallCluster(api)
    small.turn(8)
    assert (small.phase(odd), small.phase(good)) == ("Running", "Running")
    assert len(api.pods_of("odd")) == 1, "whatever it said, it has its pod"


# ── faults that nobody foresaw ──


def broken_for(name: str, function):
    """The same function, but it raises for one job."""

    def fails(view, *rest, **named):
        if getattr(view, "name", "") == name:
            raise KeyError("unforeseen")
        return function(view, *rest, **named)

    return fails


def test_a_job_that_cannot_be_reconciled_says_so_and_its_pods_stay(monkeypatch):
    small = SmallCluster()
    bad, good = small.api.submit("bad", HEALTHY), small.api.submit("good", HEALTHY)
    small.turn(6)
    assert (small.phase(bad), small.phase(good)) == ("Running", "Running")
    monkeypatch.setattr(step_module, "reconcile", broken_for("bad", reconcile))
    for _ in range(30):
        small.hurry()
        small.turn(2)
    status = small.api.status(bad)
    assert (status["phase"], status["reason"]) == ("Running", "Fault")
    assert "Headway could not go on with this job: KeyError: 'unforeseen' (test_fences.py" in status["message"]
    assert len(small.api.pods_of("bad")) == len(small.api.pods_of("good")) == 2
    assert small.phase(good) == "Running"
    small.start()
    for _ in range(20):
        small.hurry()
        small.turn(2)
    assert small.api.status(bad)["reason"] == "Fault", "the same after a restart"
    assert len(small.api.pods_of("bad")) == 2
    monkeypatch.setattr(step_module, "reconcile", reconcile)
    small.hurry()
    small.turn(2)
    assert (small.phase(bad), small.api.status(bad)["reason"]) == ("Running", "Running"), "a repaired one goes on"


def test_a_job_that_waits_and_cannot_be_reconciled_is_left_alone(monkeypatch):
    monkeypatch.setattr(step_module, "reconcile", broken_for("bad", reconcile))
    small = SmallCluster()
    bad, good = small.api.submit("bad", HEALTHY), small.api.submit("good", HEALTHY)
    for _ in range(8):
        small.hurry()
        small.turn(2)
    assert (small.phase(bad), small.api.status(bad)["reason"], small.phase(good)) == ("Waiting", "Fault", "Running")
    assert not small.api.pods_of("bad")


def test_a_status_that_cannot_be_made_freezes_its_job_alone(monkeypatch):
    real = cluster_module.status_for

    def fails(gang, *rest):
        if gang.meta.name == "bad" and gang.state is State.RUNNING:
            raise OverflowError("year 33715 is out of range")
        return real(gang, *rest)

    monkeypatch.setattr(cluster_module, "status_for", fails)
    small = SmallCluster()
    bad, good = small.api.submit("bad", HEALTHY), small.api.submit("good", HEALTHY)
    small.turn(6)
    assert "year 33715" in small.api.status(bad)["message"]
    for _ in range(30):
        small.hurry()
        small.turn(2)
    assert small.phase(good) == "Running"
    assert len(small.api.pods_of("bad")) == 2


def test_a_status_that_the_server_refuses_for_ever_deletes_nothing():
    class OldCrd(MemoryApi):
        refuses = True

        def take(self, write):
            if isinstance(write.what, StatusPatch) and self.refuses and write.name == "bad":
                raise Invalid(422, "status.phase: Unsupported value")
            return super().take(write)

    small = SmallCluster(OldCrd())
    bad, good = small.api.submit("bad", HEALTHY), small.api.submit("good", HEALTHY)
    for _ in range(20):
        small.hurry()
        small.turn(2)
    assert (small.api.status(bad), small.phase(good)) == ({}, "Running")
    assert len(small.api.pods_of("bad")) == 2
    small.api.refuses = False
    small.hurry()
    small.turn(2)
    assert small.phase(bad) == "Running", "with a repaired CRD it goes on"


def test_a_job_whose_pods_cannot_be_made_is_failed_with_the_reason(monkeypatch):
    real = cluster_module.body_of

    def fails(action, job, *rest):
        if job.id == "team/bad":
            raise TypeError("unforeseen")
        return real(action, job, *rest)

    monkeypatch.setattr(cluster_module, "body_of", fails)
    small = SmallCluster()
    bad, good = small.api.submit("bad", HEALTHY), small.api.submit("good", HEALTHY)
    small.turn(8)
    assert (small.phase(bad), small.phase(good)) == ("Failed", "Running")
    assert "could not make its pods: TypeError: unforeseen" in small.api.status(bad)["message"]


def test_a_policy_that_raises_leaves_the_jobs_to_a_safe_one():
    def broken(_snapshot):
        raise ZeroDivisionError("unforeseen")

    small = SmallCluster(policy=broken)
    good = small.api.submit("good", HEALTHY)
    small.turn(6)
    assert small.phase(good) == "Running"


def test_a_thread_that_has_ended_ends_the_process():
    small = SmallCluster()
    small.api.inbox.put(WorkerEnded("MemoryError: "))
    with pytest.raises(KubeError, match="thread that talks to the API server has ended: MemoryError"):
        small.turn()
