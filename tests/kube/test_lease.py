"""One scheduler writes: a second one ends with a sentence, and one that was frozen for too long sends nothing more."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from aiohttp import web
from fake_api_server import serving, status

from headway.kube.api.errors import KubeError
from headway.kube.writes import lease as module
from headway.kube.writes.fence import Fence
from headway.kube.writes.lease import SchedulerLease, identity, is_dead


class Leases:
    """The Leases of an API server."""

    def __init__(self, **spec: object) -> None:
        self.found = {"metadata": {"name": "headway", "resourceVersion": "1"}, "spec": spec} if spec else None
        self.renews = False
        """Whether the other holder is alive."""

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            if self.found is None:
                return status(404)
            if self.renews:
                self.found["spec"]["renewTime"] = self.found["spec"].get("renewTime", "") + "x"
            return web.json_response(self.found)
        body = json.loads(await request.text())
        version = "0" if self.found is None else self.found["metadata"]["resourceVersion"]
        if request.method == "PUT" and body["metadata"]["resourceVersion"] != version:
            return status(409)
        body["metadata"]["resourceVersion"] = str(int(version) + 1)
        self.found = body
        return web.json_response(body)


def acquired(leases: Leases, holder: str = "") -> SchedulerLease:
    async def main() -> SchedulerLease:
        async with serving(leases.answer if isinstance(leases, Leases) else leases) as client:
            lease = SchedulerLease("sys", Fence(), holder)
            await lease.acquire(client._access)
            return lease

    return asyncio.run(main())


def test_the_first_scheduler_has_the_lease_and_the_next_one_a_higher_epoch():
    leases = Leases()
    first = acquired(leases)
    assert (first.held, first.fence.epoch, first.fence.is_open()) == (True, 1, True)
    assert leases.found["spec"]["holderIdentity"] == identity()
    assert acquired(leases).fence.epoch == 2, "it is this process's own"


def test_a_second_scheduler_ends_with_a_sentence(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    leases = Leases(holderIdentity="other/boot/7", leaseDurationSeconds=15, renewTime="t", leaseTransitions=4)
    leases.renews = True
    with pytest.raises(KubeError, match="another scheduler is at work on this cluster: other/boot/7 holds Lease"):
        acquired(leases)
    assert leases.found["spec"]["holderIdentity"] == "other/boot/7"


def test_a_lease_that_nobody_renews_is_taken_over(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    leases = Leases(holderIdentity="other/boot/7", leaseDurationSeconds=0, renewTime="t", leaseTransitions=4)
    assert acquired(leases).fence.epoch == 5


def test_a_scheduler_of_this_machine_that_was_killed_is_known_to_be_dead():
    here = identity().rpartition("/")[0]
    assert not is_dead(f"{here}/{os.getpid()}")
    assert is_dead(f"{here}/999999999")
    assert not is_dead("elsewhere/boot/999999999")
    leases = Leases(holderIdentity=f"{here}/999999999", leaseDurationSeconds=900, renewTime="t", leaseTransitions=1)
    assert acquired(leases).fence.epoch == 2


def test_without_the_right_nobody_is_turned_away(caplog):
    async def forbidden(_request: web.Request) -> web.Response:
        return status(403, 'leases is forbidden: User "x" cannot get resource "leases"')

    assert not acquired(forbidden).held
    assert "nothing keeps a second scheduler away" in caplog.text


def test_past_its_deadline_the_fence_is_closed_and_a_renewal_opens_it():
    now = 100.0
    fence = Fence(1, clock=lambda: now)
    fence.renew(15.0)
    assert fence.is_open()
    now = 108.0
    assert not fence.is_open(), "what leaves now may arrive when another has the Lease"
    fence.renew(15.0)
    assert fence.is_open()


def test_who_finds_another_holder_closes_and_ends(monkeypatch):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.01)
    leases = Leases()

    async def main() -> None:
        async with serving(leases.answer if isinstance(leases, Leases) else leases) as client:
            lease = SchedulerLease("sys", Fence())
            await lease.acquire(client._access)
            leases.found["metadata"]["resourceVersion"] = "9"
            leases.found["spec"]["holderIdentity"] = "other/boot/7"
            with pytest.raises(KubeError, match="another scheduler has taken over: other/boot/7"):
                await lease.keep(client)
            assert not lease.fence.is_open()

    asyncio.run(main())


def test_it_is_handed_back_in_the_end():
    leases = Leases()

    async def main() -> None:
        async with serving(leases.answer if isinstance(leases, Leases) else leases) as client:
            lease = SchedulerLease("sys", Fence())
            await lease.acquire(client._access)
            await lease.hand_back(client)

    asyncio.run(main())
    assert not leases.found["spec"].get("holderIdentity")
