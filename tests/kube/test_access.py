"""A kubeconfig is read; a bad one is one sentence that names the file and the field."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import replace

import pytest
from fake_api_server import a_kubeconfig, serving, status

from headway.core.errors import UserError
from headway.kube.api import exec_credential
from headway.kube.api.access import load_access
from headway.kube.api.client import Client, Patience
from headway.kube.api.errors import Unreachable

CREDENTIALS = """#!/bin/sh
echo "$STAGE $1 $KUBERNETES_EXEC_INFO" >> "$(dirname "$0")/asked"
echo '{"kind": "ExecCredential", "status": {"token": "'"$STAGE-$(wc -l < "$(dirname "$0")/asked" | tr -d ' ')"'",
"expirationTimestamp": "EXPIRES"}}'
"""


def test_a_kubeconfig_is_read(tmp_path):
    (tmp_path / "kubeconfig").write_text(json.dumps(a_kubeconfig()))
    access = load_access(tmp_path / "kubeconfig")
    assert (access.url, access.namespace, access.authorization()) == ("http://127.0.0.1:1", "team", "Bearer secret")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update({"current-context": "d"}), "'d'"),
        (lambda c: c["contexts"][0]["context"].update(cluster="z"), "'z'"),
        (lambda c: c["clusters"][0]["cluster"].update(server="ftp://x"), "server"),
        (lambda c: c["users"][0]["user"].update(exec={"args": ["x"]}), "field exec: Object missing required field"),
        (lambda c: c["users"][0]["user"].update({"auth-provider": {"name": "x"}}), "auth-provider"),
        (lambda c: c["clusters"][0]["cluster"].update(
            {"server": "https://x", "certificate-authority-data": base64.b64encode(b"junk").decode()}), "certificate"),
        (lambda c: c["clusters"][0]["cluster"].update(
            {"server": "https://x", "certificate-authority": "nowhere.crt"}), "certificate-authority"),
    ],
)  # fmt: skip
def test_a_bad_kubeconfig_is_one_sentence(tmp_path, change, words):
    config = a_kubeconfig()
    change(config)
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    with pytest.raises(UserError) as error:
        load_access(tmp_path / "kubeconfig")
    assert words in str(error.value)
    assert str(tmp_path / "kubeconfig") in str(error.value)


def by_program(folder, **exec_: object):
    config = a_kubeconfig()
    config["users"][0]["user"] = {"exec": {"command": "./login", "args": ["token"], **exec_}}
    (folder / "kubeconfig").write_text(json.dumps(config))
    return load_access(folder / "kubeconfig")


def test_a_program_gives_the_token_and_is_asked_again_before_it_expires(tmp_path, monkeypatch):
    program = tmp_path / "login"
    program.write_text(CREDENTIALS.replace("EXPIRES", "2026-11-19T08:00:00Z"))
    program.chmod(0o755)
    now = [1795075200.0 - 600]  # ten minutes earlier
    monkeypatch.setattr(exec_credential.time, "time", lambda: now[0])
    access = by_program(tmp_path, env=[{"name": "STAGE", "value": "prod"}], provideClusterInfo=True)
    assert access.authorization() == access.authorization() == "Bearer prod-1"
    now[0] += 560
    assert access.authorization() == "Bearer prod-2"
    stage, argument, info = (tmp_path / "asked").read_text().splitlines()[0].split(" ", 2)
    assert (stage, argument) == ("prod", "token")
    assert json.loads(info)["spec"]["cluster"]["server"] == "http://127.0.0.1:1"


@pytest.mark.parametrize("program", [None, "#!/bin/sh\nexit 3\n", "#!/bin/sh\necho hello\n"])
def test_a_program_that_gives_nothing_is_one_sentence_with_its_hint(tmp_path, program):
    if program is not None:
        (tmp_path / "login").write_text(program)
        (tmp_path / "login").chmod(0o755)
    with pytest.raises(UserError, match=r"kubeconfig: user 'u'.*\./login gives no credentials: .*; get it from there"):
        by_program(tmp_path, installHint="get it\n  from there").authorization()


def test_a_program_that_fails_for_a_while_is_trouble_that_passes_and_holds_nobody_up(tmp_path, monkeypatch):
    """The token of a cloud cannot be renewed for a minute: nothing is refused by that, and no thread stands still."""
    monkeypatch.setattr(exec_credential, "AGAIN_SECONDS", 0.2)
    program = tmp_path / "login"
    program.write_text("#!/bin/sh\necho >> $(dirname $0)/asked\nsleep 1\nexit 3\n")
    program.chmod(0o755)

    async def check() -> None:
        async def handler(request):
            return status(200, request.headers["Authorization"])

        async with serving(handler) as plain:
            access = replace(by_program(tmp_path), url=plain._access.url)
            async with Client(access, Patience(request=20.0)) as client:
                asked, ticks = asyncio.gather(*(client.get("/x") for _ in range(8)), return_exceptions=True), 0
                while not asked.done():
                    await asyncio.sleep(0.01)
                    ticks += 1
                assert ticks > 3, "others go on meanwhile"
                assert {type(error) for error in await asked} == {Unreachable}
                assert "gives no credentials" in str((await asked)[0])
                assert len((tmp_path / "asked").read_text().splitlines()) <= 2, "not once for each request"
                program.write_text(CREDENTIALS.replace("EXPIRES", "2999-01-01T00:00:00Z"))
                await asyncio.sleep(0.2)
                assert b"Bearer -" in await client.get("/x")

    asyncio.run(check())


def test_a_request_that_waits_for_credentials_does_not_leave_late(tmp_path):
    """The fence says until when it may leave."""
    (tmp_path / "login").write_text("#!/bin/sh\nsleep 1\n")
    (tmp_path / "login").chmod(0o755)
    heard = []

    async def check() -> None:
        async def handler(request):
            heard.append(request)

        async with serving(handler) as plain:
            access = replace(by_program(tmp_path), url=plain._access.url)
            async with Client(access, Patience(request=0.2)) as client:
                began = time.monotonic()
                with pytest.raises(Unreachable):
                    await client.get("/x")
                assert time.monotonic() - began < 0.7

    asyncio.run(check())
    assert heard == []


def test_a_token_counts_until_it_is_over_though_no_other_can_be_had(tmp_path, monkeypatch):
    program = tmp_path / "login"
    program.write_text(CREDENTIALS.replace("EXPIRES", "2026-11-19T08:00:00Z"))
    program.chmod(0o755)
    now = [1795075200.0 - 600]
    monkeypatch.setattr(exec_credential.time, "time", lambda: now[0])
    access = by_program(tmp_path)
    first = access.authorization()
    program.write_text("#!/bin/sh\nexit 3\n")
    now[0] += 560
    assert access.authorization() == first
    now[0] += 60
    with pytest.raises(UserError, match="gives no credentials"):
        access.authorization()


def test_several_files_count_as_one(tmp_path, monkeypatch):
    whole = a_kubeconfig()
    (tmp_path / "contexts").write_text(
        json.dumps({"current-context": whole["current-context"], "contexts": whole["contexts"]})
    )
    rest = {**whole, "current-context": "another", "contexts": []}
    (tmp_path / "rest").write_text(json.dumps(rest))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{tmp_path / 'contexts'}:{tmp_path / 'rest'}")
    access = load_access()
    assert (access.url, access.namespace, access.authorization()) == ("http://127.0.0.1:1", "team", "Bearer secret")
