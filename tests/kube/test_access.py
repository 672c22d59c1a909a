"""A kubeconfig is read; a bad one is one sentence that names the file and the field."""

from __future__ import annotations

import base64
import json

import pytest
from fake_api_server import a_kubeconfig

from headway.core.errors import UserError
from headway.kube.api.access import load_access


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
        (lambda c: c["users"][0]["user"].update(exec={"command": "x"}), "exec"),
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
