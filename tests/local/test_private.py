"""What a run keeps is for its owner only, and values of `env:` are in none of it."""

from __future__ import annotations

import stat
import subprocess
import sys
import time

JOBS = """
nodes: [{cpu: 1}]
jobs:
  - {name: a, cpu: 1, command: [python, train.py], env: {TOKEN: s3cret-value}}
"""
SCRIPT = """
import os, time
from pathlib import Path
from headway import progress
with progress.track(total_steps=1) as p:
    p.report(1)
    Path("began-" + os.environ["TOKEN"]).touch()
    while not Path("go").exists():
        time.sleep(0.02)
"""


def test_a_run_is_private_and_goes_on_with_its_env(tmp_path):
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / "train.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "headway", "run", "jobs.yaml", "--no-cgroups", "--json"]
    folder, began = tmp_path / ".headway/jobs", tmp_path / "began-s3cret-value"
    run = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, umask=0o022)
    try:
        give_up = time.monotonic() + 120
        while not began.exists() and time.monotonic() < give_up and run.poll() is None:
            time.sleep(0.02)
        assert began.exists()
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*") if path.is_file()}
        assert set(modes.values()) == {0o600}
        soon = {folder / name for name in ("run.log.beliefs", "run.log.speeds", "status.json")}  # after the first cycle
        assert modes.keys() - soon == {folder / name for name in ("run.log", "run.json", "lock", "env-key")}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        run.kill()
        run.wait()
    began.unlink()
    (tmp_path / "go").touch()
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr
    assert began.exists()
    assert b"TOKEN" in (folder / "run.log").read_bytes()
    for path in folder.rglob("*"):
        assert not path.is_file() or b"s3cret-value" not in path.read_bytes(), path
