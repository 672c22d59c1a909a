"""Generated histories through the real door: requests and watches are late or told twice, answers are lost or say no,
pods die, linger and are changed by others, users edit, lists come anew, the server's data are restored, and the process
is killed between any two requests. Whatever happens: never two attempts alive on one checkpoint, no training pod is
deleted that nobody meant to delete, no node is overfull as long as one process plans, and in the end every gang is
whole or gone and every pod of others has its node.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_cluster import STAMP, MemoryApi, SmallCluster, a_lone

from headway.core.quantity import count
from headway.kube.api.errors import ApiError, Conflict, Denied, Forbidden, Invalid, OverQuota, Refused, Unreachable
from headway.kube.api.objects import Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.gangs.model import Bind, Delete
from headway.kube.pods.marks import read_pod_name
from headway.kube.settings import KubeTimeouts
from headway.kube.writes import door as door_module
from headway.kube.writes.door import Door
from headway.kube.writes.write import Notice, StatusPatch, Write, WriteDone

LIVE = ("Pending", "Running")
MEANT = ("Stopping", "Moving", "Scaling", "Waiting", "Succeeded", "Failed", "Cancelled", "Suspended")
"""Phases in which Headway may have decided that pods of the present attempt go."""
REFUSALS: list[ApiError] = [
    Unreachable(0, "time-out"), Unreachable(429, "slow down"), Unreachable(500, "a webhook failed"),
    Forbidden(403, "a right lacks"), OverQuota(403, "exceeded quota: team"), Denied(403, "a rule says no"),
    Invalid(422, "no"), Conflict(409, "not now"),
]  # fmt: skip
NODE_CPU = 8000
NEVER = 1e6
"""A start that hangs would end by its time limit: here it hangs for ever."""


class StepLoop(asyncio.SelectorEventLoop):
    """Time passes when the test says so."""

    now = 0.0

    def time(self) -> float:
        return self.now


class LateServer(MemoryApi):
    """Requests go through a door of their own; they arrive, and are answered, when the test says so. So do watches."""

    def __init__(self) -> None:
        super().__init__(nodes=3)
        self.loop = StepLoop()
        self.news: list[Any] = []
        self.told: list[Any] = []
        self.old: list[Write] = []
        """What a leader that was replaced had sent: it arrives at any time, and nobody hears the answer."""
        self.disturbed, self.dead = False, list[Any]()
        """What was planned may be forgotten, so that a kubelet turns pods away; nobody collects what was killed."""
        self.meant = set[Write]()
        """Deletions that had a reason when they were sent: they are sent again after a restore, which takes it back."""
        self.fence.epoch = 1
        self.begin_anew()

    def begin_anew(self) -> None:
        """Another process: what the last one had sent is lost."""
        self.wire: list[tuple[Write, asyncio.Future[WriteDone]]] = []
        self.news, self.told = [], []
        wire, inbox = self.wire, self.inbox
        self.dead.append(wire)

        async def send(write: Write) -> WriteDone:
            if isinstance(write.what, Delete) and self._means(write):
                self.meant.add(write)
            wire.append((write, self.loop.create_future()))
            return await wire[-1][1]

        self.door = Door(SimpleNamespace(send=send), self.fence, inbox.put)  # type: ignore[arg-type]

    def begin(self) -> None:
        self.begin_anew()
        super().begin()

    def pump(self) -> None:
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))

    def put(self, writes, dropped=()) -> None:
        self.loop.call_soon(self.door.put, list(writes), list(dropped))
        self.pump()

    def change(self, uid: str) -> None:
        self.jobs[uid]["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.news.append(Changed(TrainingJob, self._job(uid)))

    def tell(self, pod: dict[str, Any]) -> None:
        pod["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.news.append(Changed(Pod, msgspec.convert(pod, Pod)))

    # ── requests ──

    def send(self, which: int, error: ApiError | None = None, *, done: bool = True) -> None:
        """One of the requests under way arrives, if it does, and is answered so."""
        if not self.wire:
            return
        write, answer = self.wire.pop(which % len(self.wire))
        found = WriteDone(write)
        if done:
            self._check(write)
            found = self.write(write)
        answer.set_result(found if error is None else WriteDone(write, error=error))
        self.pump()

    def replace_leader(self) -> None:
        self.old += [write for write, _ in self.wire]
        self.fence.epoch, self.disturbed = self.fence.epoch + 1, True

    def send_old(self, which: int) -> None:
        if self.old:
            write = self.old.pop(which % len(self.old))
            self._check(write)
            self.write(write)

    def take(self, write: Write) -> WriteDone:
        if isinstance(write.what, StatusPatch) and write.body["epoch"] < self.jobs[write.uid]["status"].get("epoch", 0):
            raise Refused(422, "status.epoch: a scheduler that was replaced may not write any more")
        return super().take(write)

    def delete_pod(self, key: str, grace: int | None) -> None:
        """What runs on a node lingers until its kubelet has ended it."""
        pod = self.pods[key]
        if grace != 0 and pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running":
            pod["metadata"] |= {
                "deletionTimestamp": STAMP,
                "deletionGracePeriodSeconds": 30 if grace is None else grace,
            }
            self.tell(pod)
        else:
            self.end(key)

    def end(self, key: str) -> None:
        pod = self.pods.pop(key)
        pod["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.news.append(Deleted(Pod, msgspec.convert(pod, Pod)))

    def lingering(self) -> list[str]:
        return [key for key, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]]

    def _check(self, write: Write) -> None:
        what, job = write.what, self.jobs.get(write.uid)
        pod = self.pods.get(f"{write.namespace}/{getattr(what, 'name', '')}")
        if pod is None or not isinstance(what, Bind | Delete) or not self._matches(pod, what):
            return
        if isinstance(what, Bind) and not self.disturbed:
            held = [one for one in self.pods.values() if one["spec"].get("nodeName") == what.node]
            held = [one for one in held if one["status"]["phase"] in LIVE]
            assert sum(cpu_of(one) for one in (pod, *held)) <= NODE_CPU, f"{what.node} is overfull"
        if job is None:
            assert isinstance(what, Bind), "a pod of others is never deleted"
            return
        named = read_pod_name(pod["metadata"]["name"], job["metadata"]["name"])
        assert named is not None
        if isinstance(what, Bind):
            others = {read_pod_name(one["metadata"]["name"], job["metadata"]["name"])[0] for one in self.up(job)}
            assert others <= {named[0]}, "two attempts are alive on one checkpoint"
        if isinstance(what, Delete) and pod["status"]["phase"] == "Running":
            meant = write in self.meant or self._means(write)
            assert meant, f"{pod['metadata']['name']} trains, and its job is {job['status'].get('phase')}"

    def _means(self, write: Write) -> bool:
        """Whether the job says that this pod is to go."""
        job = self.jobs.get(write.uid)
        if job is None:
            return False
        named, status = read_pod_name(write.what.name, job["metadata"]["name"]), job["status"]
        past = named is not None and status.get("attempt", 0) > named[0]
        return past or status.get("phase") in MEANT or bool(job["spec"].get("suspend"))

    def _matches(self, pod: dict[str, Any], what: Bind | Delete) -> bool:
        meta = pod["metadata"]
        return meta["uid"] == what.uid and what.version in ("", meta["resourceVersion"])

    def up(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        mine = self.pods_of(job["metadata"]["name"])
        return [pod for pod in mine if pod["spec"].get("nodeName") and pod["status"]["phase"] in LIVE]

    # ── watches ──

    def hear(self, number: int) -> None:
        for message in self.news[:number]:
            self.inbox.put(message)
        self.told += self.news[:number]
        self.news = self.news[number:]

    def list_anew(self, *, went_back: bool = False) -> None:
        """The watches have ended, and what they had not told yet is in the lists."""
        self.news, self.told, version = [], [], next(self._numbers)
        jobs = tuple(self._job(uid) for uid in self.jobs)
        pods = tuple(msgspec.convert(pod, Pod) for pod in self.pods.values())
        self.news += [
            Listed(TrainingJob, jobs, version, went_back=went_back), Listed(Pod, pods, version, went_back=went_back)
        ]  # fmt: skip

    def back_up(self) -> None:
        self.saved = copy.deepcopy((self.jobs, self.pods)), next(self._numbers)

    def restore(self) -> None:
        """The server's data are those of the copy, its versions go back, and whoever waits for an answer gets none."""
        (self.jobs, self.pods), number = copy.deepcopy(self.saved[0]), self.saved[1]
        self._numbers, self.disturbed = itertools.count(number), True
        while self.wire:
            self.send(0, Unreachable(0, "the server restarts"), done=False)
        self.old.clear()
        self.list_anew(went_back=True)
        self.hear(len(self.news))

    def close_loop(self) -> None:
        self.fence.close()  # nothing more leaves
        while tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()


