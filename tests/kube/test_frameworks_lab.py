"""Stock scripts train on real kubelets, find each other by name, and go on from their checkpoint with another size."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from headway.record.lines import CycleLine
from headway.record.log import read
from scheduling import HERE

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
SCRIPTS = Path(__file__).parents[2] / "examples/frameworks"


def command(script: str, *words: str, python: str = "python") -> list[str]:
    """The example's command; what it prints is kept beside its checkpoint, where it outlives the pod."""
    line = f"exec {python} {SCRIPTS / script} {' '.join(words)} --checkpoint $(HEADWAY_CHECKPOINT)"
    return ["sh", "-c", f"{line} >> $(HEADWAY_CHECKPOINT)/$HOSTNAME.log 2>&1"]


def folder(schedule, job: str) -> Path:
    (found,) = (schedule.lab.shared / schedule.namespace / schedule.namespace).glob(f"{job}-*")
    return found


def starts(schedule, job: str, replica: str) -> list[tuple[int, ...]]:
    """Of each start: its rank, the number of ranks, and from which step it went on."""
    text = (folder(schedule, job) / f"{replica}.log").read_text()
    return [tuple(map(int, one)) for one in re.findall(r"(\d+) of (\d+): from (?:step|epoch) (\d+)", text)]


def grow_when_saved(schedule, told: Path, jobs: dict[str, str]) -> None:
    left, deadline = dict(jobs), time.monotonic() + 120
    while left:
        assert time.monotonic() < deadline, schedule.words()
        for job, pattern in list(left.items()):
            schedule.wait(job, "Running", "Succeeded", "Failed")
            if any(folder(schedule, job).glob(pattern)):
                (told / job).touch()
                del left[job]
        time.sleep(0.2)


BURN = "import os, sys\nwhile not os.path.exists(sys.argv[1] + '/enough'): pass"


def usage_of(schedule, job: str) -> dict[str, str]:
    deadline = time.monotonic() + 90
    while not (usage := schedule.job(job)["status"].get("usage")):
        assert time.monotonic() < deadline, schedule.words()
        time.sleep(0.3)
    return usage


@pytest.mark.usefixtures("measured")
def test_a_parameter_server_and_jax_distributed_train_before_and_after_a_change_of_size(
    schedule, tmp_path, monkeypatch
):
    monkeypatch.setenv("HEADWAY_TEST_GROW", str(tmp_path))
    schedule.code.append(SCRIPTS)
    schedule.start("--policy", f"{HERE / 'grow_script.py'}:grown", "--measure", "kubelet")
    burn = ["python", "-c", BURN, "$(HEADWAY_CHECKPOINT)"]
    schedule.submit("burn", {"worker": {"cpu": "200m", "command": burn}}, [])
    servers = command("parameter_server.py", "--steps 120", "--pause 0.05")
    worker = {"replicas": 1, "min": 1, "max": 2, "command": servers}
    schedule.submit("servers", {"ps": {"command": servers}, "worker": worker}, [], saves="itself",
                    success={"roles": ["worker"]})  # fmt: skip
    jax = {"replicas": 1, "min": 1, "max": 2, "cpu": "900m", "memory": "500Mi",
           "command": command("jax_distributed.py", "--steps 80", "--pause 0.05")}  # fmt: skip
    schedule.submit("jax", {"worker": jax}, [], saves="itself")
    grow_when_saved(schedule, tmp_path, {"servers": "slice*.npz", "jax": "model.npz"})
    for name in ("servers", "jax"):
        schedule.wait(name, "Succeeded", "Failed", seconds=150)
        assert schedule.phase(name) == "Succeeded", schedule.words()
        first, second = starts(schedule, name, "worker-0")
        assert (first, second[:2]) == ((0, 1, 0), (0, 2))
        assert second[2] > 0, "it goes on from its checkpoint"
        ((rank, size, joined),) = starts(schedule, name, "worker-1")
        assert (rank, size) == (1, 2)
        assert joined == second[2] if name == "jax" else joined > 0, "servers do not wait for all workers"
    text = (folder(schedule, "jax") / "worker-0.log").read_text()
    assert f"saved at step {starts(schedule, 'jax', 'worker-0')[1][2]}, and ends" in text
    usage = usage_of(schedule, "burn")
    assert 0 < int(usage["cpu"].removesuffix("m")) <= 260, "it would use a whole core"
    assert 0 < int(usage["memory"].removesuffix("Mi")) <= 64
    (folder(schedule, "burn") / "enough").touch()
    schedule.wait("burn", "Succeeded")
    assert schedule.stop() == 0
    lines = [line for line in read(schedule.log) if isinstance(line, CycleLine)]
    assert any(cores > 0 for line in lines for _, cores in line.used_cpu), "policies saw it"
