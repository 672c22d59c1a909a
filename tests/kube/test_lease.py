"""One scheduler writes: a second one stands by or ends with a sentence, and one that was frozen sends nothing more."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

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
        self.refuses = 0
        """So many requests are answered with 403."""

    async def answer(self, request: web.Request) -> web.Response:
        if self.refuses:
            self.refuses -= 1
            return status(403, 'leases is forbidden: User "x" cannot get resource "leases"')
        if request.method == "GET":
            if self.found is None:
                return status(404)
            if self.renews:
                self.found["spec"]["renewTime"] = self.found["spec"].get("renewTime", "") + "x"
            return web.json_response(self.found)
        body = json.loads(await request.text())
        version = "0" if self.found is None else self.found["metadata"]["resourceVersion"]
        if self.found is None and request.method == "PUT":
            return status(404)
        if body["metadata"].get("resourceVersion", "0") != version:
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
    assert not is_dead(f"{here}/{os.getpid()}-1")
    assert is_dead(f"{here}/999999999-1")
    assert not is_dead("elsewhere/boot/999999999-1")
    leases = Leases(holderIdentity=f"{here}/999999999-1", leaseDurationSeconds=900, renewTime="t", leaseTransitions=1)
    assert acquired(leases).fence.epoch == 2


def test_two_pods_of_one_node_are_told_apart():
    """With the node's own network both have its name, and both are the first process that they see."""
    code = "from headway.kube.writes.lease import identity; print(identity())"
    made = [subprocess.check_output([sys.executable, "-c", code], text=True).strip() for _ in range(2)]
    mine, other = (one.rpartition("-") for one in made)
    assert mine[2] != other[2]
    seen = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    assert mine[0].split("/")[2] == seen, "who sees other processes cannot say that one is gone"
    there = identity().replace(seen, "4026539999")
    assert not is_dead(there.replace(str(os.getpid()), "999999999"))


def test_without_the_right_nobody_is_turned_away(caplog):
    async def forbidden(_request: web.Request) -> web.Response:
        return status(403, 'leases is forbidden: User "x" cannot get resource "leases"')

    assert not acquired(forbidden).held
    assert "nothing keeps a second scheduler away" in caplog.text


def test_a_standby_that_is_refused_for_a_moment_stands_by(monkeypatch, caplog):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases(holderIdentity="other/boot/7", leaseDurationSeconds=0, renewTime="t", leaseTransitions=4)
    leases.refuses = 3
    lease = acquired(leases, waits=True)
    assert (lease.held, lease.fence.epoch) == (True, 5)
    assert caplog.text.count("cannot be had yet, trying again") == 1


def test_who_has_seen_another_holder_never_leads_beside_it(monkeypatch):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases(holderIdentity="other/boot/7", leaseDurationSeconds=15, renewTime="t", leaseTransitions=4)
    answer, looks = leases.answer, 0

    async def refused_once(request: web.Request) -> web.Response:
        nonlocal looks
        looks += 1
        leases.refuses, leases.renews = int(looks == 2), looks > 2
        return await answer(request)

    leases.answer = refused_once
    with pytest.raises(KubeError, match="another scheduler is at work on this cluster: other/boot/7"):
        acquired(leases)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    leases.answer, looks = refused_once, 0
    leases.renews = False

    async def refused_for_good(request: web.Request) -> web.Response:
        nonlocal looks
        looks += 1
        leases.refuses = int(looks > 1)
        return await answer(request)

    leases.answer = refused_for_good
    with pytest.raises(KubeError, match=r"cannot be had within 0\.05 seconds: leases is forbidden"):
        acquired(leases)


def test_a_lease_that_is_gone_is_waited_for_where_somebody_led(monkeypatch):
    """Whoever led writes for up to six seconds more: it makes its Lease anew, or its time is over."""
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases, answer = Leases(), Leases.answer
    looks = 0

    async def comes_back(request: web.Request) -> web.Response:
        nonlocal looks
        looks += 1
        if looks == 4:
            spec = {"holderIdentity": "other/boot/7", "leaseDurationSeconds": 0, "renewTime": "t"}
            leases.found = {"metadata": {"name": "headway", "resourceVersion": "3"}, "spec": spec}
        assert request.method == "GET" or looks > 4
        return await answer(leases, request)

    leases.answer = comes_back
    assert acquired(leases, waits=True, highest=lambda: 7).fence.epoch == 8


