"""The gang rule on Kubernetes, by the table of cases: pods as a kubelet writes them, real reconciliation."""

from __future__ import annotations

import msgspec
import pytest

from gang_cases import CASES, GRACE, MEMORY, NODE, Case
from headway.core.placement import Placement
from headway.core.plan import Start
from headway.core.restarts import RestartLimits
from headway.core.states import OVER, State
from headway.kube.api.objects import Pod, timestamp
from headway.kube.gangs.intent import Intent, RoleAllocation, begun
from headway.kube.gangs.model import Create, Delete, View
from headway.kube.gangs.step import reconcile
from headway.kube.pods.replica import replica_of
from headway.kube.settings import KubeTimeouts
from headway.kube.values import replace

BEGAN = 1_000_000.0
TICK = 0.1


class Kubelets:
    """Pods that start within a tick and end as the case says."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.pods: dict[str, Create] = {}
        self.ended: dict[str, tuple[int | str, float]] = {}
        self.up_since = 0.0

    def act(self, step, now: float) -> None:
        for action in step.actions:
            if isinstance(action, Create):
                self.pods[action.name] = action
            elif isinstance(action, Delete):
                self.pods.pop(action.name, None)
        if step.intent.state is State.RUNNING and not self.up_since:
            self.up_since = now
        if step.intent.state is State.WAITING:
            self.up_since = 0.0

    def pass_time(self, attempt: int, now: float) -> None:
        if not self.up_since:
            return
        exits = self.case.exits if attempt == 0 or self.case.every_attempt else ()
        for pod in self.pods.values():
            exit_ = next((e for e in exits if (e.role, e.index) == (pod.role, pod.index)), None)
            due = self.up_since + (exit_.after if exit_ else 0.2 if attempt else 1e9)
            if now >= due and pod.name not in self.ended:
                self.ended[pod.name] = (exit_.code if exit_ else 0, now)

    def gone(self) -> frozenset[str]:
        return frozenset(pod.node for name, pod in self.pods.items() if self.ended.get(name, (0, 0.0))[0] == NODE)

    def replicas(self):
        return tuple(replica_of(msgspec.convert(self._pod(pod), Pod), "gang", 0.0) for pod in self.pods.values())

    def _pod(self, pod: Create) -> dict:
        status: dict = {"phase": "Running", "podIP": "10.0.0.1"}
        if pod.name in self.ended and self.ended[pod.name][0] != NODE:
            code, at = self.ended[pod.name]
            end = {"exitCode": 137 if code == MEMORY else code, "finishedAt": timestamp(at),
                   "reason": "OOMKilled" if code == MEMORY else "Completed"}  # fmt: skip
            status = {"phase": "Succeeded" if code == 0 else "Failed", "podIP": "10.0.0.1",
                      "containerStatuses": [{"name": "main", "state": {"terminated": end}}]}  # fmt: skip
        return {"metadata": {"name": pod.name, "uid": pod.name}, "spec": {"nodeName": pod.node},
                "status": status}  # fmt: skip


def _started(case: Case, intent: Intent, now: float) -> Intent:
    nodes = iter(f"n{number}" for number in range(99))
    target = tuple(
        RoleAllocation(role.name, tuple(next(nodes) for _ in range(role.replicas)), ()) for role in case.roles
    )
    return begun(intent, Start(case.job.id, Placement(())), target, now, KubeTimeouts())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_table_of_cases_by_reconciliation(case):
    kubelets, intent, now = Kubelets(case), Intent(since=BEGAN), BEGAN
    patience, restarts, messages, running = KubeTimeouts(grace=GRACE), 0, [], 0.0
    while intent.state not in OVER:
        now += TICK
        assert now < BEGAN + 120, intent
        if intent.state is State.WAITING:
            intent = _started(case, intent, now)
        kubelets.pass_time(intent.attempt, now)
        view = View(name="gang", job=case.job, intent=intent, replicas=kubelets.replicas(), now=now,
                    gone=kubelets.gone(), timeouts=patience, limits=RestartLimits().of(case.job.restarts))  # fmt: skip
        step = reconcile(view)
        kubelets.act(step, now)
        restarts += step.intent.state is State.WAITING and intent.state is not State.WAITING
        messages += [step.intent.message] if step.intent.message else []
        running = running or (now if step.intent.state is State.RUNNING else 0.0)
        intent = replace(step.intent)
    assert intent.state is (State.FAILED if case.outcome == "failed" else State.FINISHED)
    assert bool(restarts) is (case.outcome == "restarted" or case.every_attempt)
    assert bool(messages) is (case.outcome != "finished")
    assert now - running >= case.not_before - TICK
