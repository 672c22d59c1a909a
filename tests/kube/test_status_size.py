"""The status of a job of a thousand replicas is as small as that of ten, and a restart needs no more."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_cluster import MemoryApi, SmallCluster, a_node

from headway.core.job import JobId
from headway.kube.gangs.messages import StatusLost
from headway.kube.views.status import MOST_RANGES, read_savers, written_savers
from headway.progress_server import Connected


def a_gang(replicas: int) -> dict:
    return {"roles": {"worker": {"replicas": replicas, "cpu": "100m"}}, "steps": 100}


def running(replicas: int) -> tuple[SmallCluster, str]:
    api = MemoryApi()
    api.nodes = [a_node(f"ip-10-0-{number // 250}-{number % 250}.eu-west-1.compute.internal") for number in range(250)]
    uid = api.submit("wide", a_gang(replicas))
    small = SmallCluster(api)
    for _ in range(60):  # a turn reads messages for 50 ms at most
        small.turn()
        if small.phase(uid) == "Running":
            break
    assert small.phase(uid) == "Running"
    for index in range(0, replicas, 2):
        small.reports.events.append(Connected(JobId("team/wide"), "worker", index, 0, True, None))
    small.turn()
    small.cluster.following.tell(uid, StatusLost())
    small.turn(2)
    assert small.api.status(uid)["savers"], "the status was written anew"
    return small, uid


def test_a_status_does_not_grow_with_replicas():
    sizes = {}
    for replicas in (10, 400, 1000):
        small, uid = running(replicas)
        status = small.api.status(uid)
        sizes[replicas] = len(json.dumps(status))
        assert status["replicas"] == replicas
    assert sizes[10] < 2000
    assert sizes[1000] < sizes[10] + 300, "a few nodes more are named, and a few ranges of savers"
    assert sizes[1000] < sizes[400] + 30


def test_a_thousand_replicas_are_found_again_after_a_restart():
    small, uid = running(1000)
    before, pods = small.cluster.gangs[uid].wanted, set(small.api.pods)
    small.start()
    small.turn(3)
    again = small.cluster.gangs[uid].wanted
    assert sorted(again.allocation[0].nodes) == sorted(before.allocation[0].nodes)
    assert (small.phase(uid), small.api.status(uid)["attempt"], set(small.api.pods)) == ("Running", 0, pods)
    lost = sorted(pods)[17]
    del small.api.pods[lost]
    small.start()
    small.turn()
    assert small.api.status(uid)["reason"] == "Interrupted", "a replica that went meanwhile is missed"


replicas = st.sets(st.tuples(st.sampled_from(["ps", "worker"]), st.integers(0, 200)))


@given(replicas)
def test_savers_are_read_back_and_none_is_forgotten(savers):
    written = written_savers(savers)
    assert len(written) <= 2
    assert all(text.count(",") < MOST_RANGES for text in written)
    read = read_savers(written)
    assert read >= savers
    if all(text.count(",") < MOST_RANGES - 1 for text in written):
        assert read == savers


def test_savers_of_an_earlier_version_and_nonsense():
    assert read_savers([("worker", 3)]) == {("worker", 3)}
    assert written_savers({("w", 0), ("w", 1), ("w", 2), ("w", 5)}) == ["w 0-2,5"]
    for text in ("w", "w x", "w 5-1", "w 0-999999999"):
        with pytest.raises(ValueError):  # noqa: PT011  whatever it says, the status is not used
            read_savers([text])