def cpu_of(pod: dict[str, Any]) -> int:
    return sum(count("cpu", one["resources"]["requests"]["cpu"]) for one in pod["spec"]["containers"])


OFTEN = ("turn", "send", "send", "send", "hear", "hear", "time")
SOMETIMES = (
    "lost", "refused", "twice", "dies", "changed", "ends", "suspend", "edit", "pod", "list", "kill",
)  # fmt: skip


def events(seed: int, *more: str) -> tuple[int, int, list[tuple[str, int]]]:
    """How large the gangs are, how far they come undisturbed, and what happens then."""
    draw = random.Random(seed)
    history = [draw.choice((*OFTEN, *SOMETIMES, *more)) for _ in range(draw.randint(5, 60))]
    found = [(one, draw.choice((1, 5, 70)) if one == "time" else draw.randint(0, 9)) for one in history]
    return draw.randint(1, 3), draw.choice((0, 1, 2, 3, 8)), found


class History:
    def __init__(self, replicas: int) -> None:
        self.api = LateServer()
        self.uids = [self.api.submit(name, {"roles": {"worker": sized(replicas)}}) for name in ("one", "two")]
        self.sizes, self.others = {replicas}, 0
        self.small = SmallCluster(self.api, timeouts=KubeTimeouts(start=NEVER, scale=NEVER))
        self.api.back_up()

    def do(self, op: str, value: int) -> None:  # noqa: C901, PLR0912  one case an event
        api, small = self.api, self.small
        api.loop.now += 0.05
        match op:
            case "turn":
                small.turn(value)
            case "send":
                api.send(value)
            case "lost":
                api.send(value, Unreachable(0, "time-out"), done=value % 2 == 0)
            case "refused":
                api.send(value, REFUSALS[value % len(REFUSALS)], done=False)
            case "hear":
                api.hear(value)
            case "twice" if told := [one for one in api.told if not isinstance(one, Listed)]:
                api.inbox.put(told[value % len(told)])
            case "time":
                self.pass_time(value)
            case "dies":
                self._kill_pod(value)
            case "changed" if api.pods:
                api.tell(list(api.pods.values())[value % len(api.pods)])
            case "ends":
                for key in api.lingering()[:value]:
                    api.end(key)
            case "suspend":
                self._edit(0, suspend=value % 2 == 0)
            case "edit":
                self.sizes.add(1 + value % 3)
                self._edit(1, roles={"worker": sized(1 + value % 3)})
            case "pod" if self.others < 2:  # three on one node leave room for five of six replicas
                self.others += 1
                a_lone(api, f"lone-{self.others}", "1")
            case "list":
                api.list_anew()
            case "kill":
                api.disturbed = True
                small.start()
            case "replaced":
                api.replace_leader()
                small.start()
            case "late":
                api.send_old(value)
            case "copied":
                api.back_up()
            case "restored":
                api.restore()
                small.turn()

    def pass_time(self, seconds: float) -> None:
        self.small.clock.ahead += seconds
        self.api.loop.now += seconds
        self.api.pump()

    def _kill_pod(self, which: int) -> None:
        up = [pod for pod in self.api.pods.values() if pod["status"]["phase"] == "Running"]
        for pod in up[which : which + 1]:
            ended = {"exitCode": 137, "finishedAt": "2023-11-14T22:13:30Z"}
            pod["status"] = {
                "phase": "Failed",
                "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
            }
            self.api.tell(pod)

    def _edit(self, which: int, **fields: Any) -> None:
        api, uid = self.api, self.uids[which]
        api.jobs[uid]["spec"] |= fields
        api.change(uid)

    def settle(self, rounds: int = 60, which: int = 0) -> None:
        """No faults: everything is sent and heard, in this order or, with -1, the last first."""
        for _ in range(rounds):
            for _ in range(40):
                self.api.send(which)
            for key in self.api.lingering():
                self.api.end(key)
            self.api.hear(len(self.api.news))
            self.small.turn()
            self.pass_time(7.0)


