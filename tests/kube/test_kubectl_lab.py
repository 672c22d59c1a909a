"""`kubectl headway ...` with the real kubectl: on the current context, with kubectl's own options."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

from scheduling import SOURCE

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]
FILE = """
jobs:
  - {name: huge, cpu: 900, command: [sleep, "1"]}
  - {name: small, cpu: 100m, memory: 64Mi, command: [sleep, "600"]}
"""


class Kubectl:
    """With the plugin on its path, and a kubeconfig of two contexts: the current one is in the test's namespace."""

    def __init__(self, schedule) -> None:
        folder = self.folder = schedule.folder / "bin"
        folder.mkdir()
        for name, function in (("kubectl-headway", "main"), ("kubectl_complete-headway", "complete")):
            code = f"from headway.cli.kubectl import {function}; {function}()"
            (folder / name).write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
            (folder / name).chmod(0o755)
        config = yaml.safe_load(schedule.lab.kubeconfig.read_bytes())
        (one,) = config["contexts"]
        config["contexts"].append({"name": "team", "context": {**one["context"], "namespace": schedule.namespace}})
        config["current-context"] = "team"
        self.config, self.program = schedule.folder / "two", str(schedule.lab.kubectl)
        self.config.write_text(json.dumps(config))

    def __call__(self, *words: str, code: int = 0) -> str:
        environment = {
            **os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE), "COLUMNS": "200",
            "KUBECONFIG": str(self.config),
        }  # fmt: skip
        done = subprocess.run(
            [self.program, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr


def test_a_user_of_kubectl_needs_no_other_program(schedule, tmp_path):
    kubectl = Kubectl(schedule)
    schedule.start()
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
    assert kubectl("headway", "eta", "huge").strip() == "huge (Waiting): not known while it waits"
    assert "small is to be suspended" in kubectl("headway", "suspend", "small")
    assert schedule.job("small")["spec"]["suspend"] is True
    assert "small is to be resumed" in kubectl("headway", "resume", "small")
    assert schedule.job("small")["spec"]["suspend"] is False
    assert "huge is to be cancelled" in kubectl("headway", "cancel", "huge", "--context", "team")
    found = json.loads(kubectl("headway", "jobs", "-n", schedule.namespace, "--context", "lab", "--json"))["jobs"]
    assert {one["name"] for one in found} == {"huge", "small"}
    assert f"{schedule.namespace}/small" in kubectl(
        "headway", "jobs", "-A", "--kubeconfig", str(schedule.lab.kubeconfig)
    )
    assert "there is no context 'nowhere'" in kubectl("headway", "jobs", "--context", "nowhere", code=2)
    assert "there is no job 'none'" in kubectl("headway", "why", "none", code=2)
    assert kubectl("__complete", "headway", "su").splitlines()[:2] == ["submit", "suspend"]
    assert "--all-namespaces" in kubectl("__complete", "headway", "jobs", "--a")
