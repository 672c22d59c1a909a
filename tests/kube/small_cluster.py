"""The real `KubeCluster` on an API server in memory, in one thread, turn by turn: no sockets and no waiting."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from headway.core.plan import Plan
from headway.core.states import State
from headway.cycle.loop import Fallback
from headway.estimates.progress import ProgressBook
from headway.kube import cluster as cluster_module
from headway.kube.api.client import _encoded
from headway.kube.api.errors import ApiError, Conflict, NotFound
from headway.kube.api.objects import NodeObject, Pod, TrainingJob
from headway.kube.api.usage import Measured
from headway.kube.api.watch import Changed, Listed
from headway.kube.clock import WallClock
from headway.kube.cluster import KubeCluster
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.model import Bind, Publish, Release
from headway.kube.inbox import ClaimsRead, Inbox, LeaseRead
from headway.kube.intake.dry_runs import DryRunDone
from headway.kube.intake.groups import GroupRead, GroupRef
from headway.kube.pods.constraints import BoundClaim
from headway.kube.pods.marks import PodMarks
from headway.kube.settings import KubeSettings
from headway.kube.telemetry.figures import NOBODY, Watcher
from headway.kube.values import replace
from headway.kube.writes.fence import Fence
from headway.kube.writes.requests import Requests
from headway.kube.writes.write import KeepState, Notice, Removal, Stage, StatusPatch, Write, WriteDone
from headway.policies.baselines.fifo import first_fit
from headway.progress_server import Event

cluster_module.MESSAGE_SECONDS = 30.0  # a turn here reads all that is there, however busy the machine is
T = TypeVar("T")
_encoder = msgspec.json.Encoder()
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
        self.sent: list[Write] = []
        self.fence = Fence()
        self.removed: list[str] = []
        self.claims: dict[str, BoundClaim] = {}
        self.groups: dict[str, int] = {}
        """By kind, namespace and name: how many pods a gang of others has, as its object says."""
        self.unread_groups: list[GroupRef] = []
        self.tried: list[str] = []
        """The namespace of each dry run."""
        self.unread: list[Pod] = []
        self.asked_nodes: list[list[str]] = []
        """Of each measurement."""
        self.measured = Measured({})
        self.leases: dict[str, str] = {}
        """By node: when it was renewed last."""
        self.paused: list[tuple[str, str, dict[str, Any]]] = []
        self.nodes = [a_node(f"n{number}") for number in range(nodes)]
        self._numbers, self._uids = itertools.count(1), itertools.count(1)

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

    def change(self, uid: str) -> None:
        """The object was changed."""
        self.jobs[uid]["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.inbox.put(Changed(TrainingJob, self._job(uid)))

    def put_pod(self, pod: dict[str, Any]) -> dict[str, Any]:
        meta = pod["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        assert key not in self.pods, "the API server has each name once"
        meta["uid"] = f"pod-{next(self._uids)}"
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

    def put(self, writes: Sequence[Write], dropped: Sequence[Write] = ()) -> None:
        """Every write is sent and answered at once, first those of the highest rank."""
        for write in dropped:
            write.stage = Stage.OVER
        for write in sorted(writes, key=lambda write: write.rank):
            if write.stage is Stage.NEW:
                write.stage = Stage.OVER
                self.sent.append(write)
                done = self.write(write)
                if not isinstance(write.what, Notice | Removal):
                    self.inbox.put(done)

    def write(self, write: Write) -> WriteDone:
        try:
            return self.take(write)
        except ApiError as error:
            return WriteDone(write, error=error)

    def dry_run(self, key: str, namespace: str, body: dict[str, Any], after: float = 0.0) -> None:
        """Answers at once with the pod as it would be made; after a pause only when time passes."""
        if after:
            self.paused.append((key, namespace, body))
            return
        self.tried.append(namespace)
        try:
            pod = self.webhook(msgspec.json.decode(_encoded("POST", "pods", body)))
            self.inbox.put(DryRunDone(key, msgspec.convert(pod, Pod), self.claims))
        except (ApiError, msgspec.ValidationError) as error:
            self.inbox.put(DryRunDone(key, None, why=str(error)))

    def pass_time(self) -> None:
        """The pauses before dry runs and before claims and gangs of others are read are over."""
        unread, self.unread = self.unread, []
        for pod in unread:
            self.read_claims(pod)
        groups, self.unread_groups = self.unread_groups, []
        for ref in groups:
            self.read_group(ref)
        paused, self.paused = self.paused, []
        for key, namespace, body in paused:
            self.dry_run(key, namespace, body)

    def webhook(self, pod: dict[str, Any]) -> dict[str, Any]:
        """What a webhook of the cluster makes of a new pod."""
        return pod

    def read_claims(self, pod: Pod, after: float = 0.0) -> None:
        """Answers at once; after a pause only when time passes."""
        if after:
            self.unread.append(pod)
            return
        self.inbox.put(ClaimsRead(pod.metadata.uid, dict(self.claims)))

    def read_group(self, ref: GroupRef, after: float = 0.0) -> None:
        """Answers at once; after a pause only when time passes."""
        if after:
            self.unread_groups.append(ref)
            return
        if ref.kind != "Job" and ref.key not in self.groups:
            self.inbox.put(GroupRead(ref, None, f"its {ref.kind} {ref.name} is not there"))
            return
        self.inbox.put(GroupRead(ref, self.groups.get(ref.key, 1)))

    def read_lease(self, node: str, now: float) -> None:
        self.inbox.put(LeaseRead(node, self.leases.get(node, ""), now))

    def measure(self, how: str, nodes: list[str]) -> None:
        self.asked_nodes.append(list(nodes))
        self.inbox.put(self.measured)

    def wake(self) -> None: ...

    def wake_taken(self) -> None: ...

    def close(self) -> None: ...

    def take(self, write: Write) -> WriteDone:
        match write.what:
            case StatusPatch():
                written = msgspec.json.decode(_encoded("PATCH", "status", write.body))
                self.jobs[write.uid]["status"] = merged(self.jobs[write.uid]["status"], written)
                self.change(write.uid)
            case Notice():
                self.events.append(msgspec.json.decode(_encoded("POST", "events", write.body)))
            case Removal():
                self.removed.append(write.name)
            case Publish():
                self.services.append(write.body)
            case Release():
                self.released.append(write.body)
            case KeepState():
                pass
            case _:
                return at_once(Requests(MemoryClient(self))._sent(write))  # type: ignore[arg-type]
        return WriteDone(write)

    # ── what the server does with pods ──

    def create_pod(self, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        if f"{namespace}/{body['metadata']['name']}" in self.pods:
            raise Conflict(409, "it exists")
        body = self.webhook(msgspec.json.decode(_encoded("POST", "pods", body)))
        return self.put_pod({**body, "status": {"phase": "Pending"}})

    def bind_pod(self, pod: dict[str, Any], node: str) -> None:
        if pod["metadata"].get("labels", {}).get("fault") == "bind" or pod["spec"].get("nodeName"):
            raise Conflict(409, "not now")
        pod["spec"]["nodeName"], pod["status"] = node, {"phase": "Running", "podIP": "10.0.0.1"}
        self.tell(pod)

    def patch_pod(self, pod: dict[str, Any], part: str, body: dict[str, Any]) -> None:
        if part == "status":
            pod["status"] = {**pod["status"], **body["status"]}
        elif part == "resize":
            pod["spec"]["containers"][0]["resources"] = body["spec"]["containers"][0]["resources"]
        else:
            patched = merged(pod, body)
            pod["spec"], pod["metadata"] = patched["spec"], patched["metadata"]
        self.tell(pod)

    def delete_pod(self, key: str, grace: int | None) -> None:
        del self.pods[key]

    def _job(self, uid: str) -> TrainingJob:
        return msgspec.json.decode(json.dumps(self.jobs[uid]), type=TrainingJob)


class ChangingPods(MemoryApi):
    """A pod is changed by another hand just before it is bound."""

    changes = 1

    def take(self, write):
        if isinstance(write.what, Bind) and self.changes:
            self.changes -= 1
            self.tell(self.pods[f"{write.namespace}/{write.what.name}"])
        return super().take(write)


class MemoryClient:
    """Requests about pods, as the server answers them: it looks at the uid and the version that they name."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api

    async def get(self, path: str) -> bytes:
        return _encoder.encode(self._pod(path))

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        if path.endswith("/pods"):
            return _encoder.encode(self._api.create_pod(path.split("/")[-2], body))
        pod = self._pod(path, body["metadata"])
        self._api.bind_pod(pod, body["target"]["name"])
        return b"{}"

    async def patch(self, path: str, body: dict[str, Any], _kind: str = "") -> bytes:
        pod = self._pod(path, body.get("metadata", {}))
        self._api.patch_pod(pod, path.rpartition("/")[2], body)
        return _encoder.encode(pod)

    async def delete(self, path: str, body: dict[str, Any]) -> bytes:
        pod = self._pod(path, body["preconditions"])
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._api.delete_pod(key, body.get("gracePeriodSeconds"))
        return _encoder.encode(pod)

    def _pod(self, path: str, named: Mapping[str, Any] = {}) -> dict[str, Any]:
        _, namespace, _, name = path.split("/")[3:7]
        pod = self._api.pods.get(f"{namespace}/{name}")
        if pod is None:
            raise NotFound(404, f"pod {name} is not there")
        for one in ("uid", "resourceVersion"):
            if one in named and named[one] != pod["metadata"][one]:
                raise Conflict(409, f"{one} of pod {name} is {pod['metadata'][one]}, not {named[one]}")
        return pod


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


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


