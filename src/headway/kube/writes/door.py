"""Sends writes: so many at once, by rank, each until it is answered. Retries and back-off are here and nowhere else.

A server that is away gets one request at a time until it answers. Past the fence's deadline nothing leaves.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headway.kube.api.errors import ApiError, Forbidden, NotFound, Unreachable
from headway.kube.gangs.model import Delete
from headway.kube.writes.fence import Fence
from headway.kube.writes.requests import Requests
from headway.kube.writes.write import AT_REST, Notice, Rank, Stage, Write, WriteDone

log = logging.getLogger("headway.kube")
AT_ONCE, LEAST_AT_ONCE = 32, 4
PUSHES_BACK = frozenset({429, 503, 504})
"""A server that has too much to do says so. A 500 may be the webhook of one namespace."""
SLOW_SECONDS = 1.0
"""Where every answer takes longer, the server has more to do than it can."""
LOOK_SECONDS = 1.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 15.0
LONGEST_REFUSED_SECONDS = 300.0
"""Between two requests for a delete that the server refuses. The pod must go, and who refuses that may change."""
MOST_EVENTS = 1000
"""Events of one namespace that wait. More are not recorded."""
FENCE_SECONDS = 0.5
"""While the fence is closed, it is looked at again after this."""

Answered = Callable[[Write, WriteDone, float], None]
"""Hears of each answer, and how many seconds it took."""


def unheard(_write: Write, _done: WriteDone, _seconds: float) -> None:
    """Nobody is interested."""


@dataclass(slots=True)
class InFlight:
    """How many requests are under way at once: half as many, at most once a second, where the server says that it has
    too many or even its quickest answer is slow; one more with each full round of quick ones. A webhook of one
    namespace that hangs slows nobody else.
    """

    allowed: float = AT_ONCE
    _since: float = -math.inf
    _quickest: float = math.inf
    _pushed_back: bool = False

    def answered(self, seconds: float, *, pushed_back: bool, now: float) -> None:
        self._quickest, self._pushed_back = min(self._quickest, seconds), self._pushed_back or pushed_back
        if not self._pushed_back and seconds <= SLOW_SECONDS:
            self.allowed = min(AT_ONCE, self.allowed + 1.0 / self.allowed)
        if now - self._since >= LOOK_SECONDS:
            if self._pushed_back or self._quickest > SLOW_SECONDS:
                self.allowed = max(LEAST_AT_ONCE, self.allowed / 2)
            self._since, self._quickest, self._pushed_back = now, math.inf, False


LOWEST_EVERY = 16
"""Each so manieth turn is the lowest rank's: nothing waits for ever."""


class WriteQueue:
    """Writes that wait: by rank, and within a rank namespaces take turns.

    Example: a tenant has submitted ten thousand jobs that are refused. Each gets a status and an event. Another
    tenant's only job is bound before all of them, and its status waits for one request of the first tenant.
    """

    def __init__(self) -> None:
        self._ranks: list[OrderedDict[str, deque[Write]]] = [OrderedDict() for _ in Rank]
        """By rank, by namespace. The namespace whose turn is next comes first."""
        self._turn = 0
        self.counts = [0] * len(Rank)
        """By rank, with those that are no longer wanted."""

    @property
    def count(self) -> int:
        return sum(self.counts)

    def put(self, write: Write) -> None:
        self._ranks[write.rank].setdefault(write.namespace, deque()).append(write)
        self.counts[write.rank] += 1

    def next(self) -> Write | None:
        """The write whose turn it is. The first of a namespace is the first to go."""
        self._turn += 1
        order = [rank for rank in Rank if self._ranks[rank]]
        for rank in reversed(order) if self._turn % LOWEST_EVERY == 0 else order:
            while self._ranks[rank]:
                write = self._pop(self._ranks[rank])
                if write.stage is Stage.QUEUED:
                    return write
        return None

    def waiting(self, rank: Rank, namespace: str) -> int:
        return len(self._ranks[rank].get(namespace, ()))

    def _pop(self, namespaces: OrderedDict[str, deque[Write]]) -> Write:
        namespace, writes = next(iter(namespaces.items()))
        write = writes.popleft()
        self.counts[write.rank] -= 1
        if writes:
            namespaces.move_to_end(namespace)
        else:
            del namespaces[namespace]
        return write


