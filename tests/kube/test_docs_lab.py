"""The Kubernetes page works when it is followed literally, command by command, in one shell."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scheduling import SOURCE, TRAINING

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kubernetes.md"
SHARED = ("headway lab up", "headway lab down")
"""The lab of the session is up, and stays."""


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.split("   #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(SHARED)]


def test_the_kubernetes_page_is_followed(installed, tmp_path):
    lines = commands()
    assert [line for line in lines if line.startswith("headway submit")], "the page has lost its commands"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "headway").write_text(f'#!/bin/sh\nexec {sys.executable} -m headway "$@"\n')
    (programs / "headway").chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE), "COLUMNS": "200",
        "HEADWAY_LAB": installed.name,
    }  # fmt: skip
    script = "set -e -o pipefail\n" + "\n".join(f"echo '$ {line}'\n{line}" for line in lines)
    with subprocess.Popen(
        ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    ) as shell:  # fmt: skip
        try:
            said = shell.communicate(timeout=200)[0]
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
            installed.api.delete(TRAINING.format("default"))
    assert shell.returncode == 0, said
    after = {line: said.partition(f"$ {line}\n")[2].partition("\n$ ")[0] for line in lines}
    assert "succeeded digits" in after["headway submit examples/first.yaml --directory . --wait"]
    assert "Succeeded" in after["headway jobs"]
    assert "200" in after["headway logs digits --lines 3"], said
    assert after["headway why large --kube"].startswith("large (")
    assert "large is to be cancelled" in after["headway cancel large"]
