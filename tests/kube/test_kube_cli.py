"""Mistakes in the commands that talk to a cluster: one sentence, exit code 2."""

from __future__ import annotations

import json

import pytest
import yaml
from fake_api_server import a_kubeconfig
from typer.testing import CliRunner

from headway.core.errors import UserError
from headway.kube.api.install import manifests

JOBS = "jobs:\n  - {name: a, cpu: 1, command: [x]}\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "kubeconfig").write_text(json.dumps(a_kubeconfig()))
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return tmp_path


def headway(*arguments: str):
    from headway.cli.app import app_for

    return CliRunner().invoke(app_for([]), [str(argument) for argument in arguments])


def test_missing_files_and_servers_are_told(files, monkeypatch):
    config = files / "kubeconfig"
    cases = [
        (["jobs", "--kubeconfig", files / "none"], "cannot be read"),
        (["jobs", "--kubeconfig", config], "cannot be listed"),
        (["submit", files / "none.yaml", "--kubeconfig", config], "none.yaml"),
        (["submit", files / "jobs.yaml", files / "jobs.yaml", "--kubeconfig", config], "has a job of the same name"),
        (["submit", files / "jobs.yaml", "--kubeconfig", config], "job 'a'"),
        (["schedule", "--policy", "no-such", "--kubeconfig", config], "no-such"),
        (["schedule", "--template", files / "none.yaml", "--kubeconfig", config], "none.yaml"),
        (["schedule", "--template", files / "jobs.yaml", "--kubeconfig", config], "field jobs"),
        (["schedule", "--progress-listen", "nowhere", "--kubeconfig", config], "listen"),
    ]
    for arguments, words in cases:
        result = headway(*arguments)
        assert isinstance(result.exception, UserError), (arguments, result.output, result.exception)
        assert words in str(result.exception), arguments


def test_the_manifests_are_whole_and_ask_for_little():
    printed = headway("schedule", "--print-manifests")
    assert printed.output.strip() == manifests().strip()
    objects = list(yaml.safe_load_all(printed.output))
    roles = [o for o in objects if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "headway-scheduler"]
    rules = {(resource, verb) for rule in roles[0]["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert not any("*" in word for rule in rules for word in rule)
    assert not {resource for resource, _ in rules} & {"secrets", "configmaps", "serviceaccounts"}
    assert ("nodes", "patch") not in rules
