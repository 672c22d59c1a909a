"""Gangs whose pods others made: bound whole by Headway, or let run one gang at a time beside the native scheduler."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_cluster import MemoryApi, SmallCluster, a_node

from headway.core.states import State
from headway.kube.api.groups import group_read
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted
from headway.kube.intake.groups import GroupRef, group_of, size_of_job, size_of_job_set, size_of_pod_group
from headway.kube.pods.gate import GATE, GIVEN, gate_of, lifted, pinned_to
from headway.kube.writes.outbox import Outbox

GATED: dict[str, Any] = {"schedulerName": "default-scheduler", "schedulingGates": [{"name": GATE}]}
OURS: dict[str, Any] = {"schedulerName": "headway"}
COUNT = itertools.count()


def a_pod(api: MemoryApi, name: str, job: str, how: dict, cpu: str = "4", **more) -> dict:
    """A pod of an Indexed Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    meta = {"name": name, "namespace": "team", "creationTimestamp": "2023-11-14T22:13:25Z", "labels": {},
            "ownerReferences": [owner]} | more.pop("meta", {})  # fmt: skip
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **how, **more}
    return api.put_pod({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


def a_job(small: SmallCluster, job: str, size: int, how: dict, **more) -> list[dict]:
    small.api.groups[f"Job/team/{job}"] = size
    return [a_pod(small.api, f"{job}-{number}", job, how, **more) for number in range(size)]


def node_of(pod: dict) -> str:
    return pod["spec"].get("nodeName", "")


def pin_of(pod: dict) -> str:
    return pinned_to(msgspec.convert(pod, Pod))


def why(pod: dict) -> tuple[str, str]:
    found = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


def binds(small: SmallCluster, *pods: dict) -> None:
    """What the native scheduler does with pods that may run."""
    for pod in pods:
        assert not pod["spec"]["schedulingGates"]
        pod["spec"]["nodeName"], pod["status"] = pin_of(pod), {"phase": "Running"}
        small.api.tell(pod)


def removed(small: SmallCluster, pod: dict) -> None:
    found = small.api.pods.pop(f"team/{pod['metadata']['name']}", pod)
    small.api.inbox.put(Deleted(Pod, msgspec.convert(found, Pod)))


def rows(small: SmallCluster) -> dict[str, State]:
    table = small.cluster.board.table
    return {table.jobs[row].id: small.cluster.board.state(row) for row in range(table.count)}


# ── of which gang a pod is ──


@pytest.mark.parametrize(
    ("meta", "spec", "ref"),
    [
        ({}, {}, None),
        ({"labels": {"headway.dev/group": "g"}}, {}, GroupRef("Group", "team", "g")),
        ({}, {"schedulingGroup": {"podGroupName": "pg"}}, GroupRef("PodGroup", "team", "pg")),
        ({"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}]}, {},
         GroupRef("Job", "team", "j")),
        ({"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}],
          "labels": {"jobset.sigs.k8s.io/jobset-name": "js"}}, {}, GroupRef("JobSet", "team", "js")),
        ({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}]}, {},
         None),
    ],
)  # fmt: skip
def test_of_which_gang_a_pod_is(meta, spec, ref):
    pod = {"metadata": {"name": "p", "namespace": "team", **meta}, "spec": spec, "status": {}}
    assert group_of(msgspec.convert(pod, Pod)) == ref


def test_how_many_pods_the_objects_say():
    assert size_of_pod_group({"spec": {"schedulingPolicy": {"gang": {"minCount": 7}}}}) == 7
    assert size_of_pod_group({"spec": {"schedulingPolicy": {"basic": {}}}}) == 1
    indexed = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}
    assert size_of_job({"spec": indexed}) == 4
    for other in ({"completionMode": "NonIndexed"}, {"completions": 9}, {"completions": None}):
        assert size_of_job({"spec": indexed | other}) == 1, "its pods run as there is room"
    assert (
        size_of_job({"spec": indexed, "status": {"succeeded": 2, "uncountedTerminatedPods": {"succeeded": ["u"]}}}) == 1
    )
    assert size_of_job({"spec": indexed, "status": {"succeeded": 1, "failedIndexes": "0,2-3"}}) == 1, "at least one"
    jobs = [{"replicas": 2, "template": {"spec": {"parallelism": 3}}}, {"template": {"spec": {}}}]
    assert size_of_job_set({"spec": {"replicatedJobs": jobs}}) == 7


# ── the gate ──


def a_gated(affinity: dict | None = None, gates: tuple[str, ...] = (GATE,)) -> Pod:
    spec = {"schedulerName": "default-scheduler", "schedulingGates": [{"name": gate} for gate in gates],
            "affinity": affinity}  # fmt: skip
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec, "status": {}}, Pod)


