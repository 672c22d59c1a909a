"""The real `KubeCluster` on an API server in memory, in one thread, turn by turn: no sockets and no waiting."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec

from headway.core.plan import Plan
from headway.cycle.loop import Guard
from headway.estimates.progress import ProgressBook
from headway.kube.api.client import _encoded
from headway.kube.api.errors import ApiError, Conflict
from headway.kube.api.objects import NodeObject, Pod, TrainingJob
from headway.kube.api.usage import Measured
from headway.kube.api.watch import Changed, Listed
from headway.kube.cluster import KubeCluster
from headway.kube.inbox import Inbox
from headway.kube.job.pod_marks import PodMarks
from headway.kube.pod.constraints import BoundClaim
from headway.kube.reconcile.model import Bind, Create, Delete, Publish, Release, SetCondition
from headway.kube.rehearsal import Rehearsed
from headway.kube.settings import KubeSettings
from headway.kube.work import ActionResult, ApiWork, ClaimsRead, LeaseRead, Performed
from headway.policies.baselines.fifo import first_fit
from headway.progress_server import Event

BEGAN = 1_700_000_000.0
STAMP = "2023-11-14T22:13:20Z"


class MemoryApi:
    """Stands in for the `ApiWorker`: takes work, answers it at once, and every pod that is bound runs."""

    def __init__(self, nodes: int = 2) -> None:
        self.inbox: Inbox = Inbox()
        self.jobs: dict[str, dict[str, Any]] = {}
        """By uid."""
        self.pods: dict[str, dict[str, Any]] = {}
        """By namespace and name."""
        self.services: list[dict[str, Any]] = []
        self.released: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.claims: dict[str, BoundClaim] = {}
        self.rehearsed: list[str] = []
        """The namespace of each dry run."""
        self.unread: list[Pod] = []
        self.asked_nodes: list[list[str]] = []
        """Of each measurement."""
        self.measured = Measured({})
        self.leases: dict[str, str] = {}
        """By node: when it was renewed last."""
        self.paused: list[tuple[str, str, dict[str, Any]]] = []
        self.nodes = [a_node(f"n{number}") for number in range(nodes)]
        self._numbers = itertools.count(1)

    # ── what a tenant does ──

    def submit(self, name: str, spec: Any, *, namespace: str = "team", status: Any = None) -> str:
        uid = f"uid-{namespace}-{name}"
        meta = {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": STAMP}
        meta["resourceVersion"] = str(next(self._numbers))
        found = {"metadata": meta, "spec": spec, "status": {} if status is None else status}
        json.dumps(found)
        self.jobs[uid] = found
        self.inbox.put(Changed(TrainingJob, self._job(uid)))
        return uid

    def put_pod(self, pod: dict[str, Any]) -> dict[str, Any]:
        meta = pod["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        assert key not in self.pods, "the API server has each name once"
        number = next(self._numbers)
        meta |= {"resourceVersion": str(number), "uid": f"pod-{number}"}
        self.pods[key] = pod
        self.tell(pod)
        return pod

    def tell(self, pod: dict[str, Any]) -> None:
        pod["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.inbox.put(Changed(Pod, msgspec.convert(pod, Pod)))

    def pods_of(self, name: str, namespace: str = "team") -> list[dict[str, Any]]:
        return [pod for key, pod in self.pods.items() if key.startswith(f"{namespace}/{name}-")]

    def status(self, uid: str) -> dict[str, Any]:
        return self.jobs[uid]["status"]

    # ── what the scheduler asks ──

    def begin(self) -> None:
        """The lists with which every watch begins."""
        self.inbox.put(Listed(NodeObject, tuple(self.nodes)))
        self.inbox.put(Listed(TrainingJob, tuple(self._job(uid) for uid in self.jobs)))
        self.inbox.put(Listed(Pod, tuple(msgspec.convert(pod, Pod) for pod in self.pods.values())))

    def perform(self, work: ApiWork) -> None:
        try:
            if work.status is not None:
                written = msgspec.json.decode(_encoded("PATCH", "status", work.status))
                self.jobs[work.uid]["status"] = merged(self.jobs[work.uid]["status"], written)
            results = tuple(self._take(work, request) for request in work.requests)
        except ApiError as error:
            self.inbox.put(Performed(work, error))
        else:
            self.inbox.put(Performed(work, None, results))

    def rehearse(self, key: str, namespace: str, body: dict[str, Any], after: float = 0.0) -> None:
        """Answers at once with the pod as it would be made; after a pause only when time passes."""
        if after:
            self.paused.append((key, namespace, body))
            return
        self.rehearsed.append(namespace)
        try:
            pod = self.webhook(msgspec.json.decode(_encoded("POST", "pods", body)))
            self.inbox.put(Rehearsed(key, msgspec.convert(pod, Pod), self.claims))
        except (ApiError, msgspec.ValidationError) as error:
            self.inbox.put(Rehearsed(key, None, why=str(error)))

    def pass_time(self) -> None:
        """The pauses before dry runs and before claims are read are over."""
        unread, self.unread = self.unread, []
        for pod in unread:
            self.read_claims(pod)
        paused, self.paused = self.paused, []
        for key, namespace, body in paused:
            self.rehearse(key, namespace, body)

    def webhook(self, pod: dict[str, Any]) -> dict[str, Any]:
        """What a webhook of the cluster makes of a new pod."""
        return pod

    def read_claims(self, pod: Pod, after: float = 0.0) -> None:
        """Answers at once; after a pause only when time passes."""
        if after:
            self.unread.append(pod)
            return
        self.inbox.put(ClaimsRead(pod.metadata.uid, dict(self.claims)))

    def read_lease(self, node: str, now: float) -> None:
        self.inbox.put(LeaseRead(node, self.leases.get(node, ""), now))

    def measure(self, how: str, nodes: list[str]) -> None:
        self.asked_nodes.append(list(nodes))
        self.inbox.put(self.measured)

    def announce(self, namespace: str, event: dict[str, Any]) -> None:
        self.events.append(msgspec.json.decode(_encoded("POST", "events", event)))

    def remove(self, job) -> None:
        self.removed.append(job.name)

    def wake(self) -> None: ...

    def wake_taken(self) -> None: ...

    def close(self) -> None: ...

    def _take(self, work: ApiWork, request) -> ActionResult:
        action = request.action
        match action:
            case Publish():
                self.services.append(request.body)
            case Release():
                self.released.append(request.body)
            case Create():
                if f"{work.namespace}/{action.name}" in self.pods:
                    return ActionResult(action, error=Conflict(409, "it exists"))
                body = self.webhook(msgspec.json.decode(_encoded("POST", "pods", request.body)))
                pod = self.put_pod({**body, "status": {"phase": "Pending"}})
                return ActionResult(action, msgspec.convert(pod, Pod))
            case Bind():
                pod = self.pods[f"{work.namespace}/{action.name}"]
                if pod["metadata"].get("labels", {}).get("fault") == "bind":
                    return ActionResult(action, error=Conflict(409, "not now"))
                pod["spec"]["nodeName"], pod["status"] = action.node, {"phase": "Running", "podIP": "10.0.0.1"}
                self.tell(pod)
            case SetCondition():
                pod = self.pods[f"{work.namespace}/{action.name}"]
                pod["status"] = {**pod["status"], **request.body["status"]}
                self.tell(pod)
            case Delete():
                pod = self.pods.get(f"{work.namespace}/{action.name}")
                if pod is not None and pod["metadata"]["uid"] == action.uid:
                    del self.pods[f"{work.namespace}/{action.name}"]
                return ActionResult(action, gone=True)
        return ActionResult(action)

    def _job(self, uid: str) -> TrainingJob:
        return msgspec.json.decode(json.dumps(self.jobs[uid]), type=TrainingJob)


class Reports:
    """Stands in for the progress server: hands on the events that a test puts here."""

    def __init__(self) -> None:
        self.services: list[dict[str, Any]] = []
        self.released: list[dict[str, Any]] = []
        self.events: list[Event] = []

    def poll(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def connected(self, _job) -> list:
        return []

    def save(self, *_: object) -> None: ...

    def resize(self, *_: object) -> None: ...

    def close(self) -> None: ...


def a_node(name: str, cpu: str = "8") -> NodeObject:
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {"cpu": cpu, "memory": "16Gi"}, "conditions": ready}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, NodeObject)


def merged(old: Any, patch: Any) -> Any:
    """As a merge patch does it."""
    if not isinstance(patch, dict):
        return patch
    kept = {**(old if isinstance(old, dict) else {})}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept


class SmallCluster:
    """A scheduler over a `MemoryApi`. Each start is a new process: only what the API server has is left."""

    def __init__(self, api: MemoryApi | None = None, policy=first_fit, **settings: Any) -> None:
        self.api = MemoryApi() if api is None else api
        self.policy = policy
        self._settings = {"marks": PodMarks(b"kept in a secret"), **settings}
        self.start()

    def start(self) -> None:
        self.api.inbox = Inbox()
        self.api.begin()
        self.reports, self.book = Reports(), ProgressBook()
        self.cluster = KubeCluster(self.api, self.reports, KubeSettings(began=BEGAN, **self._settings))

    def turn(self, count: int = 1) -> Plan:
        """What the loop does, without its waiting."""
        plan = Plan(())
        for _ in range(count):
            cluster = self.cluster
            cluster._read_messages()
            cluster._check_nodes()
            cluster._reconcile()
            snapshot = cluster._snapshot(cluster.now())
            self.book = self.book.fold(snapshot)
            decided = Guard(first_fit).decide(self.policy, self.book.annotate(snapshot))
            cluster.show(decided.snapshot)
            cluster.apply(decided.plan)
            plan = decided.plan
        return plan

    def hurry(self) -> None:
        """Pauses after faults and refusals are over."""
        for job in self.cluster._jobs():
            job.attention.not_before = job.attention.wake = self.cluster.now()

    def phase(self, uid: str) -> str:
        return self.api.status(uid).get("phase", "")


HEALTHY = {"roles": {"worker": {"replicas": 2, "cpu": "100m"}}}
