"""What libraries print on C's standard output is no part of a command's JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from forked import headway


def test_what_the_solver_prints_is_no_part_of_the_output():
    script = (
        "import ctypes\nfrom headway.cli.screen.asides import asides\nprint('before')\n"
        "with asides():\n    ctypes.CDLL(None).puts(b'tmpSolver.run();')\nprint('after')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "before\nafter\n"
    assert "tmpSolver" in done.stderr


LOUD = """import ctypes
from headway.policies.baselines.fifo import fifo

def loud(snapshot):
    ctypes.CDLL(None).puts(b"tmpSolver.run();")
    return fifo(snapshot)
"""


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "jobs.yaml", "--policy", "loud.py:loud"),
        ("compare", "jobs.yaml", "--policies", "loud.py:loud,fifo", "-j", "1"),
        ("compare", "jobs.yaml", "--policies", "loud.py:loud,fifo", "-j", "2"),
        ("replay", "run.log"),
    ],
)
def test_json_has_no_line_of_a_solver(words, tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, gpu: 1, seconds: 10}]\nnodes: [{gpu: 1}]\n")
    if words[0] == "replay":
        headway("simulate", "jobs.yaml", "--policy", "loud.py:loud", "--log", "run.log", folder=tmp_path)
    done = headway(*words, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert "tmpSolver" in done.stderr
