from __future__ import annotations

import json
import subprocess
import sys

FILE = """
nodes: [{name: only, cpu: 1}]
jobs:
  - {name: first, cpu: 800m, seconds: 50}
  - {name: second, cpu: 500m, seconds: 50}
  - {name: giant, cpu: 4, seconds: 50, submit: 10s}
"""


def _headway(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "headway", *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_waiting_job_is_explained_from_the_log(tmp_path):
    (tmp_path / "jobs.yaml").write_text(FILE)
    assert _headway(tmp_path, "simulate", "jobs.yaml", "--policy", "first-fit", "--log", "run.log").returncode in (0, 1)
    lines = (tmp_path / "run.log").read_text().splitlines(keepends=True)
    at_ten = next(number for number, line in enumerate(lines) if '"now":10.0' in line)
    (tmp_path / "run.log").write_text("".join(lines[: at_ten + 1]))
    told = json.loads(_headway(tmp_path, "why", "second", "--log", "run.log", "--json").stdout)
    assert (told["code"], told["need"], told["have"], told["gap"]) == ("not_enough_free", 500, 200, 300)
    assert told["blocked_by"] == ["first"]
    told = _headway(tmp_path, "why", "giant", "--log", "run.log")
    assert "larger_than_any_node" in told.stdout
    assert "4 cpu" in told.stdout
    assert "ask for at most 1 cpu" in told.stdout


def test_who_is_not_there_is_told(tmp_path):
    (tmp_path / "jobs.yaml").write_text(FILE)
    _headway(tmp_path, "simulate", "jobs.yaml", "--policy", "first-fit", "--log", "run.log")
    told = _headway(tmp_path, "why", "nobody", "--log", "run.log")
    assert told.returncode == 2
    assert "first" in told.stderr
    assert _headway(tmp_path, "why", "nobody").returncode == 2