def required(*terms: dict) -> dict:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_the_gate_is_lifted_by_narrowing_each_alternative():
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    gate = gate_of(a_gated(required(zone, {"matchExpressions": []})))
    assert gate is not None
    body = lifted(gate, "n7", "uid", "12")
    here = {"key": "metadata.name", "operator": "In", "values": ["n7"]}
    terms = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [one["matchFields"] for one in terms["nodeSelectorTerms"]] == [[here], [here]]
    assert terms["nodeSelectorTerms"][0]["matchExpressions"] == zone["matchExpressions"]
    assert body["metadata"] == {"uid": "uid", "resourceVersion": "12", "labels": {GATE: GIVEN}}
    plain = gate_of(a_gated())
    assert plain is not None
    after = msgspec.convert({"metadata": {"name": "p", "labels": {GATE: GIVEN}},
                             "spec": lifted(plain, "n7", "u", "")["spec"], "status": {}}, Pod)  # fmt: skip
    assert (gate_of(after), pinned_to(after)) == (None, "n7")


def test_a_pod_with_a_gate_of_others_too_is_not_ours_yet():
    assert gate_of(a_gated(gates=(GATE, "example.com/other"))) is None
    assert gate_of(a_gated(gates=("example.com/other",))) is None


# ── gangs that Headway binds itself ──


def test_a_gang_is_bound_when_it_is_whole_and_not_before():
    small = SmallCluster(MemoryApi(nodes=2))  # 2 x 8 cpu
    small.api.groups["Job/team/a"] = 4
    pods = [a_pod(small.api, f"a-{number}", "a", OURS) for number in range(3)]
    small.turn(4)
    assert [node_of(pod) for pod in pods] == [""] * 3
    assert why(pods[0]) == ("Waiting", "3 of the 4 pods of Job a are there")
    pods.append(a_pod(small.api, "a-3", "a", OURS))
    small.turn(4)
    assert sorted(node_of(pod) for pod in pods) == ["n0", "n0", "n1", "n1"]
    assert rows(small) == {"team/job:a": State.RUNNING}


def test_two_gangs_that_half_fit_run_one_after_the_other():
    small = SmallCluster(MemoryApi(nodes=2))
    first, second = a_job(small, "a", 3, OURS), a_job(small, "b", 3, OURS)
    small.turn(5)
    assert [bool(node_of(pod)) for pod in first + second] == [True] * 3 + [False] * 3
    assert why(second[0])[0] == "Unschedulable"
    for pod in first:
        pod["status"] = {"phase": "Succeeded"}
        small.api.tell(pod)
    small.turn(5)
    assert all(node_of(pod) for pod in second)


def test_without_its_object_a_gang_waits_with_the_reason():
    small = SmallCluster()
    pod = a_pod(small.api, "p", "a", OURS, meta={"labels": {"jobset.sigs.k8s.io/jobset-name": "js"}})
    small.turn(3)
    assert (node_of(pod), why(pod)[1]) == ("", "its JobSet js is not there")


def test_a_group_by_label_names_its_size():
    small = SmallCluster()
    meta = {"labels": {"headway.dev/group": "g", "headway.dev/group-size": "2"}, "ownerReferences": []}
    pods = [a_pod(small.api, f"p-{number}", "", OURS, meta=meta) for number in range(2)]
    wrong = {"labels": {"headway.dev/group": "h", "headway.dev/group-size": "two"}, "ownerReferences": []}
    other = a_pod(small.api, "q", "", OURS, meta=wrong)
    small.turn(4)
    assert all(node_of(pod) for pod in pods)
    assert "metadata.labels[headway.dev/group-size]: must be the number of pods" in why(other)[1]


INDEXED = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("how", [OURS, GATED], ids=["ours", "beside"])
def test_a_pod_made_anew_when_all_others_are_done_is_the_whole_rest_of_its_gang(how, restarted):
    small = SmallCluster(MemoryApi(nodes=2), beside=True)
    pods = a_job(small, "a", 4, how)
    small.turn(4)
    if how is GATED:
        binds(small, *pods)
        small.turn(2)
    for pod in pods:
        pod["status"] = {"phase": "Succeeded" if pod is not pods[3] else "Failed"}
        small.api.tell(pod)
    small.turn(3)
    if restarted:
        small.start()
    again = a_pod(small.api, "a-3-again", "a", how)
    small.turn(3)
    assert why(again)[1] == "1 of the 4 pods of Job a are there", "its Job has not counted the others yet"
    small.api.groups["Job/team/a"] = size_of_job({"spec": INDEXED, "status": {"succeeded": 3}})
    small.api.pass_time()
    small.turn(4)
    assert node_of(again) or pin_of(again)


