"""The Service to which training reports: it leads to the scheduler of the highest epoch, whatever thaws or deletes."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from fake_api_server import serving, status

from headway.kube.writes import service as module
from headway.kube.writes.fence import Fence
from headway.kube.writes.service import ProgressService

EPOCH = "headway.dev/epoch"


class Slices:
    """The EndpointSlices of an API server."""

    def __init__(self) -> None:
        self.found: dict | None = None
        self.writes = 0
        self.refuses = False

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return status(404) if self.found is None else web.json_response(self.found)
        self.writes += 1
        if self.refuses:
            return status(403, "no right")
        body, there = json.loads(await request.text()), self.found
        if (request.method == "POST") != (there is None):
            return status(409)
        if there is not None and body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]:
            return status(409)
        body["metadata"]["resourceVersion"] = str(self.writes)
        self.found = body
        return web.json_response(body)

    @property
    def leads_to(self) -> tuple[str, str]:
        return self.found["endpoints"][0]["addresses"][0], self.found["metadata"]["annotations"][EPOCH]


def point(slices: Slices, address: str, epoch: int, fence: Fence | None = None) -> None:
    async def main() -> None:
        async with serving(slices.answer) as client:
            await ProgressService("sys", "headway-progress", address, 7077).point(client, fence or Fence(epoch))

    asyncio.run(main())


def test_it_leads_to_the_highest_epoch_and_is_written_once():
    slices = Slices()
    point(slices, "10.0.0.1", 3)
    assert slices.leads_to == ("10.0.0.1", "3")
    assert slices.found["metadata"]["labels"]["kubernetes.io/service-name"] == "headway-progress"
    point(slices, "10.0.0.1", 3)
    assert slices.writes == 1, "it is there"
    point(slices, "10.0.0.2", 4)
    assert slices.leads_to == ("10.0.0.2", "4")
    point(slices, "10.0.0.1", 3)
    assert slices.leads_to == ("10.0.0.2", "4"), "an older leader that thaws"


def test_past_the_deadline_nothing_is_written():
    fence, slices = Fence(3), Slices()
    fence.close()
    point(slices, "10.0.0.1", 3, fence)
    assert slices.found is None


def test_what_somebody_changed_or_an_older_release_made_is_written_over():
    slices = Slices()
    point(slices, "10.0.0.1", 3)
    slices.found["endpoints"] = None
    point(slices, "10.0.0.1", 3)
    assert slices.leads_to == ("10.0.0.1", "3")
    del slices.found["metadata"]["annotations"]
    point(slices, "10.0.0.1", 3)
    assert slices.leads_to == ("10.0.0.1", "3")


@pytest.mark.parametrize("trouble", ["deleted", "refused"])
def test_it_is_looked_at_again_and_again(monkeypatch, caplog, trouble):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    slices = Slices()
    slices.refuses = trouble == "refused"

    async def main() -> None:
        async with serving(slices.answer) as client:
            task = asyncio.create_task(
                ProgressService("sys", "headway-progress", "10.0.0.1", 7077).keep(client, Fence(3))
            )
            async with asyncio.timeout(10):
                while slices.writes < 3 and (trouble == "refused" or slices.found is None):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                slices.found, slices.refuses = None, False
                while slices.found is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            task.cancel()

    asyncio.run(main())
    assert slices.leads_to == ("10.0.0.1", "3")
    assert caplog.text.count("cannot be written, trying again: no right") == (trouble == "refused")
