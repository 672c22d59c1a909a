"""How all gates are lifted at once: also those that pods get while the API server does not know of it yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from headway.kube.api import beside
from headway.kube.api.client import ObjectList
from headway.kube.api.errors import NotFound
from headway.kube.pods.gate import GATE

GROUP = "/apis/admissionregistration.k8s.io"


class Server:
    """An API server that obeys the removal of a policy when it was asked for pods so often."""

    def __init__(self, version: str, *, there: bool = True, late: int = 3) -> None:
        self.version, self.late, self.pods, self.lists = version, late, {"old": [GATE, "example.com/other"]}, 0
        self.policies = set(beside.POLICIES) if there else set[str]()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def get(self, path: str) -> bytes:
        if path != f"{GROUP}/{self.version}":
            raise NotFound(404, path)
        return json.dumps({"resources": [{"name": plural} for plural in beside.POLICIES]}).encode()

    async def delete(self, path: str) -> bytes:
        folder, _, name = path.rpartition("/")
        plural = folder.rpartition("/")[2]
        if folder != f"{GROUP}/{self.version}/{plural}" or name != beside.NAME or plural not in self.policies:
            raise NotFound(404, path)
        self.policies.remove(plural)
        return b"{}"

    async def list_pages(self, path: str, query: str) -> AsyncIterator[ObjectList]:
        self.lists += 1
        if self.lists == self.late:
            self.pods["new"] = [GATE]
        items = []
        for name, gates in self.pods.items():
            spec = {"schedulingGates": [{"name": gate} for gate in gates]}
            items.append({"metadata": {"name": name, "namespace": "team"}, "spec": spec})
        yield ObjectList(items=[msgspec.Raw(json.dumps(one).encode()) for one in items])

    async def patch(self, path: str, body: Any) -> bytes:
        self.pods[path.rpartition("/")[2]] = [gate["name"] for gate in body["spec"]["schedulingGates"]]
        return b"{}"


def released(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(beside, "Client", lambda _: server)
    monkeypatch.setattr(beside, "OBEYED_SECONDS", 0.3)
    monkeypatch.setattr(beside, "LOOK_SECONDS", 0.01)
    return asyncio.run(beside.release(None))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_release_lifts_also_the_gates_that_come_before_the_server_obeys(version, monkeypatch):
    server = Server(version)
    said = released(server, monkeypatch)
    assert server.pods == {"old": ["example.com/other"], "new": []}
    assert not server.policies
    assert said == ["removed the policies headway-turn: new pods get no gate", "lifted the gate of 2 pods"]


def test_release_tells_that_there_was_nothing_to_remove(monkeypatch):
    server = Server("v1", there=False, late=99)
    assert released(server, monkeypatch) == ["there are no policies headway-turn", "lifted the gate of 1 pods"]
    assert server.lists <= 3, "it waits for nobody to obey"