def test_a_pod_that_comes_when_its_gang_is_over_waits_for_the_end_of_that(monkeypatch):
    small = beside()
    pods = a_job(small, "a", 2, GATED)
    small.turn(4)
    binds(small, *pods)
    small.turn(3)
    monkeypatch.setattr(Outbox, "is_busy", lambda *_: True)  # it is not forgotten yet
    for pod in pods:
        pod["status"] = {"phase": "Succeeded" if pod is pods[0] else "Failed"}
        small.api.tell(pod)
    small.turn(2)
    small.api.groups["Job/team/a"] = 1
    again = a_pod(small.api, "a-1-again", "a", GATED)
    small.turn(3)
    assert not pin_of(again)
    monkeypatch.undo()
    small.cluster.following.due["Job/team/a"] = None
    small.turn(2)
    small.api.pass_time()
    small.turn(4)
    assert pin_of(again)


class Served:
    """A client of an API server with these objects."""

    def __init__(self, **paths: Any) -> None:
        self.paths, self.asked = paths, []

    async def get(self, path: str) -> bytes:
        self.asked.append(path)
        return json.dumps(next(found for part, found in self.paths.items() if f"/{part}" in path)).encode()


def test_of_a_job_set_the_pods_that_are_done_count_no_more():
    jobs = [{"replicas": 2, "template": {"spec": {"parallelism": 2}}}]
    found = {"spec": {"replicatedJobs": jobs}, "status": {"restarts": 3}}
    client: Any = Served(jobsets=found, pods={"items": [{"metadata": {}}] * 3})
    assert asyncio.run(group_read(client, GroupRef("JobSet", "team", "js"))).size == 1
    (asked,) = [path for path in client.asked if "/pods" in path]
    assert "restart-attempt%3D3" in asked, "those of earlier attempts are none"
    assert "status.phase%3DSucceeded" in asked


# ── beside the native scheduler ──


def beside(nodes: int = 2, **more) -> SmallCluster:
    return SmallCluster(MemoryApi(nodes=nodes), beside=True, **more)


def test_a_gang_is_let_run_whole_each_pod_on_its_node():
    small = beside()
    first, second = a_job(small, "a", 3, GATED), a_job(small, "b", 3, GATED)
    small.turn(4)
    assert sorted(pin_of(pod) for pod in first) == ["n0", "n0", "n1"]
    assert [pod["spec"]["schedulingGates"] for pod in second] == [[{"name": GATE}]] * 3
    assert why(second[0])[0] == "SchedulingGated"
    binds(small, *first)
    small.turn(3)
    assert rows(small) == {"team/job:a": State.RUNNING, "team/job:b": State.WAITING}
    for pod in first:
        pod["status"] = {"phase": "Succeeded"}
        small.api.tell(pod)
    small.turn(4)
    assert all(pin_of(pod) for pod in second)


def test_without_beside_gated_pods_are_none_of_its_business():
    small = SmallCluster()
    pods = a_job(small, "a", 2, GATED)
    small.turn(4)
    assert [pod["spec"]["schedulingGates"] for pod in pods] == [[{"name": GATE}]] * 2


def test_a_pod_that_was_changed_meanwhile_is_decided_on_again():
    small = beside()
    (pod,) = a_job(small, "a", 1, GATED)
    api, take = small.api, small.api.take
    changed = []

    def late(write):
        if not changed:
            changed.append(True)
            pod["metadata"]["labels"]["new"] = "yes"
            api.tell(pod)
        return take(write)

    api.take = late
    small.turn(6)
    assert (pin_of(pod), pod["metadata"]["labels"]["new"]) == ("n0", "yes")


def lose(small: SmallCluster, name: str) -> None:
    found = next(node for node in small.api.nodes if node.metadata.name == name)
    small.api.inbox.put(Deleted(NodeObject, found))
    small.turn()
    small.clock.ahead += 41.0


def test_pods_whose_node_is_lost_before_they_are_bound_are_made_anew_and_the_gang_is_planned_again():
    small = beside()
    pods = a_job(small, "a", 2, GATED, cpu="8")
    small.turn(4)
    assert {pin_of(pod) for pod in pods} == {"n0", "n1"}
    lose(small, "n1")
    small.turn(4)
    assert "team/a-0" not in small.api.pods, "all that could not be bound go"
    assert "team/a-1" not in small.api.pods
    small.api.inbox.put(Changed(NodeObject, a_node("n2")))
    again = [a_pod(small.api, f"a-{number}-again", "a", GATED, cpu="8") for number in range(2)]
    small.turn(3)
    small.clock.ahead += 10.0
    small.turn(4)
    assert {pin_of(pod) for pod in again} == {"n0", "n2"}


