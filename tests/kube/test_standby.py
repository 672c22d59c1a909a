"""Before it leads a scheduler keeps all lists as they are now, and a late word of the last leader changes nothing."""

from __future__ import annotations

import json
import threading

import msgspec
import pytest
from small_cluster import HEALTHY, MemoryApi, SmallCluster, a_lone, a_node

from headway.kube.api.errors import Denied, KubeError, error_for
from headway.kube.api.objects import NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed, WatchFailed
from headway.kube.gangs.model import Delete, Touch
from headway.kube.inbox import Inbox, UsersRecorded, WorkerEnded
from headway.kube.standby import WarmLists, stand_by
from headway.kube.writes.fence import Fence
from headway.kube.writes.lease import SchedulerLease
from headway.kube.writes.write import Rank, StatusPatch, WriteDone


def a_job(name: str, version: int, status: dict | None = None) -> TrainingJob:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return msgspec.json.decode(json.dumps({"metadata": meta, "spec": {}, "status": status or {}}), type=TrainingJob)


def test_lists_are_kept_as_they_are_now():
    lists = WarmLists()
    lists.take(Listed(NodeObject, (a_node("n0"), a_node("n1")), 5))
    assert not lists.is_warm
    lists.take(Listed(TrainingJob, (a_job("a", 1, {"epoch": 3}), a_job("b", 2)), 6))
    lists.take(Listed(Pod, (), 7))
    assert lists.is_warm
    for version in range(8, 1000):
        lists.take(Changed(TrainingJob, a_job("a", version, {"epoch": 7})))
    lists.take(Deleted(NodeObject, a_node("n1")))
    lists.take(UsersRecorded(12.0))
    nodes, jobs, pods, users = lists.messages()
    assert ([one.metadata.name for one in nodes.objects], pods.objects) == (["n0"], ())
    assert [(one.metadata.name, one.metadata.resourceVersion) for one in jobs.objects] == [("a", "999"), ("b", "2")]
    assert (jobs.version, users, lists.highest_epoch()) == (999, UsersRecorded(12.0), 7)
    lists.take(Listed(TrainingJob, (), 1001, went_back=True))
    assert lists.messages()[1].objects == ()


def refused(status: int, kind: type) -> WatchFailed:
    return WatchFailed(error_for(status, "no"), kind)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_is_not_shown_any_more_is_not_there_until_it_is_listed_again(status):
    lists = WarmLists()
    for kind in (NodeObject, TrainingJob, Pod):
        lists.take(Listed(kind, (), 5))
    lists.take(refused(503, TrainingJob))
    assert lists.is_warm, "that passes"
    lists.take(refused(status, TrainingJob))
    lists.take(Listed(NodeObject, (a_node("n0"),), 6))
    assert not lists.is_warm, "the list of another kind says nothing of this one"
    lists.take(Listed(TrainingJob, (), 7))
    assert lists.is_warm


class AWorker:
    """The thread that talks to the API server, as a standby sees it."""

    def __init__(self, *messages, led: bool = True) -> None:
        self.inbox, self.lease, self.asked, self.led = Inbox(), SchedulerLease("sys", Fence()), [], led
        for message in messages:
            self.inbox.put(message)

    def lead(self) -> None: ...


@pytest.fixture
def worker(monkeypatch):
    made = AWorker()

    async def acquire(lease, _access):
        made.asked.append(lease.highest())
        if not made.led:
            made.inbox.put(refused(403, TrainingJob))
            made.inbox.put(Listed(NodeObject, (), 9))

    monkeypatch.setattr(SchedulerLease, "acquire", acquire)
    return made


@pytest.mark.parametrize("waits", [False, True])
def test_the_lease_is_asked_for_when_all_is_listed_so_that_the_epoch_is_known(worker, waits):
    worker.lease.waits = waits
    worker.inbox.put(Listed(NodeObject, (), 1))
    jobs = Listed(TrainingJob, (a_job("a", 1, {"epoch": 7}),), 2)
    threading.Timer(0.1, lambda: [worker.inbox.put(one) for one in (jobs, Listed(Pod, (), 3))]).start()
    stand_by(None, worker, "")
    assert worker.asked == [7]
    assert [one.kind for one in iter(worker.inbox.next, None)] == [NodeObject, TrainingJob, Pod]


@pytest.mark.parametrize(("status", "words"), [(404, "does not know TrainingJobs"), (403, "refuses access")])
def test_who_is_not_shown_a_list_says_so_and_never_asks_for_the_lease(worker, status, words):
    for message in (Listed(NodeObject, (), 1), refused(status, TrainingJob), Listed(Pod, (), 3)):
        worker.inbox.put(message)
    with pytest.raises(KubeError, match=words):
        stand_by(None, worker, "")
    assert worker.asked == []


