"""TLS from the training script to the server: made once, read by all, and only Headway is trusted."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import json
import socket
import ssl
import threading
import time

import pytest
from aiohttp import web
from fake_api_server import serving, status

from headway import progress
from headway.kube.api.errors import KubeError
from headway.kube.identity.certificates import (
    PROGRESS_AUTHORITY,
    SECRET,
    ProgressAuthority,
    new_authority,
    server_context,
)
from headway.progress import _link, _tracker
from headway.progress_server import Connected, Done, KnownReplica, ProgressServer, Reported, Saved, ServerLimits

NOW = dt.datetime.now(dt.UTC)
ME = ("team/j", "worker", 0, 0)


@pytest.fixture(scope="module")
def authority() -> ProgressAuthority:
    return new_authority(NOW)


def by_token(greeting, answer) -> None:
    answer(KnownReplica(ME) if greeting.token == "mine" else "the token is of no pod of ours")


@pytest.fixture
def server(authority):
    server = ProgressServer("tcp:127.0.0.1:0", identify=by_token, tls=server_context(authority))
    yield server
    server.close()


@pytest.fixture
def pod(server, authority, monkeypatch, tmp_path):
    """The environment of a pod; returns the file of its token."""
    token = tmp_path / "token"
    token.write_text("mine\n")
    monkeypatch.setenv("HEADWAY_PROGRESS", server.address)
    monkeypatch.setenv("HEADWAY_PROGRESS_CA", authority.trusted.decode())
    monkeypatch.setenv("HEADWAY_PROGRESS_TOKEN", str(token))
    monkeypatch.setenv("HEADWAY_JOB", "another/job")
    monkeypatch.setattr(_tracker, "LEAVING_SECONDS", 0.1)
    return token


def until(server: ProgressServer, wanted: type, seconds: float = 60.0) -> list:
    events, give_up = [], time.monotonic() + seconds
    while not any(isinstance(event, wanted) for event in events):
        assert time.monotonic() < give_up, events
        events += server.poll()
        time.sleep(0.01)
    return events


def test_an_unchanged_script_reports_and_saves_under_tls(server, pod):
    assert server.address.startswith("tls:")
    asked = threading.Event()
    with progress.track(total_steps=9, save=lambda step: asked.set()) as p:
        p.report(3, loss=0.5)
        events = until(server, Reported)
        server.save("team/j", 7)
        give_up = time.monotonic() + 60
        while not asked.is_set() and time.monotonic() < give_up:
            p.poll()
            time.sleep(0.005)
        events += until(server, Saved)
    events += until(server, Done)
    assert {event.sender for event in events} == {ME}, "the token says who it is, not the environment"
    assert [event.step for event in events if isinstance(event, Saved)] == [3]


def test_the_token_is_read_again_at_each_connection(server, pod, capsys):
    pod.write_text("expired")
    with progress.track(total_steps=9) as p:
        p.report(1)
        give_up = time.monotonic() + 60
        while "does not take" not in capsys.readouterr().err:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        assert server.poll() == []
        pod.write_text("mine")
        until(server, Reported)


def test_a_long_size_message_arrives_whole(server, pod):
    """Longer than a TLS record: a selector does not see what is decrypted already."""
    told = []
    with progress.track() as p:
        p.on_resize(told.append)
        until(server, Connected)
        server.resize("team/j", {f"role-{number}": number for number in range(2500)}, {})
        give_up = time.monotonic() + 60
        while not told and time.monotonic() < give_up:
            p.poll()
            time.sleep(0.005)
    assert len(told[0].replicas) == 2500


def test_a_flood_over_tls_is_read_to_its_end(server, pod, authority):
    """Many messages in one record: those beyond the budget are in no socket that a selector could watch."""
    with secured(server, authority) as sock:
        steps = b"".join(b'{"saved": null, "step": %d}\n' % step for step in range(150))
        sock.sendall(b'{"hello": 1, "token": "mine"}\n' + steps + b'{"done": true, "step": 150}\n')
        events = until(server, Done)
    assert sum(isinstance(event, Saved) for event in events) == 150


@contextlib.contextmanager
def secured(server: ProgressServer, authority: ProgressAuthority):
    context = ssl.create_default_context(cadata=authority.trusted.decode())
    with plain(server) as sock, context.wrap_socket(sock, server_hostname="headway-progress") as tls:
        yield tls


def plain(server: ProgressServer) -> socket.socket:
    host, _, port = server.address.removeprefix("tls:").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_who_is_not_headway_learns_nothing(pod, monkeypatch, capsys):
    """Another authority, the same name: the token is not sent."""
    heard = []
    other = server_context(new_authority(NOW))
    impostor = ProgressServer("tcp:127.0.0.1:0", identify=lambda greeting, _: heard.append(greeting), tls=other)
    monkeypatch.setenv("HEADWAY_PROGRESS", impostor.address)
    with progress.track() as p:
        p.report(1)
        give_up, said = time.monotonic() + 60, ""
        while "is not Headway" not in said:
            assert time.monotonic() < give_up
            said += capsys.readouterr().err
            time.sleep(0.01)
    impostor.close()
    assert heard == []
    assert said.count("headway:") == 1


@pytest.mark.parametrize("greeting", [b'{"hello": 1, "job": "team/j", "role": "worker"}\n', b"\x16\x03\x01garbage" * 9])
def test_one_without_tls_is_not_heard(server, pod, greeting):
    with plain(server) as sock:
        sock.sendall(greeting + b'{"step": 1}\n')
        with contextlib.suppress(ConnectionError):
            while sock.recv(1000):
                pass
    with progress.track() as p:
        p.report(2)
        assert {getattr(event, "step", 2) for event in until(server, Reported)} == {2}


def test_a_missing_token_is_told_once_and_training_goes_on(server, pod, capsys):
    pod.unlink()
    with progress.track(total_steps=2) as p:
        p.report(1)
        time.sleep(0.3)
    said = capsys.readouterr().err
    assert said.count("cannot be read") == 1
    assert "Traceback" not in said


def test_heartbeats_are_answered_and_when_they_cease_the_script_connects_anew(pod, authority, monkeypatch):
    monkeypatch.setattr(_link, "MISSED_BEATS", 20)
    limits = ServerLimits(beat_seconds=0.05)
    server = ProgressServer("tcp:127.0.0.1:0", identify=by_token, tls=server_context(authority), limits=limits)
    monkeypatch.setenv("HEADWAY_PROGRESS", server.address)
    with progress.track() as p:
        p.report(1)
        until(server, Reported)
        (connection,) = server._connections.known
        heard, give_up = connection.heard, time.monotonic() + 60
        while connection.heard == heard:
            assert time.monotonic() < give_up, "a heartbeat is answered"
            time.sleep(0.01)
        server._lines._beat = lambda now, connection: None  # as if the way to the replica were cut
        assert any(isinstance(event, Connected) for event in until(server, Connected)), "it connects anew"
    server.close()


# ── the Secret ──


class Secrets:
    """The Secrets of one namespace."""

    def __init__(self, kept: dict | None = None, *, race: dict | None = None, refuses: int = 0) -> None:
        self.kept, self.race, self.refuses, self.made = kept, race, refuses, 0

    async def answer(self, request: web.Request) -> web.Response:
        if self.refuses:
            return status(self.refuses, 'secrets is forbidden: User "u" cannot get resource "secrets"')
        if request.method == "POST":
            if self.race is not None:
                self.kept = self.race
            if self.kept is not None:
                return status(409, "already exists")
            self.kept, self.made = await request.json(), self.made + 1
            return web.json_response(self.kept, status=201)
        return status(404, "not found") if self.kept is None else web.json_response(self.kept)


def ensured(secrets) -> ProgressAuthority:
    async def ask() -> ProgressAuthority:
        async with serving(getattr(secrets, "answer", secrets)) as client:
            return await PROGRESS_AUTHORITY.ensure(client, "headway-system")

    return asyncio.run(ask())


def test_the_first_makes_the_secret_and_the_next_reads_it():
    secrets = Secrets()
    first = ensured(secrets)
    assert (secrets.made, secrets.kept["metadata"]["name"], secrets.kept["type"]) == (1, SECRET, "kubernetes.io/tls")
    assert ensured(secrets) == first
    assert secrets.made == 1


def test_of_two_that_make_it_one_is_kept():
    others = Secrets()
    first = ensured(others)
    assert ensured(Secrets(race=others.kept)) == first


@pytest.mark.parametrize("field", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("value", [None, "!", base64.b64encode(b"no key").decode()])
def test_a_secret_that_cannot_be_used_is_told_with_its_field(field, value):
    secrets = Secrets()
    ensured(secrets)
    secrets.kept["data"][field] = value
    with pytest.raises(KubeError, match="Secret headway-progress in namespace headway-system"):
        ensured(secrets)


def test_a_missing_right_or_namespace_is_one_sentence():
    with pytest.raises(KubeError, match=r"cannot get resource.*--install"):
        ensured(Secrets(refuses=403))

    async def no_namespace(request: web.Request) -> web.Response:
        return status(404, 'namespaces "headway-system" not found')

    with pytest.raises(KubeError, match="there is no namespace headway-system"):
        ensured(no_namespace)


def test_an_api_server_that_is_away_is_waited_for_and_then_told():
    async def ask() -> None:
        from headway.kube.api.access import Access

        await PROGRESS_AUTHORITY.find(Access(url="http://127.0.0.1:1", tls=None), "headway-system", seconds=0.2)

    with pytest.raises(KubeError, match="cannot be reached within"):
        asyncio.run(ask())


def test_an_authority_that_ends_soon_is_told(caplog):
    secrets = Secrets()
    ensured(secrets)
    old = new_authority(NOW - dt.timedelta(days=3600))
    fields = {"tls.crt": old.certificate, "tls.key": old.key, "ca.crt": old.trusted}
    secrets.kept["data"] = {name: base64.b64encode(value).decode() for name, value in fields.items()}
    ensured(secrets)
    assert "expires in" in caplog.text


def test_a_rotation_trusts_two_authorities_for_a_while(monkeypatch, tmp_path, authority):
    """As docs/kubernetes.md says: pods that were made while both were in ca.crt know the old and the new one."""
    new = new_authority(NOW)
    both = authority.trusted + new.trusted
    (tmp_path / "token").write_text("mine")
    monkeypatch.setenv("HEADWAY_PROGRESS_CA", both.decode())
    monkeypatch.setenv("HEADWAY_PROGRESS_TOKEN", str(tmp_path / "token"))
    for signer in (authority, new):
        server = ProgressServer("tcp:127.0.0.1:0", identify=by_token, tls=server_context(signer))
        monkeypatch.setenv("HEADWAY_PROGRESS", server.address)
        with progress.track() as p:
            p.report(1)
            until(server, Reported)
        server.close()


def test_the_authority_can_sign_for_no_other_name(authority):
    """Whoever steals it from the Secret can be taken for the progress server only."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(authority.certificate)
    names = found.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees
    assert [name.value for name in names] == ["headway-progress"]
    assert len(json.dumps(authority.trusted.decode())) < 1500, "it is in the environment of every pod"
