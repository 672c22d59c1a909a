"""A machine that is not kind: a thread dies, nobody reads, a full disk, few descriptors, no root, a clock set back."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest
from conftest_local import Run, a_local_job

from forked import headway
from headway.core.draft import Draft
from headway.core.plan import Because
from headway.core.states import State
from headway.policies.baselines.fifo import first_fit
from headway.record.lines import CycleLine
from headway.record.log import read
from headway.record.resume import left_behind

pytestmark = pytest.mark.timeout(250)

ONE = """
nodes: [{{name: here, cpu: 1}}]
jobs: [{{name: a, cpu: 500m, steps: {steps}, command: [python, count.py, {steps}]}}]
"""
HEADWAY = [sys.executable, "-m", "headway", "run", "jobs.yaml", "--json", "--policy", "first-fit"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No other run of this user is seen."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def _until(true, seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _end_listener() -> None:
    [thread] = [one for one in threading.enumerate() if one.name == "headway-listen"]
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    _until(lambda: not thread.is_alive())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_listener_whose_thread_dies_is_followed_by_another(scripts):
    ended: list[int] = []

    def policy(snapshot):
        seen = max((sample.step for sample in snapshot.samples), default=0)
        if len(ended) < 2 and seen > (ended[-1] if ended else 0):
            _end_listener()
            ended.append(seen)
        return first_fit(snapshot)

    run = Run(scripts, [a_local_job("a", scripts, "count.py", "60")]).go(policy)
    assert run.state("a") == "FINISHED"
    steps = [sample.step for snapshot in run.snapshots for sample in snapshot.samples]
    assert len(ended) == 2
    assert steps[-1] > ended[-1], "reports arrive after its end"


@pytest.mark.parametrize("closed", ["pipe", "full"])
def test_a_run_whose_messages_nobody_can_read_goes_on(scripts, closed):
    (scripts / "jobs.yaml").write_text(ONE.format(steps=3))
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        stderr = writer if closed == "pipe" else full.fileno()
        words = [word for word in HEADWAY if word != "--json"]
        done = subprocess.run(words, cwd=scripts, stdout=subprocess.PIPE, stderr=stderr, timeout=200, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert b"1 of 1 jobs finished" in done.stdout


@contextlib.contextmanager
def _small_disk(path: Path, size: str, inodes: int) -> Iterator[Path]:
    """A file system of its own. Its end is real: no write beyond it succeeds."""
    path.mkdir()
    options = f"size={size},nr_inodes={inodes},mode=700"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def test_a_full_file_system_under_checkpoints_costs_no_work(scripts):
    with _small_disk(scripts / "state", "64k", 200) as disk:
        asked: list[float] = []

        def policy(snapshot):
            draft, row = Draft(snapshot), snapshot.jobs.row_of["a"]
            if snapshot.state("a") is State.RUNNING and len(asked) < 2 and snapshot.samples:
                asked.append(snapshot.now)
                if len(asked) == 1:
                    _fill(disk)
                else:
                    (disk / "filler").unlink()
                draft.stop(row, Because.PREEMPTED)
                return draft.plan()
            return first_fit(snapshot)

        run = Run(scripts, [a_local_job("a", scripts, "count.py", "80")])
        assert run.folder == disk
        monkey = pytest.MonkeyPatch()
        monkey.setattr("headway.local.cluster.ask_again_at", lambda *_: 0.0)
        run.go(policy)
        monkey.undo()
        output = run.output("a")
    assert run.state("a") == "FINISHED"
    assert "No space left on device" in run.notes["a"][0]
    assert run.notes["a"][0].startswith("it was not stopped: it could not save")
    assert output.count("from ") == 2
    assert "from 0\n" in output, "the second start is from the checkpoint that was made when there was room"
    assert not output.endswith("from 0\ndone\n")


def test_a_full_file_system_under_log_and_state_is_waited_out(scripts):
    wait = "  - {name: a, cpu: 500m, command: [sh, -c, 'echo ran; until test -e go; do sleep 0.02; done']}\n"
    jobs = [f"  - {{name: j{n}, cpu: 20m, command: [echo, ran]}}\n" for n in range(20)]
    (scripts / "jobs.yaml").write_text("nodes: [{name: here, cpu: 1}]\njobs:\n" + wait)
    with _small_disk(scripts / "disk", "256k", 200) as disk, (scripts / "stderr").open("wb") as stderr:
        words = [*HEADWAY, "--state", str(disk / "state")]
        with subprocess.Popen(words, cwd=scripts, stdout=subprocess.PIPE, stderr=stderr) as run:
            try:
                _until(lambda: "ran" in _read(disk / "state/output/a/worker-0.log"))
                _fill(disk)
                (scripts / "jobs.yaml").write_text("nodes: [{name: here, cpu: 1}]\njobs:\n" + wait + "".join(jobs))
                _until(lambda: "nothing else starts until it can" in " ".join(_read(scripts / "stderr").split()))
                assert run.poll() is None, _read(scripts / "stderr")
                (disk / "filler").unlink()
                (scripts / "go").touch()
                out, _ = run.communicate(timeout=200)
            finally:
                run.kill()
        assert json.loads(out)["finished"] == 21, _read(scripts / "stderr")
        assert left_behind(disk / "state/run.log").complete


def test_a_full_disk_under_the_queue_loses_nothing_and_is_one_sentence(scripts, monkeypatch):
    def say(*words: str, code: int = 0) -> str:
        done = headway(*words, folder=scripts)
        assert done.returncode == code, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    with _small_disk(scripts / "disk", "256k", 200) as disk:
        monkeypatch.setenv("XDG_STATE_HOME", str(disk))
        queue = disk / "headway/queue"
        try:
            say("up", "--policy", "first-fit")
            say("add", "--name", "a", "--", sys.executable, "count.py", "2000")
            _until(lambda: "from 0" in _read(queue / "output/a/worker-0.log"))
            _fill(disk)
            assert "its disk is full: this is as it was at" in say("jobs")
            for words in (["add", "--", "true"], ["suspend", "a"]):
                assert say(*words, code=2).endswith("cannot be written: No space left on device")
            (disk / "filler").unlink()
            assert "saved: a" in say("down")
            _fill(disk)
            said = say("up", code=2)
            assert said.endswith("cannot be written: No space left on device"), said
            (disk / "filler").unlink()
            say("up", "--policy", "first-fit")
            _until(lambda: _read(queue / "output/a/worker-0.log").count("from") == 2)
            assert not _read(queue / "output/a/worker-0.log").endswith("from 0\n"), "from its checkpoint"
        finally:
            say("down")


def _fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "filler").open("wb") as filler:
        while True:
            filler.write(bytes(4096))
            filler.flush()


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def test_with_64_descriptors_all_jobs_are_done(scripts):
    jobs = [f"  - {{name: j{n}, cpu: 20m, command: [sh, -c, 'sleep 0.3; echo ran']}}\n" for n in range(40)]
    (scripts / "jobs.yaml").write_text("nodes: [{name: here, cpu: 1}]\njobs:\n" + "".join(jobs))
    done = subprocess.run(
        HEADWAY, cwd=scripts, capture_output=True, timeout=200, check=False, preexec_fn=_few_descriptors,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["finished"] == 40


NOBODY = 65534
PYTHONS = (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}")


def _can_run(python: list[str], env: dict[str, str]) -> bool:
    words = [*python, "-c", "import os, sys, headway.local.cluster; os.stat(sys.executable)"]
    return not subprocess.run(words, env=env, capture_output=True, check=False).returncode


def test_without_root_and_control_groups_a_run_is_killed_and_goes_on(scripts):
    if os.getuid():
        pytest.skip("all tests run without root here")
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    home = {
        **os.environ, "HOME": str(scripts), "XDG_STATE_HOME": str(scripts),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }  # fmt: skip
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    python = next((one for one in PYTHONS if _can_run([*as_nobody, one], home)), "")
    if not python:
        pytest.skip("another user may not read this Python")
    (scripts / "jobs.yaml").write_text(ONE.format(steps=60))
    for path in (scripts, *scripts.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    for above in scripts.relative_to(tempfile.gettempdir()).parents[:-1]:
        (tempfile.gettempdir() / above).chmod(0o755)
    words = [*as_nobody, python, *HEADWAY[1:]]
    first = subprocess.Popen(words, cwd=scripts, env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _until(lambda: "from 0" in _read(scripts / ".headway/jobs/output/a/worker-0.log"))
    time.sleep(0.3)
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = subprocess.run(words, cwd=scripts, env=home, capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["finished"] == 1
    assert (scripts / ".headway/jobs/run.log").stat().st_uid == NOBODY


CLOCK_OF_HEADWAY = "import os\ndel os.environ['LD_PRELOAD']\nfrom headway.cli import main\nmain()\n"
"""What Headway starts has the machine's clock: under the library, a sleep of Python fails."""


