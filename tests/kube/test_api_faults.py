"""Requests, watches and their thread under faults: nothing ends in silence, and no job stays busy for ever."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web
from fake_api_server import a_list, a_node, change, serving, stream
from hypothesis import given, settings
from hypothesis import strategies as st
from test_watch import summary

from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.errors import Faulty, KubeError, Unreachable
from headway.kube.api.objects import NodeObject, TrainingJob, cut, depth, is_deeper
from headway.kube.api.watch import Follower, WatchFailed
from headway.kube.gangs.model import Create
from headway.kube.inbox import Inbox, WorkerEnded
from headway.kube.start import read_initial_state
from headway.kube.writes.requests import Requests
from headway.kube.writes.worker import ApiWorker
from headway.kube.writes.write import StatusPatch, Write, WriteDone

NESTED = '{"a": [' * 3000 + "1" + "]}" * 3000
DEEP = f'{{"metadata": {{"name": "deep", "uid": "d", "resourceVersion": "7"}}, "spec": {{"template": {NESTED}}}}}'


async def followed(client, kind, wanted: int) -> list:
    heard, enough = [], asyncio.Event()

    def tell(news) -> None:
        heard.append(news)
        if len(heard) >= wanted:
            enough.set()

    task = asyncio.create_task(Follower(client, "/things", kind, tell).follow())
    await asyncio.wait_for(enough.wait(), 10)
    assert not task.done(), "it goes on"
    task.cancel()
    return heard


# ── too deep to be read ──


@pytest.mark.parametrize(
    ("raw", "levels", "left"),
    [
        (b'{"a": [1, {"b": 2}]}', 9, b'{"a": [1, {"b": 2}]}'),
        (b'{"a": [1, {"b": 2}], "c": {}}', 2, b'{"a": [1, null], "c": {}}'),
        (b'{"a]}": "\\"{[", "b": [[["}"]]]}', 2, b'{"a]}": "\\"{[", "b": [null]}'),
    ],
)
def test_what_is_too_deep_is_cut_out(raw, levels, left):
    assert cut(raw, levels) == left
    assert depth(left) <= levels
    assert json.loads(left) is not None


nested = st.recursive(
    st.sampled_from([1, None, "", "a", '"', "\\", '\\"{[', "]}\n", "\\\\", "\u202e"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(['"', "\\", "{", "a"]), inner, max_size=3)
    ),
)


def without(value, levels: int):
    """The same by reading it."""
    if levels == 0 and isinstance(value, dict | list):
        return None
    if isinstance(value, dict):
        return {key: without(one, levels - 1) for key, one in value.items()}
    return [without(one, levels - 1) for one in value] if isinstance(value, list) else value


@settings(max_examples=100, deadline=None)
@given(nested, st.integers(0, 4))
def test_whatever_is_written_in_texts_the_levels_are_right(value, levels):
    raw = json.dumps(value).encode()
    assert json.loads(cut(raw, levels)) == without(value, levels)
    assert is_deeper(raw, levels) == (without(value, levels) != value)
    assert depth(cut(raw, levels)) <= levels


def test_one_object_of_thousands_of_levels_stops_neither_a_list_nor_a_watch():
    async def handler(request):
        if "watch" not in request.query:
            good = json.dumps(a_node("good"))
            return web.Response(text=f'{{"metadata": {{"resourceVersion": "5"}}, "items": [{DEEP}, {good}]}}')
        return await stream(
            request, f'{{"type": "ADDED", "object": {DEEP}}}', change("ADDED", a_node("b", "8")), then="hang"
        )

    async def main():
        async with serving(handler) as client:
            return await followed(client, TrainingJob, 3)

    news = asyncio.run(main())
    assert summary(news) == [["list", "deep", "good"], ["changed", "deep"], ["changed", "b"]]
    assert depth(bytes(news[0].objects[0].spec)) > 100, "enough is left to see that it is too deep"


# ── watches ──


def test_a_token_that_cannot_be_read_is_trouble_that_passes(tmp_path):
    token = tmp_path / "token"
    token.mkdir()  # reading a folder is an OSError

    async def handler(request):
        assert request.headers["Authorization"] == "Bearer secret"
        return a_list([a_node("a")]) if "watch" not in request.query else await stream(request, then="hang")

    async def main():
        async with serving(handler) as plain:
            url = plain._access.url
            async with Client(Access(url=url, tls=None, token_file=token)) as client:
                with pytest.raises(Unreachable, match="token file"):
                    await client.post("/x", {})
                heard, listed = [], asyncio.Event()

                def tell(news) -> None:
                    heard.append(news)
                    if isinstance(news, WatchFailed):
                        token.rmdir()
                        token.write_text("secret\n")
                    else:
                        listed.set()

                task = asyncio.create_task(Follower(client, "/nodes", NodeObject, tell).follow())
                await asyncio.wait_for(listed.wait(), 10)
                task.cancel()
        return heard

    news = asyncio.run(main())
    assert summary(news) == [["watch failed", 0], ["list", "a"]]
    assert "token file" in str(news[0].error)


def test_a_watch_that_fails_in_a_way_that_nobody_foresaw_starts_again(caplog):
    class Broken:
        """A client that fails once, in the middle of a watch."""

        def __init__(self, real) -> None:
            self.real, self.left = real, 1

        def list_pages(self, path):
            return self.real.list_pages(path)

        async def watch(self, path, version):
            self.left -= 1
            if self.left >= 0:
                raise ZeroDivisionError("unforeseen")
            async for line in self.real.watch(path, version):
                yield line

    async def handler(request):
        return a_list([a_node("a")]) if "watch" not in request.query else await stream(request, then="hang")

    async def main():
        async with serving(handler) as client:
            return await followed(Broken(client), NodeObject, 3)

    assert summary(asyncio.run(main())) == [["list", "a"], ["watch failed", 0], ["list", "a"]]
    assert "ZeroDivisionError" in caplog.text


# ── requests about one job ──


def sent(handler, write: Write) -> tuple[WriteDone, list]:
    """What becomes of a write if the server answers so; and what was asked."""
    asked = []

    async def handle(request):
        asked.append((request.method, request.path, await request.json() if request.can_read_body else None))
        return handler(request)

    async def main():
        async with serving(handle) as client:
            return await Requests(client).send(write)

    return asyncio.run(main()), asked


def a_status(body: dict) -> Write:
    return Write("u1", "team", "j", StatusPatch(), body, uid="u1")


def test_a_text_with_half_a_character_is_sent_without_it():
    _, asked = sent(lambda _: web.json_response({}), a_status({"message": "disk \ud800 full"}))
    assert asked[0][2]["status"] == {"message": "disk ? full"}


def test_a_status_that_cannot_be_written_comes_back_as_a_fault():
    whole: dict = {}
    whole["itself"] = whole
    done, asked = sent(lambda _: web.json_response({}), a_status(whole))
    assert isinstance(done.error, Faulty)
    assert asked == []


def test_an_answer_that_nobody_foresaw_is_tried_again():
    create = Create("j-0-worker-0", "worker", 0, 0, "n0", ())
    done, _ = sent(lambda _: web.Response(body=b'"' + b"\xff" * 9), Write("u1", "team", "j", create))
    assert isinstance(done.error, Unreachable)


# ── the thread ──


def test_a_thread_that_ends_tells_so(monkeypatch):
    monkeypatch.setattr(ApiWorker, "_serve", lambda _self: (_ for _ in ()).throw(ZeroDivisionError("unforeseen")))
    worker = ApiWorker(Access(url="http://127.0.0.1:1", tls=None))
    assert worker.inbox.wait(10)
    message = worker.inbox.next()
    assert isinstance(message, WorkerEnded)
    assert "unforeseen" in message.why
    worker.put([a_status({})])
    worker.dry_run("key", "team", {})
    worker.close()


def test_a_watch_task_that_ends_ends_the_thread(monkeypatch):
    async def ended(_self) -> None:
        return

    monkeypatch.setattr(Follower, "follow", ended)
    worker = ApiWorker(Access(url="http://127.0.0.1:1", tls=None))
    assert worker.inbox.wait(10)
    assert isinstance(worker.inbox.next(), WorkerEnded)
    worker.close()


def test_a_start_whose_thread_has_ended_says_so():
    inbox = Inbox()
    inbox.put(WorkerEnded("no memory"))
    with pytest.raises(KubeError, match="no memory"):
        read_initial_state(inbox, seconds=5)


def test_the_token_file_is_named(tmp_path):
    async def main():
        async with Client(Access(url="http://127.0.0.1:1", tls=None, token_file=Path(tmp_path / "none"))) as client:
            with pytest.raises(Unreachable, match="none"):
                await client.get("/x")

    asyncio.run(main())
