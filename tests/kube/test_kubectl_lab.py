"""`kubectl headway ...` with the real kubectl: on the current context, with kubectl's own options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
import yaml

from scheduling import SOURCE

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]
CREDENTIAL = "client.authentication.k8s.io/v1"
FILE = """
jobs:
  - {name: huge, cpu: 900, command: [sleep, "1"]}
  - {name: small, cpu: 100m, memory: 64Mi, command: [sleep, "600"]}
"""


LATER = """
jobs:
  - {name: first, cpu: 1100m, memory: 64Mi, command: [sleep, "600"]}
  - {name: second, cpu: 1100m, memory: 64Mi, command: [sleep, "600"]}
  - {name: later, cpu: 1100m, memory: 64Mi, command: [sleep, "1"]}
"""
"""More than two nodes of two cores hold at once."""


def _row(table: str, name: str) -> str:
    return next((line for line in table.splitlines() if line.split()[:1] == [name]), "")


class Kubectl:
    """With the plugin on its path, and two kubeconfigs."""

    def __init__(self, schedule) -> None:
        folder = self.folder = schedule.folder / "bin"
        folder.mkdir()
        for name, function in (("kubectl-headway", "main"), ("kubectl_complete-headway", "complete")):
            code = f"from headway.cli.cluster.kubectl import {function}; {function}()"
            (folder / name).write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
            (folder / name).chmod(0o755)
        self.program = str(schedule.lab.kubectl)
        self.config = f"{self._contexts(schedule)}:{schedule.lab.kubeconfig}"

    def _contexts(self, schedule):
        """Beside the lab's own: the current context is in the test's namespace, its user logs in by a program."""
        config = yaml.safe_load(schedule.lab.kubeconfig.read_bytes())
        cluster = config["contexts"][0]["context"]["cluster"]
        pair = {"clientCertificateData": schedule.lab.certificate, "clientKeyData": schedule.lab.key}
        status = {name: file.read_text() for name, file in pair.items()}
        answer, login = schedule.folder / "answer", schedule.folder / "login"
        answer.write_text(json.dumps({"apiVersion": CREDENTIAL, "kind": "ExecCredential", "status": status}))
        login.write_text('#!/bin/sh\nexec cat "$(dirname "$0")/answer"\n')
        login.chmod(0o755)
        how = {"apiVersion": CREDENTIAL, "command": "./login", "interactiveMode": "Never"}
        context = {"cluster": cluster, "user": "by-program", "namespace": schedule.namespace}
        file = schedule.folder / "contexts"
        file.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "team",
            "contexts": [{"name": "team", "context": context}],
            "users": [{"name": "by-program", "user": {"exec": how}}],
        }))  # fmt: skip
        return file

    def __call__(self, *words: str) -> str:
        environment = {
            **os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE), "COLUMNS": "200",
            "KUBECONFIG": self.config,
        }  # fmt: skip
        done = subprocess.run(
            [self.program, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr


def test_a_user_of_kubectl_needs_no_other_program(schedule, tmp_path):
    kubectl = Kubectl(schedule)
    schedule.start()
    assert "No resources found" in kubectl("get", "tj"), "kubectl itself takes this kubeconfig"
    assert str(kubectl.folder / "kubectl-headway") in kubectl("plugin", "list")
    (tmp_path / "jobs.yaml").write_text(FILE)
    kubectl("headway", "submit", str(tmp_path / "jobs.yaml"))
    schedule.wait("small", "Running")
    schedule.wait("huge", "Waiting")
    assert "Running" in kubectl("headway", "jobs")
    said = kubectl("headway", "why", "huge")
    assert "LargerThanAnyNode" in said
    assert "asks for 900 cpu" in said
    rows = {line.split()[0]: line for line in kubectl("headway", "eta").splitlines() if line.strip()}
    assert "not known while it waits" in rows["huge"], rows
    assert "not known yet" in rows["small"], "it does not report"
    (tmp_path / "later.yaml").write_text(LATER)
    kubectl("headway", "submit", str(tmp_path / "later.yaml"))
    give_up = time.monotonic() + 25.0
    while _row(kubectl("headway", "eta"), "later").count("Z") < 2:
        assert time.monotonic() < give_up, kubectl("headway", "eta") + schedule.words()
        time.sleep(0.5)
    said = kubectl("headway", "why", "later")
    assert [word for word in ("starts", "done") if f"  {word} " in said] == ["starts", "done"], said
    kubectl("headway", "cancel", "later")
    assert "small is to be suspended" in kubectl("headway", "suspend", "small")
    assert schedule.job("small")["spec"]["suspend"] is True
    assert "small is to be resumed" in kubectl("headway", "resume", "small")
    assert schedule.job("small")["spec"]["suspend"] is False
    assert "huge is to be cancelled" in kubectl("headway", "cancel", "huge", "--context", "team")
    found = json.loads(kubectl("headway", "jobs", "-n", schedule.namespace, "--context", "lab", "--json"))["jobs"]
    assert {one["name"] for one in found} == {"huge", "small", "first", "second", "later"}
    assert f"{schedule.namespace}/small" in kubectl(
        "headway", "jobs", "-A", "--kubeconfig", str(schedule.lab.kubeconfig)
    )
    assert kubectl("__complete", "headway", "su").splitlines()[:2] == ["submit", "suspend"]
