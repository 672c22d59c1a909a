"""When a job is over: retries, commands of its user, and what is told of a failure."""

from __future__ import annotations

import time

from conftest_local import Run, a_local_job

from headway.core.states import State
from headway.local.over import CommandsAtEnd, last_lines
from headway.policies.baselines.fifo import first_fit

FAILS_TWICE = """
from pathlib import Path
file = Path("n")
n = len(file.read_text()) if file.exists() else 0
file.write_text("x" * (n + 1))
print(f"try {n}")
exit(n < 2)
"""
TELL = ("sh", "-c", 'echo "$HEADWAY_JOB $HEADWAY_PHASE [$HEADWAY_EXIT_CODE] $(cat $HEADWAY_LOG)" >> told')


def _until(true) -> None:
    give_up = time.monotonic() + 30
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_a_job_that_fails_is_tried_again_as_often_as_it_says_and_then_its_command_runs(scripts, monkeypatch):
    monkeypatch.setattr("headway.local.flights.back_off_seconds", lambda _: 0.05)
    jobs = [
        a_local_job("mended", scripts, "-c", FAILS_TWICE, retries=2, on_end=TELL, on_failure=TELL),
        a_local_job("broken", scripts, "-c", "print('no batch 17'); exit(4)", retries=1, on_failure=TELL),
        a_local_job("well", scripts, "-c", "print('fine')", on_end=("no-such-program",), on_failure=TELL),
    ]
    run = Run(scripts, jobs).go(first_fit)
    assert [run.state(name) for name in ("mended", "broken", "well")] == ["FINISHED", "FAILED", "FINISHED"]
    assert [note.rpartition("; ")[2] for note in run.notes["mended"]] == ["retry 1 of 2", "retry 2 of 2"]
    assert "worker-0 ended with exit code 4: no batch 17; its output" in run.notes["broken"][-1]
    assert run.output("broken").count("no batch") == 2
    _until(lambda: (scripts / "told").exists() and len((scripts / "told").read_text().splitlines()) >= 5)
    told = sorted((scripts / "told").read_text().splitlines())
    assert told == ["broken failed [4] no batch 17", "mended finished [0] try 0", "no batch 17", "try 1", "try 2"]
    assert "cannot be started" in (run.folder / "output/well/on_end.log").read_text()


RULES = {
    "code": {"retry_on": (75,)},
    "text": {"retry_on": (9, "CUDA out of memory")},
    "other": {"retry_on": (9, "no space")},
    "never": {"retry_not_on": (75,)},
    "both": {"retry_on": (75,), "retry_not_on": ("out of memory",)},
}


def test_a_job_is_tried_again_after_the_errors_that_it_names(scripts, monkeypatch):
    monkeypatch.setattr("headway.local.flights.back_off_seconds", lambda _: 0.05)
    fails = "print('step 7'); print('RuntimeError: CUDA out of memory.'); print('bye'); exit(75)"
    jobs = [a_local_job(name, scripts, "-c", fails, retries=1, **rule) for name, rule in RULES.items()]
    run = Run(scripts, jobs).go(first_fit)
    again = {name for name in RULES if any("retry 1 of 1" in note for note in run.notes[name])}
    assert again == {"code", "text"}
    assert {run.output(name).count("bye") for name in again} == {2}
    assert {run.state(name) for name in RULES} == {"FAILED"}


def test_a_command_that_takes_too_long_is_ended(scripts, monkeypatch):
    monkeypatch.setattr("headway.local.over.LONGEST_SECONDS", 0.0)
    commands = CommandsAtEnd(scripts / "state")
    commands.run(a_local_job("a", scripts, on_end=("sleep", "600")), State.CANCELLED, None)
    assert commands._running
    _until(lambda: commands.look() or not commands._running)


def test_the_last_lines_of_an_output_are_found_whatever_it_has(tmp_path):
    path = tmp_path / "o.log"
    assert last_lines(path, 2) == []
    path.write_bytes(b"x" * 100_000 + b"\nfirst\n\n\xff\xfelast  \n\n")
    assert last_lines(path, 2) == ["first", "\ufffd\ufffdlast"]
