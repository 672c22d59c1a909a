"""Gangs of real pods on two real kubelets: every decision, every end, and a scheduler that is killed midway."""

from __future__ import annotations

import json
import socket
import time
from urllib.request import urlopen

import pytest

from headway.lab.api import LabApiError
from headway.record.lines import CycleLine
from headway.record.log import read
from scheduling import HERE, TRAINING, run_headway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def firsts(story: list[str]) -> list[tuple[str, int, int, int]]:
    """Role, index, attempt and first step of every start."""
    starts = [line.split() for line in story if " from " in line]
    return [(words[0], int(words[1]), int(words[2]), int(words[4])) for words in starts]


def test_every_decision_on_real_pods_and_the_log_replays(schedule):
    """Five jobs side by side: grown, shrunk, resized in place, moved to the other kubelet, preempted and resumed."""
    steps, again = ["--steps", "120", "--until-told"], ["--steps", "120", "--until-attempt", "1"]
    schedule.start()
    server = {"ps": {}, "helper": {"after": ["ps"], "min": 1, "max": 2}}
    schedule.submit("grow", server, steps)
    schedule.submit("shrink", {"chief": {}, "helper": {"replicas": 2, "min": 1, "max": 2}}, steps)
    schedule.submit("resize", {"worker": {}}, steps)
    schedule.submit("move", {"worker": {}}, again)
    schedule.submit("stop", {"worker": {}}, again)
    names = ["grow", "shrink", "resize", "move", "stop"]
    resized = moved = None
    deadline = time.monotonic() + 300
    while any(schedule.phase(name) not in ("Succeeded", "Failed") for name in names):
        assert time.monotonic() < deadline, schedule.words()
        for pod in schedule.pods("resize"):
            now = pod["status"].get("containerStatuses", [{}])[0].get("resources", {}).get("limits", {})
            resized = pod if now.get("cpu") == "300m" else resized
        moved = next((pod for pod in schedule.pods("move") if "-1-" in pod["metadata"]["name"]), moved)
        time.sleep(0.3)
    assert {name: schedule.phase(name) for name in names} == dict.fromkeys(names, "Succeeded"), schedule.words()

    grow = schedule.story("grow")
    assert [start[:3] for start in firsts(grow)] == [("ps", 0, 0), ("helper", 0, 0), ("helper", 1, 0)]
    assert "helper 0 0 from 0 hosts 2 of 2" in grow, "all are told where all are"
    assert any(line.startswith("ps 0 0 size 3") for line in grow), grow
    assert any(line.startswith("chief 0 0 size 2") for line in schedule.story("shrink"))

    assert resized is not None, schedule.words()
    assert resized["status"]["containerStatuses"][0]["restartCount"] == 0
    assert resized["status"]["qosClass"] == "Burstable"
    assert len(firsts(schedule.story("resize"))) == 1
    assert any("cpu 0.3" in line for line in schedule.story("resize"))

    for name in ("move", "stop"):
        (_, _, _, first), (_, _, attempt, second) = firsts(schedule.story(name))
        assert (first, attempt) == (0, 1), schedule.story(name)
        assert second > 2, schedule.story(name)
        assert f"worker 0 0 saved {second}" in schedule.story(name), "it goes on from the step that was acknowledged"
    assert moved is not None
    assert schedule.stop() == 0
    replayed = schedule.replay()
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert " 0 plans differ" in replayed.stdout


