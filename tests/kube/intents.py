"""Builders for the tests of reconciliation: one job, its pods and its intent."""

from __future__ import annotations

from headway.core.gang import Phase, SaveRound
from headway.core.job import Job, JobId, Role
from headway.core.states import State
from headway.kube.gangs.intent import Intent, RoleAllocation
from headway.kube.gangs.model import Create, Delete, View
from headway.kube.pods.replica import Replica

NOW = 1000.0
SMALL = (("cpu", 500), ("memory", 64))
LARGE = (("cpu", 900), ("memory", 64))


def a_role(name: str = "worker", **fields: object) -> Role:
    return Role(**{"name": name, "request": SMALL, "max": 9, **fields})


JOB = Job(id=JobId("j"), roles=(a_role(replicas=2, min=2),))
PS_JOB = Job(id=JobId("j"), roles=(a_role("ps"), a_role("worker", replicas=2, min=2, after=("ps",))))


def on(*nodes: str, role: str = "worker", amounts=SMALL) -> RoleAllocation:
    return RoleAllocation(role, nodes, amounts)


def a_pod(index: int = 0, node: str = "n1", phase: Phase = Phase.UP, **fields: object) -> Replica:
    role, attempt = fields.pop("role", "worker"), fields.pop("attempt", 0)
    name = f"j-{attempt}-{role}-{index}"
    made = {"name": name, "uid": f"uid-{name}", "role": role, "index": index, "attempt": attempt, "node": node}
    made |= {"phase": phase, "spec": SMALL, "given": SMALL}
    return Replica(**{**made, **fields})


def a_view(intent: Intent, *pods: Replica, **fields: object) -> View:
    return View(**{"name": "j", "job": JOB, "intent": intent, "replicas": pods, "now": NOW, **fields})


def saves(asked: int, saved: int, failed: str = "") -> SaveRound:
    """A request to `asked` replicas, of which `saved` have answered."""
    replicas = [("worker", index) for index in range(asked)]
    return SaveRound(1, frozenset(replicas), frozenset(replicas[:saved]), failed)


def meant(state: State, **fields: object) -> Intent:
    return Intent(**{"state": state, "since": NOW - 5, **fields})


TWO = (on("n1", "n2"),)
STARTING = meant(State.STARTING, target=TWO, until=NOW + 100)
RUNNING = meant(State.RUNNING, allocation=TWO)
MOVING = meant(State.MOVING, allocation=TWO, target=(on("n3", "n4"),), until=NOW + 9)
BOTH = (a_pod(0, "n1"), a_pod(1, "n2"))


def create(index: int, node: str, role: str = "worker", attempt: int = 0, **fields: object) -> Create:
    made = {"name": f"j-{attempt}-{role}-{index}", "role": role, "index": index, "attempt": attempt, "node": node}
    counts = fields.get("counts", (("worker", 2),))
    hosts = tuple((one, tuple(f"{one}-{number}:2222" for number in range(count))) for one, count in counts)
    return Create(**{**made, "amounts": SMALL, "hosts": hosts, "counts": counts, **fields})


def delete(pod: Replica, grace: int | None = None) -> Delete:
    return Delete(pod.name, pod.uid, grace)
