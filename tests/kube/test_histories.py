"""Generated histories: requests and watches are late or told twice, answers are lost, pods die, and the process is
killed between any two requests. Whatever happens: never two attempts alive on one checkpoint, no training pod is
deleted that nobody meant to delete, and in the end every gang is whole or gone.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_cluster import MemoryApi, SmallCluster

from headway.kube.api.errors import Refused, Unreachable
from headway.kube.api.objects import Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted
from headway.kube.gangs.model import Bind, Create, Delete, Touch
from headway.kube.pods.marks import read_pod_name
from headway.kube.writes.write import Notice, Removal, Stage, StatusPatch, Write, WriteDone

LIVE = ("Pending", "Running")
MEANT = ("Stopping", "Moving", "Scaling", "Waiting", "Succeeded", "Failed", "Cancelled", "Suspended")
"""Phases in which Headway may have decided that pods of the present attempt go."""


class LateServer(MemoryApi):
    """Requests wait until they are sent, and so does what watches tell."""

    def __init__(self) -> None:
        super().__init__(nodes=3)
        self.queued: list[Write] = []
        self.news: list[Any] = []
        self.told: list[Any] = []
        self.faults: list[str] = []
        self.old: list[Write] = []
        """What a leader that was replaced had sent: it arrives at any time, and nobody hears the answer."""
        self.fence.epoch = 1

    def put(self, writes, dropped=()) -> None:
        for write in dropped:
            write.stage = Stage.OVER
        for write in writes:
            if write.replaces is not None:
                write.replaces.stage = Stage.OVER
            write.stage = Stage.QUEUED
            self.queued.append(write)
        self.queued = [write for write in self.queued if write.stage is Stage.QUEUED]

    def tell(self, pod: dict[str, Any]) -> None:
        pod["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.news.append(Changed(Pod, msgspec.convert(pod, Pod)))

    def send(self, which: int, *, answered: bool) -> None:
        """Sends one of the queued requests, by rank; an answer that is lost means that it is sent again."""
        if not self.queued:
            return
        ranked = sorted(self.queued, key=lambda write: write.rank)
        write = ranked[which % len(ranked)]
        self._check(write)
        done = self.write(write)
        if not answered or isinstance(done.error, Unreachable):
            return
        self.queued.remove(write)
        write.stage = Stage.OVER
        if not isinstance(write.what, Notice | Removal):
            self.inbox.put(done)

    def replace_leader(self) -> None:
        self.old += self.queued
        self.queued, self.news, self.told = [], [], []
        self.fence.epoch += 1

    def send_old(self, which: int) -> None:
        if self.old:
            write = self.old.pop(which % len(self.old))
            self._check(write)
            self.write(write)

    def take(self, write: Write) -> WriteDone:
        """As a server: a request that was sent before is answered by what it did then."""
        if isinstance(write.what, StatusPatch) and write.body["epoch"] < self.jobs[write.uid]["status"].get("epoch", 0):
            raise Refused(422, "status.epoch: a scheduler that was replaced may not write any more")
        what, key = write.what, f"{write.namespace}/{getattr(write.what, 'name', '')}"
        there = self.pods.get(key)
        if isinstance(what, Create) and there is not None:
            same = there["metadata"]["annotations"].get("headway.dev/gang")
            if same == write.body["metadata"]["annotations"]["headway.dev/gang"]:
                return WriteDone(write, msgspec.convert(there, Pod))
        if isinstance(what, Bind | Delete | Touch) and (there is None or there["metadata"]["uid"] != what.uid):
            return WriteDone(write, gone=True)
        if isinstance(what, Bind | Delete) and what.version and there["metadata"]["resourceVersion"] != what.version:
            return WriteDone(write, msgspec.convert(there, Pod))
        if isinstance(what, Delete):
            self.news.append(Deleted(Pod, msgspec.convert(self.pods.pop(key), Pod)))
            return WriteDone(write, gone=True)
        return super().take(write)

    def _check(self, write: Write) -> None:
        what, job = write.what, self.jobs.get(write.uid)
        pod = self.pods.get(f"{write.namespace}/{getattr(what, 'name', '')}")
        if job is None or pod is None or pod["metadata"]["uid"] != getattr(what, "uid", None):
            return
        named = read_pod_name(pod["metadata"]["name"], job["metadata"]["name"])
        assert named is not None
        if isinstance(what, Bind):
            others = {read_pod_name(one["metadata"]["name"], job["metadata"]["name"])[0] for one in self._up(job)}
            assert others <= {named[0]}, "two attempts are alive on one checkpoint"
        status = job["status"]
        if isinstance(what, Delete) and pod["status"]["phase"] == "Running":
            meant = status.get("phase") in MEANT or status.get("attempt", 0) > named[0] or job["spec"].get("suspend")
            assert meant, f"{pod['metadata']['name']} trains, and its job is {status.get('phase')}"

    def _up(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        mine = self.pods_of(job["metadata"]["name"])
        return [pod for pod in mine if pod["spec"].get("nodeName") and pod["status"]["phase"] in LIVE]

    def hear(self, count: int) -> None:
        for message in self.news[:count]:
            self.inbox.put(message)
        self.told += self.news[:count]
        self.news = self.news[count:]


ops = st.one_of(
    st.tuples(st.just("turn"), st.integers(1, 2)),
    st.tuples(st.just("send"), st.integers(0, 5)),
    st.tuples(st.just("send"), st.integers(0, 5)),
    st.tuples(st.just("lost"), st.integers(0, 5)),
    st.tuples(st.just("hear"), st.integers(1, 4)),
    st.tuples(st.just("twice"), st.integers(0, 9)),
    st.tuples(st.just("time"), st.sampled_from([1, 5, 70])),
    st.tuples(st.just("dies"), st.integers(0, 5)),
    st.tuples(st.just("suspend"), st.booleans()),
    st.tuples(st.just("kill"), st.just(0)),
)
hand_overs = st.one_of(ops, st.tuples(st.just("replaced"), st.just(0)), st.tuples(st.just("late"), st.integers(0, 9)))


class History:
    def __init__(self, replicas: int) -> None:
        self.api = LateServer()
        role = {"replicas": replicas, "min": replicas, "max": replicas, "cpu": "3"}
        self.uids = [self.api.submit(name, {"roles": {"worker": dict(role)}}) for name in ("one", "two")]
        self.small = SmallCluster(self.api)

    def do(self, op: str, value: int) -> None:  # noqa: C901  one case an event
        api, small = self.api, self.small
        match op:
            case "turn":
                small.turn(value)
            case "send" | "lost":
                api.send(value, answered=op == "send")
            case "hear":
                api.hear(value)
            case "twice" if api.told:
                api.inbox.put(api.told[value % len(api.told)])
            case "time":
                small.clock.ahead += value
            case "dies":
                up = [pod for pod in api.pods.values() if pod["status"]["phase"] == "Running"]
                for pod in up[value : value + 1]:
                    ended = {"exitCode": 137, "finishedAt": "2023-11-14T22:13:30Z"}
                    pod["status"] = {
                        "phase": "Failed",
                        "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
                    }
                    api.tell(pod)
            case "suspend":
                uid = self.uids[0]
                api.jobs[uid]["spec"]["suspend"] = bool(value)
                api.jobs[uid]["metadata"]["resourceVersion"] = str(next(api._numbers))
                api.news.append(Changed(TrainingJob, api._job(uid)))
            case "kill":
                api.queued, api.news, api.told = [], [], []
                small.start()
            case "replaced":
                api.replace_leader()
                small.start()
            case "late":
                api.send_old(value)

    def settle(self, rounds: int = 60, which: int = 0) -> None:
        """No faults: everything is sent and heard, by rank or, with -1, in the opposite order."""
        for _ in range(rounds):
            for _ in range(40):
                self.api.send(which, answered=True)
            self.api.hear(len(self.api.news))
            self.small.turn()
            self.small.clock.ahead += 7.0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 3), st.sampled_from([0, 1, 2, 3, 8]), st.lists(ops, min_size=5, max_size=60))
def test_whatever_happens_no_attempt_trains_beside_another_and_no_gang_stays_half(replicas, rounds, history):
    check(replicas, rounds, history)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 3), st.sampled_from([0, 1, 2, 3, 8]), st.lists(hand_overs, min_size=5, max_size=60))
def test_what_a_replaced_leader_had_sent_does_no_harm_whenever_it_arrives(replicas, rounds, history):
    check(replicas, rounds, [*history, ("replaced", 0)], late=True)


def check(replicas: int, rounds: int, history: list[tuple[str, int]], *, late: bool = False) -> None:
    run = History(replicas)
    run.settle(rounds)
    for op, value in history:
        run.do(op, value)
    run.settle(10 if late else 0)
    while run.api.old:
        run.do("late", 0)
        run.settle(1)
    run.settle(which=-1)
    api = run.api
    for uid, name in zip(run.uids, ("one", "two"), strict=True):
        phase, up = run.small.phase(uid), api._up(api.jobs[uid])
        if api.jobs[uid]["spec"].get("suspend"):
            assert (phase, up) == ("Suspended", []), (phase, len(up))
        else:
            assert phase in ("Running", "Failed"), (name, phase, api.status(uid), run.small.gang(f"team/{name}"))
            assert len(up) == (replicas if phase == "Running" else 0)
    assert run.small.cluster.board.free().min() >= 0
