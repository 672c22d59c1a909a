"""`headway eta` by a log, `run --dry-run` before there is one, and times of day as people say them."""

from __future__ import annotations

import io
import json
import time

import pytest
from rich.console import Console

from forked import headway
from headway.cli.machine.queue_status import JobStatus
from headway.cli.screen.clock_times import ClockTimes, times_of
from headway.cli.screen.show import job_table
from headway.core.job import JobId
from headway.forecast.times import Eta, Forecast, Range
from headway.record.metrics import Course
from make import a_job

FILE = """
nodes: [{name: only, cpu: 1}]
jobs:
  - {name: first, cpu: 1, seconds: 600, command: ["true"]}
  - {name: second, cpu: 1, seconds: 300, command: ["true"]}
  - {name: later, cpu: 1, seconds: 60, submit: 2h, command: ["true"]}
"""


@pytest.fixture
def at_noon(monkeypatch):
    """The zone is UTC, and second 0 is noon of a Wednesday."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield 1_700_049_600.0
    monkeypatch.undo()
    time.tzset()


def test_times_of_day_as_people_say_them(at_noon):
    zero = at_noon
    assert time.strftime("%a %H:%M", time.localtime(zero)) == "Wed 12:00"
    hour = 3600.0
    eta = Eta(Range(1 * hour, 1.1 * hour, 1.25 * hour), Range(2 * hour, 2.5 * hour, 3 * hour))
    times = ClockTimes(Forecast(0.0, {JobId("a"): eta}, draws=40), zero)
    assert times.sentence(eta) == "starts 13:00-13:15, done 14:30 (14:00-15:00)"
    assert times.between(Range(60.0, 90.0, 100.0)) == "12:01:00-12:01:40", "soon: with seconds"
    assert times.between(Range(11 * hour, 12 * hour, 13 * hour)) == "23:00-Thu 01:00"
    assert times.between(Range(20 * hour, 21 * hour, 22 * hour)) == "Thu 08:00-10:00"
    assert times.between(Range(480 * hour, 481 * hour, 482 * hour)) == "5 Dec 12:00-14:00"
    assert times.between(Range(hour, hour, hour)) == "13:00"
    never = Range(hour, float("inf"), float("inf"))
    assert (times.between(never), times.about(never)) == ("", "not foreseen")
    assert times.between(Range(hour, 2 * hour, float("inf"))) == "13:00 or later"
    assert "may never be" in times.sentence(Eta(None, never))
    single = ClockTimes(Forecast(0.0, {}, draws=1), zero)
    assert single.about(Range(2 * hour, 2.5 * hour, 3 * hour)) == "14:30", "a single future is no range"


def test_before_submission(tmp_path):
    (tmp_path / "jobs.yaml").write_text(FILE)
    words = ("run", "jobs.yaml", "--dry-run", "--policy", "fifo", "--cluster", "1x1cpu")
    told = headway(*words, "--json", folder=tmp_path)
    found = json.loads(told.stdout)
    first, second, later = (found["jobs"][name] for name in ("first", "second", "later"))
    assert first["done"]["mid"] - found["now"] == pytest.approx(600.0, rel=0.3)
    assert second["starts"]["mid"] == pytest.approx(first["done"]["mid"], abs=200.0)
    assert (later["state"], later["starts"]["low"] - found["now"]) == ("to come", pytest.approx(7200.0, abs=10.0))
    assert second["done"]["low"] < second["done"]["mid"] < second["done"]["high"]
    assert not (tmp_path / ".headway").exists(), "nothing is begun or written"
    shown = headway(*words, folder=tmp_path).stdout
    assert "starts" in shown
    assert "all done" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_while_it_goes_on_by_its_log(tmp_path):
    (tmp_path / "jobs.yaml").write_text(FILE)
    headway("simulate", "jobs.yaml", "--policy", "fifo", "--log", "run.log", folder=tmp_path)
    lines = (tmp_path / "run.log").read_text().splitlines(keepends=True)
    at_start = next(number for number, line in enumerate(lines) if '"cycle"' in line)
    (tmp_path / "run.log").write_text("".join(lines[: at_start + 1]))
    told = json.loads(headway("eta", "--log", "run.log", "--json", folder=tmp_path).stdout)
    assert {"first", "second"} <= told["jobs"].keys()
    sentence = headway("eta", "second", "--log", "run.log", folder=tmp_path).stdout
    assert sentence.startswith("second (waiting): starts ")
    assert ", done " in sentence
    wrong = headway("eta", "nobody", "--log", "run.log", folder=tmp_path)
    assert wrong.returncode == 2
    assert "there is no job 'nobody'" in wrong.stderr


def test_a_job_as_its_status_tells_it(at_noon):
    status = JobStatus("a", "finished", since=at_noon - 3600.0, done=Range(0.0, 1.0, 2.0))
    assert times_of(status, at_noon) == ("", "11:00:00"), "what is over says when it ended"
    soon = Range(at_noon + 60.0, at_noon + 70.0, at_noon + 90.0)
    waiting = JobStatus("b", starts=soon, done=Range(at_noon + 3600.0, at_noon + 4000.0, at_noon + 7200.0))
    assert times_of(waiting, at_noon) == ("12:01:00-12:01:30", "13:00-14:00")
    assert times_of(JobStatus("c", "to come"), at_noon) == ("", "")


def test_the_last_table_has_a_range_for_what_still_waits():
    waits = Course(a_job("w"))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(job_table([waits], 80, {JobId("w"): ("12:01:00-12:01:30", "13:00-14:00")}))
    told = console.export_text()
    assert "12:01:00-12:01:30" in told
    assert "13:00-14:00" in told
