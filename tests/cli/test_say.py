"""Sentences are broken between words on a terminal, and stay on one line elsewhere."""

from __future__ import annotations

import sys

import pytest

from headway.cli import main
from headway.cli.screen.say import say, wrapped

LONG = "headway: jobs.yaml: job 'a': field cpu: asks for 64 cpu, but the largest node has 2 cpu; ask for less"


def test_a_terminal_gets_whole_words():
    lines = wrapped(LONG, 40, 4).splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(line.strip() for line in lines) == LONG
    assert all(line.startswith("    ") for line in lines[1:])


def test_a_path_stays_whole():
    path = "/a/rather/long/path/that-has-hyphens/and-more/of-them/output.log"
    assert path in wrapped(f"its output is in {path}", 40).splitlines()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_script_gets_one_line(is_terminal, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    say(LONG, error=True)
    assert (len(capsys.readouterr().err.splitlines()) > 1) is is_terminal


def test_a_replay_under_another_policy_says_what_differs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(
        "nodes: [{name: n, gpu: 2}]\njobs:\n  - {name: long, gpu: 1, seconds: 9}\n"
        "  - {name: wide, gpu: 2, seconds: 8, submit: 1}\n  - {name: short, gpu: 1, seconds: 2, submit: 2}\n"
    )
    for words in (
        ["simulate", "jobs.yaml", "--policy", "fifo", "--log", "run.log"],
        ["replay", "run.log", "--policy", "first-fit"],
    ):
        monkeypatch.setattr(sys, "argv", ["headway", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    told = capsys.readouterr().out
    assert "1 plan differs, 1 in what is decided" in told
    assert "    recorded: nothing\n    replayed: start short\n" in told
