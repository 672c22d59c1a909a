"""`headway add`, `headway cancel` and an edited jobs file, while a run goes on and between runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headway.cli.app import app_for
from headway.cli.machine import jobs_watch
from headway.cli.machine.jobs_watch import QueueFiles
from headway.core.errors import UserError
from headway.core.states import State
from headway.local.added import card_of, put
from headway.record.lines import Change, Head
from headway.record.resume import Left, go_on, left_behind
from headway.workload.jobsfile import load_all

pytestmark = pytest.mark.timeout(250)

LOOP = "echo ran; until test -e go; do sleep 0.02; done"
FILE = """
nodes: [{{name: here, cpu: 500m}}]
jobs:
  - {{name: a, cpu: 100m, command: [sh, -c, '{loop}']}}
  - {{name: b, cpu: 100m, command: [sh, -c, '{loop}']}}
"""
MORE = "jobs: [{name: m, cpu: 100m, env: {TOKEN: geheim}, command: [sh, -c, 'echo ran; test -e mended']}]\n"


def _headway(*words: str) -> int:
    try:
        return app_for(list(words))(list(words), standalone_mode=False) or 0
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # no other run of this user is seen
    monkeypatch.setattr("headway.local.gang.UP_SECONDS", 0.0)
    monkeypatch.setattr("headway.cli.machine.jobs_watch.LOOK_SECONDS", 0.05)
    (tmp_path / "jobs.yaml").write_text(FILE.format(loop=LOOP))
    (tmp_path / "more.yaml").write_text(MORE)
    return tmp_path


def _until(true, seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def _printed(folder: Path, job: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        return (folder / ".headway/jobs/output" / job / "worker-0.log").read_text()
    return ""


def _times(folder: Path, job: str) -> int:
    return _printed(folder, job).count("ran")


def _meanwhile(folder: Path, act) -> threading.Thread:
    """Acts when the run has begun, and lets its jobs end."""

    def work() -> None:
        try:
            _until(lambda: _times(folder, "a") and _times(folder, "b"))
            act()
        finally:
            (folder / "go").touch()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_run_takes_in_what_is_added_and_edited_while_it_goes_on(folder, capsys, monkeypatch):
    given: dict[str, object] = {}
    said: list[str] = []
    monkeypatch.setattr("headway.cli.screen.live.Live.say", lambda _, sentence: said.append(sentence))
    whole = (folder / "jobs.yaml").read_text()

    def act() -> None:
        given["add"] = _headway("add", "more.yaml")
        _until(lambda: _times(folder, "m") == 1)
        (folder / "mended").touch()
        _until(lambda: "exit code 1" in (folder / ".headway/jobs/run.log").read_text())
        given["again"] = _headway("add", "more.yaml")
        _until(lambda: _times(folder, "m") == 2)
        (folder / "jobs.yaml").write_text("jobs: [")
        _until(lambda: any("not valid YAML" in one for one in said))
        (folder / "jobs.yaml").write_text("\n".join(line for line in whole.splitlines() if "name: b" not in line))
        _until(lambda: "not saved" in (folder / ".headway/jobs/run.log").read_text())
        given["large"] = _headway("add", "large.yaml")
        given["own"] = _headway("add", "jobs.yaml")
        given["cancel"] = _headway("cancel", "a")

    (folder / "large.yaml").write_text("jobs: [{name: large, cpu: 600m, command: [echo]}]\n")
    thread = _meanwhile(folder, act)
    code = _headway("run", "jobs.yaml", "--policy", "first-fit", "--json")
    thread.join()
    out, err = capsys.readouterr()
    err = " ".join(err.split())
    assert (code, given) == (0, {"add": 0, "again": 0, "large": 2, "own": 0, "cancel": 2}), err
    assert [said[0], said[2]] == ["jobs.yaml: new: m", "jobs.yaml: removed: b"]
    assert said[1].endswith("; the jobs stay as they were")
    assert "large.yaml: job 'large', role 'worker': field cpu: asks for 0.6 cpu" in err
    assert "jobs.yaml; change it by editing that file" in err
    lines = out.splitlines()
    assert sum(line.startswith(("added: m; the run that goes on", "replaced: m; the run that")) for line in lines) == 2
    result = json.loads(lines[-1])
    assert (result["jobs"], result["finished"]) == (2, 2), "b was removed, m was added"

    state = folder / ".headway/jobs"
    added = state / "added/m.json"
    assert stat.S_IMODE(added.stat().st_mode) == 0o600
    assert "geheim" not in (state / "run.log").read_text()
    assert json.loads(_out(capsys, "replay", str(state / "run.log"), "--json"))["differences"] == []
    assert _headway("run", "jobs.yaml", "--policy", "first-fit", "--json") == 0
    assert "finished before, is kept: a, m" in capsys.readouterr().err


def _out(capsys, *words: str) -> str:
    assert _headway(*words) == 0
    return capsys.readouterr().out


def test_between_runs_jobs_are_added_replaced_and_removed(folder, capsys):
    (folder / "go").touch()
    (folder / "mended").touch()
    assert "`headway run" in _out(capsys, "add", "more.yaml", "--to", "jobs.yaml")
    (folder / "more.yaml").write_text(MORE.replace("name: m", "name: b"))
    assert _out(capsys, "add", "more.yaml", "--to", "jobs.yaml").startswith("added: b")
    assert _headway("run", "jobs.yaml", "--policy", "first-fit", "--json") == 0
    assert json.loads(capsys.readouterr().out)["finished"] == 3
    kept = left_behind(folder / ".headway/jobs/run.log").jobs
    assert {job.id: job.roles[0].command[-1] for job in kept.values()}["b"] == "echo ran; test -e mended"
    assert _out(capsys, "cancel", "b", "m").startswith(
        "b, m: are to be cancelled"
    )  # b is what the jobs file says again
    assert _headway("run", "jobs.yaml", "--policy", "first-fit", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["jobs"] == 2
    assert "starts afresh" in err
    assert _headway("add", "jobs.yaml") == 0
    assert "is the file of this run" in capsys.readouterr().err
    _out(capsys, "add", "more.yaml")
    assert _headway("run", "jobs.yaml", "--fresh", "--policy", "first-fit", "--json") == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 2
    assert list((folder / ".headway/jobs/aside").glob("*/added/b.json")), "--fresh sets added jobs aside, too"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add"], "give jobs files, or a command after `--`"),
        (["add", "more.yaml", "--", "true"], "give jobs files, or a command after `--`"),
        (["add", "--for", "lr", "--", "true"], "--for lr: write NAME=VALUE"),
        (["add", "--cpu", "many", "--", "true"], "headway add, role 'worker': field cpu: cpu cannot be 'many'"),
        (["cancel", "x"], "there is no queue yet: `headway up` starts one"),
        (["add", "more.yaml", "--to", "nothing.yaml"], "--to nothing.yaml: does not exist"),
        (["add", "nothing.yaml", "--to", "jobs.yaml"], "nothing.yaml: cannot be read"),
        (["add", "bad.yaml", "--to", "jobs.yaml"], "bad.yaml: job 'm', role 'worker': field command: gone.py does not"),
    ],
)
def test_mistakes_are_one_sentence(folder, capsys, words, told):
    (folder / "bad.yaml").write_text("jobs: [{name: m, cpu: 1, command: [python, gone.py]}]\n")
    assert _headway(*words) == 2
    [sentence] = capsys.readouterr().err.splitlines()
    assert told in sentence
    assert not (folder / ".headway").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"file":"x","asked":1,"job":{"id":"m","can":31,"roles":[]}}',
        b'{"file":"x","asked":1,"env":[[]],"job":{"id":"m","can":31,"roles":[{"name":"w","after":["gone"]}]}}',
        b'{"job":' * 5000,
        b'{"%s":1}' % (b"x" * 9000),
    ],
)
def test_a_damaged_added_file_is_one_sentence(folder, capsys, content):
    place = folder / ".headway/jobs/added"
    place.mkdir(parents=True)
    (place / "m.json").write_bytes(content)
    assert _headway("run", "jobs.yaml") == 2
    said = capsys.readouterr().err
    assert "m.json: is damaged" in said
    assert len(said) < 600


def test_a_file_that_is_a_pipe_is_read_once(folder):
    os.mkfifo(folder / "pipe")
    assert jobs_watch._stamp(folder / "pipe") == jobs_watch._stamp(Path(os.devnull))


def test_a_run_that_was_edited_and_killed_goes_on(scripts, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(scripts))
    text = "nodes: [{name: here, cpu: 1}]\njobs:\n" + "".join(
        f"  - {{name: {name}, cpu: 500m, steps: {steps}, command: [python, count.py, {steps}]}}\n"
        for name, steps in (("a", 40), ("b", 600))
    )
    (scripts / "jobs.yaml").write_text(text)
    command = [sys.executable, "-m", "headway", "run", "jobs.yaml", "--json", "--policy", "first-fit"]
    first = subprocess.Popen(command, cwd=scripts, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = scripts / ".headway/jobs"
    _until(lambda: "from 0" in _printed(scripts, "b"))
    (scripts / "jobs.yaml").write_text(
        text.replace("{name: a,", "{name: a, priority: 3,")
        .replace("{name: b,", "{name: b, fresh: true,")
        .replace("count.py, 600", "count.py, 4")
    )
    _until(lambda: "done" in _printed(scripts, "b"))
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = subprocess.run(command, cwd=scripts, capture_output=True, text=True, timeout=100, check=True)
    assert json.loads(done.stdout)["finished"] == 2
    jobs = [job for job in left_behind(state / "run.log").jobs.values() if job.id == "a"]
    assert [job.priority for job in jobs] == [0, 3]
    [aside] = (state / "aside").iterdir()
    assert int((aside / "checkpoints/b/count").read_text()) > 0, "it was saved before it was set aside"
    assert json.loads(_out(capsys, "replay", str(state / "run.log"), "--json"))["differences"] == []


@pytest.mark.parametrize("content", [b"", b"[]", b'{"files":' + b"[" * 3000, b'{"a":' * 3000, b"\xff\xfe"])
def test_a_damaged_card_of_a_run_is_none(tmp_path, content):
    """Jobs are checked without it, when the run takes them in."""
    (tmp_path / "run.json").write_bytes(content)
    assert card_of(tmp_path) is None


@pytest.mark.parametrize(
    ("added_at", "ended", "comes_at"),
    [(100.0, 150.0, 700.0), (100.0, 400.0, 700.0), (100.0, 20.0, 600.0), (0.0, 0.0, 600.0)],
    ids=["soon after", "later", "between two runs", "before the first"],
)
def test_the_time_of_an_added_job_that_has_not_come_counts_from_when_it_was_added(
    tmp_path, monkeypatch, added_at, ended, comes_at
):
    """It has `submit: 10m` and was added at second 100; the run was ended before it came, and goes on."""
    began = 1_794_000_000.0
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, cpu: 1, command: [python]}]\n")
    (tmp_path / "more.yaml").write_text("jobs: [{name: m, cpu: 1, submit: 10m, command: [python]}]\n")
    monkeypatch.setattr("headway.local.added.time.time_ns", lambda: int((began + added_at) * 1e9))
    put(tmp_path / "state", load_all([tmp_path / "more.yaml"]).jobs, tmp_path / "more.yaml")
    queue = QueueFiles([tmp_path / "jobs.yaml"], tmp_path / "state")
    times = {job.id: job.submit for job in queue.gone_on_with(began, ended)}
    assert times == {"a": 0.0, "m": pytest.approx(comes_at)}
    running = {0: Change(0, int(State.RUNNING), 0.0, 0.0, 0.0, None, 0.0, 0.0, 0, None, None)}
    left = Left(Head("local", "p", "none"), jobs={0: queue.workload.jobs[0]}, last=running, now=ended)
    arriving = go_on(left, queue.gone_on_with(began, ended), ended + 30.0).arriving
    if added_at < ended:
        assert [job.submit for job in arriving] == [pytest.approx(700.0)], "not anew from the second start"