@pytest.mark.parametrize("lives", [True, False])
def test_after_an_outage_whoever_led_may_renew_first(monkeypatch, lives):
    """The standby could not see that it was renewed, and it could not be."""
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(module, "BACK_SECONDS", 0.5)
    leases = Leases(holderIdentity="other/boot/7", leaseDurationSeconds=0, renewTime="t", leaseTransitions=4)
    answer, looked, back, taken = leases.answer, [], [], []

    async def away(request: web.Request) -> web.Response:
        looked.append(now := time.monotonic())
        if len(looked) > 1 and now - looked[0] < 0.3:
            return status(503)
        if len(looked) > 1:
            back.append(now)
            leases.renews = lives and 0.2 < now - back[0] < 1.5
        if request.method != "GET":
            taken.append(now)
        return await answer(request)

    leases.answer = away
    assert acquired(leases, waits=True).fence.epoch == 5
    assert taken[0] - back[0] >= (1.5 if lives else 0.5)


def test_its_spec_says_all_that_kubernetes_shows():
    leases = Leases()
    acquired(leases)
    first = leases.found["spec"]
    assert first["leaseDurationSeconds"] == 11
    assert first["acquireTime"]
    assert first["renewTime"]


def test_past_its_deadline_the_fence_is_closed_and_a_renewal_opens_it():
    now = 100.0
    fence = Fence(1, clock=lambda: now)
    fence.renew(now, 10.0)
    assert fence.is_open()
    now = 106.0
    assert not fence.is_open(), "what leaves now may arrive when another has the Lease"
    fence.renew(now, 10.0)
    assert fence.is_open()


def test_an_answer_that_is_read_after_a_freeze_opens_nothing():
    """The deadline follows from the moment at which the request left, and from that alone."""
    now = 100.0
    fence = Fence(1, clock=lambda: now)
    asked = fence.clock()
    now = 160.0
    fence.renew(asked, 10.0)
    assert not fence.is_open()


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


@pytest.mark.parametrize("holder", ["", "other/boot/7"])
def test_who_thaws_after_another_has_led_has_lost_even_if_that_one_is_gone(monkeypatch, holder):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases()

    async def another_led(lease: SchedulerLease) -> None:
        metadata = {**leases.found["metadata"], "resourceVersion": "9999", "annotations": {module.EPOCH: "5"}}
        spec = {**leases.found["spec"], "holderIdentity": holder, "leaseTransitions": 5}
        leases.found = {"metadata": metadata, "spec": spec}
        await soon(lambda: not lease.fence.is_open())

    _, lost = kept(leases, another_led)
    assert lost == [f"another scheduler has taken over: {holder or 'it has ended since'}"]
    assert leases.found["metadata"]["annotations"][module.EPOCH] == "5", "the epoch never falls"


def test_a_lease_that_was_deleted_is_made_anew_while_it_is_believed_in(monkeypatch):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases()

    async def deleted(lease: SchedulerLease) -> None:
        before = leases.found["spec"]["acquireTime"]
        leases.found = None
        await soon(lambda: leases.found is not None)
        assert leases.found["spec"]["acquireTime"] == before
        assert lease.fence.is_open()

    _, lost = kept(leases, deleted)
    assert lost == []


def test_a_lease_that_was_deleted_while_it_was_frozen_is_lost(monkeypatch):
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    leases = Leases()

    async def deleted(lease: SchedulerLease) -> None:
        lease.fence.clock = lambda: lease.fence.deadline + 1.0
        leases.found = None
        await soon(lambda: lease.fence.deadline < 0)

    _, lost = kept(leases, deleted)
    assert lost == ["the Lease was deleted while it was not renewed: another scheduler may have led"]
    assert leases.found is None
