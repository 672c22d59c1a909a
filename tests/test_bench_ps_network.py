"""The benchmark that checks the communication model: a real job in two network namespaces, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"
SCRIPT = [sys.executable, str(BENCH / "ps_network.py"), "--quick"]


def _spaces() -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith("headway-ps-")]


def _possible() -> str:
    """Why it cannot be tried here; nothing where it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "iproute2 is not installed"
    name = f"headway-try-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "network namespaces cannot be made here"
    shaped = ["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit"]
    done = subprocess.run([*shaped, "burst", "16kb", "latency", "1ms"], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return "this kernel does not shape bandwidth with tbf" if done.returncode else ""


REASON = _possible()
needs_namespaces = pytest.mark.skipif(bool(REASON), reason=REASON or "possible")


@needs_namespaces
def test_a_real_job_trains_across_namespaces_and_is_slower_apart():
    done = subprocess.run(SCRIPT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| 4.3 MB")]
    assert len(rows) == 5
    assert "the loss fell in 5 of 5" in done.stdout
    for row in rows:
        together, measured, predicted = (float(cell.split()[0]) for cell in row[5:8])
        assert together < measured, "500 Mbit/s is far slower than a loopback"
        assert 0.2 < predicted / measured < 5.0, "a busy machine disturbs it; more than this is another model"
    assert not _spaces()


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind_when_it_is_interrupted(number):
    with subprocess.Popen(SCRIPT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        give_up = time.monotonic() + 200
        while not (running.stderr.readline()).startswith("inside a node"):
            assert time.monotonic() < give_up
        spaces = _spaces()
        running.send_signal(number)
        _, said = running.communicate(timeout=200)
    assert len(spaces) == 2
    assert running.returncode == 130
    assert "Traceback" not in said
    assert not _spaces()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv to give it up")
def test_without_root_it_says_so_in_one_sentence(tmp_path):
    command = ["setpriv", "--reuid", "65534", "--clear-groups", *SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"HOME": "/"})
    if "Permission denied" in done.stderr:
        pytest.skip("another user may not read this folder")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "root" in done.stderr
