"""Pods that name Headway as their scheduler and are of no TrainingJob: bound as plans say, counted, never deleted."""

from __future__ import annotations

import copy

import msgspec
import pytest
from small_cluster import BEGAN, HEALTHY, ChangingPods, MemoryApi, SmallCluster, a_lone

from headway.core.job import Can
from headway.core.plan import Because, Plan, Start, Stop
from headway.core.queue_rules import QueueRule
from headway.core.states import State
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.watch import Deleted, Listed
from headway.kube.intake.foreign import foreign_gang
from headway.kube.pods.constraints import BoundClaim
from headway.kube.settings import ClaimSettings, KubeSettings
from headway.policies.registry import POLICIES


def node_of(pod: dict) -> str:
    return pod["spec"].get("nodeName", "")


def condition(pod: dict) -> tuple[str, str, str]:
    found = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else ("", "", "")


def rows(small: SmallCluster) -> dict[str, State]:
    table = small.cluster.board.table
    return {table.jobs[row].id: small.cluster.board.state(row) for row in range(table.count)}


def test_it_is_bound_counted_and_its_end_frees_the_room():
    small = SmallCluster(MemoryApi(nodes=1))  # 8 cpu
    first = a_lone(small.api, "first", "6")
    small.turn(3)
    second = a_lone(small.api, "second", "6")
    small.turn(3)
    assert (node_of(first), node_of(second)) == ("n0", "")
    assert rows(small) == {"team/pod:first": State.RUNNING, "team/pod:second": State.WAITING}
    assert condition(second)[:2] == ("False", "Unschedulable")
    assert "cpu" in condition(second)[2]
    first["status"] = {"phase": "Succeeded"}
    small.api.tell(first)
    small.turn(4)
    assert node_of(second) == "n0"
    assert set(small.api.pods) == {"team/first", "team/second"}, "nothing is deleted"


def test_training_jobs_and_lone_pods_share_the_nodes():
    small = SmallCluster(MemoryApi(nodes=1))
    a_lone(small.api, "pod", "7900m")
    small.turn(3)
    uid = small.api.submit("job", HEALTHY)  # 2 x 100m
    small.turn(3)
    assert small.phase(uid) != "Running"
    gone = small.api.pods.pop("team/pod")
    small.api.inbox.put(Deleted(Pod, msgspec.convert(gone, Pod)))
    small.turn(5)
    assert small.phase(uid) == "Running"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_restart_counts_those_that_have_a_node(phase):
    small = SmallCluster(MemoryApi(nodes=1))
    pod = a_lone(small.api, "pod", "6")
    small.turn(3)
    pod["status"] = {"phase": phase}
    small.start()
    other = a_lone(small.api, "other", "6")
    small.turn(3)
    assert rows(small) == {"team/pod:pod": State.RUNNING, "team/pod:other": State.WAITING}
    assert node_of(other) == ""
    assert not small.cluster.store.foreign.pods, "it is not counted twice"


def test_what_it_asks_of_nodes_and_neighbours_is_honoured():
    small = SmallCluster(MemoryApi(nodes=2))
    apart = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "field:metadata.name"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    pods = [a_lone(small.api, f"p{number}", meta={"labels": {"app": "a"}}, affinity=rule) for number in range(3)]
    small.turn(4)
    assert sorted(node_of(pod) for pod in pods) == ["", "n0", "n1"]
    waiting = next(pod for pod in pods if not node_of(pod))
    assert condition(waiting)[1] == "Unschedulable"
    assert "anti-affinity" in condition(waiting)[2]
    chosen = a_lone(small.api, "chosen", nodeSelector={"disk": "ssd"})
    small.turn(3)
    assert node_of(chosen) == ""
    assert "disk=ssd" in condition(chosen)[2]


def test_gates_are_waited_for():
    small = SmallCluster()
    pod = a_lone(small.api, "pod", schedulingGates=[{"name": "later"}])
    small.turn(3)
    assert (node_of(pod), condition(pod)) == ("", ("", "", ""))
    pod["spec"]["schedulingGates"] = []
    small.api.tell(pod)
    small.turn(3)
    assert node_of(pod)


