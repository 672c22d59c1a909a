"""An impossible deadline is a warning at submission, never an error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headway.workload.deadlines import impossible_deadlines
from headway.workload.jobsfile import load


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            "seconds: 2h, deadline: 30m",
            "job 'a': field deadline: 30 min is shorter than its declared 2 h; the job will be",
        ),
        ("seconds: 2h, deadline: 30m, replicas: 2, max: 4", "its declared 2 h, or 1 h at its max replicas; the job"),
        ("seconds: 2h, deadline: 1h, replicas: 2, max: 4", ""),
        ("seconds: 2h, deadline: 1h, replicas: 2, max: 4, can: [move]", "1 h is shorter than its declared 2 h; the"),
        ("seconds: 2h, deadline: 2h, submit: 9h", ""),
        ("deadline: 1s", ""),
        ("deadline: 0", "job 'a': field deadline: it is over when the job is submitted; the job will be late"),
        ("seconds: 2h", ""),
    ],
)
def test_what_is_told(tmp_path, fields, sentence):
    (tmp_path / "a.yaml").write_text(f"jobs: [{{name: a, cpu: 1, {fields}}}]")
    told = impossible_deadlines(load(tmp_path / "a.yaml").jobs)
    assert len(told) == bool(sentence)
    assert sentence in "".join(told)


def test_run_tells_it_and_runs(tmp_path):
    (tmp_path / "a.yaml").write_text("jobs: [{name: a, cpu: 100m, seconds: 1h, deadline: 5s, command: ['true']}]")
    words = [sys.executable, "-m", "headway", "run", "a.yaml", "--no-cgroups"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert "warning: job 'a': field deadline: 5 s is shorter than its declared 1 h" in done.stderr
    assert "start a" in done.stdout + done.stderr
