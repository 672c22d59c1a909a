"""Lines of `headway schedule --log-format json`: each is one object, with job and cycle where they are known."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading

import pytest

from headway.cli.cluster import log_lines
from headway.cli.cluster.log_lines import JsonLines, in_cycle
from scheduling import run_headway


@pytest.fixture(autouse=True)
def _no_cycle_of_other_tests(monkeypatch):
    monkeypatch.setattr(log_lines, "_here", threading.local())


def line(message: str, *words: object, error: bool = False, **extra: object) -> dict:
    logger = logging.getLogger("headway.kube")
    trace = sys.exc_info() if error else None
    record = logger.makeRecord(logger.name, logging.WARNING, "f.py", 1, message, words, trace, extra=extra or None)
    record.created, record.msecs = 1763540737.12, 120.0
    written = JsonLines().format(record)
    assert "\n" not in written
    return json.loads(written)


def test_a_line_has_time_level_logger_and_message():
    assert line("job %s: %s", "bert", "running", job="bert") == {
        "time": "2025-11-19T08:25:37.120Z", "level": "warning", "logger": "headway.kube",
        "message": "job bert: running", "job": "bert",
    }  # fmt: skip


def test_the_cycle_is_that_of_the_thread_which_speaks():
    told = []

    def decide() -> None:
        in_cycle(17)
        told.append(line("decided"))

    thread = threading.Thread(target=decide)
    thread.start()
    thread.join()
    assert told[0]["cycle"] == 17
    assert "cycle" not in line("another thread")


def test_a_trace_and_words_of_others_stay_in_their_line():
    try:
        {}["one\ntwo"]
    except KeyError:
        told = line("it says %s", "a\nb\x1b[31m", error=True)
    assert "KeyError" in told["error"]
    assert "\x1b" not in told["message"]


ENDS = """
import threading
from headway.cli.cluster.log_lines import LogFormat, begin_log_lines
begin_log_lines(LogFormat.JSON)
thread = threading.Thread(target=lambda: {}["a thread"])
thread.start()
thread.join()
{}["nobody foresaw it"]
"""


def test_what_ends_a_thread_or_the_process_is_a_line_too():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=False)
    told = [json.loads(one) for one in done.stderr.splitlines()]
    assert [(one["level"], one["message"]) for one in told] == [
        ("critical", "it ends: 'a thread'"), ("critical", "it ends: 'nobody foresaw it'"),
    ]  # fmt: skip
    assert all("Traceback" in one["error"] for one in told)
    assert done.returncode == 1


def test_a_mistake_is_a_line_of_the_chosen_kind(tmp_path):
    words = ["schedule", "--kubeconfig", str(tmp_path / "none")]
    done = run_headway(*words, "--log-format", "json")
    told = json.loads(done.stderr)
    assert (done.returncode, told["level"]) == (2, "critical")
    assert "cannot be read" in told["message"]
    done = run_headway(*words)
    assert (done.returncode, bool(re.match(r"headway: .*cannot be read", done.stderr))) == (2, True)
    assert run_headway(*words, "--log-format", "xml").returncode == 2