def test_what_headway_cannot_honour_is_said_in_an_event_and_in_the_condition():
    small = SmallCluster()
    pod = a_lone(small.api, "pod", resourceClaims=[{"name": "device"}])
    good = a_lone(small.api, "good")
    small.turn(4)
    assert node_of(good)
    assert node_of(pod) == ""
    assert condition(pod)[:2] == ("False", "Unschedulable")
    assert "spec.resourceClaims" in condition(pod)[2]
    (event,) = [one for one in small.api.events if one["involvedObject"]["kind"] == "Pod"]
    assert (event["reason"], event["involvedObject"]["name"]) == ("FailedScheduling", "pod")
    assert "spec.resourceClaims" in event["message"]


def test_claims_for_volumes_are_read_first():
    small = SmallCluster()
    volume = [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]
    pod = a_lone(small.api, "pod", volumes=volume)
    small.turn(2)
    assert node_of(pod) == ""
    assert "does not exist" in condition(pod)[2]
    small.api.claims["disk"] = BoundClaim()
    small.api.pass_time()
    small.turn(4)
    assert node_of(pod)


def test_it_is_left_alone_by_every_policy():
    """No save, no change of size, no stop: whatever a policy says."""
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "team"}}, Pod)
    job = foreign_gang(None, [pod], {}, KubeSettings(began=BEGAN), 0.0).job
    assert (job.can, job.checkpoints, job.user) == (Can.NOTHING, False, "team")

    def stops_all(snapshot):
        running = [snapshot.jobs.job(int(row)).id for row in snapshot.jobs.running()]
        return Plan(tuple(Stop(one, Because.PREEMPTED) for one in running)) if running else POLICIES["fifo"]()(snapshot)

    small = SmallCluster(policy=stops_all)
    there = a_lone(small.api, "pod")
    small.turn(6)
    assert rows(small) == {"team/pod:pod": State.RUNNING}
    assert there["metadata"]["name"] in {pod["metadata"]["name"] for pod in small.api.pods.values()}


def test_the_rules_of_queues_hold_for_it():
    rules = (QueueRule(name="research", namespaces=("team",)), QueueRule(name="web", namespaces=("web",)))
    settings = {"claims": ClaimSettings(queues=rules)}
    small = SmallCluster(**settings)
    mine = a_lone(small.api, "mine")
    foreign = a_lone(small.api, "foreign", meta={"labels": {"headway.dev/queue": "web"}})
    small.turn(4)
    assert node_of(mine)
    assert small.gang("team/pod:mine").job.queue == "research"
    assert node_of(foreign) == ""
    assert "may not use 'web'" in condition(foreign)[2]


def test_rules_that_change_while_it_runs_hold_for_it_too():
    small = SmallCluster(claims=ClaimSettings(queues=(QueueRule(name="web", namespaces=("team",)),)))
    small.cluster.obey((QueueRule(name="web", namespaces=("other",)), QueueRule(name="research", namespaces=("team",))))
    pod = a_lone(small.api, "pod", meta={"labels": {"headway.dev/queue": "web"}})
    small.turn(4)
    assert node_of(pod) == ""
    assert "may not use 'web'" in condition(pod)[2]


def test_a_scheduler_of_one_namespace_binds_pods_of_that_one():
    small = SmallCluster(namespace="team")
    pods = [a_lone(small.api, "pod", namespace=namespace) for namespace in ("team", "other")]
    small.turn(3)
    assert [bool(node_of(pod)) for pod in pods] == [True, False]


def test_pods_of_other_schedulers_are_left_alone():
    small = SmallCluster()
    pod = a_lone(small.api, "pod", schedulerName="default-scheduler")
    small.turn(3)
    assert node_of(pod) == ""
    assert not rows(small)


