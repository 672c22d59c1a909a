"""`headway replay`: each head line of a log holds from there on, as a restart with other options wrote it."""

from __future__ import annotations

import json
import sys

import pytest

from headway.cli import main

JOBS = """
nodes: [{name: n, gpu: 2}]
jobs:
  - {name: long, gpu: 1, seconds: 9, queue: vision}
  - {name: wide, gpu: 2, seconds: 8, submit: 1, queue: rest}
  - {name: short, gpu: 1, seconds: 2, submit: 2, queue: vision}
"""
QUEUES = "queues:\n  - {name: vision, quota: {gpu: 1}, borrow: {gpu: 0}}\n  - {name: rest, quota: {gpu: 1}}\n"


@pytest.fixture
def headway(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / "queues.yaml").write_text(QUEUES)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["headway", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capsys.readouterr()
        return ended.value.code or 0, out.out, out.err

    return call


@pytest.fixture
def restarted(headway, tmp_path):
    """A log of three starts, each with other options than the one before."""
    whole = tmp_path / "whole.log"
    with whole.open("w") as log:
        for words in (
            ["--policy", "first-fit"],
            ["--policy", "first-fit", "--set", "queues=queues.yaml"],
            ["--policy", "fifo"],
        ):
            assert headway("simulate", "jobs.yaml", *words, "--log", "part.log")[0] == 0
            log.write((tmp_path / "part.log").read_text())
            (tmp_path / "part.log").unlink()
    return str(whole)


def test_each_start_is_decided_by_its_own_options(headway, restarted):
    code, said, _ = headway("replay", restarted, "--json")
    told = json.loads(said)
    assert (code, told["differences"]) == (0, [])
    assert told["recorded"] == told["policy"] == "first-fit, fifo"
    assert "under first-fit, fifo, replayed under first-fit, fifo: 0 plans differ" in headway("replay", restarted)[1]


def test_a_plan_that_the_options_of_its_start_do_not_give_is_a_difference(headway, restarted, tmp_path):
    lines = (tmp_path / "whole.log").read_text().splitlines(keepends=True)
    heads = [number for number, line in enumerate(lines) if json.loads(line)["line"] == "head"]
    assert len(heads) == 3
    lines[heads[1]] = lines[heads[0]]  # as if the queues had not been there
    (tmp_path / "whole.log").write_text("".join(lines))
    code, said, _ = headway("replay", restarted, "--json")
    assert (code, len(json.loads(said)["differences"])) == (1, 2)


def test_another_policy_is_asked_of_the_whole_log(headway, restarted):
    code, said, _ = headway("replay", restarted, "--policy", "first-fit", "--json")
    told = json.loads(said)
    assert (code, told["policy"], told["recorded"]) == (0, "first-fit", "first-fit, fifo")
    assert told["differences"], "fifo decided otherwise"
