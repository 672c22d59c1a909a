"""Two schedulers on real pods: the second takes over from one that hangs or ends, and no training is touched."""

from __future__ import annotations

import base64
import json
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from scheduling import TRAINING, Schedule

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from stop_points import StopPoint, kubeconfig, over_booked

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
LEASE_SECONDS, MOST_SECONDS, ORDERLY_SECONDS, START_SECONDS = 11.0, 15.0, 5.0, 60.0
"""The lease; what a hand-over may take, from one that hangs and from one that ends in order; and a first start."""


@pytest.fixture
def second(installed, schedule, tmp_path):
    """Another scheduler of the same namespace, with files and a port of its own."""
    with socket.create_server(("", 0)) as probe:
        port = probe.getsockname()[1]
    (tmp_path / "second").mkdir()
    other = Schedule(installed, schedule.namespace, tmp_path / "second", port)
    yield other
    if other.process is not None and other.process.poll() is None:
        other.kill()


def leads(one: Schedule, seconds: float = MOST_SECONDS) -> float:
    """How long it took until it led."""
    began = time.monotonic()
    while "scheduling with policy" not in one.output[-1].read_text():
        assert time.monotonic() - began < seconds, one.words()
        assert one.process.poll() is None, one.words()
        time.sleep(0.05)
    return time.monotonic() - began


def stands_by(one: Schedule) -> None:
    deadline = time.monotonic() + 60.0
    while "standing by: " not in one.output[-1].read_text():
        assert time.monotonic() < deadline, one.words()
        time.sleep(0.1)


def test_one_that_hangs_is_replaced_and_ends_by_itself_when_it_goes_on(schedule, second):
    schedule.start()
    leads(schedule, START_SECONDS)
    second.start("--standby")
    stands_by(second)
    schedule.submit("old", {"worker": {"replicas": 2}}, ["--steps", "400"])
    schedule.wait("old", "Running")
    before = {pod["metadata"]["uid"] for pod in schedule.pods("old")}
    epoch = schedule.job("old")["status"]["epoch"]

    schedule.process.send_signal(signal.SIGSTOP)
    took = leads(second)
    assert took > LEASE_SECONDS - 3.0, "a lease that was just renewed is waited for"
    second.submit("new", {"worker": {}}, ["--steps", "20"])
    assert second.wait("new", "Succeeded")["status"]["epoch"] > epoch

    schedule.process.send_signal(signal.SIGCONT)
    assert schedule.process.wait(30) != 0
    assert "another scheduler has taken over" in schedule.words()
    assert {pod["metadata"]["uid"] for pod in second.pods("old")} == before, "the old leader has deleted nothing"
    second.wait("old", "Succeeded")
    assert second.job("old")["status"].get("attempt", 0) == 0
    assert len(second.story("old")) >= 2
    assert [line for line in second.story("old") if " from " in line][2:] == [], "nobody was started again"


def test_one_that_ends_in_order_hands_over_what_it_has_learned(schedule, second):
    schedule.start()
    leads(schedule, START_SECONDS)
    schedule.submit("first", {"worker": {}}, ["--steps", "60"])
    schedule.wait("first", "Succeeded")
    schedule.submit("old", {"worker": {}}, ["--steps", "300"])
    schedule.wait("old", "Running")
    time.sleep(2.0)
    second.start("--standby")
    stands_by(second)
    assert schedule.stop() == 0
    assert leads(second, ORDERLY_SECONDS) < ORDERLY_SECONDS
    data = second.lab.api.get("/api/v1/namespaces/headway-system/secrets/headway-state")["data"]
    mine = {name.rpartition(".")[2]: told for name, told in data.items() if name.startswith(f"{second.namespace}.")}
    assert mine.keys() >= {"began", "beliefs", "speeds"}, mine.keys()
    began = float(base64.b64decode(mine["began"]))
    (head, *_) = (json.loads(line) for line in second.log.read_text().splitlines())
    assert head["began"] == began, "the cluster's clock goes on"
    assert (second.folder / "run.log.beliefs").exists(), "what the first job taught"
    assert (second.folder / "run.log.speeds").stat().st_size > 10
    second.wait("old", "Succeeded")


@pytest.mark.parametrize(("kind", "when", "how"), [("create", "before", "frozen"), ("delete", "before", "frozen")])
def test_one_that_stops_at_a_write_harms_nothing_when_the_write_arrives_late(schedule, second, kind, when, how):
    """`bench/hand_over.py` has all such points."""
    point = StopPoint(schedule.lab, kind, when, how)
    with point.served():
        second.kubeconfig()  # with the way to the API server itself
        path = kubeconfig(schedule.lab, point.port, schedule.folder)
        schedule.start("--kubeconfig", str(path))
        leads(schedule, START_SECONDS)
        second.start("--standby")
        schedule.submit("old", {"worker": {}}, ["--steps", "6000"])
        schedule.wait("old", "Running")
        before = living(schedule, "old")
        job, roles = f"{TRAINING.format(schedule.namespace)}/new", {"worker": {"replicas": 2}}
        if kind == "delete":
            schedule.submit("new", roles, ["--steps", "6000"])
            schedule.wait("new", "Running")
        stands_by(second)
        point.arm(schedule.process.pid)
        if kind == "delete":
            schedule.lab.api.patch(job, {"spec": {"suspend": True}})
        else:
            schedule.submit("new", roles, ["--steps", "6000"])
        assert point.stopped.wait(60), schedule.words()
        leads(second)
        point.go_on()
        assert point.passed.wait(10)
        if how == "frozen":
            schedule.process.send_signal(signal.SIGCONT)
            assert schedule.process.wait(30) != 0
            assert "another scheduler has taken over" in schedule.words()
    if kind == "delete":
        second.wait("new", "Suspended")
        second.lab.api.patch(job, {"spec": {"suspend": False}})
    second.wait("new", "Running")
    new = living(second, "new")
    time.sleep(2.0)
    assert living(second, "new") == new
    assert len(new) == 2
    assert living(second, "old") == before, "training pods are as they were"
    everywhere = second.lab.api.get("/api/v1/pods")["items"], second.lab.api.get("/api/v1/nodes")["items"]
    assert over_booked(*everywhere) == []


def living(one: Schedule, job: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in one.pods(job) if "deletionTimestamp" not in pod["metadata"]}