def test_one_that_the_native_scheduler_does_not_bind_gets_another_node_and_the_others_stay():
    small = beside(nodes=3)
    pods = a_job(small, "a", 2, GATED, cpu="8")
    small.turn(4)
    binds(small, pods[0])
    small.turn(2)
    small.clock.ahead += 61.0
    small.turn(3)
    assert "team/a-1" not in small.api.pods
    removed(small, pods[1])
    again = a_pod(small.api, "a-1-again", "a", GATED, cpu="8")
    small.turn(6)
    assert pin_of(again) not in ("", node_of(pods[0]), pin_of(pods[1])), "where it was not bound it is not tried again"
    binds(small, again)
    small.turn(3)
    assert rows(small) == {"team/job:a": State.RUNNING}


def test_a_pod_that_nobody_makes_anew_is_never_deleted_and_told():
    small = beside()
    meta = {"labels": {"headway.dev/group": "g", "headway.dev/group-size": "1"}, "ownerReferences": []}
    pod = a_pod(small.api, "bare", "", GATED, meta=meta)
    small.turn(4)
    assert pin_of(pod) == "n0"
    small.clock.ahead += 61.0
    small.turn(4)
    assert "team/bare" in small.api.pods
    assert "nobody makes it anew: create it again" in why(pod)[1]
    assert small.gang("team/pod:bare").waits, "it holds no room"
    small.clock.ahead += 600.0
    small.turn(4)
    assert small.gang("team/pod:bare").waits


def test_a_pod_that_its_owner_makes_in_place_of_a_failed_one_takes_its_place():
    small = beside()
    pods = a_job(small, "a", 2, GATED, cpu="8")
    small.turn(4)
    binds(small, *pods)
    small.turn(3)
    waits = a_job(small, "b", 1, GATED, cpu="8")
    pods[1]["status"] = {"phase": "Failed"}
    small.api.tell(pods[1])
    again = a_pod(small.api, "a-1-again", "a", GATED, cpu="8")
    small.turn(5)
    assert pin_of(again) == node_of(pods[1])
    assert not pin_of(waits[0])
    binds(small, again)
    small.turn(3)
    assert rows(small)["team/job:a"] is State.RUNNING


@pytest.mark.parametrize("let", [1, 2, 3])
def test_killed_in_the_middle_it_goes_on_with_the_same_gang(let):
    small = beside()
    first = a_job(small, "a", 3, GATED)
    api, take, done = small.api, small.api.take, []

    def killed(write):
        if len(done) >= let:
            raise AssertionError("it is dead")
        done.append(write)
        return take(write)

    api.take = killed
    with pytest.raises(AssertionError):
        small.turn(4) if let < 3 else [small.turn(4), killed(None)]
    api.take = take
    a_job(small, "b", 3, GATED)
    small.start()
    small.turn(8)
    assert sorted(pin_of(pod) for pod in first) == ["n0", "n0", "n1"]
    assert not any(pin_of(api.pods[f"team/b-{number}"]) for number in range(3)), "the rest is for the other gang"


EVENTS = st.lists(
    st.sampled_from(["bind", "fail", "succeed", "turn", "restart", "time", "node", "evict"]), min_size=4, max_size=14
)


@settings(max_examples=40, deadline=None)
@given(EVENTS)
def test_whatever_happens_no_node_is_overfull_and_no_running_pod_is_deleted(events):
    """Bound pods are never deleted by Headway; pins fit their nodes; what waits is told why."""
    small = beside(nodes=3)
    pods = {pod["metadata"]["name"]: pod for name in "ab" for pod in a_job(small, name, 2, GATED, cpu="6")}
    for event in ["turn", *events, "turn", "turn"]:
        alive = [pod for name, pod in pods.items() if f"team/{name}" in small.api.pods]
        ready = [pod for pod in alive if pin_of(pod) and not node_of(pod)]
        runs = [pod for pod in alive if node_of(pod) and pod["status"]["phase"] == "Running"]
        match event:
            case "bind" if ready:
                binds(small, ready[0])
            case "fail" | "succeed" | "evict" if runs:
                runs[0]["status"] = {"phase": "Succeeded" if event == "succeed" else "Failed"}
                small.api.tell(runs[0])
            case "restart":
                small.start()
            case "time":
                small.clock.ahead += 61.0
        before = {pod["metadata"]["name"] for pod in alive if node_of(pod)}
        small.turn(2)
        assert all(f"team/{name}" in small.api.pods for name in before), "what is bound is never deleted"
        for name in [name for name in pods if f"team/{name}" not in small.api.pods or _failed(pods[name])]:
            job = name[0]
            made = f"{job}-{next(COUNT)}-again"
            pods[made] = a_pod(small.api, made, job, GATED, cpu="6")
            del pods[name]
        small.turn(2)
        held: dict[str, int] = {}
        for pod in small.api.pods.values():
            if pod["status"]["phase"] in ("Pending", "Running") and (where := node_of(pod) or pin_of(pod)):
                held[where] = held.get(where, 0) + 6
        assert all(cpu <= 8 for cpu in held.values()), held


def _failed(pod: dict) -> bool:
    return pod["status"]["phase"] == "Failed"
