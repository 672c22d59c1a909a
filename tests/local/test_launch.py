"""How a replica is launched: nothing of its environment is seen by others, and what cannot be launched fails alone."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from conftest_local import Run, a_local_job

from headway.core.job import Job, Role
from headway.local import replica as replica_module
from headway.local.replica import SHIM
from headway.local.shim import descendants
from headway.policies.baselines.fifo import first_fit

pytestmark = pytest.mark.timeout(250)


def _command_lines(root: int) -> list[str]:
    found = []
    for pid in descendants(root):
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def test_no_environment_is_on_a_command_line_and_a_large_one_is_passed_on(scripts, monkeypatch):
    monkeypatch.setenv("HEADWAY_TEST_SECRET", "hunter2" * 3)
    for number in range(4):
        monkeypatch.setenv(f"HEADWAY_TEST_LARGE_{number}", "x" * 60_000)
    (scripts / "env.py").write_text(
        "import os, time\nprint(os.environ['HEADWAY_TEST_SECRET'], os.environ['OWN'], flush=True)\n"
        "print(sum(len(v) for k, v in os.environ.items() if 'LARGE' in k), os.read(0, 1), flush=True)\n"
        "from headway import progress\nwith progress.track() as p:\n"
        "    while not os.path.exists('seen'): time.sleep(0.05)\n"
    )
    job = a_local_job("a", scripts, "env.py")
    role = Role(name="worker", request=job.roles[0].request, command=job.roles[0].command, env=(("OWN", "swordfish"),))
    job = Job(id=job.id, roles=(role,), directory=job.directory)
    lines: list[str] = []

    def policy(snapshot):
        if len(snapshot.jobs.running()):
            lines.extend(_command_lines(os.getpid()))
            (scripts / "seen").touch()
        return first_fit(snapshot)

    run = Run(scripts, [job]).go(policy)
    assert run.state("a") == "FINISHED"
    assert str(SHIM) in "".join(lines)
    assert not [line for line in lines if "hunter2" in line or "swordfish" in line]
    assert "hunter2hunter2hunter2 swordfish" in run.output("a")
    assert "240000 b''" in run.output("a"), "all of it, and nothing to read on stdin"


def test_what_cannot_be_launched_fails_that_job_alone(scripts):
    (scripts / "state/output").mkdir(parents=True)
    (scripts / "state/output/bad").write_text("a file where the folder of the job's output should be")
    gone = a_local_job("gone", scripts, "count.py", "5")
    gone = Job(id=gone.id, roles=gone.roles, directory=str(scripts / "gone"))
    good = a_local_job("good", scripts, "count.py", "5")
    run = Run(scripts, [a_local_job("bad", scripts, "count.py", "5"), gone, good]).go(first_fit)
    assert (run.state("bad"), run.state("gone"), run.state("good")) == ("FAILED", "FAILED", "FINISHED")
    assert run.notes["bad"] == [f"worker-0 cannot be launched: {scripts}/state/output/bad: File exists"]
    assert run.notes["gone"] == [f"worker-0 cannot be launched: {scripts}/gone: No such file or directory"]


def test_a_launch_that_fails_for_now_is_tried_again_after_a_pause(scripts, monkeypatch):
    numbers = {"a": errno.EMFILE, "b": errno.EAGAIN, "c": errno.ENOMEM, "d": errno.ENOSPC}
    tried: dict[str, list[float]] = {name: [] for name in numbers}
    launch = replica_module.subprocess.Popen

    def scarce(command, **more):
        name = Path(more["stdout"].name).parent.name
        tried[name].append(time.monotonic())
        if len(tried[name]) == 1:
            raise OSError(numbers[name], os.strerror(numbers[name]))
        return launch(command, **more)

    monkeypatch.setattr(replica_module.subprocess, "Popen", scarce)
    run = Run(scripts, [a_local_job(name, scripts, "count.py", "3") for name in numbers]).go(first_fit)
    for name, number in numbers.items():
        assert run.state(name) == "FINISHED"
        assert run.notes[name] == [f"worker-0 cannot be launched: {os.strerror(number)}"]
        assert tried[name][1] - tried[name][0] >= 0.99


def test_the_replicas_of_a_gang_that_was_launched_in_part_are_ended(scripts, monkeypatch):
    launch, tried = replica_module.subprocess.Popen, []

    def scarce(command, **more):
        tried.append(command)
        if len(tried) == 2:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return launch(command, **more)

    monkeypatch.setattr(replica_module.subprocess, "Popen", scarce)
    job = a_local_job("a", scripts, "count.py", "3")
    role = Role(name="worker", replicas=2, min=2, max=2, request=(("cpu", 200),), command=job.roles[0].command)
    run = Run(scripts, [Job(id=job.id, roles=(role,), directory=job.directory)]).go(first_fit)
    assert run.state("a") == "FINISHED"
    assert run.notes["a"] == ["worker-1 cannot be launched: Resource temporarily unavailable"]
    assert len(tried) == 4


def test_variables_in_a_command_are_replaced_as_kubernetes_does_it():
    given = {"HOME_OF": "/data", "EMPTY": ""}
    words = ["python", "--to", "$(HOME_OF)/x", "$$(HOME_OF)", "$(UNKNOWN)", "$(EMPTY)", "$HOME_OF", "$(not this)"]
    assert replica_module.expanded(words, given) == [
        "python", "--to", "/data/x", "$(HOME_OF)", "$(UNKNOWN)", "", "$HOME_OF", "$(not this)",
    ]  # fmt: skip
