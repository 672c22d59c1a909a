"""A few hundred generated TrainingJobs, statuses and pods against the whole scheduler.

`bench/objects.py` has ten thousand, on a real API server.
"""

from __future__ import annotations

from hostile import anything, specs, statuses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_cluster import HEALTHY, MemoryApi, SmallCluster
from test_forged_pods import OWNER

from headway.kube.pods.body import merge
from headway.policies.registry import POLICIES
from headway.progress_server import Done, Reported, Saved

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def _healthy_still_starts(small: SmallCluster) -> None:
    good = small.api.submit("good", HEALTHY)
    for _ in range(12):  # those with thousands of replicas take more than one turn
        small.turn()
    assert small.phase(good) == "Running"


@few
@given(st.lists(st.tuples(specs, statuses), min_size=1, max_size=6))
def test_whatever_is_submitted_a_healthy_job_starts(objects):
    """Some are there at the start, with a status, and some come later. Then the scheduler starts again."""
    api = MemoryApi(nodes=20)
    for number, (spec, status) in enumerate(objects[::2]):
        api.submit(f"odd-{number}", spec, status=status)
    small = SmallCluster(api)
    small.turn(2)
    for number, (spec, _) in enumerate(objects[1::2]):
        api.submit(f"late-{number}", spec)
    small.turn(2)
    _healthy_still_starts(small)
    small.hurry()
    small.start()
    small.turn(2)
    for uid in api.jobs:
        status = api.status(uid)
        told = isinstance(status, dict) and status.get("phase") == "Failed" and status.get("reason")
        assert not told or status.get("message") or status["reason"], "a job that failed says why"
    assert small.phase("uid-team-good") == "Running"


phases = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", ""])
forged_pods = st.fixed_dictionaries({
    "metadata": st.fixed_dictionaries({
        "name": st.sampled_from(["good-0-worker-7", "good-1-worker-0", "x", "good-0-ps-0", "good-999-worker-0"]),
        "namespace": st.sampled_from(["team", "other"]),
        "ownerReferences": st.sampled_from([[OWNER], [{**OWNER, "uid": "none"}], []]),
        "labels": st.dictionaries(st.sampled_from(["headway.dev/index", "headway.dev/role"]), st.text(max_size=3)),
        "annotations": st.dictionaries(st.sampled_from(["headway.dev/mark", "headway.dev/node"]), st.text(max_size=3)),
    }),
    "spec": st.fixed_dictionaries({
        "nodeName": st.sampled_from(["", "n0", "none"]),
        "containers": st.lists(st.fixed_dictionaries({
            "name": st.just("main"),
            "resources": st.fixed_dictionaries({"requests": st.dictionaries(
                st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "a/b"]),
                st.sampled_from(["1", "1e400", "-5", "", "99999999999999999999Gi", 7, 1e300]), max_size=2,
            )}),
        }), max_size=2),
    }),
    "status": st.fixed_dictionaries({"phase": phases, "containerStatuses": st.lists(st.fixed_dictionaries({
        "name": st.just("main"),
        "state": st.fixed_dictionaries({"terminated": st.fixed_dictionaries({
            "exitCode": st.sampled_from([0, 1, 137, 10**9]),
            "finishedAt": st.sampled_from([None, "x", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]),
        })}),
    }), max_size=1)}),
})  # fmt: skip


@few
@given(st.lists(forged_pods, max_size=5, unique_by=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"])))
def test_whatever_pods_there_are_the_job_keeps_its_own(pods):
    small = SmallCluster(MemoryApi(nodes=20))
    good = small.api.submit("good", HEALTHY)
    small.turn(5)
    for pod in pods:
        small.api.put_pod(pod)
    small.turn(2)
    for _ in range(2):
        status = small.api.status(good)
        assert (status["phase"], status["attempt"], status["replicas"]) == ("Running", 0, 2)
        small.start()
        small.turn(2)


steps = st.sampled_from([0, 1, 2, 3, 50, 10**9, 10**15])
losses = st.sampled_from([None, 0.0, -1.0, 1.0, 1e-300, 1e308, -1e308])
metrics = st.dictionaries(st.sampled_from(["loss", "x"]), st.just(1e308), max_size=1)
totals = st.sampled_from([None, 1, 10**15])
reports = st.builds(
    Reported, st.just("team/j"), st.just("worker"), st.sampled_from([0, 1, 10**15]), st.sampled_from([0, 1]), steps,
    losses, totals, metrics,
)  # fmt: skip
saves = st.builds(
    Saved, st.just("team/j"), st.just("worker"), st.just(0), st.just(0), st.sampled_from([None, 0]), steps
)
ends = st.builds(Done, st.just("team/j"), st.just("worker"), st.just(0), st.just(0), steps)


@few
@given(st.lists(st.one_of(reports, reports, saves, ends), max_size=12), st.sampled_from([None, 1, 10**12, 10**15]))
def test_whatever_is_reported_a_healthy_job_starts(events, total):
    small = SmallCluster(MemoryApi(nodes=20), policy=POLICIES["headway"](), progress_seconds=0.0)
    target = {"metric": "loss", "atMost": 1e-300}
    spec = {"roles": {"worker": {"cpu": "10m", "max": 3}}, "target": target}
    job = small.api.submit("j", spec if total is None else {**spec, "steps": total})
    small.turn(4)
    for number, event in enumerate(events):
        small.reports.events.append(event)
        if number % 3 == 0:
            small.turn()
    small.turn(2)
    _healthy_still_starts(small)
    assert small.phase(job) == "Running"
    assert small.api.status(job)["reason"] != "Fault"


@settings(max_examples=50, deadline=None)
@given(anything, anything)
def test_merging_never_fails(under, over):
    if isinstance(under, dict) and isinstance(over, dict):
        merged = merge(under, over)
        assert set(merged) == {*under, *over}
