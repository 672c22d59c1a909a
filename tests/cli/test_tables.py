"""Tables at 80 columns: figures are never cut, running jobs come first, what is over is counted."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from headway.cli.jobs.jobs import table_of
from headway.cli.machine import queue
from headway.cli.machine.queue_status import JobStatus
from headway.cli.screen.live_table import live_table
from headway.cli.screen.show import job_table, summary
from headway.cli.screen.tables import TableColumn, fitted
from headway.cli.studies import experiment as experiment_command
from headway.core.plan import Plan
from headway.core.states import State
from headway.cycle.loop import Decided
from headway.experiment.case import said
from headway.experiment.registry import EXPERIMENTS
from headway.forecast.times import Range
from headway.record.metrics import Course, Tally
from make import a_job, a_snapshot, running, some_nodes, waiting


def printed(thing: object, width: int = 80) -> str:
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=False, color_system=None).print(thing)
    return text.getvalue()


COLUMNS = [TableColumn("policy", is_text=True), TableColumn("mean"), TableColumn("p50", drop=1),
           TableColumn("interval", drop=2), TableColumn("empty")]  # fmt: skip


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_figures_are_never_cut(width):
    rows = [["mine.py:a_policy_with_a_very_long_name_of_its_own", "1,234,567.8", "123,456.7", "1,000 to 2,000", ""]]
    shown = printed(fitted("", COLUMNS, rows, width), width)
    assert "1,234,567.8" in shown
    assert "…" not in shown
    assert "empty" not in shown, "a column without content takes no room"
    assert max(map(len, shown.splitlines())) <= width
    assert "".join(line.split()[0] for line in shown.splitlines()[3:] if line.strip()).startswith("mine.py")


def test_less_important_columns_are_dropped_first():
    rows = [["p", "1,234,567.8", "123,456.7", "1,000 to 2,000", ""]]
    assert "interval" not in printed(fitted("", COLUMNS, rows, 40), 40)
    assert "p50" in printed(fitted("", COLUMNS, rows, 40), 40)
    assert "p50" not in printed(fitted("", COLUMNS, rows, 25), 25)


def test_the_table_of_jobs_fits_in_eighty_columns():
    job = a_job("a-rather-long-name-of-a-job-with-many-letters", user="somebody", seconds=9.0, deadline=40_000.0)
    course = Course(job, State.FINISHED, started=123_456.7, ended=234_567.8, trained=111_111.1, stops=2)
    shown = printed(job_table([course]))
    assert {"Jobs", "(minutes)", "3,909.5", "666.7", "finished", "missed"} <= set(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_thirty_jobs_in_eighty_by_twenty_four_show_the_running_first():
    """Ten are over, two run, the others wait: the two are seen with their deadlines, the ten are counted."""
    told = {State.FINISHED: 10, State.FAILED: 1}
    jobs = [waiting(a_job(f"waits-{number}")) for number in range(18)]
    jobs += [running(a_job(f"runs-{number}", deadline=90.0), [0]) for number in range(2)]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=2), now=10.0)
    lines = printed(live_table(Decided(snapshot, Plan(()), ()), {}, told, (80, 24))).splitlines()
    assert len(lines) <= 24
    names = [line.split()[0] for line in lines if line.strip()]
    assert names.index("runs-0") < names.index("runs-1") < names.index("waits-0")
    assert any("in 80 s" in line for line in lines)
    assert any("gpu" in line for line in lines), "a waiting job has its reason"
    assert "10 finished" in lines[-1]
    assert "1 failed" in lines[-1]
    assert "more waiting" in lines[-1]


def test_waiting_jobs_are_seen_however_many_run():
    jobs = [running(a_job(f"runs-{number}"), [0]) for number in range(30)] + [waiting(a_job("waits"))]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=30), now=10.0)
    lines = printed(live_table(Decided(snapshot, Plan(()), ()), {}, {}, (80, 24))).splitlines()
    assert len(lines) <= 24
    assert any(line.startswith("waits") and "needs 1 gpu; 0 gpu is free" in line for line in lines)
    assert "19 more running" in lines[-1]


def test_a_job_with_a_deadline_is_never_hidden_and_a_long_name_takes_one_line():
    name = "a-long-name-of-a-sweep-with-lr0-001-and-seed"
    jobs = [waiting(a_job(f"{name}{number}")) for number in range(29)] + [waiting(a_job("due", deadline=500.0))]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=1), now=10.0)
    lines = printed(live_table(Decided(snapshot, Plan(()), ()), {}, {State.FINISHED: 3}, (80, 24))).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("due ") and "in 8 min" in line for line in lines)
    assert any(line.startswith("a-long-name-…") for line in lines), "the ends stay: jobs of a sweep differ there"
    assert lines[-1] == "18 more waiting, 3 finished"


def test_training_jobs_fit_in_eighty_columns():
    row = SimpleNamespace(name="letters-of-a-long-name", user="ben", phase="Running", replicas=12, nodes=["w@n1,n2"],
                          progress="1200/100000", loss=0.04975475746, starts="", eta="2026-11-16T19:20:00", deadline="",
                          attempt=1, message="Role 'worker' needs 4 gpu for 12 replicas; 3 gpu is free.")  # fmt: skip
    shown = printed(table_of([row]))
    assert {"letters-of-a-long-name", "Running", "1200/100000", "0.0498"} <= set(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


def test_of_why_a_job_waits_enough_is_left_in_eighty_columns():
    fields = {
        "replicas": 0,
        "nodes": [],
        "loss": None,
        "starts": "",
        "eta": "",
        "deadline": "",
        "attempt": 0,
        "progress": "",
        "message": "",
    }
    words = "One replica of role 'worker' asks for 64 cpu; the largest suitable node has 2 cpu."
    waits = {"name": "huge", "user": "headway-lab-admin", "phase": "Waiting", "message": words}
    runs = {"name": "long", "user": "ana", "phase": "Running", "replicas": 1, "nodes": ["worker: node-1"],
            "progress": "279/4000", "loss": 0.3369, "eta": "2026-11-17T08:25:37"}  # fmt: skip
    rows = [SimpleNamespace(**fields | one) for one in (waits, runs)]
    shown = printed(table_of(rows, today="2026-11-17"))
    assert "One replica of role 'worker'" in shown
    assert "08:25Z" in shown.split()
    assert "11-17 08:25Z" in printed(table_of(rows, 120, today="2026-11-16"))
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_fits_in_eighty_columns(name, monkeypatch, capsys):
    """Every figure of every policy is there, in as many tables as it takes."""
    monkeypatch.setenv("COLUMNS", "80")
    chosen, cell = EXPERIMENTS[name], EXPERIMENTS[name].cells[0]
    figures = {figure.name: {"mean": 1234.5 + number, "ci": None} for number, figure in enumerate(chosen.figures)}
    goals = [{"what": goal.what, "reach": goal.reach, "at_least": goal.at_least, "form": goal.form, "median": 12.3,
              "cells": 12, "cells_reached": 3, "reached": True} for goal in chosen.targets]  # fmt: skip
    told = {
        "title": chosen.title, "targets": goals, "analysis": list(chosen.analysis),
        "cells": [{"load": cell.load, "mix": cell.mix, "bound": {},
                   "policies": {entry.label: figures for entry in chosen.entries}}],
    }  # fmt: skip
    experiment_command._show(chosen, told)
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    row = [line for line in shown.splitlines() if line.startswith(f" {chosen.entries[0].label} ")]
    text = " ".join(row)
    for number, figure in enumerate(chosen.figures):
        assert said(figure.form, 1234.5 + number) in text


@pytest.mark.parametrize("far", [100.0, 7_200.0, 90_000.0])
def test_the_jobs_of_a_queue_say_when_they_are_done_in_80_columns(far):
    now = time.time()
    done = Range(now + far, now + 1.2 * far, now + 1.5 * far)
    jobs = [
        JobStatus("train", "finished", now - 100),
        JobStatus("sweep-lr0-1-seed0", step=345, steps=9000, loss=0.1, left=far, done=done, deadline=now + 7_100),
        JobStatus("sweep-lr0-01-seed1", starts=done, done=done, why="needs 1 cpu; 0 cpu is free"),
    ]
    lines = printed(fitted("", queue.COLUMNS, [queue._row(job) for job in jobs], 80)).splitlines()
    assert {"done", "deadline", "why"} <= {*lines[1].split()}
    assert any("needs 1 cpu; 0 c" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_the_summary_tells_how_much_of_what_was_held_was_used():
    """Where it was measured."""
    result = Tally().result() | {"utilisation": {"cpu": 0.8, "memory": 0.5}}
    assert "used" not in summary(result)
    assert "  used        75 % of the cpu that was held" in summary(result | {"used": {"cpu": 0.6}}).splitlines()
