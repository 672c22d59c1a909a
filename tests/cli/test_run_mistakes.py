"""What a user gets wrong: one sentence that names file, job and field, exit code 2, nothing started."""

from __future__ import annotations

import pytest

from forked import headway

GOOD = {"name": "a", "cpu": "100m", "command": ["true"]}


def _headway(folder, *words):
    return headway(*words, folder=folder)


CASES = {
    "unknown field": ("jobs: [{name: a, cpus: 1, command: ['true']}]", ["job 'a'", "cpus"]),
    "unknown top field": ("job: []\njobs: [{name: a, command: ['true']}]", ["job"]),
    "no jobs": ("jobs: []", ["field jobs"]),
    "not yaml": ("jobs: [", ["line", "YAML"]),
    "not a list": ("jobs: 4", ["jobs"]),
    "no name": ("jobs: [{cpu: 1, command: ['true']}]", ["jobs[0]", "name"]),
    "bad name": ("jobs: [{name: A_b, cpu: 1, command: ['true']}]", ["A_b", "field name"]),
    "two of one name": ("jobs: [{name: a, command: ['true']}, {name: a, command: ['true']}]", ["jobs[1].name", "'a'"]),
    "no command": ("jobs: [{name: a, cpu: 100m}]", ["job 'a'", "field command"]),
    "missing script": ("jobs: [{name: a, command: [python, nowhere.py]}]", ["job 'a'", "nowhere.py"]),
    "missing program": ("jobs: [{name: a, command: [no-such-program]}]", ["job 'a'", "no-such-program"]),
    "larger than the machine": ("jobs: [{name: a, cpu: 5000, command: ['true']}]", ["field cpu", "5000 cpu"]),
    "no such resource": ("jobs: [{name: a, resources: {tpu: 1}, command: ['true']}]", ["job 'a'", "field tpu"]),
    "nodes too large": ("nodes: [{cpu: 5000}]\njobs: [{name: a, command: ['true']}]", ["field nodes", "5000 cpu"]),
    "bad amount": ("jobs: [{name: a, cpu: lots, command: ['true']}]", ["job 'a'", "field cpu", "lots"]),
    "bad duration": ("jobs: [{name: a, submit: soon, command: ['true']}]", ["job 'a'", "field submit", "soon"]),
    "negative": ("jobs: [{name: a, seconds: -3, command: ['true']}]", ["job 'a'", "field seconds"]),
    "bad can": ("jobs: [{name: a, can: [fly], command: ['true']}]", ["job 'a'", "field can", "fly"]),
    "wrong bounds": ("jobs: [{name: a, replicas: 2, min: 3, command: ['true']}]", ["job 'a'", "min (3)"]),
    "circle": (
        "jobs: [{name: a, command: ['true'], roles: {x: {after: [y]}, y: {after: [x]}}}]", ["'a'", "waits for itself"]
    ),
    "after nobody": ("jobs: [{name: a, command: ['true'], roles: {x: {after: [y]}}}]", ["job 'a'", "'y'"]),
    "limit below request": ("jobs: [{name: a, cpu: 1, limit: {cpu: 500m}, command: ['true']}]", ["limit.cpu"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_exit_code_2(tmp_path, case):
    text, words = CASES[case]
    (tmp_path / "jobs.yaml").write_text(text)
    done = _headway(tmp_path, "run", "jobs.yaml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "jobs.yaml" in done.stderr
    for word in words:
        assert word in done.stderr
    assert not list(tmp_path.glob(".headway/*/output"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "nowhere.yaml"], "nowhere.yaml"),
        (["run", "."], "cannot be read"),
        (["run", "jobs.yaml", "--policy", "magic"], "--policy magic"),
        (["run", "jobs.yaml", "--policy", "mine.py:policy"], "mine.py"),
        (["run", "jobs.yaml", "--set", "cool_down=soon"], "--set cool_down=soon"),
        (["run", "jobs.yaml", "--set", "color=red"], "cool_down"),
        (["run", "jobs.yaml", "--estimates", "oracle"], "--estimates oracle"),
        (["run", "jobs.yaml", "--cluster", "many"], "--cluster many"),
        (["run", "jobs.yaml", "--cluster", "1x9000cpu"], "9000 cpu"),
        (["replay", "nowhere.log"], "nowhere.log"),
        (["replay", "jobs.yaml"], "line 1"),
    ],
)
def test_wrong_words(tmp_path, words, said):
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, cpu: 100m, command: ['true']}]\n")
    done = _headway(tmp_path, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert said in done.stderr


def test_help_is_quick_to_find(tmp_path):
    done = _headway(tmp_path, "--help")
    assert done.returncode == 0
    for command in ("run", "simulate", "compare", "replay", "schedule", "submit", "lab"):
        assert command in done.stdout


def test_migration_says_where_nothing_is_shared(tmp_path):
    plain = "nodes: [{name: n, cpu: 2}]\njobs: [{name: a, cpu: 1, seconds: 5}]\n"
    (tmp_path / "plain.yaml").write_text(plain)
    (tmp_path / "shared.yaml").write_text(plain.replace("cpu: 1,", "cpu: 1, limit: {cpu: 2},"))
    told = _headway(tmp_path, "simulate", "plain.yaml", "--policy", "migration").stderr
    assert told.count("no job has a cpu limit above its request") == 1
    assert "limit" not in _headway(tmp_path, "simulate", "shared.yaml", "--policy", "migration").stderr