def test_ends_well_badly_and_by_other_hands(schedule):
    schedule.start("--save-seconds", "3")
    schedule.submit("wrong", {"worker": {}}, ["--steps", "100", "--fail-at", "20"])
    schedule.submit("lost", {"worker": {"replicas": 2}}, ["--steps", "200"])
    schedule.submit("deaf", {"worker": {}}, ["--steps", "160", "--deaf"])
    schedule.submit("unwilling", {"worker": {}}, ["--steps", "240", "--full"])
    schedule.submit("withdrawn", {"worker": {"replicas": 2}}, ["--steps", "1000"])
    schedule.submit("huge", {"worker": {"cpu": "64"}}, ["--steps", "10"])
    schedule.submit("nonsense", {"worker": {"cpu": "lots"}}, ["--steps", "10"])
    assert schedule.wait("nonsense", "Failed")["status"]["reason"] == "InvalidSpec"
    failed = schedule.wait("wrong", "Failed")["status"]
    assert "exit code 3" in failed["message"]

    schedule.wait("lost", "Running")
    time.sleep(1)
    victim = schedule.pods("lost")[0]["metadata"]["name"]
    schedule.lab.api.delete(f"/api/v1/namespaces/{schedule.namespace}/pods/{victim}")
    schedule.wait("withdrawn", "Running")
    schedule.lab.api.delete(f"/apis/headway.dev/v1alpha1/namespaces/{schedule.namespace}/trainingjobs/withdrawn")

    assert schedule.wait("lost", "Succeeded", seconds=240)["status"]["attempt"] == 1
    assert {start[2] for start in firsts(schedule.story("lost"))} == {0, 1}, "the whole gang started again"
    assert "did not save in time" in schedule.words()
    schedule.wait("deaf", "Succeeded", seconds=240)
    assert len(firsts(schedule.story("deaf"))) == 1, "what did not save was not stopped"
    schedule.wait("unwilling", "Succeeded", seconds=240)
    asked = schedule.words().count("unwilling: stopping")
    assert 2 <= asked <= 8, f"in its twelve seconds or more it was asked {asked} times to stop, and refused"
    huge = schedule.job("huge")["status"]
    assert (huge["phase"], huge["reason"]) == ("Waiting", "LargerThanAnyNode")
    assert "64 cpu" in huge["message"]
    deadline = time.monotonic() + 120
    while schedule.pods("withdrawn"):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert schedule.stop() == 0


def test_killed_in_the_middle_of_everything_it_goes_on(schedule):
    """kill -9 while a gang is half made, another moves and a third runs; nothing is lost, nothing trains by halves."""
    gang = {"ps": {}, "helper": {"after": ["ps"], "replicas": 3, "min": 3, "max": 3}}
    schedule.submit("half", gang, ["--steps", "60"])
    schedule.submit("short", {"worker": {}}, ["--steps", "5"])
    schedule.start()
    deadline = time.monotonic() + 120
    while not schedule.pods("half"):
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.005)
    schedule.kill()
    told = [pod["metadata"]["annotations"]["headway.dev/gang"] for pod in schedule.pods("half")]
    assert told, "each pod tells of its gang, before any status does"
    assert all('"counts":{"helper":3,"ps":1}' in mark for mark in told)
    time.sleep(2)
    schedule.start()
    schedule.submit("move", {"worker": {}}, ["--steps", "160", "--until-attempt", "1"])
    schedule.wait("move", "Moving")
    schedule.kill()
    schedule.start()
    for name in ("half", "move", "short"):
        schedule.wait(name, "Succeeded", seconds=240)
    starts = firsts(schedule.story("half"))
    attempts = {attempt for _, _, attempt, _ in starts}
    for attempt in attempts:
        helpers = [start for start in starts if start[0] == "helper" and start[2] == attempt]
        assert len(helpers) in (0, 3), f"half a gang trained: {starts}"
    assert attempts == {0}, "the start went on with the pods that were there"
    assert firsts(schedule.story("short")) == [("worker", 0, 0, 0)], "finished work is not done again"
    last = firsts(schedule.story("move"))[-1]
    assert last[2] == 1, schedule.story("move")
    assert last[3] > 2, schedule.story("move")
    assert schedule.stop() == 0
    replayed = schedule.replay()
    assert " 0 plans differ" in replayed.stdout, replayed.stdout + replayed.stderr


def test_a_node_that_dies_takes_its_gang_down_and_it_starts_elsewhere(schedule):
    """Kubelet, containers and all. What fits elsewhere goes on from its checkpoint; half a gang does not."""
    schedule.start("--lost-node-seconds", "2")
    schedule.submit("spread", {"worker": {"replicas": 2, "cpu": "1100m"}}, ["--steps", "100000"])
    schedule.submit("other", {"worker": {"cpu": "500m"}}, ["--steps", "3000", "--save-every", "20"])
    schedule.wait("spread", "Running")
    where = sorted(pod["spec"]["nodeName"] for pod in schedule.pods("spread"))
    assert where == schedule.lab.node_names, "too large for one node: one on each"
    (words,) = schedule.wait("other", "Running")["status"]["nodes"]
    victim = words.removeprefix("worker: ")
    deadline = time.monotonic() + 120
    while not schedule.has_saved("other"):
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.2)
    schedule.lab.kill(victim)
    try:
        deadline = time.monotonic() + 120
        while schedule.job("other")["status"]["attempt"] == 0 or schedule.phase("other") != "Running":
            assert time.monotonic() < deadline, schedule.words()
            time.sleep(0.5)
        assert schedule.job("other")["status"]["nodes"] != [words]
        schedule.wait("spread", "Waiting")
        assert not [pod for pod in schedule.pods("spread") if not pod["metadata"].get("deletionTimestamp")]
        starts = firsts(schedule.story("other"))
        assert starts[-1][3] > 0, starts
    finally:
        schedule.lab.restart(victim)
        assert schedule.stop() == 0


