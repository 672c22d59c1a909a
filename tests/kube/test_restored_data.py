"""Lists compared with what is known: late answers stay, lost changes are found, and restored data hold."""

from __future__ import annotations

import copy

import msgspec
import pytest
from small_cluster import HEALTHY, SmallCluster
from test_inventory import a_node, a_pod, some_jobs

from headway.kube.api.errors import NotFound
from headway.kube.api.objects import NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.inventory import Inventory
from headway.kube.work import ApiWork, Performed

# ── what a list says of pods ──


def test_a_pod_that_was_made_after_the_list_stays():
    """The list was asked for before the pod was made, and arrives after the answer to that."""
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pod(a_pod("a", 12, owner="ours"), jobs)
    inventory.see_pods(Listed(Pod, (), 11), jobs)
    assert set(jobs["ours"].replicas) == {"a"}
    inventory.see_pods(Changed(Pod, a_pod("a", 13, owner="ours", phase="Succeeded")), jobs)
    assert jobs["ours"].replicas["a"].over, "it is followed further"
    inventory.see_pods(Listed(Pod, (), 14), jobs)
    assert not jobs["ours"].replicas


def test_a_pod_in_a_later_version_than_the_list_stays_as_it_is():
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pod(a_pod("a", 12, owner="ours", phase="Succeeded"), jobs)
    inventory.see_pods(Listed(Pod, (a_pod("a", 10, owner="ours"),), 11), jobs)
    assert jobs["ours"].replicas["a"].over


@pytest.mark.parametrize(("version", "went_back"), [(5, True), (20, False)])
def test_restored_data_hold_even_if_their_versions_are_lower(version, went_back):
    """Also if the server has written so much since that its versions are higher again."""
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pod(a_pod("a", 12, owner="ours", phase="Succeeded"), jobs)
    inventory.see_pods(Changed(Pod, a_pod("b", 13)), jobs)
    inventory.see_pods(Deleted(Pod, a_pod("b", 14)), jobs)
    inventory.see_pods(Listed(Pod, (a_pod("a", 4, owner="ours"), a_pod("b", 3)), version, went_back), jobs)
    assert not jobs["ours"].replicas["a"].over, "its end never was"
    assert inventory.foreign.by_node == {"n": {"cpu": 500, "pods": 1}}, "its deletion never was"
    inventory.see_pods(Changed(Pod, a_pod("a", 6, owner="ours", phase="Failed")), jobs)
    assert jobs["ours"].replicas["a"].over, "and goes on from there"


def test_a_deleted_pod_in_a_list_from_before_its_end_stays_gone():
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pods(Changed(Pod, a_pod("a", 5)), jobs)
    inventory.see_pods(Deleted(Pod, a_pod("a", 9)), jobs)
    inventory.see_pods(Listed(Pod, (a_pod("a", 5),), 7), jobs)
    assert not any(inventory.foreign.pods)


def test_pods_that_come_before_their_job_are_its_own():
    inventory, jobs = Inventory(), some_jobs()
    inventory.see_pods(Listed(Pod, (a_pod("a", 5, owner="ours"),), 7), {})
    assert inventory.foreign.pods
    inventory.adopt(jobs["ours"])
    assert set(jobs["ours"].replicas) == {"a"}
    inventory.adopt(jobs["ours"])
    inventory.see_pods(Deleted(Pod, a_pod("a", 8, owner="ours")), jobs)
    assert not inventory.orphans.of("ours")


def test_a_list_of_the_same_nodes_is_no_news():
    nodes = tuple(msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, resourceVersion="3"))
                  for node in (a_node("a"), a_node("b", ready="False")))  # fmt: skip
    inventory = Inventory()
    inventory.see_nodes(Listed(NodeObject, nodes, 3), now=0.0)
    inventory.see_pods(Listed(Pod, (a_pod("p", node="a"),), 3), {})
    assert inventory.take_table() is not None
    inventory.see_nodes(Listed(NodeObject, copy.deepcopy(nodes), 9), now=50.0)
    assert inventory.take_table() is None
    assert inventory.not_ready_since == {"b": 0.0}
    assert sum(inventory.neighbours.places["a"].pods.values()) == 1
    inventory.see_nodes(Listed(NodeObject, nodes[:1], 10), now=60.0)
    assert inventory.absent == {"b"}


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


def test_a_status_that_is_not_found_ends_no_job():
    """A server that starts may not know TrainingJobs yet. Whether the job is gone, the watch tells."""
    small = SmallCluster()
    uid = small.api.submit("job", HEALTHY)
    small.turn(5)
    job = small.cluster._admission.jobs[uid]
    small.api.inbox.put(Performed(ApiWork(uid, "team", "job", {}), NotFound(404, "not found")))
    small.turn(2)
    small.hurry()
    small.turn(2)
    assert not job.withdrawn
    assert len(small.api.pods_of("job")) == 2
    assert small.phase(uid) == "Running"
