"""The ideas at work on real kubelets, each by its own policy: order by score, roles together, whole gangs, sizes for a
deadline, jobs that grow and make room, and requests that follow use.
"""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import pytest

from headway.record.replay import snapshots
from headway.trained.file import shipped
from scheduling import HERE, TRAINING, run_headway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
PATIENCE = 90.0


def until(schedule, what, seconds: float = PATIENCE):
    """The first answer that is true."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.2)
    return found


def started(schedule, name: str) -> float:
    """When it started first."""
    return schedule.job(name)["status"]["history"]["firstStart"]


def replicas(schedule, name: str) -> int:
    return schedule.job(name).get("status", {}).get("replicas", 0)


def explained(schedule, name: str) -> dict[str, str]:
    said = schedule.job(name).get("status", {}).get("explained") or []
    return dict(one.split(": ", 1) for one in said)


def cores(schedule) -> int:
    """Whole cores of one node."""
    node = schedule.lab.api.get(f"/api/v1/nodes/{schedule.lab.node_names[0]}")
    return int(node["status"]["allocatable"]["cpu"])


# ── combined priority ──


def test_gangs_start_in_the_order_of_their_score_and_the_score_is_told(schedule):
    most = f"{1000 * cores(schedule) - 400}m"  # one job a node
    schedule.start("--policy", "combined-priority", "--set", "user_priority=ana=8,ben=2")
    for number in range(2):
        schedule.submit(f"first-{number}", {"worker": {"cpu": most}}, ["--steps", "80"])
    for number in range(2):
        schedule.wait(f"first-{number}", "Running")
    wanted = {"low": ("ben", 0), "high": ("ben", 9), "known": ("ana", 0), "best": ("ana", 9)}
    for name, (user, priority) in wanted.items():
        schedule.submit(name, {"worker": {"cpu": most}}, ["--steps", "5"], user=user, priority=priority)
    said = until(schedule, lambda: explained(schedule, "best").get("score") and explained(schedule, "best"))
    assert said["score"].count("+") == 3, "user, job, wait, parallelism"
    assert "first-" in said["held by"]
    told = run_headway("why", "best", "-n", schedule.namespace, "--kubeconfig", str(schedule.lab.kubeconfig)).stdout
    assert "score" in told
    assert said["score"].split(" = ")[0] in told
    for name in wanted:
        schedule.wait(name, "Succeeded")
    first = {name: started(schedule, name) for name in wanted}
    assert max(first["best"], first["high"]) < min(first["known"], first["low"]), "two run at a time"


def test_a_parameter_server_is_placed_beside_its_workers(schedule):
    schedule.start("--policy", "combined-priority")
    schedule.submit("busy", {"worker": {"cpu": "300m"}}, ["--steps", "400"])
    schedule.wait("busy", "Running")
    roles = {"ps": {"cpu": "200m"}, "worker": {"replicas": 3, "cpu": "400m", "near": ["ps"]}}
    schedule.submit("near", roles, ["--steps", "20"])
    schedule.wait("near", "Running")
    assert len({pod["spec"]["nodeName"] for pod in schedule.pods("near")}) == 1
    schedule.wait("near", "Succeeded")


def test_two_gangs_that_half_fit_never_deadlock_and_do_under_the_native_scheduler(schedule):
    """Each wants three quarters of the cluster."""
    whole = 2 * cores(schedule)
    size = 3 * whole // 4
    cpu, names = "900m", ("one", "two")
    schedule.start("--policy", "combined-priority")
    for name in names:
        schedule.submit(name, {"worker": {"replicas": size, "cpu": cpu}}, ["--steps", "10"])
    for name in names:
        schedule.wait(name, "Succeeded")
    assert schedule.stop() == 0
    pods = f"/api/v1/namespaces/{schedule.namespace}/pods"
    schedule.lab.api.delete(pods)
    until(schedule, lambda: not schedule.pods())
    template = schedule.lab.pod_template(paths=schedule.code)
    for number, name in itertools.product(range(size), names):
        pod = {"metadata": {"name": f"{name}-{number}", "labels": {"gang": name}}, "spec": dict(template["spec"])}
        main = {**template["spec"]["containers"][0], "command": ["sleep", "600"]}
        pod["spec"]["containers"] = [{**main, "resources": {"requests": {"cpu": cpu}}}]
        schedule.lab.api.post(pods, pod)

    def bound() -> list[int]:
        found = [[pod for pod in schedule.pods() if pod["metadata"]["labels"].get("gang") == name] for name in names]
        return [sum(bool(pod["spec"].get("nodeName")) for pod in one) for one in found]

    until(schedule, lambda: sum(bound()) >= whole)
    time.sleep(2.0)
    assert all(0 < count < size for count in bound()), "both hold half of what they need, and wait for each other"


# ── a deadline is all that one gives ──


@pytest.mark.parametrize("policy", ["deadline", "headway"])
def test_a_job_with_nothing_but_a_deadline_gets_the_size_that_is_in_time(schedule, policy):
    """80 steps of half a second: 40 seconds alone, and 34 are given."""
    schedule.start("--policy", policy, "--set", "cool_down=3", "--set", "restart=1")
    role = {"replicas": "auto", "max": 3, "cpu": "200m"}
    steps = ["--steps", "80", "--pace", "0.5", "--parallel"]
    schedule.submit("due", {"worker": role}, steps, deadline=34, success={"roles": ["worker"], "when": "any"})
    until(schedule, lambda: replicas(schedule, "due") > 1, 40)
    assert until(schedule, lambda: explained(schedule, "due").get("in time", "").startswith("yes: In time with "))
    found = schedule.wait("due", "Succeeded", "Failed")
    assert found["status"]["deadline"]["text"] == "met", schedule.words()
    listed = run_headway("jobs", "-n", schedule.namespace, "--kubeconfig", str(schedule.lab.kubeconfig)).stdout
    assert "met" in listed


# ── dynamic adjustment ──


def test_a_job_grows_into_idle_nodes_and_shrinks_for_one_that_waits(schedule):
    each = cores(schedule)
    schedule.start("--policy", "elastic", "--set", "cool_down=2", "--set", "restart=1")
    role = {"replicas": 1, "min": 1, "max": 2 * each, "cpu": "900m"}
    steps = ["--steps", "20000", "--pace", "0.05", "--parallel"]
    schedule.submit("wide", {"worker": role}, steps, success={"roles": ["worker"], "when": "any"})
    until(schedule, lambda: replicas(schedule, "wide") > 1)
    schedule.submit("guest", {"worker": {"replicas": each, "cpu": "900m"}}, ["--steps", "100"], seconds=6)
    schedule.wait("guest", "Running", "Succeeded")
    assert replicas(schedule, "wide") <= each, "it made room"
    schedule.wait("guest", "Succeeded")
    until(schedule, lambda: replicas(schedule, "wide") > each)


# ── what is allocated is used ──


def shares(pod: dict) -> int:
    """The weight of a pod's cpu, as the kernel has it."""
    uid = pod["metadata"]["uid"]
    for pattern in (f"cpu/**/pod{uid}/cpu.shares", f"**/pod{uid}/cpu.weight"):
        for path in Path("/sys/fs/cgroup").glob(pattern):
            return int(path.read_text())
    raise AssertionError(f"no control group of pod {uid}")


