"""Texts of users and scripts on the screen: neither Rich's markup nor the terminal obeys them."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from headway.cli.jobs.jobs import table_of
from headway.cli.screen import live as live_module
from headway.cli.screen import show
from headway.cli.screen.live import Live
from headway.core.plan import Plan
from headway.core.states import State
from headway.core.text import clean, is_clean
from headway.cycle.loop import Decided
from headway.record.metrics import Course
from headway.workload.jobsfile import load
from make import a_job, a_snapshot, waiting

NASTY = "team[/ml] \x1b[31m\ud800 [bold]"
SHOWN = "team[/ml] �[31m� [bold]"


@pytest.fixture
def screen(monkeypatch):
    """What is printed, as a terminal would get it."""
    text = io.StringIO()
    console = Console(file=text, width=300, force_terminal=True, color_system=None)
    monkeypatch.setattr(live_module, "Console", lambda **_: console)
    monkeypatch.setattr(show, "Console", lambda **_: console)
    return text


def test_a_note_with_markup_and_control_characters_is_shown_as_it_is(screen):
    snapshot = replace(a_snapshot(waiting(a_job("a", user=NASTY))), notes=(("a", f"it could not save: {NASTY}"),))
    live = Live()
    live.show(Decided(snapshot, Plan(()), ()))
    assert f"a: it could not save: {SHOWN}" in screen.getvalue()


def test_tables_show_names_as_they_are(screen):
    live = Live()
    live._console.print(show.job_table([Course(a_job("b", user=NASTY))], 200))
    row = SimpleNamespace(name="c", user=NASTY, phase="Waiting", replicas=1, nodes=["n[/x]"], progress="", loss=None,
                          starts="", eta="", deadline="", attempt=0, message=NASTY)  # fmt: skip
    live._console.print(table_of([row], 300))
    assert screen.getvalue().count(SHOWN) == 3
    assert "n[/x]" in screen.getvalue()
    assert "\x1b[31m" not in screen.getvalue()


def test_why_a_job_failed_is_shown_as_it_is(screen):
    course = Course(a_job("a"), state=State.FAILED, note=NASTY)
    tally = SimpleNamespace(courses={0: course}, result=lambda: RESULT)
    show.show_result(tally, as_json=False)
    assert f"a failed: {SHOWN}" in screen.getvalue()
    assert "p[/x].py: 0 of 1 jobs" in screen.getvalue()


RESULT = {
    "policy": "p[/x].py", "finished": 0, "jobs": 1, "failed": 1, "utilisation": {}, "used": {}, "makespan": 1.0,
    "jct": dict.fromkeys(("mean", "p50", "p95", "p99")), "wait": {"mean": None}, "slowdown": {"mean": None},
    "deadlines": {"total": 0},
}  # fmt: skip


def test_names_in_a_jobs_file_are_cleaned(tmp_path):
    (tmp_path / "jobs.yaml").write_text(
        'nodes: [{name: "n\\e[2J", cpu: 1}]\n'
        'jobs: [{name: a, cpu: 1, user: "team[/ml]\\e[31m", queue: "q\\n1", model: "m\\0"}]\n'
    )
    file = load(tmp_path / "jobs.yaml")
    job = file.jobs[0]
    assert (job.user, job.queue, job.model) == ("team[/ml]�[31m", "q 1", "m�")
    assert is_clean(file.nodes[0].name)


def test_a_jobs_file_with_markup_in_a_user_is_simulated(tmp_path):
    (tmp_path / "jobs.yaml").write_text('nodes: [{cpu: 1}]\njobs: [{name: a, cpu: 1, user: "t[/m]\\e", seconds: 5}]\n')
    words = [sys.executable, "-m", "headway", "simulate", "jobs.yaml", "--log", "run.log"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "t[/m]�" in ended.stdout
    assert "\x1b" not in ended.stdout


@pytest.mark.parametrize("text", ["", "a", "grüße [x] \\", "name \N{GRINNING FACE}"])
def test_a_good_text_stays_as_it_is(text):
    assert clean(text) == text
    assert is_clean(text)
