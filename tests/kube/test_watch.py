"""Lists and watches against a server that pages, forgets versions, breaks off and sends invalid JSON."""

from __future__ import annotations

import asyncio
import logging

import pytest
from fake_api_server import a_list, a_node, change, serving, status, stream

from headway.kube.api.objects import NodeObject
from headway.kube.api.watch import Changed, Deleted, Follower, Listed, WatchFailed


async def follow(client, wanted: int) -> list:
    """The first messages, as many as wanted."""
    heard: list = []
    enough = asyncio.Event()

    def tell(news) -> None:
        heard.append(news)
        if len(heard) >= wanted:
            enough.set()

    task = asyncio.create_task(Follower(client, "/nodes", NodeObject, tell).follow())
    await asyncio.wait_for(enough.wait(), 10)
    task.cancel()
    return heard[:wanted]


def summary(news: list) -> list:
    names = []
    for item in news:
        match item:
            case Listed(objects=objects):
                names.append(["list", *(found.metadata.name for found in objects)])
            case Changed(object=found):
                names.append(["changed", found.metadata.name])
            case Deleted(object=found):
                names.append(["deleted", found.metadata.name])
            case WatchFailed(error=error):
                names.append(["watch failed", error.status])
    return names


def test_lists_come_in_pages_and_watches_go_on_from_the_last_version():
    watched = []

    async def handler(request):
        if "watch" not in request.query:
            if "continue" not in request.query:
                return a_list([a_node("a")], token="more")
            assert request.query["continue"] == "more"
            return a_list([a_node("b")], version="10")
        watched.append(request.query["resourceVersion"])
        if len(watched) == 1:
            return await stream(request, change("ADDED", a_node("c", "11")), change("BOOKMARK", a_node("", "20")))
        return await stream(request, change("DELETED", a_node("a", "21")), then="hang")

    async def main():
        async with serving(handler) as client:
            return await follow(client, 3)

    news = asyncio.run(main())
    assert summary(news) == [["list", "a", "b"], ["changed", "c"], ["deleted", "a"]]
    assert watched == ["10", "20"]


@pytest.mark.parametrize("how", ["in the watch", "as an answer"])
def test_a_version_that_is_too_old_is_listed_anew(how):
    lists = []

    async def handler(request):
        if "watch" not in request.query:
            lists.append(1)
            return a_list([a_node(f"n{len(lists)}")])
        if len(lists) > 1:
            return await stream(request, change("MODIFIED", a_node("n2", "12")), then="hang")
        if how == "as an answer":
            return status(410)
        return await stream(request, change("ERROR", {"kind": "Status", "code": 410, "message": "too old"}))

    async def main():
        async with serving(handler) as client:
            return await follow(client, 3)

    assert summary(asyncio.run(main())) == [["list", "n1"], ["list", "n2"], ["changed", "n2"]]


@pytest.mark.parametrize("away", [1, 3])
def test_a_lost_server_is_tried_again_and_said_once(caplog, away):
    """After a moment the watch goes on where it was; a server that was away longer may have other data: a list."""
    requests = []

    async def handler(request):
        requests.append(request.query.get("resourceVersion", "list"))
        if len(requests) == 1:
            return a_list([a_node("a")])
        if len(requests) == 2:
            return await stream(request, change("ADDED", a_node("b", "11")), then="break")
        if len(requests) <= 1 + away:
            return status(503)
        if "watch" not in request.query:
            return a_list([a_node("a"), a_node("b", "11")], version="11")
        return await stream(request, change("ADDED", a_node("c", "12")), then="hang")

    async def main():
        async with serving(handler) as client:
            return await follow(client, 4 if away == 1 else 5)

    with caplog.at_level(logging.INFO, "headway.kube"):
        news = asyncio.run(main())
    again = [] if away == 1 else [["list", "a", "b"]]
    assert summary(news) == [["list", "a"], ["changed", "b"], ["watch failed", 0], *again, ["changed", "c"]]
    if away == 1:
        assert requests == ["list", "10", "11"], "it goes on where it was"
    assert len([record for record in caplog.records if "trying again" in record.message]) == 1


def test_what_cannot_be_read_is_passed_over_with_one_line(caplog):
    bad = {"metadata": {"name": "bad", "resourceVersion": "11"}, "status": {"conditions": "none"}}

    async def handler(request):
        if "watch" not in request.query:
            return a_list([bad, a_node("good")])
        return await stream(request, change("MODIFIED", bad), change("MODIFIED", a_node("good", "12")), then="hang")

    async def main():
        async with serving(handler) as client:
            return await follow(client, 2)

    assert summary(asyncio.run(main())) == [["list", "good"], ["changed", "good"]]
    assert len([record for record in caplog.records if "'bad'" in record.message]) == 1


def test_a_watch_that_sends_invalid_json_is_closed():
    tries = []

    async def handler(request):
        if "watch" not in request.query:
            return a_list([])
        tries.append(1)
        if len(tries) == 1:
            return await stream(request, "<html>")
        return await stream(request, change("ADDED", a_node("a", "11")), then="hang")

    async def main():
        async with serving(handler) as client:
            return await follow(client, 3)

    assert summary(asyncio.run(main())) == [["list"], ["watch failed", 0], ["changed", "a"]]


def test_very_long_lines_are_read():
    long = a_node("long", "11")
    long["metadata"]["annotations"] = {"a": "x" * 3_000_000}

    async def handler(request):
        if "watch" not in request.query:
            return a_list([])
        return await stream(request, change("ADDED", long), then="hang")

    async def main():
        async with serving(handler) as client:
            return await follow(client, 2)

    assert summary(asyncio.run(main())) == [["list"], ["changed", "long"]]