def test_a_job_that_leaves_cpu_idle_holds_less_keeps_its_limit_and_others_have_the_room(measured):
    schedule, most = measured, 1000 * cores(measured) - 300
    schedule.start("--policy", "headway", "--set", "idle_after=2", "--measure", "kubelet")
    schedule.submit("idle", {"worker": {"cpu": f"{most}m"}}, ["--steps", "2000"])
    schedule.submit("also", {"worker": {"cpu": f"{most}m"}}, ["--steps", "2000"])
    for name in ("idle", "also"):
        schedule.wait(name, "Running")
    (pod,) = schedule.pods("idle")
    before = shares(pod)
    schedule.submit("third", {"worker": {"cpu": "700m"}}, ["--steps", "20"])
    schedule.wait("third", "Running", "Succeeded")
    now = next(pod for name in ("idle", "also") for pod in schedule.pods(name) if asks(pod) < most)
    assert now["status"]["qosClass"] == "Burstable"
    assert now["spec"]["containers"][0]["resources"]["limits"]["cpu"] in (f"{most}m", str(most // 1000))
    assert until(schedule, lambda: shares(now) < before), "the kernel weighs it by what it holds"
    assert not any(c.get("restartCount") for c in now["status"]["containerStatuses"])


def asks(pod: dict) -> int:
    cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(cpu.removesuffix("m")) if cpu.endswith("m") else 1000 * int(cpu)


def test_a_job_that_names_nothing_counts_as_one_core_and_then_as_what_it_uses(measured):
    schedule = measured
    schedule.start("--policy", "headway", "--set", "idle_after=2", "--measure", "kubelet")
    command = ["python", str(HERE / "trainer.py"), "--steps", "2000"]
    body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "plain"}}
    body["spec"] = {"roles": {"worker": {"command": command}}}
    schedule.lab.api.post(TRAINING.format(schedule.namespace), body)
    schedule.wait("plain", "Running")
    (pod,) = schedule.pods("plain")
    assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert pod["status"]["qosClass"] == "Burstable"
    until(schedule, lambda: asks(schedule.pods("plain")[0]) < 500)


# ── learning ──


def test_the_trained_policy_decides_where_its_guard_has_found_that_it_may(schedule):
    policy = shipped()
    kept = {"policy": policy.name, "mode": "on", "why": "replayed", "finished": 120, "next": 150, "until": -1.0}
    schedule.log.with_name("run.log.guard").write_text(json.dumps(kept))
    schedule.start("--policy", "learned")
    most = f"{1000 * cores(schedule) - 400}m"
    for number in range(3):
        schedule.submit(f"j{number}", {"worker": {"cpu": most}}, ["--steps", "40"])
    for number in range(3):
        schedule.wait(f"j{number}", "Succeeded")
    assert schedule.stop() == 0
    decided = [snapshot for snapshot in snapshots(schedule.log) if len(snapshot.jobs.waiting())]
    assert {snapshot.standing.mode for snapshot in decided} == {"on"}
    assert all(policy.judged(snapshot)[1] is None for snapshot in decided), "nothing keeps it from deciding"
    assert schedule.replay().returncode == 0
