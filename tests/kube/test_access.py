"""A kubeconfig is read; a bad one is one sentence that names the file and the field."""

from __future__ import annotations

import base64
import json

import pytest
from fake_api_server import a_kubeconfig

from headway.core.errors import UserError
from headway.kube.api import exec_credential
from headway.kube.api.access import load_access

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