class Door:
    """Use in one event loop."""

    def __init__(
        self, requests: Requests, fence: Fence, tell: Callable[[WriteDone], None], answered: Answered = unheard
    ) -> None:
        self._requests, self._fence, self._tell, self._answered = requests, fence, tell, answered
        self.queue, self.in_flight = WriteQueue(), InFlight()
        self._under_way: set[asyncio.Task[None]] = set()
        self._sleeping: set[asyncio.TimerHandle] = set()
        self._looking = False
        """A timer is set after which the fence, or a server that is away, is looked at again."""
        self._away_until, self._away_pause = 0.0, FIRST_PAUSE_SECONDS
        """The server did not answer: one request goes at this time, by the monotonic clock."""
        self._answered_at = -math.inf

    @property
    def under_way(self) -> int:
        """Writes that were sent and have no answer yet."""
        return len(self._under_way)

    def put(self, writes: Iterable[Write], dropped: Iterable[Write] = ()) -> None:
        """Takes writes, and forgets those that are no longer wanted. One that is under way is not sent again."""
        for write in dropped:
            write.dropped = True
            if write.stage is not Stage.SENT:
                write.stage = Stage.OVER
        for write in writes:
            old, write.replaces = write.replaces, None
            if old is not None and old.stage in (Stage.SENT, Stage.NEW):  # a new one waits for one that is under way
                old.then = write
                old.stage = old.stage if old.stage is Stage.SENT else Stage.OVER
            elif write.stage is Stage.NEW:
                if old is not None:
                    old.stage = Stage.OVER
                self._queue(write)
        self._pump()

    def _queue(self, write: Write) -> None:
        full = isinstance(write.what, Notice) and self.queue.waiting(Rank.EVENT, write.namespace) >= MOST_EVENTS
        write.stage = Stage.OVER if full else Stage.QUEUED
        if not full:
            self.queue.put(write)

    async def close(self, seconds: float) -> None:
        """Waits for what is queued and under way. What is unsent then, the next process does."""
        give_up = time.monotonic() + seconds
        while (self._under_way or (self.queue.count and self._fence.is_open())) and time.monotonic() < give_up:  # noqa: ASYNC110  two things end it
            await asyncio.sleep(0.02)
        for handle in self._sleeping:
            handle.cancel()

    def _pump(self) -> None:
        while self.queue.count and len(self._under_way) < self._limit():
            if not self._fence.is_open():
                self._look_again(FENCE_SECONDS)
                return
            write = self.queue.next()
            if write is None:
                return
            write.stage = Stage.SENT
            task = asyncio.ensure_future(self._send(write))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

        if self.queue.count and self._away_until and not self._under_way:
            self._look_again(self._away_until - time.monotonic())  # a timer may be early by the loop's own clock

    def _look_again(self, seconds: float) -> None:
        if not self._looking:
            self._looking = True
            self._later(max(seconds, 0.001))

    def _limit(self) -> int:
        if not self._away_until:
            return int(self.in_flight.allowed)
        if time.monotonic() < self._away_until:
            return 0
        return 1

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._pump()

    async def _send(self, write: Write) -> None:
        began = time.monotonic()
        done = await self._requests.send(write)
        self._answered(write, done, time.monotonic() - began)
        error, then = done.error, write.then
        self._see_server(error, began)
        pushed_back = error is not None and error.status in PUSHES_BACK
        self.in_flight.answered(time.monotonic() - began, pushed_back=pushed_back, now=time.monotonic())
        while then is not None and then.then is not None:
            then = then.then
        if error is not None and _is_passing(write, error) and then is None and not write.dropped:
            self._again(write, error)
            return
        write.stage = Stage.OVER
        if then is not None and then.stage is Stage.NEW:
            self._queue(then)
        if error is not None and isinstance(write.what, Notice):
            log.debug("an event could not be recorded: %s", error)
        elif error is None or not _is_passing(write, error):
            self._tell(done)

    def _see_server(self, error: ApiError | None, began: float) -> None:
        """A server that has answered others meanwhile is not away: a webhook of one namespace may hang."""
        now = time.monotonic()
        if error is None or error.status:
            self._answered_at = now
        if error is None or (error.status and not isinstance(error, Unreachable)):
            self._away_until, self._away_pause = 0.0, FIRST_PAUSE_SECONDS
        elif not error.status and self._answered_at < began and now >= self._away_until:
            self._away_until = now + self._away_pause
            self._away_pause = min(2 * self._away_pause, LONGEST_PAUSE_SECONDS)

    def _again(self, write: Write, error: ApiError) -> None:
        """Whether it was done is not known, so it is asked for again: doing it twice does no harm."""
        write.tries += 1
        if write.tries == 1:
            log.warning("%s/%s: a request failed and is tried again: %s", write.namespace, write.name, error)
        refused = not isinstance(error, Unreachable | Forbidden)
        first, longest = FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
        first, longest = (longest, LONGEST_REFUSED_SECONDS) if refused else (first, longest)
        pause = min(first * 2.0 ** min(write.tries - 1, 16), longest)
        if refused and (write.tries == 1 or pause == longest):
            self._tell(WriteDone(write, error=error, again=True))
        pause, now = max(pause, error.retry_after_seconds), time.monotonic()
        if error.status == 0 and self._away_until > now:
            pause = self._away_until - now
        write.stage = Stage.QUEUED
        self._later(pause, write)

    def _later(self, seconds: float, write: Write | None = None) -> None:
        def wake() -> None:
            self._sleeping.discard(handle)
            if write is None:
                self._looking = False
            elif write.stage is Stage.QUEUED:
                self.queue.put(write)
            self._pump()

        handle = asyncio.get_running_loop().call_later(seconds, wake)
        self._sleeping.add(handle)


def _is_passing(write: Write, error: ApiError) -> bool:
    """Whether it is asked for again: nobody answered, a right is missing that may be given, a pod must go, or the job
    would not be told at all.
    """
    if isinstance(write.what, Notice):
        return False
    if write.token == AT_REST and not isinstance(error, NotFound):
        return True
    return isinstance(error, Unreachable | Forbidden) or isinstance(write.what, Delete)
