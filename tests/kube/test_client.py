"""Requests against a server that refuses, is slow and breaks connections: the error has the right class."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from fake_api_server import serving, status

from headway.kube.api.errors import (
    Conflict,
    Denied,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    OverQuota,
    Unreachable,
    error_for,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(404, NotFound), (409, Conflict), (410, Expired), (403, Denied), (401, Forbidden), (422, Invalid),
     (400, Invalid), (500, Unreachable), (503, Unreachable), (429, Unreachable)],
)  # fmt: skip
def test_refusals_have_types_and_the_servers_own_words(code, kind):
    async def handler(_request):
        return status(code, "because", **{"Retry-After": "3"})

    async def main():
        async with serving(handler) as client:
            with pytest.raises(kind, match="because") as refused:
                await client.get("/x")
        assert refused.value.status == code
        assert refused.value.retry_after_seconds == (3 if kind is Unreachable else 0)

    asyncio.run(main())


def test_what_we_may_not_is_told_from_what_the_cluster_does_not_admit():
    assert isinstance(error_for(403, 'User "headway" cannot create resource "pods"'), Forbidden)
    assert isinstance(error_for(403, 'pods "x" is forbidden: exceeded quota: team, requested: pods=1'), OverQuota)
    policy = 'admission webhook "p" denied the request: images of other registries cannot be used'
    assert isinstance(error_for(403, policy), Denied), "a policy's own words"
    passing = 'pods "x" is forbidden: error looking up service account a/b: serviceaccount "b" not found'
    assert not isinstance(error_for(403, passing), Denied | OverQuota | Forbidden)


def test_silence_and_lost_connections_are_unreachable():
    async def handler(request):
        if request.path == "/slow":
            await asyncio.sleep(5)
        request.transport.abort()
        return web.Response()

    async def main():
        async with serving(handler, request=0.3) as client:
            for path in ("/slow", "/broken"):
                with pytest.raises(Unreachable):
                    await client.post(path, {"a": 1})

    asyncio.run(main())
