"""`headway schedule` as a process beside a lab, for benchmarks."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.lab import Lab

HEADWAY = [sys.executable, "-c", "from headway.cli import main; main()"]
JOBS = "/apis/headway.dev/v1alpha1/namespaces/{}/trainingjobs"


@contextmanager
def prepared(name: str, **lab: Any) -> Iterator[tuple[Lab, Path]]:
    """A lab of its own in which Headway is installed, and an empty folder; both are gone afterwards."""
    made = Lab.up(name, owned=True, **lab)
    try:
        subprocess.run([*HEADWAY, "schedule", "--install", "--kubeconfig", str(made.kubeconfig)], check=True)
        with tempfile.TemporaryDirectory() as folder:
            yield made, Path(folder)
    finally:
        made.down()


def started(
    lab: Lab, namespace: str, folder: Path, template: dict[str, Any], *options: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """The process, and the file with what it says."""
    with socket.create_server(("", 0)) as probe:
        port = probe.getsockname()[1]
    (folder / "template.yaml").write_text(json.dumps(template))
    said = folder / "said"
    host = lab.host_address if lab.node_names else "127.0.0.1"
    command = [
        *HEADWAY, "schedule", "--kubeconfig", str(lab.kubeconfig), "--namespace", namespace, "--log",
        str(folder / "run.log"), "--template", str(folder / "template.yaml"), "--progress-listen", f"0.0.0.0:{port}",
        "--progress-address", f"{host}:{port}", *options,
    ]  # fmt: skip
    with said.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out), said


def submit(lab: Lab, namespace: str, name: str, roles: dict[str, Any]) -> None:
    body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}}
    lab.api.post(JOBS.format(namespace), {**body, "spec": {"roles": roles}})


def phases(lab: Lab, namespace: str) -> dict[str, dict[str, Any]]:
    """By job: its status."""
    found = lab.api.get(JOBS.format(namespace))["items"]
    return {one["metadata"]["name"]: one.get("status", {}) for one in found}