def test_a_refused_binding_is_tried_again_after_a_pause():
    small = SmallCluster()
    pod = a_lone(small.api, "pod", meta={"labels": {"fault": "bind"}})
    small.turn(3)
    assert rows(small) == {"team/pod:pod": State.WAITING}
    pod["metadata"]["labels"] = {}
    small.turn(2)
    assert node_of(pod) == "", "not at once"
    small.clock.ahead += 6.0
    small.turn(3)
    assert node_of(pod)


def test_one_that_changed_before_its_binding_is_bound_as_it_is_now():
    small = SmallCluster(ChangingPods())
    pod = a_lone(small.api, "pod")
    small.turn(5)
    assert node_of(pod)
    assert rows(small) == {"team/pod:pod": State.RUNNING}


def test_one_that_is_made_anew_with_the_same_name_waits_for_the_end_of_the_first():
    """As those of a StatefulSet are."""
    small = SmallCluster()
    first = a_lone(small.api, "web-0")
    small.turn(3)
    small.api.inbox.put(Deleted(Pod, msgspec.convert(small.api.pods.pop("team/web-0"), Pod)))
    second = a_lone(small.api, "web-0")
    small.turn(4)
    assert node_of(second)
    assert rows(small) == {"team/pod:web-0": State.RUNNING}
    assert small.gang("team/pod:web-0").uid == second["metadata"]["uid"] != first["metadata"]["uid"]


def test_another_scheduler_was_faster():
    small = SmallCluster()
    pod = a_lone(small.api, "pod")
    small.cluster.turn()
    pod["spec"]["nodeName"], pod["status"] = "n1", {"phase": "Running"}
    small.api.tell(pod)
    small.turn(2)
    board = small.cluster.board
    assert rows(small) == {"team/pod:pod": State.RUNNING}
    assert board.nodes.nodes[board.placement(0).nodes[0][0]].name == "n1"


def test_restored_data_may_take_its_node_away():
    small = SmallCluster()
    pod = a_lone(small.api, "pod")
    small.turn(3)
    assert node_of(pod)
    del pod["spec"]["nodeName"]
    pod["status"] = {"phase": "Pending"}
    small.api.tell(pod)
    small.turn(3)
    assert node_of(pod), "it is bound again"
    assert rows(small) == {"team/pod:pod": State.RUNNING}


def test_restored_data_may_be_those_of_just_before_its_binding():
    """The answer to the binding came, and the watch never showed it: the pod is as it was last seen."""
    small = SmallCluster()
    pod = a_lone(small.api, "pod")
    small.cluster.turn()
    before, tell = copy.deepcopy(pod), small.api.tell
    small.api.tell = lambda _pod: None
    small.turn(2)
    assert node_of(pod)
    small.api.tell, small.api.pods["team/pod"] = tell, before
    small.api.inbox.put(Listed(Pod, (msgspec.convert(before, Pod),), 9, went_back=True))
    small.turn(4)
    assert node_of(before)


def test_a_pod_that_was_resized_counts_for_what_it_holds_now():
    small = SmallCluster(MemoryApi(nodes=1))
    pod = a_lone(small.api, "pod", "2")
    small.turn(3)
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "7"
    small.api.tell(pod)
    other = a_lone(small.api, "other", "2")
    small.turn(3)
    assert node_of(other) == ""


def test_only_starts_are_carried_out():
    small = SmallCluster()
    a_lone(small.api, "pod")
    plan = small.turn(1)
    assert [type(decision) for decision in plan.decisions] == [Start]


def test_gpus_of_pods_of_others_count_once():
    api = MemoryApi(nodes=0)
    status = {"allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4"},
              "conditions": [{"type": "Ready", "status": "True"}]}  # fmt: skip
    api.nodes = [msgspec.convert({"metadata": {"name": "n0"}, "status": status}, NodeObject)]
    small = SmallCluster(api)
    asks = {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}}
    pods = []
    for number in range(3):
        pods.append(a_lone(api, f"p{number}", containers=[{"name": "c", "resources": asks}]))
        small.turn(4)
    assert [node_of(pod) for pod in pods] == ["n0", "n0", ""]
