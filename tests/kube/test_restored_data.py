"""Lists compared with what is known: late answers stay, lost changes are found, and restored data hold."""

from __future__ import annotations

import copy

import msgspec
import pytest
from small_cluster import HEALTHY, SmallCluster, a_node

from headway.core.job import Job, JobId, Role
from headway.kube.api.errors import NotFound
from headway.kube.api.objects import Meta, NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.messages import StatusLost
from headway.kube.gangs.take import take
from headway.kube.pods.marks import PodMarks
from headway.kube.store.store import Store

OWNER = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "uid": "ours", "controller": True}


class OneGang:
    """A store with one gang, and what is told to it."""

    def __init__(self, *, known: bool = True) -> None:
        meta = Meta(name="j", namespace="team", uid="ours")
        self.gang = Gang(meta=meta, job=Job(id=JobId("team/j"), roles=(Role(name="worker", max=9),)), unmarked=True)
        self.gangs = {"ours": self.gang} if known else {}
        self.store = Store(0.0, PodMarks(b"key"), self.gangs, self.tell)

    def tell(self, uid: str, message) -> None:
        self.gangs[uid] = take(self.gangs[uid], message)

    def come(self) -> None:
        self.gangs["ours"] = self.gang
        self.store.adopt(self.gang)

    @property
    def pods(self) -> dict:
        return self.gangs["ours"].pods


def a_pod(name: str, version: int = 1, *, owner: str = "", phase: str = "Running", node: str = "n") -> Pod:
    index = ord(name[0]) - ord("a")
    meta = {"name": f"j-0-worker-{index}" if owner else name, "namespace": "team", "uid": name}
    meta |= {"resourceVersion": str(version), "ownerReferences": [OWNER] if owner else []}
    spec = {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


# ── what a list says of pods ──


def test_a_pod_that_was_made_after_the_list_stays():
    """The list was asked for before the pod was made, and arrives after the answer to that."""
    one = OneGang()
    one.store.see_pod(a_pod("a", 12, owner="ours"))
    one.store.see_pods(Listed(Pod, (), 11))
    assert set(one.pods) == {"a"}
    one.store.see_pods(Changed(Pod, a_pod("a", 13, owner="ours", phase="Succeeded")))
    assert one.pods["a"].over, "it is followed further"
    one.store.see_pods(Listed(Pod, (), 14))
    assert not one.pods


def test_a_pod_in_a_later_version_than_the_list_stays_as_it_is():
    one = OneGang()
    one.store.see_pod(a_pod("a", 12, owner="ours", phase="Succeeded"))
    one.store.see_pods(Listed(Pod, (a_pod("a", 10, owner="ours"),), 11))
    assert one.pods["a"].over


def test_a_pod_that_cannot_be_read_is_as_it_was_last_seen():
    one = OneGang()
    one.store.see_pod(a_pod("a", 12, owner="ours"))
    one.store.see_pods(Listed(Pod, (), 20, unread=("j-0-worker-0", "a")))
    assert set(one.pods) == {"a"}


@pytest.mark.parametrize(("version", "went_back"), [(5, True), (20, False)])
def test_restored_data_hold_even_if_their_versions_are_lower(version, went_back):
    """Also if the server has written so much since that its versions are higher again."""
    one = OneGang()
    one.store.see_pod(a_pod("a", 12, owner="ours", phase="Succeeded"))
    one.store.see_pods(Changed(Pod, a_pod("b", 13)))
    one.store.see_pods(Deleted(Pod, a_pod("b", 14)))
    one.store.see_pods(Listed(Pod, (a_pod("a", 4, owner="ours"), a_pod("b", 3)), version, went_back))
    assert not one.pods["a"].over, "its end never was"
    assert one.store.foreign.by_node == {"n": {"cpu": 500, "pods": 1}}, "its deletion never was"
    one.store.see_pods(Changed(Pod, a_pod("a", 6, owner="ours", phase="Failed")))
    assert one.pods["a"].over, "and goes on from there"


def test_a_deleted_pod_in_a_list_from_before_its_end_stays_gone():
    one = OneGang()
    one.store.see_pods(Changed(Pod, a_pod("a", 5)))
    one.store.see_pods(Deleted(Pod, a_pod("a", 9)))
    one.store.see_pods(Listed(Pod, (a_pod("a", 5),), 7))
    assert not any(one.store.foreign.pods)


def test_pods_that_come_before_their_job_are_its_own():
    one = OneGang(known=False)
    one.store.see_pods(Listed(Pod, (a_pod("a", 5, owner="ours"),), 7))
    assert one.store.foreign.pods
    one.come()
    assert set(one.pods) == {"a"}
    one.store.adopt(one.gang)
    one.store.see_pods(Deleted(Pod, a_pod("a", 8, owner="ours")))
    assert not one.store.orphans.of("ours")


def test_a_list_of_the_same_nodes_is_no_news():
    found = [a_node("a"), a_node("b")]
    found[1] = msgspec.structs.replace(found[1], status=msgspec.structs.replace(found[1].status, conditions=[]))
    nodes = tuple(msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, resourceVersion="3"))
                  for node in found)  # fmt: skip
    store = OneGang().store
    store.see_nodes(Listed(NodeObject, nodes, 3), now=0.0)
    store.see_pods(Listed(Pod, (a_pod("p", node="a"),), 3))
    assert store.take_table((), 0.0) is not None
    store.see_nodes(Listed(NodeObject, copy.deepcopy(nodes), 9), now=50.0)
    assert store.take_table((), 50.0) is None
    assert store.health.not_ready_since == {"b": 0.0}
    assert sum(store.neighbours.places["a"].pods.values()) == 1
    store.see_nodes(Listed(NodeObject, nodes[:1], 10), now=60.0)
    assert store.health.absent_since == {"b": 60.0}