def test_the_wall_clock_is_set_back_while_a_run_goes_on_and_before_the_next(scripts):
    libraries = glob("/usr/lib/*/faketime/libfaketime.so.1")  # noqa: PTH207
    if not libraries:
        pytest.skip("libfaketime is not installed: apt-get install faketime")
    (scripts / "jobs.yaml").write_text(ONE.format(steps=30))
    clock = scripts / "clock"
    clock.write_text("+0")
    faked = {
        **os.environ, "LD_PRELOAD": libraries[0], "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    log = scripts / ".headway/jobs/run.log"
    words = [sys.executable, "-c", CLOCK_OF_HEADWAY, *HEADWAY[3:]]
    with subprocess.Popen(words, cwd=scripts, env=faked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        _until(lambda: "from 0" in _read(scripts / ".headway/jobs/output/a/worker-0.log"))
        clock.write_text("-2d")
        out, said = run.communicate(timeout=200)
    assert (run.returncode, json.loads(out)["finished"]) == (0, 1), said.decode()
    took = left_behind(log).now
    assert 0 < took < 200
    text = (scripts / "jobs.yaml").read_text()
    (scripts / "jobs.yaml").write_text(text.replace("]}]", "]}, {name: b, cpu: 100m, command: [echo, ran]}]"))
    clock.write_text("-9d")
    subprocess.run(words, cwd=scripts, env=faked, capture_output=True, timeout=200, check=True)
    times = [line.now for line in read(log) if isinstance(line, CycleLine)]
    assert times == sorted(times), "the run's clock never goes back"
    assert times[-1] < 400