def test_an_api_server_that_goes_away_in_the_middle_of_a_start_is_waited_for(schedule):
    gang = {"ps": {}, "helper": {"after": ["ps"], "replicas": 2, "min": 2, "max": 2}}
    schedule.start()
    schedule.submit("half", gang, ["--steps", "400"])  # 20 s: the server must not be done before its helpers are there
    deadline = time.monotonic() + 120
    while not schedule.pods("half"):
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.02)
    schedule.lab.kill("kube-apiserver")
    time.sleep(2)
    schedule.lab.restart("kube-apiserver")
    schedule.wait("half", "Succeeded", seconds=240)
    assert len(firsts(schedule.story("half"))) == 3, "nothing was started twice"
    assert schedule.words().count("trying again") <= 6, "trouble is said once"
    assert schedule.stop() == 0


def test_a_jobs_file_goes_through_submit_and_shows_in_jobs(schedule):
    trainer = ["python", str(HERE / "trainer.py"), "--steps"]
    small = {"cpu": "100m", "memory": "64Mi"}
    jobs = [
        {"name": "first", "user": "ana", "target": {"at_most": 0.1}, **small, "command": [*trainer, "10"]},
        {"name": "second", "user": "ben", "submit": "1s", **small, "command": [*trainer, "10", "--fail-at", "5"]},
    ]
    file = schedule.folder / "jobs.yaml"
    file.write_text(json.dumps({"jobs": jobs}))
    here = ["--kubeconfig", str(schedule.lab.kubeconfig), "--namespace", schedule.namespace]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        seen = f"127.0.0.1:{probe.getsockname()[1]}"
    schedule.start("--metrics-listen", seen)
    submitted = run_headway("submit", str(file), "--wait", *here)
    assert submitted.returncode == 1, submitted.stderr
    assert "succeeded first" in submitted.stdout
    assert "exit code 3" in submitted.stdout
    assert urlopen(f"http://{seen}/healthz").status == urlopen(f"http://{seen}/readyz").status == 200
    figures = urlopen(f"http://{seen}/metrics").read().decode()
    for sample in (
        'jobs_ended_total{queue="",state="failed"} 1',
        'api_requests_total{code="200",kind="bind"} 2',
        "leads 1",
    ):
        assert f"headway_{sample}" in figures, figures
    listed = json.loads(run_headway("jobs", "--json", *here).stdout)["jobs"]
    assert [(row["name"], row["phase"], row["step"]) for row in listed] == [
        ("first", "Succeeded", 10), ("second", "Failed", 4),
    ]  # fmt: skip
    assert schedule.job("first")["spec"]["target"] == {"metric": "loss", "atMost": 0.1}
    heard = [sample for line in read(schedule.log) if isinstance(line, CycleLine) for sample in line.samples]
    metrics = {(sample[0].rpartition("/")[2], len(sample)) for sample in heard}
    assert ("first", 6) in metrics, "the metric of its target is in the log"
    assert ("second", 6) not in metrics
    again = run_headway("submit", str(file), "--at-once", *here)
    assert again.returncode == 2
    assert "job 'first': field name" in again.stderr
    assert "Traceback" not in again.stderr


@pytest.mark.parametrize("target", [{"atLeast": 1, "atMost": 2}, {"metric": "loss"}, {"metric": "", "atMost": 1}])
def test_the_api_server_refuses_a_target_that_says_too_much_or_too_little(schedule, target):
    job = {
        "apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "bad"},
        "spec": {"roles": {"worker": {}}, "target": target},
    }  # fmt: skip
    with pytest.raises(LabApiError, match="target"):
        schedule.lab.api.post(TRAINING.format(schedule.namespace), job)
