"""The thread that talks to the API server.

Work goes in; changes and results come out of one thread-safe queue. Nothing here decides anything. A job's status is
written first, then its actions are taken, all at the same time, and the result of each is put into the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, Conflict, NotFound, Unreachable
from headway.kube.api.leases import renewal_of
from headway.kube.api.objects import API_VERSION, NodeObject, Pod, TrainingJob
from headway.kube.api.usage import Measured, by_kubelets, by_metrics
from headway.kube.api.user_policy import follow_users
from headway.kube.api.watch import Follower
from headway.kube.dry_run import claims_of, following_rules, rehearsed
from headway.kube.expiry import Outlived
from headway.kube.inbox import Inbox
from headway.kube.pod.constraints import BoundClaim
from headway.kube.pod_requests import PodRequests, fault
from headway.kube.settings import Measure
from headway.kube.turns import Turns
from headway.kube.work import ApiWork, ClaimsRead, LeaseRead, Message, Performed, UsersRecorded, Wake, WorkerEnded

log = logging.getLogger("headway.kube")
IN_HAND = 32
"""Requests for jobs in hand that are under way at once. They never wait for the kinds below."""
QUESTIONS = 4
"""The same of reviews of tokens."""
REHEARSALS = 8
NOTICES = 4
"""The same of events, and of statuses of jobs that are not taken in."""
MOST_EVENTS = 1000
"""Events of one namespace that wait. More are not recorded."""


class ApiWorker:
    def __init__(self, access: Access, namespace: str = "", *, all_pods: bool = True) -> None:
        """Follows the jobs of a namespace, or of all if it is empty; pods likewise, unless `all_pods`."""
        self.inbox: Inbox[Message] = Inbox()
        self._access = access
        self._namespace = namespace
        self._all_pods = all_pods
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._closing: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = False
        self._thread = threading.Thread(target=self._run, name="headway-kube", daemon=True)
        self._thread.start()
        self._ready.wait()

    def perform(self, work: ApiWork) -> None:
        """Begins the work. The inbox gets a `Performed` when it is done."""
        self._soon(self._perform(work))

    def rehearse(self, key: str, namespace: str, body: dict[str, Any], after: float = 0.0) -> None:
        """Asks how this pod would be. The inbox gets a `Rehearsed`, whatever the answer is."""
        self._soon(self._rehearse(key, namespace, body, after))

    def read_claims(self, pod: Pod, after: float = 0.0) -> None:
        """Reads the claims for volumes of a pod. The inbox gets a `ClaimsRead`, whatever the answers are."""
        self._soon(self._read_claims(pod, after))

    def read_lease(self, node: str, now: float) -> None:
        """Asks when this node last renewed its Lease. The inbox gets a `LeaseRead`, whatever the answer is."""
        self._soon(self._read_lease(node, now))

    def measure(self, how: Measure, nodes: Sequence[str]) -> None:
        """Asks what the pods on these nodes use. The inbox gets a `Measured`, whatever the answer is."""
        self._soon(self._measure(how, nodes))

    def announce(self, namespace: str, event: dict[str, Any]) -> None:
        """Records an event for users. It is tried once, because nothing depends on it."""
        self._soon(self._announce(namespace, event))

    def remove(self, job: Outlived) -> None:
        """Deletes a TrainingJob and what it owns. The watch shows whether that was done."""
        self._soon(self._remove(job))

    def ask(self, path: str, body: dict[str, Any], done: Callable[[bytes | ApiError], None]) -> None:
        """Posts a body; `done` gets the answer in this worker's thread. Few are sent at once: others come first."""
        if self._thread.is_alive():
            self._soon(self._ask(path, body, done))
        else:
            done(Unreachable(0, "headway ends"))

    def wake(self) -> None:
        """Wakes the reader of the inbox. Several calls before it reads are one message."""
        if not self._woken:
            self._woken = True
            self.inbox.put(Wake())

    def wake_taken(self) -> None:
        """The reader has taken the `Wake`: the next call of `wake` sends another."""
        self._woken = False

    def close(self) -> None:
        """Waits until the requests under way have ended, at most 10 seconds, and ends the thread."""
        if self._loop is not None and self._closing is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended
                self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(timeout=10)

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
        self._questions, self._in_hand = asyncio.Semaphore(QUESTIONS), Turns(IN_HAND)
        self._rehearsals, self._notices = Turns(REHEARSALS), Turns(NOTICES)
        async with Client(self._access) as self._client:
            inside = f"namespaces/{self._namespace}/" if self._namespace else ""
            jobs, pods = f"/apis/{API_VERSION}/{inside}", f"/api/v1/{'' if self._all_pods else inside}"
            tell = self.inbox.put
            followers = [
                asyncio.create_task(Follower(self._client, "/api/v1/nodes", NodeObject, tell).follow()),
                asyncio.create_task(Follower(self._client, f"{jobs}trainingjobs", TrainingJob, tell).follow()),
                asyncio.create_task(Follower(self._client, f"{pods}pods", Pod, tell).follow()),
            ]
            followers += [asyncio.create_task(follow) for follow in following_rules(self._client, inside, tell)]
            followers.append(asyncio.create_task(follow_users(self._client, lambda since: tell(UsersRecorded(since)))))
            self._ready.set()
            closing = asyncio.create_task(self._closing.wait())
            done, _ = await asyncio.wait([closing, *followers], return_when=asyncio.FIRST_COMPLETED)
            if closing not in done:
                raise RuntimeError(f"a watch has ended: {done.pop()}")
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=5)
            for task in followers:
                task.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

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

    async def _perform(self, work: ApiWork) -> None:
        """Whatever happens, an answer comes: else the job would be busy for ever."""
        try:
            done = await self._done(work)
        except Exception as error:  # noqa: BLE001
            done = Performed(work, fault(error))
        self.inbox.put(done)

    async def _done(self, work: ApiWork) -> Performed:
        turns = self._in_hand if work.in_hand else self._notices
        if work.status is not None:
            path = f"/apis/{API_VERSION}/namespaces/{work.namespace}/trainingjobs/{work.name}/status"
            try:
                async with turns.of(work.namespace):
                    await self._client.patch(path, {"metadata": {"uid": work.uid}, "status": work.status})
            except ApiError as error:
                return Performed(work, error)
        requests = PodRequests(self._client, turns)
        results = await asyncio.gather(*(requests.take(work, request) for request in work.requests))
        return Performed(work, None, tuple(results))

    async def _remove(self, job: Outlived) -> None:
        path = f"/apis/{API_VERSION}/namespaces/{job.namespace}/trainingjobs/{job.name}"
        try:
            async with self._notices.of(job.namespace):
                await self._client.delete(path, {"preconditions": {"uid": job.uid}, "propagationPolicy": "Background"})
        except (NotFound, Conflict):
            return
        except Exception as error:  # noqa: BLE001  it is tried again
            log.warning("TrainingJob %s/%s is past its time and cannot be deleted: %s", job.namespace, job.name, error)

    async def _ask(self, path: str, body: dict[str, Any], done: Callable[[bytes | ApiError], None]) -> None:
        try:
            async with self._questions:
                answer: bytes | ApiError = await self._client.post(path, body)
        except Exception as error:  # noqa: BLE001  whatever it is: who asks must not wait for ever
            answer = fault(error)
        done(answer)

    async def _rehearse(self, key: str, namespace: str, body: dict[str, Any], after: float) -> None:
        await asyncio.sleep(after)
        async with self._rehearsals.of(namespace):
            self.inbox.put(await rehearsed(self._client, key, namespace, body))

    async def _read_claims(self, pod: Pod, after: float) -> None:
        await asyncio.sleep(after)
        claims: dict[str, BoundClaim] = {}
        try:
            async with self._rehearsals.of(pod.metadata.namespace):
                claims = await claims_of(self._client, pod.metadata.namespace, pod)
        except Exception as error:  # noqa: BLE001  the pod waits for an answer, whatever it is
            log.debug("the claims of pod %s cannot be read: %s", pod.metadata.name, error)
        self.inbox.put(ClaimsRead(pod.metadata.uid, claims))

    async def _read_lease(self, node: str, now: float) -> None:
        renewed = ""
        try:
            async with self._questions:
                renewed = await renewal_of(self._client, node)
        except Exception as error:  # noqa: BLE001  then it is not known, and a failure is judged later
            log.debug("the Lease of node %s cannot be read: %s", node, error)
        self.inbox.put(LeaseRead(node, renewed, now))

    async def _measure(self, how: Measure, nodes: Sequence[str]) -> None:
        inside = f"namespaces/{self._namespace}/" if self._namespace else ""
        asking = by_metrics(self._client, inside) if how is Measure.METRICS else by_kubelets(self._client, nodes)
        try:
            answer = await asking
        except Exception as error:  # noqa: BLE001  whatever it is: who asked must not wait for ever
            answer = Measured({}, f"{type(error).__name__}: {error}")
        self.inbox.put(answer)

    async def _announce(self, namespace: str, event: dict[str, Any]) -> None:
        try:
            if self._notices.waiting(namespace) < MOST_EVENTS:
                async with self._notices.of(namespace):
                    await self._client.post(f"/api/v1/namespaces/{namespace}/events", event)
        except Exception as error:  # noqa: BLE001  nothing depends on it
            log.debug("an event could not be recorded: %s", error)
