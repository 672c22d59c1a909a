"""The thread that talks to the API server: watches, reads, and the door for writes. Nothing here decides anything.

Changes and answers come out of one thread-safe queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from headway.kube.api.access import Access
from headway.kube.api.client import Client, Heard, Patience, not_heard
from headway.kube.api.discovery import follow_users
from headway.kube.api.dry_run import claims_of, following_rules, tried
from headway.kube.api.errors import ApiError, KubeError, Unreachable
from headway.kube.api.groups import group_read
from headway.kube.api.objects import API_VERSION, NodeObject, Pod, TrainingJob
from headway.kube.api.usage import Measured, by_kubelets, by_metrics
from headway.kube.api.watch import Follower
from headway.kube.inbox import ClaimsRead, Inbox, LeaseRead, Message, UsersRecorded, Wake, WorkerEnded
from headway.kube.intake.groups import GroupRef
from headway.kube.pods.constraints import BoundClaim
from headway.kube.settings import Measure
from headway.kube.writes.door import Answered, Door, unheard
from headway.kube.writes.fence import REQUEST_SECONDS, Fence
from headway.kube.writes.lease import LeaseObject, SchedulerLease
from headway.kube.writes.requests import Requests, fault
from headway.kube.writes.service import ProgressService
from headway.kube.writes.write import Rank, Write

log = logging.getLogger("headway.kube")
QUESTIONS = 4
"""Reviews of tokens under way at once. They never wait for writes, nor writes for them."""
DRY_RUNS = 8


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


_leases = msgspec.json.Decoder(LeaseObject)


async def renewal_of(client: Client, node: str) -> str:
    """When the node last renewed its Lease, as it wrote it. Raises ApiError."""
    return _leases.decode(await client.get(f"{LEASES}/{quote(node, safe='')}")).spec.renewTime


class Turns:
    """So many requests at once, and namespaces take turns. Use in one event loop."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By namespace. The namespace whose turn is next comes first."""

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Waits for a turn of this namespace, and keeps it for as long as the context is open."""
        await self._enter(namespace)
        try:
            yield
        finally:
            self._leave()

    def waiting(self, namespace: str) -> int:
        """How many of this namespace wait."""
        return len(self._waiting.get(namespace, ()))

    async def _enter(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given a turn in the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            namespace = next(iter(self._waiting))
            queue = self._waiting.pop(namespace)
            turn = queue.popleft()
            if queue:
                self._waiting[namespace] = queue  # now the last
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


@dataclass(frozen=True, slots=True)
class Hears:
    """Who hears of the API server's answers."""

    of_writes: Answered = unheard
    of_reads: Heard = not_heard