# ── the whole scheduler ──


def relisted(small: SmallCluster, went_back: bool) -> None:
    api = small.api
    jobs = tuple(api._job(uid) for uid in api.jobs)
    pods = tuple(msgspec.convert(pod, Pod) for pod in api.pods.values())
    api.inbox.put(Listed(TrainingJob, jobs, 1, went_back))
    api.inbox.put(Listed(Pod, pods, 1, went_back))


def test_after_a_restore_every_job_of_the_copy_goes_on_and_its_status_is_true_again():
    small = SmallCluster()
    api = small.api
    runs, ends = api.submit("runs", HEALTHY), api.submit("ends", HEALTHY)
    small.turn(1)
    waited = copy.deepcopy((api.jobs, api.pods))  # a copy from before anything started
    small.turn(5)
    assert (small.phase(runs), small.phase(ends)) == ("Running", "Running")
    for pod in api.pods_of("ends"):
        pod["status"] = {"phase": "Succeeded"}
        api.tell(pod)
    small.turn(3)
    assert small.phase(ends) == "Succeeded"
    new = api.submit("new", HEALTHY)
    small.turn(5)
    assert small.phase(new) == "Running"

    api.jobs, api.pods = waited
    relisted(small, went_back=True)
    small.turn(8)
    small.hurry()
    small.turn(8)
    assert new not in api.jobs
    assert not api.pods_of("new")
    assert (small.phase(runs), small.phase(ends)) == ("Running", "Running"), "they start again"
    assert len(api.pods_of("runs")) == len(api.pods_of("ends")) == 2
    small.start()
    small.turn(3)
    assert (small.phase(runs), small.phase(ends)) == ("Running", "Running"), "as the next process reads it"


def test_a_status_that_a_restore_took_back_is_written_again():
    small = SmallCluster()
    uid = small.api.submit("job", HEALTHY)
    small.turn(5)
    small.api.jobs[uid]["metadata"]["resourceVersion"] = "90"
    relisted(small, went_back=False)
    small.turn(2)
    small.api.jobs[uid]["status"] = {}
    small.api.jobs[uid]["metadata"]["resourceVersion"] = "50"
    relisted(small, went_back=True)
    small.turn(2)
    assert small.phase(uid) == "Running"
    assert len(small.api.pods_of("job")) == 2
    assert small.api.status(uid)["attempt"] == 0, "without a stop"


def not_found(_write):
    raise NotFound(404, "not found")


def test_a_status_that_is_not_found_ends_no_job():
    """A server that starts may not know TrainingJobs yet. Whether the job is gone, the watch tells."""
    small = SmallCluster()
    uid = small.api.submit("job", HEALTHY)
    small.turn(5)
    real, small.api.take = small.api.take, not_found
    small.cluster.following.tell(uid, StatusLost())
    small.turn(3)
    small.api.take = real
    small.turn(2)
    small.hurry()
    small.turn(2)
    assert not small.cluster.gangs[uid].terms.withdrawn
    assert len(small.api.pods_of("job")) == 2
    assert small.phase(uid) == "Running"
