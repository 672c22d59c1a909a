"""Watches that lose changes, go silent, or ask for a version that the server does not have: nothing stays unnoticed."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from aiohttp import web
from fake_api_server import a_list, a_node, change, serving, status, stream
from test_watch import summary

from headway.kube.api.client import KEEP_ALIVE, Client, Patience, _watchful_socket
from headway.kube.api.objects import NodeObject
from headway.kube.api.watch import Follower, Listed


async def follow(client: Client, wanted: int, **settings: float) -> list:
    heard, enough = [], asyncio.Event()

    def tell(news) -> None:
        heard.append(news)
        if len(heard) >= wanted:
            enough.set()

    task = asyncio.create_task(Follower(client, "/nodes", NodeObject, tell, **settings).follow())
    await asyncio.wait_for(enough.wait(), 10)
    task.cancel()
    return heard[:wanted]


def heard_of(handler, wanted: int, patience: dict | None = None, **settings: float) -> list:
    async def main():
        async with serving(handler, **patience or {}) as client:
            return await follow(client, wanted, **settings)

    return asyncio.run(main())


# ── silence ──


def test_a_server_that_says_nothing_any_more_is_left():
    watches = []

    async def handler(request):
        if "watch" not in request.query:
            return a_list([a_node("a")])
        watches.append(float(request.query["timeoutSeconds"]))
        if len(watches) == 1:
            return await stream(request, then="hang")
        return await stream(request, change("ADDED", a_node("b", "11")), then="hang")

    began = time.monotonic()
    news = heard_of(handler, 3, {"watch": 0.2, "late": 0.2})
    assert summary(news) == [["list", "a"], ["watch failed", 0], ["changed", "b"]]
    assert 0.4 <= time.monotonic() - began < 5


def test_silence_is_noticed_within_90_seconds():
    """Silence of the server, also behind a proxy: by the end of a watch. A lost route: by the sockets themselves."""
    asked = []

    async def handler(request):
        asked.append(request.query.get("timeoutSeconds"))
        return a_list([]) if "watch" not in request.query else await stream(request, change("ADDED", a_node("a", "11")))

    heard_of(handler, 2)
    patience = Patience()
    assert asked[1] == str(int(patience.watch))
    assert patience.watch + patience.late <= 90
    assert KEEP_ALIVE["TCP_KEEPIDLE"] + KEEP_ALIVE["TCP_KEEPINTVL"] * KEEP_ALIVE["TCP_KEEPCNT"] <= 90
    with _watchful_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ())) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        found = {name: made.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in KEEP_ALIVE}
    assert found == KEEP_ALIVE


# ── what a watch lost ──


def test_a_change_that_the_watch_lost_is_found_by_the_next_list():
    lists = []

    async def handler(request):
        if "watch" in request.query:
            return await stream(request)
        if request.query["limit"] == "1":
            return a_list([], version="10")
        lists.append(1)
        return a_list([a_node("a", str(len(lists)))])

    news = heard_of(handler, 2, resync=0.3)
    assert summary(news) == [["list", "a"], ["list", "a"]]
    assert [item.objects[0].metadata.resourceVersion for item in news] == ["1", "2"]


def test_the_list_is_not_made_again_before_its_time():
    async def handler(request):
        if "watch" in request.query:
            version = int(request.query["resourceVersion"]) + 1
            return await stream(request, change("MODIFIED", a_node("a", str(version))))
        return a_list([a_node("a")])

    assert summary(heard_of(handler, 5)) == [["list", "a"], *[["changed", "a"]] * 4]


# ── versions that the server does not have ──

TOO_LARGE = {
    "kind": "Status", "code": 504, "reason": "Timeout", "message": "Too large resource version: 10, current: 5",
    "details": {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1},
}  # fmt: skip


@pytest.mark.parametrize("how", ["as an answer", "in the watch", "by a lower version", "silently"])
def test_a_version_from_the_future_is_listed_anew(how):
    """As after etcd was restored from a copy. A real API server lets us watch from there and never says a word."""
    lists = []

    async def handler(request):
        if "watch" not in request.query:
            if request.query["limit"] != "1":
                lists.append(1)
            return a_list([a_node("a")], version="10" if len(lists) < 2 and request.query["limit"] != "1" else "5")
        if len(lists) > 1:
            return await stream(request, change("ADDED", a_node("b", "6")), then="hang")
        match how:
            case "as an answer":
                return web.json_response(TOO_LARGE, status=504)
            case "in the watch":
                return await stream(request, change("ERROR", TOO_LARGE))
            case "by a lower version":
                return await stream(request, change("BOOKMARK", a_node("", "5")), then="hang")
        return await stream(request)

    news = heard_of(handler, 3)
    assert summary(news) == [["list", "a"], ["list", "a"], ["changed", "b"]]
    assert [(item.version, item.went_back) for item in news if isinstance(item, Listed)] == [(10, False), (5, True)]


# ── a server that is busy ──


@pytest.mark.parametrize("where", ["header", "body"])
def test_a_busy_server_is_left_alone_for_as_long_as_it_asks_for(where):
    moments = []

    async def handler(request):
        if "watch" not in request.query:
            return a_list([])
        moments.append(time.monotonic())
        if len(moments) > 1:
            return await stream(request, change("ADDED", a_node("a", "11")), then="hang")
        if where == "header":
            return status(429, **{"Retry-After": "1"})
        return web.json_response({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 1}}, status=429)

    assert summary(heard_of(handler, 3)) == [["list"], ["watch failed", 429], ["changed", "a"]]
    assert moments[1] - moments[0] >= 1.0


def test_a_server_that_is_busy_again_and_again_is_not_asked_for_lists():
    lists, watches = [], []

    async def handler(request):
        if "watch" not in request.query:
            lists.append(1)
            return a_list([])
        watches.append(1)
        return status(429) if len(watches) < 5 else await stream(request, change("ADDED", a_node("a", "11")))

    heard_of(handler, 3)
    assert len(lists) == 1
