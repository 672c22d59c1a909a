"""Namespaces take turns at the API server: nobody waits behind the thousands of another."""

from __future__ import annotations

import asyncio

from headway.kube.writes.worker import Turns


async def _order(most: int, wanted: list[str]) -> list[str]:
    """In which order requests of these namespaces are made, if each takes one round of the event loop."""
    turns, made = Turns(most), list[str]()

    async def request(namespace: str) -> None:
        async with turns.of(namespace):
            made.append(namespace)
            await asyncio.sleep(0)

    await asyncio.gather(*(request(namespace) for namespace in wanted))
    return made


def test_a_namespace_waits_for_one_of_each_other_not_for_all():
    made = asyncio.run(_order(2, ["a"] * 1000 + ["b", "b", "c"]))
    assert len(made) == 1003
    assert [number for number, one in enumerate(made) if one != "a"] == [3, 4, 6]


def test_of_one_namespace_the_first_is_the_first():
    async def numbers() -> list[int]:
        turns, made = Turns(1), list[int]()

        async def request(number: int) -> None:
            async with turns.of("a"):
                made.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(*(request(number) for number in range(50)))
        return made

    assert asyncio.run(numbers()) == list(range(50))


def test_no_more_than_allowed_are_under_way_and_a_request_that_is_given_up_keeps_no_turn():
    async def check() -> None:
        turns, under_way, most = Turns(3), 0, 0

        async def request() -> None:
            nonlocal under_way, most
            async with turns.of("a"):
                under_way += 1
                most = max(most, under_way)
                try:
                    await asyncio.sleep(0.001)
                finally:
                    under_way -= 1

        tasks = [asyncio.create_task(request()) for _ in range(40)]
        await asyncio.sleep(0)
        assert turns.waiting("a") == 37
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (most, under_way, turns.waiting("a")) == (3, 0, 0)
        await asyncio.gather(*(request() for _ in range(3)))
        assert turns._free == 3

    asyncio.run(check())


def test_a_request_that_fails_gives_its_turn_on():
    async def check() -> None:
        turns = Turns(1)

        async def fails() -> None:
            async with turns.of("a"):
                raise ValueError

        await asyncio.gather(*(fails() for _ in range(5)), return_exceptions=True)
        assert turns._free == 1

    asyncio.run(check())
