"""The door to the API server: which write goes next, and each until it is answered."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headway.kube.api.errors import ApiError, Conflict, Denied, Forbidden, Invalid, Unreachable
from headway.kube.gangs.model import Bind, Create, Delete
from headway.kube.writes import door as door_module
from headway.kube.writes.door import AT_ONCE, LEAST_AT_ONCE, LOWEST_EVERY, Door, InFlight, WriteQueue
from headway.kube.writes.fence import REQUEST_SECONDS, Fence
from headway.kube.writes.write import Notice, Rank, Stage, StatusPatch, What, Write, WriteDone, rank_of

CREATE = Create("p", "worker", 0, 0, "n1", ())
WHAT: dict[Rank, What] = {
    Rank.BIND: Bind("p", "u", "n"), Rank.DELETE: Delete("p", "u"), Rank.CREATE: CREATE, Rank.STATUS: StatusPatch(),
    Rank.EVENT: Notice(),
}  # fmt: skip


def a_write(rank: Rank = Rank.STATUS, namespace: str = "team", name: str = "j", **fields: Any) -> Write:
    return Write("u", namespace, name, WHAT[rank], rank=rank, **fields)


# ── how many at once ──


def test_requests_in_flight_follow_the_server():
    found = InFlight()
    found.answered(2.0, pushed_back=False, now=10.0)
    assert found.allowed == AT_ONCE / 2, "it is slow"
    found.answered(0.01, pushed_back=False, now=10.5)
    found.answered(9.0, pushed_back=False, now=11.5)
    assert found.allowed >= AT_ONCE / 2, "one request hangs, others do not"
    for second in range(20):
        found.answered(0.0, pushed_back=True, now=20.0 + second)
    assert found.allowed == LEAST_AT_ONCE, "it says so again and again"
    for _ in range(2000):
        found.answered(0.01, pushed_back=False, now=100.0)
    assert found.allowed == AT_ONCE


def test_a_server_that_pushes_back_gets_fewer_at_once_and_loses_nothing():
    async def check() -> None:
        pushes = [Unreachable(429, "slow down")] * 8
        at = AtDoor(Server(*pushes, seconds=0.02))
        at.door.put([a_write(name=f"j{number}") for number in range(100)])
        await at.until(lambda: len(at.done) == 100)
        assert at.door.in_flight.allowed < AT_ONCE
        assert {done.write.name for done in at.done} == {f"j{number}" for number in range(100)}

    asyncio.run(check())


# ── whose turn it is ──


def queued(*writes: Write) -> WriteQueue:
    queue = WriteQueue()
    for write in writes:
        write.stage = Stage.QUEUED
        queue.put(write)
    return queue


def taken(queue: WriteQueue, count: int) -> list[Write]:
    found = [queue.next() for _ in range(count)]
    return [write for write in found if write is not None]


def test_every_kind_of_write_has_its_rank():
    assert {rank_of(what): rank for rank, what in WHAT.items()} == {rank: rank for rank in Rank}


def test_what_is_nearly_done_goes_before_what_is_begun():
    queue = queued(*(a_write(rank) for rank in reversed(Rank)))
    assert [write.rank for write in taken(queue, 6)] == list(Rank)
    assert (queue.count, queue.next()) == (0, None)


def test_namespaces_take_turns_within_a_rank_and_the_first_of_each_is_the_first_to_go():
    queue = queued(
        *(a_write(namespace="a", name=f"a{number}") for number in range(5)),
        *(a_write(namespace=name, name=f"{name}{number}") for number in range(2) for name in "bc"),
    )
    assert [write.name for write in taken(queue, 9)] == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "a3", "a4"]


def test_a_crowd_keeps_nobody_waiting():
    queue = queued(*(a_write(namespace="crowd") for _ in range(10_000)), a_write(namespace="one"))
    assert "one" in [write.namespace for write in taken(queue, 2)]
    queue = queued(*(a_write(Rank.EVENT, "crowd") for _ in range(10_000)), a_write(Rank.BIND, "one"))
    assert taken(queue, 1)[0].namespace == "one"


def test_each_sixteenth_turn_is_the_lowest_ranks_so_that_nothing_waits_for_ever():
    queue = queued(
        *(a_write(Rank.BIND, name=f"b{number}") for number in range(100)),
        *(a_write(Rank.CREATE) for _ in range(3)), *(a_write(Rank.EVENT) for _ in range(3)),
    )  # fmt: skip
    ranks = [write.rank for write in taken(queue, 96)]
    assert [turn for turn, rank in enumerate(ranks, 1) if rank is not Rank.BIND] == [
        LOWEST_EVERY * turn for turn in range(1, 7)
    ]
    assert Counter(ranks) == {Rank.BIND: 90, Rank.EVENT: 3, Rank.CREATE: 3}


def test_what_is_no_longer_wanted_is_passed_over():
    dropped, kept = a_write(name="dropped"), a_write(name="kept")
    queue = queued(dropped, kept)
    dropped.stage = Stage.OVER
    assert queue.next() is kept
    assert queue.next() is None
    assert (queue.count, queue.waiting(Rank.STATUS, "team")) == (0, 0)


# ── the door ──

Answer = ApiError | None


class Server:
    """Stands in for the requests: answers as the test says, and counts what is under way."""

    def __init__(self, *answers: Answer, seconds: float = 0.0) -> None:
        self.answers, self.seconds = list(answers), seconds
        self.sent: list[tuple[float, Write]] = []
        self.under_way = self.most = 0
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, write: Write) -> WriteDone:
        assert write.stage is Stage.SENT
        self.sent.append((time.monotonic(), write))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.open.wait()
        await asyncio.sleep(self.seconds)
        self.under_way -= 1
        error = self.answers.pop(0) if self.answers else None
        return WriteDone(write, error=error)

    @property
    def names(self) -> list[str]:
        return [write.name for _, write in self.sent]


class AtDoor:
    def __init__(self, server: Server, fence: Fence | None = None) -> None:
        self.server, self.done = server, list[WriteDone]()
        self.door = Door(server, fence or Fence(), self.done.append)  # type: ignore[arg-type]

    async def until(self, holds: Callable[[], bool], seconds: float = 5.0) -> None:
        give_up = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < give_up, (self.server.names, self.done)
            await asyncio.sleep(0.002)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(door_module, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(door_module, "LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(door_module, "FENCE_SECONDS", 0.02)


def test_so_many_are_under_way_at_once_and_each_is_answered_once():
    async def check() -> None:
        at = AtDoor(Server(seconds=0.001))
        writes = [a_write(name=f"j{number}") for number in range(200)]
        at.door.put(writes)
        assert at.door.under_way == AT_ONCE
        await at.until(lambda: len(at.done) == 200 and not at.door.under_way)
        assert at.server.most == AT_ONCE
        assert Counter(at.server.names) == Counter(write.name for write in writes)
        assert {write.stage for write in writes} == {Stage.OVER}

    asyncio.run(check())


@pytest.mark.parametrize(
    "error",
    [Unreachable(429, "slow down"), Unreachable(503, "restarting"), Forbidden(403, "a right that may yet be given")],
)
def test_a_request_that_failed_is_sent_again_after_pauses_that_grow_until_it_is_answered(error, caplog):
    async def check() -> None:
        at = AtDoor(Server(*[error] * 5))
        at.door.put([a_write(Rank.CREATE), a_write(Rank.STATUS, name="other")])
        await at.until(lambda: len(at.done) == 2)
        times = [moment for moment, write in at.server.sent if write.name == at.done[-1].write.name]
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert len(at.server.sent) == 7
        assert all(done.error is None for done in at.done), "who asked hears of the end alone"
        for pause, at_least in zip(pauses, (0.02, 0.04, 0.08, 0.1), strict=False):
            assert pause >= 0.9 * at_least
        assert caplog.text.count("a request failed and is tried again") == 2, "once each"

    asyncio.run(check())


@pytest.mark.parametrize(("status", "fewer"), [(429, True), (503, True), (504, True), (500, False), (502, False)])
def test_a_webhook_of_one_tenant_that_fails_slows_nobody_else(status, fewer):
    async def check() -> None:
        at = AtDoor(Server(*[Unreachable(status, "failed calling webhook")] * 4))
        at.door.put([a_write(Rank.CREATE, name=f"j{number}") for number in range(8)])
        await at.until(lambda: len(at.done) == 8)
        assert (at.door.in_flight.allowed < AT_ONCE) is fewer

    asyncio.run(check())


def test_the_server_says_when_to_ask_again():
    async def check() -> None:
        at = AtDoor(Server(Unreachable(429, "slow down", 0.3)))
        at.door.put([a_write()])
        await at.until(lambda: bool(at.done))
        (first, _), (second, _) = at.server.sent
        assert second - first >= 0.29

    asyncio.run(check())


def test_what_the_server_refuses_is_an_answer_and_not_sent_again():
    async def check() -> None:
        at = AtDoor(Server(Invalid(422, "no"), Conflict(409, "not now")))
        at.door.put([a_write(Rank.CREATE), a_write(Rank.BIND)])
        await at.until(lambda: len(at.done) == 2)
        await asyncio.sleep(0.1)
        assert len(at.server.sent) == 2
        assert {type(done.error) for done in at.done} == {Invalid, Conflict}

    asyncio.run(check())


def test_a_server_that_is_away_gets_one_request_at_a_time_until_it_answers():
    async def check() -> None:
        dead = Unreachable(0, "no route")
        at = AtDoor(Server(*[dead] * (AT_ONCE + 4)))
        at.door.put([a_write(name=f"j{number}") for number in range(300)])
        await at.until(lambda: len(at.server.sent) >= AT_ONCE + 4)
        probes = [moment for moment, _ in at.server.sent[AT_ONCE : AT_ONCE + 4]]
        pauses = [later - earlier for earlier, later in itertools.pairwise(probes)]
        assert all(pause >= 0.015 for pause in pauses), "one probe, and a pause"
        assert pauses == sorted(pauses) or max(pauses) < 0.2
        at.server.most = 0
        await at.until(lambda: len(at.done) == 300)
        assert at.server.most > 1, "it is back, and all go on"
        assert Counter(done.write.name for done in at.done) == Counter(f"j{number}" for number in range(300))

    asyncio.run(check())


def test_a_server_that_answers_others_is_not_away_though_one_namespace_gets_no_answer():
    """A webhook of one namespace hangs until our time is over. Nobody else waits for that."""

    class Hangs(Server):
        async def send(self, write: Write) -> WriteDone:
            if write.namespace != "hangs":
                return await super().send(write)
            self.sent.append((time.monotonic(), write))
            await asyncio.sleep(0.05)
            return WriteDone(write, error=Unreachable(0, "time-out"))

    async def check() -> None:
        at = AtDoor(Hangs(seconds=0.001))
        at.door.put([a_write(Rank.CREATE, "hangs") for _ in range(8)])
        pauses = []
        for _ in range(100):
            began, count = time.monotonic(), len(at.done)
            at.door.put([a_write()])
            await at.until(lambda count=count: len(at.done) > count)  # type: ignore[misc]
            pauses.append(time.monotonic() - began)
        assert sorted(pauses)[95] < 0.04, "the door is not held up"
        assert at.door._away_until == 0.0
        await at.door.close(0.0)

    asyncio.run(check())


def test_events_do_not_storm_a_server_that_is_away():
    async def check() -> None:
        at = AtDoor(Server(*[Unreachable(0, "no route")] * 1000))
        at.door.put([a_write(Rank.EVENT) for _ in range(500)])
        await asyncio.sleep(0.25)
        assert len(at.server.sent) < AT_ONCE + 12
        at.server.answers.clear()
        await at.until(lambda: at.door.queue.count == 0)

    asyncio.run(check())


def test_an_event_is_tried_once_and_nobody_hears_of_it():
    async def check() -> None:
        at = AtDoor(Server(Unreachable(503, "restarting"), Invalid(422, "no")))
        at.door.put([a_write(Rank.EVENT), a_write(Rank.EVENT)])
        await at.until(lambda: len(at.server.sent) == 2)
        await asyncio.sleep(0.1)
        assert (len(at.server.sent), at.done) == (2, [])

    asyncio.run(check())


def test_of_one_namespace_only_so_many_events_wait(monkeypatch):
    monkeypatch.setattr(door_module, "MOST_EVENTS", 3)

    async def check() -> None:
        at = AtDoor(Server())
        at.server.open.clear()
        at.door.put([a_write(Rank.STATUS) for _ in range(AT_ONCE)])
        events = [a_write(Rank.EVENT) for _ in range(10)]
        at.door.put([*events, a_write(Rank.EVENT, "other")])
        assert [write.stage for write in events] == [Stage.QUEUED] * 3 + [Stage.OVER] * 7
        at.server.open.set()
        await at.until(lambda: len(at.server.sent) == AT_ONCE + 4)

    asyncio.run(check())


def test_a_replaced_status_is_sent_once_with_its_newest_body():
    async def check() -> None:
        at = AtDoor(Server())
        at.server.open.clear()
        at.door.put([a_write(Rank.CREATE) for _ in range(AT_ONCE)])
        await at.until(lambda: len(at.server.sent) == AT_ONCE)
        last = None
        for number in range(4):
            status = a_write(body={"number": number}, replaces=last)
            at.door.put([status])
            last = status
        assert len(at.server.sent) == AT_ONCE, "the door is full"
        at.server.open.set()
        await at.until(lambda: len(at.done) == AT_ONCE + 1)
        await asyncio.sleep(0.02)
        assert [write.body for _, write in at.server.sent if write.rank is Rank.STATUS] == [{"number": 3}]

    asyncio.run(check())


def test_a_status_comes_after_the_one_under_way_and_those_between_are_left_out():
    async def check() -> None:
        at = AtDoor(Server())
        at.server.open.clear()
        first = a_write(body={"number": 0})
        at.door.put([first])
        await at.until(lambda: first.stage is Stage.SENT)
        second = a_write(body={"number": 1}, replaces=first)
        third = a_write(body={"number": 2}, replaces=second)
        at.door.put([second])
        at.door.put([third])
        await asyncio.sleep(0.02)
        assert len(at.server.sent) == 1, "never two of one job at once"
        at.server.open.set()
        await at.until(lambda: len(at.done) == 2)
        await asyncio.sleep(0.02)
        assert [write.body["number"] for _, write in at.server.sent] == [0, 2]

    asyncio.run(check())


def test_a_status_that_failed_is_not_sent_again_where_a_newer_one_waits():
    async def check() -> None:
        at = AtDoor(Server(Unreachable(503, "restarting")))
        at.server.open.clear()
        first = a_write(body={"number": 0})
        at.door.put([first])
        await at.until(lambda: first.stage is Stage.SENT)
        at.door.put([a_write(body={"number": 1}, replaces=first)])
        at.server.open.set()
        await at.until(lambda: len(at.done) == 1)
        await asyncio.sleep(0.1)
        assert [write.body["number"] for _, write in at.server.sent] == [0, 1]

    asyncio.run(check())


def test_a_status_that_rests_after_a_failure_is_replaced_too():
    async def check() -> None:
        at = AtDoor(Server(Unreachable(503, "restarting", 0.2)))
        first = a_write(body={"number": 0})
        at.door.put([first])
        await at.until(lambda: first.stage is Stage.QUEUED and len(at.server.sent) == 1)
        at.door.put([a_write(body={"number": 1}, replaces=first)])
        await at.until(lambda: len(at.done) == 1)
        await asyncio.sleep(0.3)
        assert [write.body["number"] for _, write in at.server.sent] == [0, 1]

    asyncio.run(check())


def test_what_is_dropped_is_not_sent_unless_it_is_under_way():
    async def check() -> None:
        at = AtDoor(Server())
        at.server.open.clear()
        sent = [a_write(Rank.CREATE) for _ in range(AT_ONCE)]
        at.door.put(sent)
        waits, late = a_write(name="waits"), a_write(name="late")
        at.door.put([waits])
        at.door.put([late], [waits, sent[0], late])
        at.server.open.set()
        await at.until(lambda: len(at.done) == AT_ONCE)
        await asyncio.sleep(0.02)
        assert len(at.server.sent) == AT_ONCE, "also one that was dropped before it came"
        assert sent[0] in [done.write for done in at.done], "what is under way is answered"

    asyncio.run(check())


def test_what_rests_after_a_failure_is_dropped_too():
    async def check() -> None:
        at = AtDoor(Server(Unreachable(503, "restarting")))
        write = a_write()
        at.door.put([write])
        await at.until(lambda: write.stage is Stage.QUEUED and len(at.server.sent) == 1)
        at.door.put([], [write])
        await asyncio.sleep(0.1)
        assert (len(at.server.sent), at.done) == (1, [])

    asyncio.run(check())


@pytest.mark.parametrize(
    "error",
    [Unreachable(0, "time-out"), Unreachable(429, "slow down"), Unreachable(503, "restarting"), Denied(403, "no")],
)
def test_what_is_dropped_while_it_is_under_way_is_not_sent_again(error):
    """A delete that nobody wants any more, because its gang goes on."""

    async def check() -> None:
        at = AtDoor(Server(error))
        at.server.open.clear()
        write = a_write(Rank.DELETE)
        at.door.put([write])
        await at.until(lambda: write.stage is Stage.SENT)
        at.door.put([], [write])
        at.server.open.set()
        await at.until(lambda: write.stage is Stage.OVER)
        await asyncio.sleep(0.2)
        assert (len(at.server.sent), at.done) == (1, [])

    asyncio.run(check())


def test_a_delete_that_the_server_refuses_is_told_and_asked_for_again_ever_more_slowly(monkeypatch):
    """A pod must go. A rule of the cluster may say otherwise for days."""
    monkeypatch.setattr(door_module, "LONGEST_REFUSED_SECONDS", 0.3)

    async def check() -> None:
        at = AtDoor(Server(*[Denied(403, "no deletes on Fridays")] * 5))
        at.door.put([a_write(Rank.DELETE)])
        await at.until(lambda: len(at.server.sent) == 6)
        pauses = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(at.server.sent)]
        for pause, at_least in zip(pauses, (0.1, 0.2, 0.3, 0.3, 0.3), strict=True):
            assert pause >= 0.9 * at_least
        await at.until(lambda: at.done[-1].error is None)
        told = [done for done in at.done if done.again]
        assert [str(done.error) for done in told] == ["no deletes on Fridays"] * 4, (
            "first, and then every longest pause"
        )

    asyncio.run(check())


# ── the fence ──


def test_the_fence_is_open_while_a_request_still_arrives_in_time():
    clock = [100.0]
    fence = Fence(clock=lambda: clock[0])
    assert fence.is_open()
    fence.renew(clock[0], 30.0)
    for now, is_open in ((100.0, True), (130.0 - REQUEST_SECONDS - 0.1, True), (130.0 - REQUEST_SECONDS, False)):
        clock[0] = now
        assert fence.is_open() is is_open, now
    fence.renew(clock[0], 30.0)
    assert fence.is_open()
    fence.close()
    assert not fence.is_open()


def test_while_the_fence_is_closed_nothing_leaves():
    async def check() -> None:
        fence = Fence()
        fence.close()
        at = AtDoor(Server(), fence)
        at.door.put([a_write(rank) for rank in Rank])
        await asyncio.sleep(0.1)
        assert at.server.sent == []
        fence.renew(time.monotonic(), 60.0)
        await at.until(lambda: len(at.server.sent) == len(Rank))
        assert [write.rank for _, write in at.server.sent] == list(Rank)

    asyncio.run(check())


def test_while_the_fence_is_closed_it_is_looked_at_now_and_then_only():
    """However many writes wait, and whatever else happens at the door."""
    looks = 0

    async def check() -> None:
        nonlocal looks

        def clock() -> float:
            nonlocal looks
            looks += 1
            return 100.0

        fence = Fence(deadline=0.0, clock=clock)
        at = AtDoor(Server(), fence)
        at.door.put([a_write(Rank.BIND) for _ in range(50)])
        for _ in range(50):
            at.door.put([a_write()])
            await asyncio.sleep(0.002)
        before = looks
        await asyncio.sleep(0.2)
        assert looks - before <= 2 * (0.2 / 0.02) + 4

    asyncio.run(check())


def test_a_door_that_closes_waits_for_what_is_under_way_and_begins_nothing():
    async def check() -> None:
        at = AtDoor(Server(seconds=0.05))
        at.door.put([a_write() for _ in range(AT_ONCE)])
        await at.until(lambda: len(at.server.sent) == AT_ONCE)
        await at.door.close(5.0)
        assert len(at.done) == AT_ONCE

    asyncio.run(check())
