"""A user's own policy that fails: `simulate` ends with a sentence; `run` trains on under first-fit."""

from __future__ import annotations

import json

import pytest

from forked import headway
from headway.cli.own_policy import load_own
from headway.core.errors import UserError

MINE = """from headway.core.plan import Plan, Start
from headway.core.placement import Placement


def divides(snapshot):
    return 1 / 0


def dreams(snapshot):
    return Plan((Start("ghost", Placement(((0,),))),))
"""
JOBS = """
nodes: [{name: here, cpu: 1}]
jobs:
  - {name: a, cpu: 100m, seconds: 1, command: [python, quick.py]}
  - {name: b, cpu: 100m, seconds: 1, command: [python, quick.py]}
"""


def _headway(folder, *words):
    return headway(*words, folder=folder)


def _files(folder):
    (folder / "mine.py").write_text(MINE)
    (folder / "jobs.yaml").write_text(JOBS)
    (folder / "quick.py").write_text("from headway import progress\nwith progress.track() as p:\n    p.report(1)\n")


def test_simulate_ends_with_a_sentence(tmp_path):
    _files(tmp_path)
    done = _headway(tmp_path, "simulate", "jobs.yaml", "--policy", "mine.py:dreams")
    assert done.returncode == 2, done.stdout
    assert done.stderr == (
        "headway: --policy mine.py:dreams: it starts nothing, although nothing runs and 'a' fits; 2 wait; "
        "Start of 'ghost' was refused: there is no such job\n"
    )
    assert done.stdout == ""


def test_run_trains_on_under_first_fit_and_replays_alike(tmp_path):
    _files(tmp_path)
    done = _headway(tmp_path, "run", "jobs.yaml", "--policy", "mine.py:divides", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] == 2
    told = "mine.py:divides: mine.py, line 6: ZeroDivisionError: division by zero; first-fit decides"
    assert (tmp_path / ".headway/jobs/run.log").read_text().count(f'["--policy","{told}"]') == 1
    again = _headway(tmp_path, "replay", ".headway/jobs/run.log", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["differences"] == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (f"import head{'9' * 5000}", "ModuleNotFoundError: No module named 'head999"),
        ('raise ValueError("two\\nlines \\x1b[2J")', "ValueError: two lines \N{REPLACEMENT CHARACTER}[2J"),
        ("raise SystemExit", "cannot be loaded: SystemExit"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_told_in_one_short_sentence(tmp_path, content, told):
    (tmp_path / "mine.py").write_text(content)
    with pytest.raises(UserError) as caught:
        load_own(f"{tmp_path / 'mine.py'}:best", lambda known: known)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
