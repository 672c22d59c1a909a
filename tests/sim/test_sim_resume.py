"""A simulation that is killed in the middle and started again leaves the log that an undisturbed one leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MOST_SECONDS = 60.0


def _jobs_file(path) -> None:
    lines = ["jobs:"]
    lines += [
        f"  - {{name: j{i:04}, gpu: 1, replicas: {1 + i % 4}, seconds: {20 + i % 90}, submit: {i * 2}, steps: 500}}"
        for i in range(400)
    ]
    lines += ["nodes:", "  - {count: 4, gpu: 4}"]
    lines += ["simulate:", "  start: 1s", "  checkpoint: 20s", "  faults: {between: 2h, repair: 5m, stragglers: 0.1}"]
    path.write_text("\n".join(lines) + "\n")


def _begin(file, log) -> subprocess.Popen[bytes]:
    headway = Path(sys.executable).with_name("headway")
    command = [headway, "simulate", str(file), "--policy", "first-fit", "--seed", "3"]
    return subprocess.Popen([*command, "--log", str(log), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _finish(file, log) -> bytes:
    process = _begin(file, log)
    out, err = process.communicate(timeout=MOST_SECONDS)
    assert process.returncode == 0, err
    return out


def _kill_when_it_has_written(process, log, size: int) -> None:
    give_up = time.monotonic() + MOST_SECONDS
    while not (log.exists() and log.stat().st_size > size):
        assert process.poll() is None, "it was done before it could be killed"
        assert time.monotonic() < give_up
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("share", [0.4])
def test_killed_and_resumed_gives_the_identical_log(tmp_path, share) -> None:
    file, whole, cut = tmp_path / "jobs.yaml", tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    _jobs_file(file)
    result = _finish(file, whole)
    process = _begin(file, cut)
    _kill_when_it_has_written(process, cut, int(share * whole.stat().st_size))
    assert cut.stat().st_size < whole.stat().st_size
    assert _finish(file, cut) == result
    assert cut.read_bytes() == whole.read_bytes()
