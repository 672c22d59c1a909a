"""An impossible deadline is a warning at submission, never an error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headway.workload.deadlines import deadline_warnings
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
    told = deadline_warnings(load(tmp_path / "a.yaml").jobs)
    assert len(told) == bool(sentence)
    assert sentence in "".join(told)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            "deadline: 30s",
            "field deadline of a: where no room is free, the policy's own pauses (cool_down 60 s",
        ),
        ("seconds: 15, deadline: 100s", "; --set cool_down=5 --set restart=5 makes room"),
        ("seconds: 15, deadline: 110s", ""),
        ("deadline: 90s", ""),
    ],
)
def test_a_deadline_that_the_pauses_of_the_policy_may_make_late(tmp_path, fields, told):
    (tmp_path / "a.yaml").write_text(f"jobs: [{{name: a, cpu: 1, {fields}}}]")
    jobs = load(tmp_path / "a.yaml").jobs
    said = deadline_warnings(jobs, {"cool_down": 60.0, "restart": 30.0})
    assert len(said) == bool(told)
    assert told in "".join(said)
    assert not deadline_warnings(jobs)


def test_run_tells_it_and_runs(tmp_path):
    (tmp_path / "a.yaml").write_text("jobs: [{name: a, cpu: 100m, seconds: 1h, deadline: 5s, command: ['true']}]")
    words = [sys.executable, "-m", "headway", "run", "a.yaml", "--no-cgroups"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert "warning: job 'a': field deadline: 5 s is shorter than its declared 1 h" in done.stderr
    assert "start a" in done.stdout + done.stderr
    assert "own pauses" not in done.stderr, "one sentence is enough"
    (tmp_path / "b.yaml").write_text("jobs: [{name: b, cpu: 100m, deadline: 9s, command: ['true']}]")
    for more, told in ([], "own pauses (cool_down 60 s"), (["--set", "cool_down=2", "--set", "restart=2"], ""):
        done = subprocess.run([*words[:4], "b.yaml", *more], cwd=tmp_path, capture_output=True, text=True, timeout=200,
                              check=False)  # fmt: skip
        assert told in done.stderr
        assert told or "warning" not in done.stderr
