"""What jobs really use on Kubernetes: read, added up for whole gangs only, asked rarely, and never in the way."""

from __future__ import annotations

import asyncio
import json

import pytest
from small_cluster import HEALTHY, SmallCluster

from headway.kube.api.errors import Forbidden, NotFound
from headway.kube.api.usage import Measured, PodUsage, by_kubelets, by_metrics, read_metrics, read_summary
from headway.kube.settings import Measure
from headway.kube.store import usage

SUMMARY = {
    "node": {"nodeName": "n0", "cpu": {"usageNanoCores": 9}},
    "pods": [
        {"podRef": {"name": "a-0-worker-0", "namespace": "default", "uid": "u"},
         "containers": [
             {"name": "sidecar", "cpu": {"usageNanoCores": 7_000_000_000}},
             {"name": "main", "cpu": {"usageNanoCores": 1_250_000_000, "usageCoreNanoSeconds": 5},
              "memory": {"workingSetBytes": 300 << 20}},
         ]},
        {"podRef": {"name": "young", "namespace": "default"}, "containers": [{"name": "main", "cpu": {"time": "t"}}]},
        {"podRef": {"name": "bare", "namespace": "default"}},
    ],
}  # fmt: skip
METRICS = {"items": [
    {"metadata": {"name": "a-0-worker-0", "namespace": "default"},
     "containers": [{"name": "main", "usage": {"cpu": "1250000001n", "memory": "307200Ki"}}]},
    {"metadata": {"name": "b", "namespace": "default"}, "containers": [{"name": "main", "usage": {"cpu": "250m"}}]},
    {"metadata": {"name": "odd", "namespace": "default"}, "containers": [{"name": "main", "usage": {"cpu": "lots"}}]},
]}  # fmt: skip
ONE = ("default", "a-0-worker-0")


def test_the_container_that_trains_counts_and_one_without_numbers_is_not_measured():
    assert read_summary(json.dumps(SUMMARY).encode()) == {ONE: PodUsage(1.25, 300)}
    assert read_metrics(json.dumps(METRICS).encode()) == {
        ONE: PodUsage(1.250000001, 300), ("default", "b"): PodUsage(0.25, 0),
    }  # fmt: skip


class Answers:
    """A client that answers each path, or raises what it finds there."""

    def __init__(self, answers: dict[str, object]) -> None:
        self.answers = answers

    async def get(self, path: str) -> bytes:
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


def test_a_kubelet_that_fails_costs_its_own_pods_only():
    summary = "/api/v1/nodes/{}/proxy/stats/summary"
    client = Answers({summary.format("n0"): SUMMARY, summary.format("n1"): Forbidden(403, "no"),
                      summary.format("n%2F2"): b"<html>"})  # fmt: skip
    found = asyncio.run(by_kubelets(client, ["n0", "n1", "n/2"]))  # type: ignore[arg-type]
    assert set(found.pods) == {ONE}
    assert "the kubelet of n1" in found.why
    assert (
        "no metrics API"
        in asyncio.run(
            by_metrics(Answers({"/apis/metrics.k8s.io/v1beta1/pods": NotFound(404, "")}), "")  # type: ignore[arg-type]
        ).why
    )


@pytest.fixture
def small():
    small = SmallCluster(measure=Measure.KUBELET, progress_seconds=0.0)
    small.api.submit("a", {"roles": {"worker": {"replicas": 2, "cpu": "5"}}})  # one on each node
    return small


def names(small) -> list[tuple[str, str]]:
    return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in small.api.pods.values()]


def test_policies_see_what_a_whole_gang_uses_and_its_status_says_it(small):
    small.turn(6)
    assert len(names(small)) == 2
    assert small.api.asked_nodes == [], "while nothing runs, it is looked at now and then"
    assert 0 < small.cluster.meter.again - small.cluster.now() <= usage.EVERY_SECONDS
    small.cluster.meter.again = 0.0
    small.turn(2)
    assert small.api.asked_nodes == [sorted({pod["spec"]["nodeName"] for pod in small.api.pods.values()})]
    small.api.measured = Measured({names(small)[0]: PodUsage(0.5, 100)})
    small.cluster.meter.again = 0.0
    small.turn(2)
    assert small.cluster.board.snapshot(0.0).used_cpu == {}, "half a gang is not measured"
    small.api.measured = Measured({names(small)[1]: PodUsage(0.25, 60)})
    small.cluster.meter.again = 0.0
    small.turn(3)
    assert list(small.cluster.board.snapshot(0.0).used_cpu.values()) == [0.75]
    (uid,) = small.api.jobs
    assert small.api.status(uid)["usage"] == {"cpu": "750m", "memory": "160Mi"}


def test_it_asks_rarely_in_turns_and_less_after_trouble(small, monkeypatch, caplog):
    monkeypatch.setattr(usage, "MOST_NODES", 1)
    small.api.measured = Measured({}, "forbidden")
    small.turn(6)
    meter = small.cluster.meter
    meter.again = 0.0
    small.turn(4)
    assert len(small.api.asked_nodes) == 1
    assert meter.again > small.cluster.now() + 100, "nothing could be measured"
    meter.again = 0.0
    small.turn(3)
    assert small.api.asked_nodes == [["n0"], ["n1"]], "each node has its turn"
    assert caplog.text.count("not measured everywhere: forbidden") == 1
    small.api.measured = Measured({("default", "of-others"): PodUsage(1.0, 1)})
    meter.again = 0.0
    small.turn(3)
    assert meter.known == {}, "nothing is kept of pods that are not ours"
    assert 0 < meter.again - small.cluster.now() <= usage.EVERY_SECONDS


def test_nothing_is_asked_unless_wanted():
    small = SmallCluster()
    small.api.submit("a", HEALTHY)
    small.turn(6)
    assert small.api.asked_nodes == []