def a_lone(api: MemoryApi, name: str, cpu: str = "1", namespace: str = "team", **more) -> dict:
    spec = {"schedulerName": "headway", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    meta = {"name": name, "namespace": namespace, "creationTimestamp": "2023-11-14T22:13:25Z"}
    meta |= more.pop("meta", {})
    return api.put_pod({"metadata": meta, "spec": spec | more, "status": {"phase": "Pending"}})


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


def hurry(cluster: KubeCluster) -> None:
    """Pauses after faults and refusals are over, and each gang goes on."""
    for uid, gang in list(cluster.gangs.items()):
        frozen = replace(gang.frozen, again=-math.inf) if math.isfinite(gang.frozen.again) else gang.frozen
        written = replace(gang.written, rest_until=-math.inf)
        wanted = replace(gang.wanted, since=gang.wanted.since - 2.0) if gang.state is State.STARTING else gang.wanted
        cluster.gangs[uid] = replace(gang, frozen=frozen, written=written, wanted=wanted)
        cluster.following.due[uid] = None


class AheadClock(WallClock):
    """Time passes at once, when a test says so."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class SmallCluster:
    """A scheduler over a `MemoryApi`. Each start is a new process: only what the API server has is left."""

    def __init__(
        self, api: MemoryApi | None = None, policy=first_fit, watcher: Watcher = NOBODY, **settings: Any
    ) -> None:
        self.api, self.watcher = MemoryApi() if api is None else api, watcher
        self.policy, self.clock = policy, AheadClock()
        self._settings = {"marks": PodMarks(b"kept in a secret"), **settings}
        self.start()

    def start(self) -> None:
        self.api.inbox = Inbox()
        self.api.begin()
        self.reports, self.book = Reports(), ProgressBook()
        self.cluster = KubeCluster(
            self.api, self.reports, KubeSettings(began=BEGAN, clock=self.clock, **self._settings), watcher=self.watcher
        )

    def turn(self, count: int = 1) -> Plan:
        """What the loop does, without its waiting."""
        plan = Plan(())
        for _ in range(count):
            cluster = self.cluster
            cluster.turn()
            snapshot = cluster.snapshot(cluster.now())
            self.book = self.book.fold(snapshot)
            decided = Fallback(first_fit).decide(self.policy, self.book.annotate(snapshot))
            cluster.show(decided.snapshot)
            cluster.apply(decided.plan)
            plan = decided.plan
        return plan

    def hurry(self) -> None:
        """Pauses after faults and refusals are over."""
        hurry(self.cluster)

    def gang(self, job: str) -> Gang:
        (found,) = [gang for gang in self.cluster.gangs.values() if gang.job.id == job]
        return found

    def phase(self, uid: str) -> str:
        return self.api.status(uid).get("phase", "")


HEALTHY = {"roles": {"worker": {"replicas": 2, "cpu": "100m"}}}