def test_who_loses_a_list_as_it_begins_to_lead_says_so(worker):
    worker.led = False
    for kind in (NodeObject, TrainingJob, Pod):
        worker.inbox.put(Listed(kind, (), 1))
    with pytest.raises(KubeError, match="refuses access"):
        stand_by(None, worker, "")


def test_without_its_thread_it_ends():
    with pytest.raises(KubeError, match="the thread that talks to the API server has ended: no"):
        WarmLists().take(WorkerEnded("no"))


def test_the_new_leader_touches_the_pods_of_what_was_under_way_and_its_statuses_have_its_epoch():
    small = SmallCluster()
    small.api.fence.epoch = 4
    running = small.api.submit("runs", HEALTHY)
    small.turn(6)
    assert small.api.status(running)["epoch"] == 4
    half = small.api.submit("half", HEALTHY)
    take = small.api.take

    def made_only(write):
        if type(write.what).__name__ == "Bind":
            raise AssertionError("it is dead")
        return take(write)

    small.api.take = made_only
    with pytest.raises(AssertionError):
        small.turn(6)
    small.api.take = take
    small.api.sent.clear()
    small.api.fence.epoch = 5
    small.start()
    small.turn(6)
    touched = [write.name for write in small.api.sent if isinstance(write.what, Touch)]
    assert touched == ["half-0-worker-0", "half-0-worker-1"], "those of the gang that runs are left alone"
    assert small.phase(half) == "Running"
    epochs = {write.body["epoch"] for write in small.api.sent if isinstance(write.what, StatusPatch)}
    assert epochs == {5}


def test_the_new_leader_touches_pods_of_others_that_have_no_node_and_binds_before():
    """A binding of the last leader that is late would fill a node that is promised to others by now."""
    small = SmallCluster(MemoryApi(nodes=1))
    small.api.fence.epoch = 5
    for name in ("first", "second"):
        a_lone(small.api, name, "6")
    small.start()
    small.turn(4)
    touched = [write.name for write in small.api.sent if isinstance(write.what, Touch)]
    assert touched == ["first", "second"]
    assert {write.rank for write in small.api.sent if isinstance(write.what, Touch)} == {Rank.EVENT}
    assert sorted(bool(pod["spec"].get("nodeName")) for pod in small.api.pods.values()) == [False, True]
    small.api.sent.clear()
    small.api.fence.epoch = 6
    small.start()
    small.turn(4)
    assert [write.name for write in small.api.sent if isinstance(write.what, Touch)] == ["second"]


def test_a_delete_that_the_cluster_refuses_is_told_in_an_event_and_stays_under_way():
    class NoDeletes(MemoryApi):
        def put(self, writes, dropped=()) -> None:
            super().put([one for one in writes if not isinstance(one.what, Delete)], dropped)

    small = SmallCluster(NoDeletes())
    uid = small.api.submit("job", HEALTHY)
    small.turn(6)
    small.api.jobs[uid]["spec"] = {**HEALTHY, "suspend": True}
    small.api.change(uid)
    small.turn(3)
    open_ = small.cluster.outbox._open[uid]
    (first, _) = [write for write in open_.values() if isinstance(write.what, Delete)]
    small.api.inbox.put(WriteDone(first, error=Denied(403, "no deletes on Fridays"), again=True))
    small.turn()
    (told,) = [event for event in small.api.events if event["reason"] == "DeleteRefused"]
    assert (told["involvedObject"]["kind"], told["involvedObject"]["uid"], told["type"]) == (
        "TrainingJob", uid, "Warning",
    )  # fmt: skip
    assert first.name in told["message"]
    assert "no deletes on Fridays" in told["message"]
    assert first in small.cluster.outbox._open[uid].values(), "the door asks again"


def test_a_late_status_of_the_last_leader_is_written_over():
    """It says that the job stops. The leader after this one would believe it, and delete pods that train."""
    small = SmallCluster()
    small.api.fence.epoch = 4
    uid = small.api.submit("runs", HEALTHY)
    small.turn(6)
    small.api.fence.epoch = 5
    small.start()
    small.turn(3)
    status = small.api.jobs[uid]["status"]
    assert status["epoch"] == 4, "it says what is so: nothing is to be written"
    small.api.jobs[uid]["status"] = {**status, "phase": "Stopping", "draining": True, "goal": "Waiting"}
    small.api.change(uid)
    small.turn(3)
    assert (small.phase(uid), small.api.status(uid)["epoch"]) == ("Running", 5)


def test_what_is_no_gang_has_the_epoch_too():
    small = SmallCluster()
    small.api.fence.epoch = 9
    wrong = small.api.submit("wrong", {"roles": {"w": {"cpu": "lots"}}})
    small.turn(3)
    assert (small.phase(wrong), small.api.status(wrong)["epoch"]) == ("Failed", 9)
