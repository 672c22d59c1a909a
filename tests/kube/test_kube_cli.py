"""Mistakes in the commands that talk to a cluster: one sentence, exit code 2."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from fake_api_server import a_kubeconfig, a_list, serving, status
from small_cluster import HEALTHY, SmallCluster
from typer.testing import CliRunner

from headway.core.errors import UserError
from headway.estimates.plain_books import NoEstimates
from headway.kube.api.discovery import ClusterFacts
from headway.kube.api.install import manifests
from headway.kube.state import ClusterState
from headway.policies.baselines.fifo import first_fit
from headway.record.lines import Head
from headway.record.log import LogWriter

JOBS = "jobs:\n  - {name: a, cpu: 1, command: [x]}\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "kubeconfig").write_text(json.dumps(a_kubeconfig()))
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / "wrong.yaml").write_text("spec: {containers: x}")
    return tmp_path


def headway(*arguments: str):
    from headway.cli.app import COMMANDS, app_of

    return CliRunner().invoke(app_of(COMMANDS), [str(argument) for argument in arguments])


def test_missing_files_and_servers_are_told(files, monkeypatch):
    config = files / "kubeconfig"
    cases = [
        (["jobs", "--kubeconfig", files / "none"], "cannot be read"),
        (["jobs", "--kubeconfig", config], "cannot be listed"),
        (["submit", files / "none.yaml", "--kubeconfig", config], "none.yaml"),
        (["submit", files / "jobs.yaml", files / "jobs.yaml", "--kubeconfig", config], "has a job of the same name"),
        (["submit", files / "jobs.yaml", "--kubeconfig", config], "job 'a'"),
        (["schedule", "--policy", "no-such", "--kubeconfig", config], "no-such"),
        (["schedule", "--template", files / "none.yaml", "--kubeconfig", config], "none.yaml"),
        (["schedule", "--template", files / "jobs.yaml", "--kubeconfig", config], "field jobs"),
        (
            ["schedule", "--template", files / "wrong.yaml", "--kubeconfig", config],
            "field spec.containers",
        ),
        (["schedule", "--progress-listen", "nowhere", "--kubeconfig", config], "listen"),
    ]
    for arguments, words in cases:
        result = headway(*arguments)
        assert isinstance(result.exception, UserError), (arguments, result.output, result.exception)
        assert words in str(result.exception), arguments


def test_the_manifests_are_whole_and_ask_for_little():
    printed = headway("schedule", "--print-manifests")
    assert printed.output.strip() == manifests().strip()
    objects = list(yaml.safe_load_all(printed.output))
    roles = [o for o in objects if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "headway-scheduler"]
    rules = {(resource, verb) for rule in roles[0]["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert not any("*" in word for rule in rules for word in rule)
    assert not {resource for resource, _ in rules} & {"secrets", "serviceaccounts"}
    assert {verb for resource, verb in rules if resource in ("configmaps", "services")} == {"create"}, "it reads none"
    assert ("nodes", "patch") not in rules


def test_a_policy_that_raises_is_told_and_a_safe_one_decides(monkeypatch, caplog, tmp_path):
    from headway.cli.cluster import schedule

    small = SmallCluster()
    good = small.api.submit("good", HEALTHY)

    def broken(_snapshot):
        if small.phase(good) == "Running":
            small.cluster.stop()
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(schedule.signal, "signal", lambda *_: None)
    writer = LogWriter(None, Head("kube", "broken", "none"))
    state = ClusterState("headway-system", tmp_path / "run.log")
    schedule._serve(small.cluster, broken, ("fifo", []), NoEstimates(), writer, None, state)
    assert small.phase(good) == "Running"
    assert caplog.text.count("ZeroDivisionError: by zero; first-fit decides") == 1


@pytest.mark.parametrize(("policy", "times"), [("migration", 1), ("fifo", 0)])
def test_that_nothing_can_be_shared_is_told_once(policy, times, monkeypatch, caplog, tmp_path):
    """When jobs run, and neither they nor those that wait have a cpu limit above their request."""
    from headway.cli.cluster import schedule

    small = SmallCluster()
    jobs = [small.api.submit(name, HEALTHY) for name in ("a", "b")]

    def decides(snapshot):
        if all(small.phase(job) == "Running" for job in jobs):
            small.cluster.stop()
        return first_fit(snapshot)

    monkeypatch.setattr(schedule.signal, "signal", lambda *_: None)
    writer = LogWriter(None, Head("kube", policy, "none"))
    state = ClusterState("headway-system", tmp_path / "run.log")
    schedule._serve(small.cluster, decides, (policy, []), NoEstimates(), writer, None, state)
    assert caplog.text.count("no job has a cpu limit above its request") == times


def test_a_run_that_ended_while_its_log_was_put_aside_goes_on(tmp_path):
    from headway.cli.cluster.earlier_log import earlier

    log = tmp_path / "s.log"
    lines = gzip.decompress((Path(__file__).parents[1] / "golden/kube-ends.log.gz").read_bytes())
    log.write_bytes(lines)
    expected = earlier(log)
    log.rename(tmp_path / "s.log.1")
    assert earlier(log) == expected
    log.write_bytes(b"")
    assert earlier(log) == expected


def test_a_damaged_log_is_used_up_to_where_it_is_good(tmp_path, capsys):
    """The same as `headway run` does: its good part stays, the whole is kept beside it."""
    from headway.cli.cluster.earlier_log import earlier

    log = tmp_path / "s.log"
    lines = gzip.decompress((Path(__file__).parents[1] / "golden/kube-ends.log.gz").read_bytes()).splitlines(True)
    log.write_bytes(b"".join(lines))
    began, serials = earlier(log)
    assert (began > 0, len(serials) > 0, capsys.readouterr().err) == (True, True, "")
    log.write_bytes(b"".join(lines[:-3]) + b"{ no line\n" + lines[-1])
    assert earlier(log) == (began, serials)
    said = capsys.readouterr().err
    assert f"line {len(lines) - 2}: not a line of a headway log" in said
    assert "the damaged log is kept as s.log.damaged" in said
    assert log.read_bytes() == b"".join(lines[:-3])
    assert earlier(log) == (began, serials)
    assert capsys.readouterr().err == ""


def test_a_damaged_log_of_another_command_is_left_alone(tmp_path):
    from headway.cli.cluster.earlier_log import earlier

    log = tmp_path / "s.log"
    content = gzip.decompress((Path(__file__).parents[1] / "golden/sim-adapt.log.gz").read_bytes())[:-500] + b"x\n"
    log.write_bytes(content)
    with pytest.raises(UserError, match="is the log of a sim run"):
        earlier(log)
    assert log.read_bytes() == content


def test_submit_waits_for_a_server_that_is_not_ready_and_says_which_user_was_recorded(files):
    """After its start an API server answers 503 until it knows the kind; a job is created once all the same."""
    from headway.cli.cluster.submit import _submit
    from headway.workload.jobsfile import load

    bodies = []

    async def handler(request):
        body = await request.json()
        if body["kind"] == "SelfSubjectReview":
            return web.json_response({"status": {"userInfo": {"username": "ana"}}})
        bodies.append(body)
        if len(bodies) == 1:
            return status(503, "TrainingJob not found. There can be a delay")
        return web.json_response({"spec": body["spec"] | {"user": "ana"}})

    async def run():
        jobs = [(files / "jobs.yaml", job) for job in load(files / "jobs.yaml").jobs]
        async with serving(handler) as client:
            await _submit(client._access, "team", jobs, directory="", at_once=True, wait=False)

    asyncio.run(run())
    assert [body["spec"]["user"] for body in bodies] == ["ana", "ana"]


def test_the_server_lists_while_the_log_is_read_and_a_bad_log_ends_that(files, monkeypatch):
    """Reading a log and listing thousands of objects take seconds each."""
    from headway.cli.cluster import schedule
    from headway.kube.writes import worker

    happened = []

    class Lists:
        def __init__(self, *_: object, **__: object) -> None:
            happened.append("lists")

        def close(self) -> None:
            happened.append("ended")

    def read(_log: Path) -> None:
        happened.append("log")
        raise UserError("it is no log")

    monkeypatch.setattr(schedule, "_look", lambda *_: ClusterFacts())
    monkeypatch.setattr(schedule, "earlier", read)
    monkeypatch.setattr(worker, "ApiWorker", Lists)
    result = headway("schedule", "--kubeconfig", files / "kubeconfig", "--log", files / "run.log")
    assert str(result.exception) == "it is no log"
    assert happened == ["lists", "log", "ended"]


@pytest.mark.parametrize(
    ("status_", "told"),
    [
        ({"explained": ["held by: x", "in time: yes: In time with 2 replicas."]}, "due: yes: In time with 2 replicas."),
        ({"deadline": {"text": "due in 20 min"}}, "due: due in 20 min"),
        ({}, None),
    ],
)
def test_submit_tells_the_verdict_on_a_deadline_as_soon_as_there_is_one(files, capsys, monkeypatch, status_, told):
    from headway.cli.cluster import submit
    from headway.workload.jobsfile import load

    monkeypatch.setattr(submit, "VERDICT_SECONDS", 1.2)
    (files / "due.yaml").write_text("jobs:\n  - {name: due, user: ana, cpu: 1, deadline: 20m, command: [x]}\n")
    jobs = [(files / "due.yaml", job) for job in load(files / "due.yaml").jobs]

    async def answer(request):
        made = {"metadata": {"name": "due", "namespace": "team", "uid": "u"}, "spec": {"user": "ana"}}
        listed = {**made, "metadata": {**made["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}
        if request.method == "POST":
            return web.json_response(made, status=201)
        return a_list([{**listed, "status": status_}])

    async def main():
        async with serving(answer) as client:
            await submit._submit(client._access, "team", jobs, directory="", at_once=True, wait=False)

    asyncio.run(main())
    printed = capsys.readouterr().out
    assert (told or "submitted due") in printed
    assert printed.count("\n") == (1 if told is None else 2)
