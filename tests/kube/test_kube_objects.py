"""Pods, nodes, specs, statuses and templates: what they mean here, and that nothing is lost on the way."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.estimates import Basis, Estimate
from headway.core.gang import Losses, Phase
from headway.core.job import Can, Job, JobId, Role, Success, Target
from headway.core.node import Node, Nodes
from headway.core.placement import Placement, shape_of
from headway.core.states import State
from headway.kube.api.objects import Meta, NodeObject, Pod, TrainingJob, timestamp, unix
from headway.kube.inventory import NodeTable, pod_requests
from headway.kube.job.intent import Intent, RoleAllocation, allocation_of, placement_of
from headway.kube.job.pods import merge, pod_of
from headway.kube.job.replica import replica_of
from headway.kube.job.spec import SpecError, job_of, manifest_of, read_spec
from headway.kube.job.status import TrainingProgress, progress_status, read_status, status_of
from headway.kube.reconcile.model import Create
from headway.kube.settings import PodDefaults

names = st.sampled_from(["ps", "chief", "worker"])
amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu", "example.com/fpga"]), st.integers(0, 10**6))


@st.composite
def roles(draw, name):
    least = draw(st.integers(0 if name != "chief" else 1, 3))
    replicas = least + draw(st.integers(0, 3))
    return Role(
        name=name, replicas=replicas, least=least, most=replicas + draw(st.integers(0, 3)),
        request=tuple(sorted(draw(amounts).items())), limit=draw(st.sampled_from([(), (("cpu", 10**6),)])),
        after=draw(st.sampled_from([(), ("chief",)])) if name != "chief" else (),
        command=tuple(draw(st.lists(st.text(max_size=5), max_size=3))),
        env=tuple(sorted(draw(st.dictionaries(st.text(min_size=1, max_size=3), st.text(max_size=3))).items())),
    )  # fmt: skip


@st.composite
def a_job(draw):
    chosen = sorted({"chief", *draw(st.lists(names, max_size=2))})
    return Job(
        id=JobId("j"), roles=tuple(draw(roles(name)) for name in chosen), user=draw(st.text(max_size=3)),
        priority=draw(st.integers(-5, 5)), submit=100.0, deadline=draw(st.sampled_from([None, 160.0])),
        target=draw(st.sampled_from([None, Target(value=0.5), Target(metric="accuracy", value=0.0, higher=True)])),
        steps=draw(st.sampled_from([None, 7])), seconds=draw(st.sampled_from([None, 2.5])),
        success=draw(st.sampled_from([Success(), Success(roles=("chief",), any_replica=True)])),
        can=Can(draw(st.integers(0, 31))), checkpoints=draw(st.booleans()),
    )  # fmt: skip


def as_object(manifest: dict) -> TrainingJob:
    """As it comes back from an API server."""
    manifest["metadata"] |= {"uid": "u1", "creationTimestamp": timestamp(1100.0)[:19] + "Z"}
    return msgspec.json.decode(json.dumps(manifest), type=TrainingJob)


@given(a_job())
def test_a_job_survives_the_way_through_the_api_server(job):
    found = as_object(manifest_of(job, "default", submitted_at=1100.0))
    assert job_of(found, read_spec(found.spec), began=1000.0) == job


def test_the_finer_submit_time_counts_only_inside_its_second():
    job = Job(id=JobId("j"), roles=(Role(name="w", request=(("cpu", 1),)),))
    for told, meant in ((1100.25, 100.25), (1090.0, 100.0), (1200.0, 100.0)):
        found = as_object(manifest_of(job, "team", submitted_at=told))
        read = job_of(found, read_spec(found.spec), began=1000.0)
        assert (read.id, read.submit) == ("team/j", meant)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "roles"),
        ({"roles": {}}, "spec.roles"),
        ({"roles": {"w": {"cpu": "lots"}}}, "spec.roles.w.cpu: cpu cannot be 'lots'"),
        ({"roles": {"w": {"replicas": 1, "least": 2}}}, "spec.roles.w.replicas"),
        ({"roles": {"w": {"after": ["v"]}}}, "'v'"),
        ({"roles": {"w": {"near": ["v"]}}}, "spec.roles.w.near: there is no role 'v'"),
        ({"roles": {"w": {"cpu": 2, "limit": {"cpu": 1}}}}, "spec.roles.w.limit.cpu"),
        ([], "spec"),
        ({"roles": {"w": {}}, "can": ["fly"]}, "'fly'"),
        ({"roles": {"w": {"colour": "red"}}}, "colour"),
        ({"roles": {"w": {}}, "target": {"metric": "loss"}}, "spec.target"),
        ({"roles": {"w": {}}, "target": {"atLeast": 1, "atMost": 2}}, "spec.target"),
    ],
)
def test_a_bad_spec_is_one_sentence_that_names_the_field(spec, words):
    found = as_object({"metadata": {"name": "j"}, "spec": spec})
    with pytest.raises(SpecError) as error:
        job_of(found, read_spec(found.spec), 0.0)
    assert words in str(error.value)


shares = st.builds(
    RoleAllocation, names, st.tuples() | st.tuples(st.just("n1")) | st.tuples(st.just("n1"), st.just("n2")),
    st.just((("cpu", 500),)),
)  # fmt: skip
losses = st.builds(Losses, st.lists(st.floats(1, 9), min_size=1).map(tuple), st.integers(-1, 99))
intents = st.builds(
    Intent, state=st.sampled_from(State), attempt=st.integers(0, 9), allocation=st.tuples(shares),
    target=st.tuples(shares), since=st.floats(1, 1e10), until=st.sampled_from([float("inf"), 5.5]),
    draining=st.booleans(), saved=st.booleans(), losses=losses, refusals=st.integers(0, 9),
    reason=st.text(max_size=5),
)  # fmt: skip


@given(intents)
def test_an_intent_is_read_back_as_it_was_written(intent):
    columns = {"stops": 2.0, "touched": 5.0}
    status = status_of(intent, columns, {("w", 1)}, began=1000.0)
    status["progress"] = progress_status(TrainingProgress(7), None, 5.0, 1000.0)
    text = json.dumps({key: value for key, value in status.items() if value is not None})
    read = read_status(text.encode(), began=1000.0)
    assert (read.columns, read.step, read.savers) == (columns, 7, {("w", 1)})
    for moment in ("since", "until"):
        assert getattr(read.intent, moment) == pytest.approx(getattr(intent, moment))
    assert read.intent.losses.times == pytest.approx(intent.losses.times)
    assert replace(read.intent, since=intent.since, until=intent.until, losses=intent.losses) == intent
    assert status["since"] == intent.since + 1000.0, "people and other programs read Unix time"


def test_an_intent_that_lacks_what_it_needs_is_taken_down():
    broken = status_of(Intent(state=State.STARTING, since=1.0), {}, (), 0.0)
    assert read_status(json.dumps(broken).encode(), 0.0).intent.draining
    assert read_status(b"", 0.0) is None


def test_placements_and_allocations_are_the_same_thing():
    nodes = Nodes.of([Node(name=name, capacity=(("cpu", 4000), ("memory", 100))) for name in "ab"])
    job = Job(id=JobId("j"), roles=(Role(name="w", request=(("cpu", 500),)), Role(name="ps", request=(("cpu", 1),))))
    for placement in (Placement(((0, 1), (1,))), Placement(((1,), ()), ((900, 0), None))):
        allocation = allocation_of(placement, job, shape_of(job, nodes), nodes)
        assert placement_of(allocation, job, nodes) == placement
    resized = allocation_of(Placement(((0,), ()), ((900, 1), None)), job, shape_of(job, nodes), nodes)
    assert resized[0] == RoleAllocation("w", ("a",), (("cpu", 900),)), "no memory where none was asked for"


# ── nodes ──


def a_node(name="n", allocatable=None, taints=(), ready="True", **more) -> NodeObject:
    spec = {"taints": [{"key": key, "effect": effect} for key, effect in taints], **more.pop("spec", {})}
    found = {"metadata": {"name": name, "labels": more.pop("labels", {})}, "spec": spec,
             "status": {"allocatable": allocatable or {"cpu": "2", "memory": "4Gi"},
                        "conditions": [{"type": "Ready", "status": ready}]}}  # fmt: skip
    return msgspec.convert(found, NodeObject)


def test_nodes_are_what_is_allocatable_less_what_foreign_pods_ask_for():
    allocatable = {"cpu": "1930m", "memory": "2000000Ki", "nvidia.com/gpu": "4", "pods": "110", "example.com/x": "2"}
    labels = {"topology.kubernetes.io/zone": "z", "nvidia.com/gpu.product": "A100"}
    table = NodeTable()
    nodes = table.nodes({"n": a_node("n", allocatable, labels=labels)}, {"n": {"cpu": 430, "memory": 100}})
    node = nodes.nodes[0]
    assert dict(node.capacity) == {"cpu": 1500, "memory": 1853, "gpu": 4, "example.com/x": 2}
    assert (node.domain, node.accelerator, node.ready) == ("z", "A100", True)
    assert table.gpu == "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("node", "ready", "taints"),
    [
        (a_node(), True, ()),
        (a_node(ready="Unknown"), False, ()),
        (a_node(spec={"unschedulable": True}), False, ()),
        (a_node(taints=[("node.kubernetes.io/disk-pressure", "NoSchedule")]), False, ()),
        (a_node(taints=[("team", "NoSchedule"), ("soft", "PreferNoSchedule")]), True, ("team",)),
    ],
)
def test_readiness_and_taints(node, ready, taints):
    seen = NodeTable().nodes({"n": node}, {}).nodes[0]
    assert (seen.ready, seen.taints) == (ready, taints)


def test_a_node_keeps_its_number():
    table = NodeTable()
    table.nodes({"b": a_node("b"), "c": a_node("c")}, {})
    nodes = table.nodes({"a": a_node("a"), "c": a_node("c")}, {}, also=["lost"])
    assert [(node.name, node.ready) for node in nodes.nodes] == [
        ("b", False), ("c", True), ("a", True), ("lost", False),
    ]  # fmt: skip


def test_what_a_pod_asks_for():
    def of(cpu, **more):
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {"containers": [of("500m"), of(1)], "initContainers": [of("3")], "overhead": {"cpu": "10m"}}
    assert pod_requests(msgspec.convert({"metadata": {}, "spec": spec}, Pod)) == {"cpu": 3010}
    spec["initContainers"] = [of("1", restartPolicy="Always")]
    assert pod_requests(msgspec.convert({"metadata": {}, "spec": spec}, Pod)) == {"cpu": 2510}


# ── pods ──


def a_pod(phase="Failed", ended=None, **status) -> Pod:
    state = {"state": {"terminated": ended}} if ended else {}
    statuses = [{"name": "main", **state}] if ended else []
    labels = {"headway.dev/role": "w", "headway.dev/index": "1", "headway.dev/attempt": "2"}
    found = {"metadata": {"name": "p", "uid": "u", "labels": labels}, "spec": {"nodeName": "n"},
             "status": {"phase": phase, "containerStatuses": statuses, **status}}  # fmt: skip
    return msgspec.convert(found, Pod)


@pytest.mark.parametrize(
    ("pod", "phase", "words"),
    [
        (a_pod("Running"), Phase.UP, ""),
        (a_pod("Pending"), Phase.PENDING, ""),
        (a_pod("Succeeded", {"exitCode": 0}), Phase.DONE, ""),
        (a_pod(ended={"exitCode": 3, "reason": "Error"}), Phase.FAILED, "exit code 3"),
        (a_pod(ended={"exitCode": 139}), Phase.FAILED, "signal 11 (SIGSEGV)"),
        (a_pod(ended={"exitCode": 137}), Phase.LOST, "signal 9"),
        (a_pod(ended={"exitCode": 143}), Phase.LOST, "signal 15"),
        (a_pod(ended={"exitCode": 137, "reason": "OOMKilled"}), Phase.FAILED, "memory"),
        (a_pod(ended={"exitCode": 128, "reason": "StartError", "message": "no file"}), Phase.FAILED, "no file"),
        (a_pod(reason="Evicted", message="disk"), Phase.LOST, "Evicted: disk"),
        (a_pod(ended={"exitCode": 1}, reason="Evicted"), Phase.LOST, "Evicted"),
        (a_pod(reason="OutOfcpu", message="Node has too little"), Phase.REFUSED, "OutOfcpu"),
        (a_pod(reason="UnexpectedAdmissionError"), Phase.REFUSED, "UnexpectedAdmissionError"),
    ],
)  # fmt: skip
def test_what_became_of_a_pod(pod, phase, words):
    replica = replica_of(pod, 0.0)
    assert (replica.phase, replica.role, replica.index, replica.attempt) == (phase, "w", 1, 2)
    assert words in replica.why


def test_a_pod_is_made_from_templates_and_what_was_decided():
    role = Role(name="worker", command=("python", "t.py"), env=(("A", "1"),), tolerates=("team",))
    job = Job(id=JobId("team/j"), roles=(role,), directory="/code")
    meta = Meta(name="j", namespace="team", uid="0123456789")
    cluster = {"spec": {"containers": [{"name": "main", "image": "base", "env": [{"name": "A", "value": "0"}]}]}}
    own = {"metadata": {"labels": {"cost": "x"}}, "spec": {"containers": [{"name": "main", "image": "mine"}]}}
    amounts = (("cpu", 500), ("gpu", 2), ("memory", 64))
    create = Create("j-1-worker-0", "worker", 0, 1, "n1", amounts, (("ps", ("10.0.0.1:2222",)),), (("worker", 2),))
    defaults = PodDefaults(template=cluster, progress="tcp:h:1", checkpoints="/c", gpu="nvidia.com/gpu")
    pod = pod_of(create, job, meta, own, defaults)
    main = pod["spec"]["containers"][0]
    env = {entry["name"]: entry["value"] for entry in main["env"]}
    assert (main["image"], main["workingDir"], main["command"]) == ("mine", "/code", ["python", "t.py"])
    assert main["resources"]["requests"] == main["resources"]["limits"]
    assert main["resources"]["limits"] == {"cpu": "500m", "memory": "64Mi", "nvidia.com/gpu": "2"}
    assert env == {
        "A": "1", "HEADWAY_JOB": "team/j", "HEADWAY_ROLE": "worker", "HEADWAY_INDEX": "0", "HEADWAY_ATTEMPT": "1",
        "HEADWAY_PORT": "2222", "HEADWAY_HOSTS": '{"ps": ["10.0.0.1:2222"]}', "HEADWAY_REPLICAS": '{"worker": 2}',
        "HEADWAY_PROGRESS": "tcp:h:1", "HEADWAY_CHECKPOINT": "/c/team/j-01234567",
    }  # fmt: skip
    assert pod["spec"]["schedulerName"] == "headway"
    assert pod["metadata"]["annotations"]["headway.dev/node"] == "n1"
    assert pod["metadata"]["labels"]["cost"] == "x"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "0123456789"
    assert cluster["spec"]["containers"][0] == {"name": "main", "image": "base", "env": [{"name": "A", "value": "0"}]}


def test_templates_merge_lists_by_name():
    under = {"spec": {"volumes": [{"name": "a", "emptyDir": {}}], "tolerations": [1]}}
    over = {"spec": {"volumes": [{"name": "b"}, {"name": "a", "hostPath": {}}], "tolerations": [2]}}
    assert merge(under, over)["spec"] == {
        "volumes": [{"name": "a", "emptyDir": {}, "hostPath": {}}, {"name": "b"}], "tolerations": [2],
    }  # fmt: skip


def test_times_go_both_ways():
    assert unix(timestamp(1234.5)) == 1234.5
    assert unix(None) == unix("nonsense") == 0.0


def test_status_shows_the_estimate_of_the_book():
    progress = TrainingProgress(50, 100, 0.5, 40.0)
    estimate = Estimate(50.0, 0.1, Basis.STEPS, "steps left at the speed it shows")
    shown = progress_status(progress, estimate, now=40.0, began=1000.0)
    assert unix(shown["eta"]) == 1090.0
    assert (shown["text"], shown["left"], shown["spread"]) == ("50/100", 50.0, 0.1)
    assert "speed" in shown["basis"]
    unknown = progress_status(progress, Estimate(math.nan, math.nan, Basis.NOTHING, "unknown"), 40.0, 1000.0)
    assert (unknown["eta"], unknown["left"], unknown["basis"]) == (None, None, "unknown")
