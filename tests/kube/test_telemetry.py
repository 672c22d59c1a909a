"""What probes and Prometheus are told."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from fake_api_server import a_list, serving, status, stream
from prometheus_client.parser import text_string_to_metric_families as families
from small_cluster import SmallCluster

from headway import __version__
from headway.core.errors import UserError
from headway.core.states import State
from headway.kube.api.client import Client
from headway.kube.api.errors import NotFound, Unreachable
from headway.kube.api.usage import PodUsage
from headway.kube.telemetry.figures import MAX_QUEUES, OTHERS, figures
from headway.kube.telemetry.metrics import Metrics, Sources
from headway.kube.telemetry.serve import Telemetry
from headway.kube.telemetry.server import Health, TelemetryServer
from headway.kube.values import replace
from headway.kube.writes.fence import Fence
from headway.kube.writes.lease import SchedulerLease
from headway.progress_server import ProgressServer

FITS = {"roles": {"worker": {"replicas": 2, "cpu": "2"}}}
TOO_LARGE = {"roles": {"worker": {"replicas": 9, "cpu": "2"}}}


def read(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and the values of the labels."""
    text = metrics.text().decode()
    return {(one.name, tuple(one.labels.values())): one.value for family in families(text) for one in family.samples}


@pytest.fixture
def small():
    return SmallCluster(watcher=Metrics())


def later(small, seconds: float = 6.0) -> None:
    small.clock.ahead += seconds
    small.turn(3)


def test_jobs_are_counted_by_queue_state_and_reason(small):
    small.api.submit("runs", {**FITS, "queue": "team-a"})
    small.api.submit("waits", {**TOO_LARGE, "queue": "team-b"})
    small.turn(4)
    later(small)
    found = read(small.watcher)
    assert found["headway_jobs", ("team-a", "running")] == 1
    assert found["headway_jobs", ("team-b", "waiting")] == 1
    assert sum(value for (name, labels), value in found.items() if name == "headway_pending_jobs") == 1
    (reason,) = [labels[1] for name, labels in found if name == "headway_pending_jobs"]
    assert reason in ("LargerThanCluster", "NotEnoughFree"), reason
    assert found["headway_held", ("team-a", "cpu")] == 4.0
    assert found["headway_cycle_seconds_count", ()] > 0
    assert found["headway_bind_seconds_count", ()] == 1
    assert found["headway_gang_wait_seconds_count", ("team-a",)] == 1


def test_who_waits_longest_is_told_and_what_there_is_for_jobs(small):
    small.api.submit("waits", {**TOO_LARGE, "queue": "team-b"})
    small.turn(4)
    later(small)
    before = read(small.watcher)["headway_longest_wait_seconds", ("team-b",)]
    later(small, 100.0)
    found = read(small.watcher)
    assert 100.0 <= found["headway_longest_wait_seconds", ("team-b",)] - before < 130.0
    nodes = small.cluster.board.nodes
    assert found["headway_capacity", ("cpu",)] == nodes.capacity[nodes.kinds.index("cpu")].sum() / 1000
    unready = replace(nodes.nodes[0], ready=False)
    small.cluster.board.set_nodes(nodes.replaced({0: unready}))
    later(small)
    assert read(small.watcher)["headway_capacity", ("cpu",)] < found["headway_capacity", ("cpu",)]


def test_the_process_and_its_version_are_told():
    metrics = Metrics(Sources(under_way=lambda: 3, allowed=lambda: 16, watches=lambda: [("Pod", 2.5, 7)]))
    found = read(metrics)
    assert found["headway_info", (__version__,)] == 1
    assert found["headway_process_resident_memory_bytes", ()] > 1e6
    assert found["headway_writes_under_way", ()] == 3
    assert found["headway_writes_allowed", ()] == 16
    assert found["headway_watch_lists_total", ("Pod",)] == 7
    assert found["headway_settings_total", ("false",)] == 0
    metrics.settings(taken=False)
    assert read(metrics)["headway_settings_total", ("false",)] == 1


def test_a_fault_is_counted_and_its_job_is_frozen(small, monkeypatch):
    uid = small.api.submit("runs", FITS)
    small.turn(4)
    monkeypatch.setattr("headway.kube.following.step", lambda *_: 1 / 0)
    small.cluster.following.due[uid] = None
    later(small)
    found = read(small.watcher)
    assert found["headway_faults_total", ()] >= 1
    assert found["headway_frozen_jobs", ()] == 1


def test_the_first_prediction_is_judged_when_the_job_has_ended(small):
    uid = small.api.submit("runs", FITS)
    small.turn(4)
    gang, metrics = small.cluster.gangs[uid], small.watcher
    metrics.predicted(uid, 100.0, 300.0)
    metrics.predicted(uid, 250.0, 260.0)  # a later one does not count
    metrics.changed(gang, replace(gang, wanted=replace(gang.wanted, state=State.FINISHED)), 350.0)
    found = read(metrics)
    assert found["headway_prediction_error_ratio_sum", ()] == pytest.approx(50.0 / 250.0)
    assert found["headway_jobs_ended_total", ("", "finished")] == 1


