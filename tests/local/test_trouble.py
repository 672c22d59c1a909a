"""Scripts that misbehave: the harm of each is bounded, and the other jobs go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from conftest_local import Run, a_local_job

from headway.local.limits import ControlGroups, ReplicaLimits
from headway.local.shim import descendants
from headway.policies.baselines.fifo import first_fit

pytestmark = pytest.mark.timeout(250)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _good(scripts, name="good"):
    return a_local_job(name, scripts, "count.py", "20")


def test_a_script_that_ends_with_an_error_fails_alone(scripts):
    (scripts / "bad.py").write_text("import sys\nprint('oh no', flush=True)\nsys.exit(3)\n")
    run = Run(scripts, [a_local_job("bad", scripts, "bad.py"), _good(scripts)]).go(first_fit)
    assert run.state("bad") == "FAILED"
    assert "exit code 3" in run.notes["bad"][-1]
    assert "oh no" in run.output("bad")
    assert run.state("good") == "FINISHED"


def test_a_script_that_never_reports_runs_to_its_end(scripts):
    (scripts / "silent.py").write_text("import time\ntime.sleep(4)\n")
    run = Run(scripts, [a_local_job("silent", scripts, "silent.py"), _good(scripts)]).go(first_fit)
    assert run.state("silent") == "FINISHED"
    assert run.state("good") == "FINISHED"


def test_a_script_that_ends_before_it_counts_as_up_is_done_at_once(scripts, monkeypatch):
    """Otherwise each of a thousand small jobs takes three seconds."""
    monkeypatch.setattr("headway.local.gang.UP_SECONDS", 50.0)
    (scripts / "short.py").write_text("print(1)\n")
    run = Run(scripts, [a_local_job("short", scripts, "short.py")]).go(first_fit)
    assert run.state("short") == "FINISHED"
    assert run.snapshots[-1].now < 40.0


def test_a_killed_replica_starts_again_from_its_checkpoint(scripts):
    job = a_local_job("a", scripts, "count.py", "60")
    killed: list[int] = []

    def policy(snapshot):
        if not killed and any(sample.step >= 5 for sample in snapshot.samples):
            shim = run.cluster.roster.gangs["a"].replicas[0].process.pid
            (scripts / "state/checkpoints/a/count").write_text("5")
            killed.append(descendants(shim)[0])
            os.kill(killed[0], signal.SIGKILL)
        return first_fit(snapshot)

    run = Run(scripts, [job])
    run.go(policy)
    assert run.state("a") == "FINISHED"
    assert "worker-0 was killed by signal 9 (SIGKILL)" in run.notes["a"][0]
    assert "it starts again" in run.notes["a"][0]
    assert "from 5" in run.output("a")


def test_a_replica_that_is_always_killed_fails_in_the_end(scripts):
    (scripts / "die.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    run = Run(scripts, [a_local_job("a", scripts, "die.py"), _good(scripts)]).go(first_fit)
    assert run.state("a") == "FAILED"
    assert "lost 4 times without progress" in run.notes["a"][-1]
    assert run.state("good") == "FINISHED"


def test_children_left_behind_are_ended(scripts):
    (scripts / "parent.py").write_text(
        "import os, subprocess, sys\n"
        "code = 'import os,time,signal; signal.signal(15, signal.SIG_IGN); "
        'open("child", "w").write(str(os.getpid())); time.sleep(600)\'\n'
        "subprocess.Popen([sys.executable, '-c', code], start_new_session=True)\n"
        "import time\nwhile not os.path.exists('child') or not open('child').read(): time.sleep(0.05)\n"
    )
    run = Run(scripts, [a_local_job("a", scripts, "parent.py"), _good(scripts)]).go(first_fit)
    assert run.state("a") == "FINISHED"
    assert not _alive(int((scripts / "child").read_text()))


NONSENSE = """
import json, os, socket, time
kind, path = os.environ["HEADWAY_PROGRESS"].split(":", 1)
link = socket.socket(socket.AF_UNIX); link.connect(path)
hello = {"hello": 1, "job": os.environ["HEADWAY_JOB"], "role": "worker", "index": 0,
         "attempt": int(os.environ["HEADWAY_ATTEMPT"]), "total_steps": 100, "can_save": True}
link.sendall(json.dumps(hello).encode() + b"\\n")
for line in (b'{"step": 50, "loss": 1}', b'{"step": 10, "loss": 1}', b'{"step": NaN}', b'{"step": -1}', b'junk',
             b'{"step": 60, "loss": NaN}'):
    link.sendall(line + b"\\n")
    time.sleep(0.3)