def sized(replicas: int) -> dict[str, Any]:
    return {"replicas": replicas, "min": replicas, "max": replicas, "cpu": "3"}


def generated(test):
    """A list of events that is drawn evenly finds more than one that grows from nothing."""
    histories = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    return histories(given(st.integers(0, 2**32))(test))


@generated
def test_whatever_happens_no_attempt_trains_beside_another_and_no_gang_stays_half(seed):
    check(*events(seed))


@generated
def test_what_a_replaced_leader_had_sent_does_no_harm_whenever_it_arrives(seed):
    replicas, rounds, history = events(seed, "replaced", "late", "late")
    check(replicas, rounds, [*history, ("replaced", 0)], late=True)


@generated
def test_data_of_an_earlier_time_leave_no_gang_half(seed):
    check(*events(seed, "copied", "restored"))


@pytest.mark.parametrize("refusal", range(len(REFUSALS)))
def test_a_suspended_job_that_is_no_gang_is_told_so_whatever_refuses_its_first_status(refusal):
    check(3, 1, [("suspend", 2), ("kill", 0), ("refused", refusal * 2 % len(REFUSALS)), ("refused", refusal)])


def check(replicas: int, rounds: int, history: list[tuple[str, int]], *, late: bool = False) -> None:
    run = History(replicas)
    with mock.patch.object(door_module, "time", SimpleNamespace(monotonic=lambda: run.api.loop.now)):
        try:
            run.settle(rounds)
            for op, value in history:
                run.do(op, value)
            run.settle(10 if late else 0)
            while run.api.old:
                run.do("late", 0)
                run.settle(1)
            run.settle(which=-1)
            judge(run)
        finally:
            run.api.close_loop()


def judge(run: History) -> None:
    api = run.api
    for uid, name in zip(run.uids, ("one", "two"), strict=True):
        phase, up = run.small.phase(uid), api.up(api.jobs[uid])
        if api.jobs[uid]["spec"].get("suspend"):
            assert phase in ("Suspended", "Failed"), phase
            assert up == []
        else:
            assert phase in ("Running", "Failed"), (name, phase, api.status(uid), run.small.gang(f"team/{name}"))
            assert len(up) in (run.sizes if phase == "Running" else {0})
    for key, pod in api.pods.items():
        assert "lone" not in key or pod["spec"].get("nodeName"), f"{key} has no node: {pod}"
    assert api.disturbed or run.small.cluster.board.free().min() >= 0
    assert not [write for write in run.small.cluster.outbox._open.values() if not isinstance(write, Notice)]