def test_many_queues_are_told_as_one(small):
    uid = small.api.submit("runs", FITS)
    small.turn(3)
    gang = small.cluster.gangs[uid]
    gangs = [replace(gang, job=replace(gang.job, queue=f"q{number}")) for number in range(MAX_QUEUES + 50)]
    found = figures(gangs, 0.0, small.cluster.board.nodes)
    assert len({queue for queue, _ in found.jobs}) == MAX_QUEUES + 1
    assert sum(count for (queue, _), count in found.jobs.items() if queue == OTHERS) == 50


def test_what_is_used_is_told_beside_what_the_same_jobs_hold(small):
    uid = small.api.submit("runs", FITS)
    small.turn(4)
    later(small)
    gang, nodes = small.cluster.gangs[uid], small.cluster.board.nodes
    assert figures([gang], 0.0, nodes).measured.get("", 0.0) == 0.0
    found = figures([gang, replace(gang, usage=PodUsage(0.5, 1 << 20))], 0.0, nodes)
    assert found.used == {"": 0.5}
    assert found.measured[""] == found.held["", "cpu"] / 2 > 0.0


def test_many_queues_of_what_happens_are_told_as_one(small):
    uid = small.api.submit("runs", FITS)
    small.turn(3)
    gang, metrics = small.cluster.gangs[uid], Metrics()
    for number in range(MAX_QUEUES + 50):
        old = replace(gang, job=replace(gang.job, queue=f"q{number}"))
        old = replace(old, wanted=replace(old.wanted, state=State.STARTING, attempt=0))
        metrics.changed(old, replace(old, wanted=replace(old.wanted, state=State.RUNNING)), 350.0)
        metrics.changed(old, replace(old, wanted=replace(old.wanted, state=State.FINISHED)), 350.0)
    found = read(metrics)
    for name, count in (("headway_jobs_ended_total", 2), ("headway_gang_wait_seconds_count", 1)):
        assert len({labels[0] for what, labels in found if what == name}) == MAX_QUEUES + 1, count
    assert found["headway_jobs_ended_total", (OTHERS, "finished")] == 50


def test_lists_watches_and_reads_are_counted_by_code():
    async def handler(request):
        if request.path.endswith("/gone"):
            return status(404)
        if "watch" in request.query:
            return await stream(request)
        return a_list([])

    async def main() -> None:
        async with serving(handler) as client, Client(client._access, heard=metrics.heard) as asking:
            await asking.get("/x")
            assert [page async for page in asking.list_pages("/x")]
            assert [line async for line in asking.watch("/x", "1")] == []
            with pytest.raises(NotFound):
                await asking.get("/gone")
            with pytest.raises(NotFound):
                assert [line async for line in asking.watch("/gone", "1")]
        async with Client(client._access, heard=metrics.heard) as asking:
            with pytest.raises(Unreachable):
                await asking.post("/x", {})

    metrics = Metrics()
    asyncio.run(main())
    found = {labels: value for (name, labels), value in read(metrics).items() if name == "headway_api_reads_total"}
    assert found == dict.fromkeys(
        [("200", "get"), ("200", "list"), ("200", "watch"), ("404", "get"), ("404", "watch"), ("0", "post")], 1.0
    )
    assert read(metrics)["headway_api_read_seconds_count", ("watch",)] == 2


def test_the_threads_of_a_scheduler_are_watched(tmp_path):
    seen = Telemetry("127.0.0.1:0")
    server = ProgressServer(f"unix:{tmp_path / 'progress'}")
    lease = SchedulerLease("sys", Fence())
    try:
        seen.follow(worker=SimpleNamespace(beat_at=time.monotonic(), lease=lease))
        assert set(seen._ages()) == {"worker"}, "a standby renews nothing"
        lease.beat_at = time.monotonic() - 100.0
        small = SmallCluster()
        small.cluster._server = server
        seen.follow(cluster=small.cluster)
        time.sleep(0.6)
        ages = seen._ages()
        assert set(ages) == {"worker", "lease", "decider", "listener"}
        assert ages["lease"] > 99.0
        assert ages["listener"] < ages["worker"], "its thread goes on where nothing comes"
    finally:
        server.close()
        seen.close()


@pytest.fixture
def served():
    ages, listed = {"decider": 1.0}, [False]
    metrics = Metrics(Sources(ages=lambda: ages, epoch=lambda: 7))
    server = TelemetryServer("127.0.0.1:0", metrics, Health(lambda: ages, lambda: listed[0]))
    yield f"http://127.0.0.1:{server.port}", ages, listed
    server.close()


def test_a_hanging_thread_fails_the_probe_and_long_lists_do_not(served):
    address, ages, listed = served
    assert urlopen(f"{address}/healthz").read() == b"ok\n"
    with pytest.raises(HTTPError, match="503"):
        urlopen(f"{address}/readyz")
    listed[0] = True
    assert urlopen(f"{address}/readyz").status == 200
    ages["decider"] = 61.0
    with pytest.raises(HTTPError) as found:
        urlopen(f"{address}/healthz")
    assert (found.value.code, found.value.read()) == (503, b"the decider has not gone on for 61 s\n")
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{address}/secrets")
    began = time.monotonic()
    assert b"headway_epoch 7.0" in urlopen(f"{address}/metrics").read()
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("listen", ["nowhere", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_had_is_said_in_one_sentence(listen):
    with pytest.raises(UserError, match=f"--metrics-listen {listen}: cannot listen there"):
        TelemetryServer(listen, Metrics(), Health(dict, lambda: True))