class ApiWorker:
    def __init__(
        self, access: Access, namespace: str = "", *, all_pods: bool = True, lease: SchedulerLease | None = None,
        inbox: Inbox[Message] | None = None, hears: Hears = Hears(),
    ) -> None:  # fmt: skip
        """Follows the jobs of a namespace, or of all if it is empty; pods likewise, unless `all_pods`.

        `hears` is called in this worker's thread.
        """
        self._hears, self._followers = hears, list[Follower[Any]]()
        self.beat_at = time.monotonic()
        """When its thread last went on, by the monotonic clock."""
        self.lease = lease or SchedulerLease("", Fence())
        self.fence = self.lease.fence
        self.inbox: Inbox[Message] = Inbox() if inbox is None else inbox
        self._access = access
        self._namespace = namespace
        self._all_pods = all_pods
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._closing: asyncio.Event | None = None
        self._door: Door | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = False
        self._thread = threading.Thread(target=self._run, name="headway-kube", daemon=True)
        self._thread.start()
        self._ready.wait()

    def put(self, writes: Sequence[Write], dropped: Sequence[Write] = ()) -> None:
        """Sends these, and forgets those that are not under way yet. The inbox gets a `WriteDone` for each that was
        sent and may still matter.
        """
        if self._loop is not None and (door := self._door) is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended; the inbox has the reason
                self._loop.call_soon_threadsafe(door.put, writes, dropped)

    def dry_run(self, key: str, namespace: str, body: dict[str, Any], after: float = 0.0) -> None:
        """Asks how this pod would be. The inbox gets a `DryRunDone`, whatever the answer is."""
        self._soon(self._dry_run(key, namespace, body, after))

    def read_claims(self, pod: Pod, after: float = 0.0) -> None:
        """Reads the claims for volumes of a pod. The inbox gets a `ClaimsRead`, whatever the answers are."""
        self._soon(self._read_claims(pod, after))

    def read_group(self, ref: GroupRef, after: float = 0.0) -> None:
        """Reads how many pods a gang of others has. The inbox gets a `GroupRead`, whatever the answer is."""
        self._soon(self._read_group(ref, after))

    def read_lease(self, node: str, now: float) -> None:
        """Asks when this node last renewed its Lease. The inbox gets a `LeaseRead`, whatever the answer is."""
        self._soon(self._read_lease(node, now))

    def measure(self, how: Measure, nodes: Sequence[str]) -> None:
        """Asks what the pods on these nodes use. The inbox gets a `Measured`, whatever the answer is."""
        self._soon(self._measure(how, nodes))

    def ask(self, path: str, body: dict[str, Any], done: Callable[[bytes | ApiError], None]) -> None:
        """Posts a body; `done` gets the answer in this worker's thread. Few are sent at once: others come first."""
        if self._thread.is_alive():
            self._soon(self._ask(path, body, done))
        else:
            done(Unreachable(0, "headway ends"))

    def lead(self) -> None:
        """The Lease is ours: it is renewed from now on. If another takes it, the inbox gets a `WorkerEnded`."""
        self.lease.keep(self._access, lambda why: self.inbox.put(WorkerEnded(why)))

    def lead_here(self, service: ProgressService) -> None:
        """Training reports to this process for as long as it leads."""
        self._soon(self._lead_here(service))

    def queued(self, rank: Rank) -> int:
        """Writes that wait, from any thread."""
        return 0 if self._door is None else self._door.queue.counts[rank]

    def under_way(self) -> int:
        """Writes that were sent and have no answer yet, from any thread."""
        return 0 if self._door is None else self._door.under_way

    def allowed(self) -> int:
        """How many writes may be under way, as the server's answers allow. From any thread."""
        return 0 if self._door is None else int(self._door.in_flight.allowed)

    def watches(self) -> list[tuple[str, float, int]]:
        """Of each kind: the seconds since its watch last said anything, and its lists so far. From any thread."""
        now = time.monotonic()
        return [(one.kind.__name__.removesuffix("Object"), now - one.heard_at, one.lists) for one in self._followers]

    def wake(self) -> None:
        """Wakes the reader of the inbox. Several calls before it reads are one message."""
        if not self._woken:
            self._woken = True
            self.inbox.put(Wake())

    def wake_taken(self) -> None:
        """The reader has taken the `Wake`: the next call of `wake` sends another."""
        self._woken = False

    def close(self) -> None:
        """Waits until the writes under way have ended, at most 10 seconds; ends the thread, hands the Lease back."""
        if self._loop is not None and self._closing is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended
                self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(timeout=10)
        self.lease.hand_back()

    # ── the thread ──────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            import uvloop

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001  whatever it is: the process must not go on with half its threads
            self.inbox.put(WorkerEnded(f"{type(error).__name__}: {error}"))
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._questions, self._dry_runs = asyncio.Semaphore(QUESTIONS), Turns(DRY_RUNS)
        patience = Patience(request=REQUEST_SECONDS)
        async with (
            Client(self._access, heard=self._hears.of_reads) as self._client,
            Client(self._access, patience) as self._writing,
        ):
            self._door = Door(Requests(self._writing), self.fence, self.inbox.put, self._hears.of_writes)
            inside = f"namespaces/{self._namespace}/" if self._namespace else ""
            jobs, pods = f"/apis/{API_VERSION}/{inside}", f"/api/v1/{'' if self._all_pods else inside}"
            tell = self.inbox.put
            self._followers = [
                Follower(self._client, "/api/v1/nodes", NodeObject, tell),
                Follower(self._client, f"{jobs}trainingjobs", TrainingJob, tell),
                Follower(self._client, f"{pods}pods", Pod, tell),
            ]
            followers = [asyncio.create_task(one.follow()) for one in self._followers]
            followers.append(asyncio.create_task(self._beat()))
            followers += [asyncio.create_task(follow) for follow in following_rules(self._client, inside, tell)]
            followers.append(asyncio.create_task(follow_users(self._client, lambda since: tell(UsersRecorded(since)))))
            self._ready.set()
            closing = asyncio.create_task(self._closing.wait())
            done, _ = await asyncio.wait([closing, *followers], return_when=asyncio.FIRST_COMPLETED)
            if closing not in done:
                task = done.pop()
                error = task.exception()
                raise error if isinstance(error, KubeError) else RuntimeError(f"a watch has ended: {task}")
            await self._door.close(5.0)
            ending = [*followers, *self._tasks]  # nobody needs what they would read
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def _beat(self) -> None:
        while True:
            self.beat_at = time.monotonic()
            await asyncio.sleep(1.0)

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        def begin() -> None:
            task = asyncio.ensure_future(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(begin)
        except (AssertionError, RuntimeError):  # the thread has ended; the inbox has the reason
            work.close()

    async def _ask(self, path: str, body: dict[str, Any], done: Callable[[bytes | ApiError], None]) -> None:
        answer: bytes | ApiError = Unreachable(0, "headway ends")
        try:
            async with self._questions:
                answer = await self._client.post(path, body)
        except Exception as error:  # noqa: BLE001  whatever it is: who asks must not wait for ever
            answer = fault(error)
        finally:
            done(answer)

    async def _dry_run(self, key: str, namespace: str, body: dict[str, Any], after: float) -> None:
        await asyncio.sleep(after)
        async with self._dry_runs.of(namespace):
            self.inbox.put(await tried(self._client, key, namespace, body))

    async def _read_claims(self, pod: Pod, after: float) -> None:
        await asyncio.sleep(after)
        claims: dict[str, BoundClaim] = {}
        try:
            async with self._dry_runs.of(pod.metadata.namespace):
                claims = await claims_of(self._client, pod.metadata.namespace, pod)
        except Exception as error:  # noqa: BLE001  the pod waits for an answer, whatever it is
            log.debug("the claims of pod %s cannot be read: %s", pod.metadata.name, error)
        self.inbox.put(ClaimsRead(pod.metadata.uid, claims))

    async def _read_group(self, ref: GroupRef, after: float) -> None:
        await asyncio.sleep(after)
        async with self._dry_runs.of(ref.namespace):
            self.inbox.put(await group_read(self._client, ref))

    async def _read_lease(self, node: str, now: float) -> None:
        renewed = ""
        try:
            async with self._questions:
                renewed = await renewal_of(self._client, node)
        except Exception as error:  # noqa: BLE001  then it is not known, and a failure is judged later
            log.debug("the Lease of node %s cannot be read: %s", node, error)
        self.inbox.put(LeaseRead(node, renewed, now))

    async def _lead_here(self, service: ProgressService) -> None:
        assert self._closing is not None
        keeping = asyncio.create_task(service.keep(self._writing, self.fence))
        try:
            await self._closing.wait()
        finally:
            keeping.cancel()

    async def _measure(self, how: Measure, nodes: Sequence[str]) -> None:
        inside = f"namespaces/{self._namespace}/" if self._namespace else ""
        asking = by_metrics(self._client, inside) if how is Measure.METRICS else by_kubelets(self._client, nodes)
        try:
            answer = await asking
        except Exception as error:  # noqa: BLE001  whatever it is: who asked must not wait for ever
            answer = Measured({}, f"{type(error).__name__}: {error}")
        self.inbox.put(answer)
