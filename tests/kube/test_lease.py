"""One scheduler writes: a second one stands by or ends with a sentence, and one that was frozen sends nothing more."""

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


def acquired(leases: Leases, holder: str = "", **how) -> SchedulerLease:
    async def main() -> SchedulerLease:
        async with serving(leases.answer if isinstance(leases, Leases) else leases) as client:
            lease = SchedulerLease("sys", Fence(), holder, **how)
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
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases(holderIdentity="other/boot/7", leaseDurationSeconds=15, renewTime="t", leaseTransitions=4)
    leases.renews = True
    with pytest.raises(KubeError, match="another scheduler is at work on this cluster: other/boot/7 holds Lease"):
        acquired(leases)
    assert leases.found["spec"]["holderIdentity"] == "other/boot/7"


def test_a_lease_that_nobody_renews_is_taken_over(monkeypatch):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases(holderIdentity="other/boot/7", leaseDurationSeconds=0, renewTime="t", leaseTransitions=4)
    assert acquired(leases).fence.epoch == 5


def test_a_standby_waits_until_the_leader_is_gone(monkeypatch):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases(holderIdentity="other/boot/7", leaseDurationSeconds=0, renewTime="t", leaseTransitions=4)
    leases.renews = True
    looks = 0
    answer = leases.answer

    async def counted(request: web.Request) -> web.Response:
        nonlocal looks
        looks += 1
        leases.renews = looks < 8
        return await answer(request)

    leases.answer = counted
    lease = acquired(leases, waits=True)
    assert (lease.held, lease.fence.epoch, looks >= 8) == (True, 5, True)


def test_the_epoch_is_higher_than_any_that_a_status_shows():
    """The Lease was deleted, or etcd's data are of last night."""
    leases = Leases()
    assert acquired(leases, highest=lambda: 41).fence.epoch == 42
    leases.found["spec"]["leaseTransitions"] = 3
    assert acquired(leases).fence.epoch == 43, "the annotation keeps it"


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
    fence.renew(10.0)
    assert fence.is_open()
    now = 106.0
    assert not fence.is_open(), "what leaves now may arrive when another has the Lease"
    fence.renew(10.0)
    assert fence.is_open()


def kept(leases: Leases, meanwhile) -> tuple[SchedulerLease, list[str]]:
    """A Lease that is renewed in its thread while `meanwhile` happens."""
    lost: list[str] = []

    async def main() -> SchedulerLease:
        async with serving(leases.answer) as client:
            lease = SchedulerLease("sys", Fence())
            await lease.acquire(client._access)
            lease.keep(client._access, lost.append)
            await meanwhile(lease)
            await asyncio.to_thread(lease.hand_back)
            return lease

    return asyncio.run(main()), lost


async def soon(there) -> None:
    async with asyncio.timeout(10):
        while not there():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_who_finds_another_holder_closes_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases()

    async def another(lease: SchedulerLease) -> None:
        leases.found["metadata"]["resourceVersion"] = "9999"
        leases.found["spec"]["holderIdentity"] = "other/boot/7"
        await soon(lambda: not lease.fence.is_open())

    lease, lost = kept(leases, another)
    assert lost == ["another scheduler has taken over: other/boot/7"]
    assert leases.found["spec"]["holderIdentity"] == "other/boot/7", "it is not handed back: it is another's"
    assert not lease.fence.is_open()


def test_it_is_renewed_by_a_thread_of_its_own_and_handed_back_in_the_end(monkeypatch):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases()

    async def busy(_lease: SchedulerLease) -> None:
        before = leases.found["metadata"]["resourceVersion"]
        await soon(lambda: int(leases.found["metadata"]["resourceVersion"]) > int(before) + 3)

    lease, lost = kept(leases, busy)
    assert (lost, lease.held, lease.fence.is_open()) == ([], False, False)
    assert not leases.found["spec"].get("holderIdentity")
    assert leases.found["metadata"]["annotations"]["headway.dev/epoch"] == "1", "the next one has a higher epoch"