"""


def test_reports_that_are_nonsense_or_go_backwards_are_ignored(scripts):
    (scripts / "nonsense.py").write_text(NONSENSE)
    run = Run(scripts, [a_local_job("a", scripts, "nonsense.py"), _good(scripts)]).go(first_fit)
    samples = [s for snapshot in run.snapshots for s in snapshot.samples if s.job == "a"]
    steps = [sample.step for sample in samples]
    assert steps == sorted(steps)
    assert set(steps) <= {50, 60}
    assert 60 in steps
    assert run.state("good") == "FINISHED"


def test_a_flood_of_reports_does_not_hurt_the_others(scripts):
    (scripts / "flood.py").write_text(
        "import time\nfrom headway import progress\nend = time.time() + 3\nn = 0\n"
        "with progress.track(total_steps=10**9) as p:\n"
        "    while time.time() < end:\n        n += 1\n        p.report(n, loss=0.1)\n"
    )
    run = Run(scripts, [a_local_job("flood", scripts, "flood.py"), _good(scripts)]).go(first_fit)
    assert run.state("flood") == "FINISHED"
    assert run.state("good") == "FINISHED"
    assert sum(len(snapshot.samples) for snapshot in run.snapshots) < 300


def test_nothing_is_left_when_a_run_is_closed(scripts):
    before = set(descendants(os.getpid()))
    run = Run(scripts, [a_local_job("a", scripts, "count.py", "100000")])

    def policy(snapshot):
        if any(sample.step > 2 for sample in snapshot.samples):
            raise KeyboardInterrupt
        return first_fit(snapshot)

    with pytest.raises(KeyboardInterrupt):
        run.go(policy)
    assert not [pid for pid in descendants(os.getpid()) if pid not in before and _alive(pid)]
    assert not [folder for parent in run.cluster.control_groups._parents for folder in [parent] if folder.exists()]


def test_limits_by_affinity_where_cgroups_are_not_permitted(scripts):
    groups = ControlGroups("test", cgroups=False)
    assert not groups.by_cgroup
    group = groups.group("a", ReplicaLimits(500))
    assert group.join == []
    assert group.cpu_seconds() is None
    group.limit(ReplicaLimits(700, 64))
    group.remove()
    groups.close()


def test_when_headway_is_killed_its_replicas_die_with_it(scripts):
    """kill -9 leaves no orphan: the shim ends all processes of its replica."""
    (scripts / "run.py").write_text(
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom pathlib import Path\n"
        "from conftest_local import Run, a_local_job\nfrom headway.policies.baselines.fifo import first_fit\n"
        "here = Path(sys.argv[2])\nRun(here, [a_local_job('a', here, 'count.py', '100000')]).go(first_fit, 600)\n"
    )
    headway = subprocess.Popen([sys.executable, str(scripts / "run.py"), str(Path(__file__).parent), str(scripts)])
    deadline = time.monotonic() + 120
    output = scripts / "state/output/a/worker-0.log"
    while not (output.exists() and "from 0" in output.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    below = descendants(headway.pid)
    assert len(below) >= 2
    headway.kill()
    headway.wait()
    deadline = time.monotonic() + 60
    while any(_alive(pid) for pid in below):
        assert time.monotonic() < deadline, [pid for pid in below if _alive(pid)]
        time.sleep(0.05)
    name = f"headway-{zlib.crc32(bytes((scripts / 'state').resolve())):08x}"
    while list(Path("/sys/fs/cgroup").glob(f"**/{name}")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_when_the_main_thread_of_headway_ends_before_its_others_all_is_cleared_away(scripts):
    """A killed process ends thread by thread: the shim gets its signal while its parent is still listed."""
    (scripts / "deaf.py").write_text(
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(sys.argv[1], 'w').close()\ntime.sleep(600)\n"
    )
    (scripts / "half.py").write_text(
        "import ctypes, json, os, subprocess, sys, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(200), os._exit(0))).start()\n"
        "spec = json.loads(sys.argv[1]) | {'parent': os.getpid(), 'env': dict(os.environ)}\n"
        "shim = subprocess.Popen([sys.executable, '-m', 'headway.local.shim'], stdin=subprocess.PIPE)\n"
        "shim.stdin.write(json.dumps(spec).encode()); shim.stdin.close()\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        "ctypes.CDLL(None).syscall(ctypes.c_long(60 if os.uname().machine == 'x86_64' else 93), 0)\n"
    )
    groups = ControlGroups(f"half-{os.getpid()}")
    ready = scripts / "ready"
    spec = {
        "command": [sys.executable, str(scripts / "deaf.py"), str(ready)], "directory": str(scripts), "grace": 200,
        "join": groups.group("a", ReplicaLimits(500)).join,
    }  # fmt: skip
    half = subprocess.Popen([sys.executable, str(scripts / "half.py"), json.dumps(spec)], cwd=scripts)
    deadline = time.monotonic() + 100
    while not ready.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    below = descendants(half.pid)
    assert len(below) == 2
    (scripts / "go").touch()
    deadline = time.monotonic() + 60  # the other thread and the grace time last longer
    while any(_alive(pid) for pid in below):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert half.poll() is None
    assert not [folder for folder in groups._parents if folder.exists()]
    half.kill()
    half.wait()
