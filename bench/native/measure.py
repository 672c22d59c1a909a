"""What is measured in one lab: the ceiling first, then one thing by one contender.

Throughput: all pods wait before the scheduler starts; pods per second from the first binding to the last. Latency:
pods (or gangs) come at a steady rate to an empty cluster; from the API server's answer to the moment a watch shows
the binding. Contention: gangs for twice as many GPUs as there are. A gang works only when it is whole; whole ones
finish and make room. A gang is half-started if, when nothing moves any more, some of its pods hold GPUs and others
wait; deadlocked ones are those that are half-started in the end, when no whole gang is left to make room.
"""

from __future__ import annotations

import asyncio
import functools
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from client import PODS, Client, say
from contenders import CONTENDERS, Contender
from cores import Usage, idle, others, process_seconds, spent
from rows import Row

from headway.lab import Lab, LabError
from workload import Gang

Made = Callable[[Gang], list[dict[str, Any]]] | None


async def ceiling(lab: Lab, row: Row, nodes: int, work: list[Gang], made: Made = None) -> None:
    """The same bindings posted by a bare client with a pod watch running; the scheduler is down meanwhile.

    With `made` it also makes these pods.
    """
    plain = CONTENDERS["native"]
    names = [pod for gang in work for pod in gang.members]
    bodies = {pod["metadata"]["name"]: pod for gang in work for pod in made(gang)} if made else {}
    async with Client(lab) as client:
        plain.hold(lab)
        if not made:
            await plain.submit(client, work)
        await idle(lab)
        before = Usage.of(lab)
        pairs = [(name, f"sim-{1 + number % nodes:05}") for number, name in enumerate(names)]

        async def place(pair: tuple[str, str]) -> None:
            if made:
                await client.request("POST", PODS, bodies[pair[0]])
            await client.bind(*pair)

        await client.each(place, pairs)
        await client.settle(10, lambda: len(client.bound_at) == len(names))
        after = Usage.of(lab)
        row.ceiling, row.ceiling_cpu_ms = rate(client.bound_at.values()), spent(before, after, len(client.bound_at))
        row.others_at_ceiling = others(before, after)
        say(f"  ceiling {row.ceiling or 0:.0f} pods/s, others used {row.others_at_ceiling:.2f} cores")
        await client.delete_all()
    plain.release(lab)
    say(f"  clear and at rest after {await idle(lab):.0f} s")


async def throughput(lab: Lab, contender: Contender, row: Row, work: list[Gang], at_most: float) -> None:
    async with Client(lab) as client:
        contender.hold(lab)
        await contender.submit(client, work)
        await contender.prepared(client, len(work))
        await idle(lab)
        before = Usage.of(lab)
        released, listed = time.monotonic(), list[float]()
        contender.release(lab)

        def begun() -> bool:
            if contender.headway and not listed and contender.has_listed():
                listed.append(time.monotonic() - released)
            return bool(client.bound_at)

        await client.settle(at_most, begun, at_most)  # some plan long before they begin
        left = released + at_most - time.monotonic()
        await client.settle(contender.quiet, lambda: len(client.bound_at) == row.pods, left)
        after, used = Usage.of(lab), sum(process_seconds(pid) for pid in contender.pids(lab))
        if contender.headway:
            after = after.with_more(used)
        row.scheduler_cpu_ms = 1000 * used / max(1, len(client.bound_at))
        row.listed_seconds = listed[0] if listed else None
        if contender.made:
            row.running_seconds = await all_running(client, contender, work, released)
        contender.end(lab)
        check_alive(lab)
        times = sorted(client.bound_at.values())
        row.bound, row.pods_per_second = len(times), rate(times)
        row.cpu_ms, row.others = spent(before, after, row.bound), others(before, after)
        if times:
            row.first_seconds, row.last_seconds = times[0] - released, times[-1] - released


async def latency(lab: Lab, contender: Contender, row: Row, work: list[Gang], per_second: float) -> None:
    """Latency of a gang's pods counts from its last pod's creation: before that nobody could place it."""
    async with Client(lab) as client:
        created: dict[str, float] = {}
        began, due, before = time.monotonic(), 0.0, Usage.of(lab)
        for gang in work:
            await contender.submit(client, [gang])
            created |= dict.fromkeys(gang.members, time.monotonic())
            due += gang.size / per_second
            await asyncio.sleep(max(0, began + due - time.monotonic()))
        row.arrived_per_second = row.pods / (time.monotonic() - began)
        await client.settle(contender.quiet, lambda: len(client.bound_at) == row.pods)
        check_alive(lab)
        row.others = others(before, Usage.of(lab))
        waits = sorted(1000 * max(0, at - created[pod]) for pod, at in client.bound_at.items())
        row.bound = len(waits)
        if len(waits) > 1:
            cuts = statistics.quantiles(waits, n=100)
            row.p50_ms, row.p99_ms = cuts[49], cuts[98]


async def contention(lab: Lab, contender: Contender, row: Row, work: list[Gang], gpus: int) -> None:
    async with Client(lab) as client:
        contender.hold(lab)
        await contender.submit(client, work)
        await contender.prepared(client, len(work))
        contender.release(lab)
        left, row.gangs, row.finished = list(work), len(work), 0
        before = Usage.of(lab)
        while True:
            done = functools.partial(stuck, left, client.bound_at, gpus, gangs=contender.gangs)
            await client.settle(contender.quiet, done)
            whole, partial = sort(left, client.bound_at)
            row.half_started = len(partial) if row.half_started is None else row.half_started
            if not whole:
                break
            row.finished += len(whole)
            say(f"  {row.finished} of {row.gangs} gangs finished")
            left = [gang for gang in left if gang not in whole]
            await contender.clear(client, whole)
        check_alive(lab)
        row.others = others(before, Usage.of(lab))
        row.deadlocked = len(partial)
        row.bound = sum(pod in client.bound_at for gang in left for pod in gang.members)


async def all_running(
    client: Client, contender: Contender, work: list[Gang], since: float, seconds: float = 120.0
) -> float | None:
    """Seconds until the status of every job says that it runs; None if that is not so in time."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if await contender.all_run(client, work):
            return time.monotonic() - since
        await asyncio.sleep(0.5)
    return None


def check_alive(lab: Lab) -> None:
    """A part that could not start again, its port taken by another lab, must not pass for a slow scheduler."""
    for part in lab.status().parts:
        if not part.alive:
            raise LabError(f"{part.name} has ended, so the row does not count: {last_line(Path(part.log))}")


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:300] if lines else "its log is empty"


def stuck(left: list[Gang], bound: Iterable[str], gpus: int, *, gangs: bool) -> bool:
    """Whether certainly nothing more is bound before a gang finishes: none waits, or there is no room for any."""
    known = set(bound)
    free = gpus - len(known)
    whole, partial = sort(left, known)
    if free == 0 or len(whole) == len(left):
        return True
    waiting = [gang.size for gang in left if gang not in whole]
    return gangs and not partial and min(waiting) > free


def sort(gangs: Iterable[Gang], bound: Iterable[str]) -> tuple[list[Gang], list[Gang]]:
    """The gangs of which every pod is bound, and those of which only some are."""
    known = set(bound)
    whole, partial = [], []
    for gang in gangs:
        there = sum(pod in known for pod in gang.members)
        if there == gang.size:
            whole.append(gang)
        elif there:
            partial.append(gang)
    return whole, partial


def rate(times: Iterable[float]) -> float | None:
    """Per second between the first and the last."""
    ordered = sorted(times)
    return (len(ordered) - 1) / (ordered[-1] - ordered[0]) if len(ordered) > 1 else None
