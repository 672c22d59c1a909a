"""Two runs on one machine: the second is refused and told of the first, or takes what the first leaves."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headway.core.errors import UserError
from headway.core.node import Node
from headway.local.claims import claim_machine, machine_left, running_folders
from headway.local.machine import check_nodes, cores_of, this_machine

pytestmark = pytest.mark.timeout(120)

HOLD = """
import sys, time
from pathlib import Path
from headway.core.node import Node
from headway.local.claims import claim_machine
capacity = (("cpu", int(sys.argv[1])), ("memory", 100))
held = claim_machine(Path("/their/folder"), [Node(name="theirs", capacity=capacity)], share=True)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def claims(tmp_path, monkeypatch):
    """The folder of the claims."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "headway/runs" / platform.node()
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def other():
    """Starts another process that claims some of the machine."""
    started = []

    def start(cpu: int) -> subprocess.Popen:
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(cpu)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def _some(cpu: int) -> list[Node]:
    return [Node(name="mine", capacity=(("cpu", cpu),))]


def test_a_second_run_is_refused_and_told_of_the_first(other):
    first = other(100)
    with pytest.raises(UserError) as told:
        claim_machine(Path("/mine"), _some(100), share=False)
    assert str(told.value) == (
        f"process {first.pid} (/their/folder) already runs jobs on this machine; "
        f"add to it with `headway add`, wait until it ends, or take what it leaves with --share"
    )
    assert machine_left(share=False) == this_machine()


def test_share_takes_what_the_first_leaves(other):
    whole = dict(this_machine().capacity)
    first = other(100)
    left = machine_left(share=True)
    assert dict(left.capacity) == whole | {"cpu": whole["cpu"] - 100, "memory": whole["memory"] - 100}
    with pytest.raises(UserError, match="--cluster: field nodes: all together have"):
        check_nodes("--cluster", _some(whole["cpu"]), left)
    with pytest.raises(UserError, match=f"process {first.pid} .* has just taken"):
        claim_machine(Path("/mine"), _some(whole["cpu"]), share=True)
    held = claim_machine(Path("/mine"), [left], share=True)
    assert held.foreign_cores
    held.close()
    other(whole["cpu"] - 100)
    with pytest.raises(UserError, match=rf"--share: .*process {first.pid} .* no cpu of this machine"):
        machine_left(share=True)


def test_a_claim_ends_with_its_run_even_by_kill_9(other, claims):
    first = other(100)
    first.send_signal(signal.SIGKILL)
    first.wait()
    held = claim_machine(Path("/mine"), _some(100), share=False)
    assert [json.loads(path.read_text())["pid"] for path in claims.glob("*.run")] == [os.getpid()]
    held.close()
    held = claim_machine(Path("/mine"), _some(100), share=False)
    held.close()
    assert not list(claims.glob("*.run"))


def test_a_damaged_claim_is_no_reason_to_refuse(claims):
    (claims / "1.run").write_text("junk")
    claim_machine(Path("/mine"), _some(100), share=False).close()
    assert not list(claims.glob("*.run"))


def test_nothing_is_made_in_the_home_of_another_user(claims, monkeypatch):
    """As of root, who has the HOME of the user that called sudo."""
    shutil.rmtree(claims.parents[1])
    monkeypatch.setattr(os, "getuid", lambda: claims.parents[2].stat().st_uid + 1)
    claim_machine(Path("/mine"), _some(100), share=False).close()
    assert not claims.parents[1].exists()


def test_a_claim_outlives_the_session_of_its_user(other, claims, tmp_path, monkeypatch):
    """At logout logind removes its own folder of the user, while a queue goes on."""
    (tmp_path / "session").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "session"))
    first = other(100)
    shutil.rmtree(tmp_path / "session")
    with pytest.raises(UserError, match=f"process {first.pid} .* already runs jobs"):
        claim_machine(Path("/mine"), _some(100), share=False)


def test_cores_of_another_run_are_left_alone_where_there_are_others(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert cores_of(_some(2000), {0, 2}) == [(1, 3)]
    assert cores_of(_some(3000), {0, 2}) == [(0, 1, 2, 3)]
    assert cores_of(_some(1000)) == [(0,)]


def test_the_command_names_the_other_run(other, tmp_path):
    first = other(100)
    (tmp_path / "jobs.yaml").write_text("nodes: [{cpu: 100m}]\njobs: [{name: a, cpu: 100m, command: ['true']}]\n")
    command = [sys.executable, "-m", "headway", "run", "jobs.yaml", "--json"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"headway: process {first.pid} (/their/folder) already runs jobs")
    assert not (tmp_path / ".headway/jobs/run.log").exists()


@pytest.mark.parametrize("content", ["[", "[" * 100_000, "7", '{"capacity": [], "pid": 1}', '{"pid": 1e999}', "\0"])
def test_a_file_that_is_no_claim_is_passed_over(claims, content):
    with (claims / "a.run").open("w+") as held:
        held.write(content)
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        assert running_folders() == []
