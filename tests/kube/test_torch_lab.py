"""A stock torch script trains on two real kubelets, before and after a change of size: `make torch-test`."""

from __future__ import annotations

import re
import sys

import pytest
from test_frameworks_lab import SCRIPTS, command, folder, grow_when_saved, starts

from scheduling import HERE

pytestmark = [pytest.mark.torch, pytest.mark.lab, pytest.mark.timeout(500)]


def test_ddp_trains_on_two_kubelets_before_and_after_a_change_of_size(schedule, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("HEADWAY_TEST_GROW", str(tmp_path))
    schedule.code.append(SCRIPTS)
    schedule.start("--policy", f"{HERE / 'grow_script.py'}:grown")
    words = command("torch_ddp.py", "--epochs 30", "--pause 0.2", python=sys.executable)
    ddp = {"replicas": 2, "min": 2, "max": 3, "cpu": "500m", "memory": "900Mi", "command": words}
    schedule.submit("ddp", {"worker": ddp}, [], saves="itself")
    grow_when_saved(schedule, tmp_path, {"ddp": "model.pt"})
    schedule.wait("ddp", "Succeeded", "Failed", seconds=300)
    assert schedule.phase("ddp") == "Succeeded", schedule.words()
    for index in range(3):
        *before, (rank, size, first) = starts(schedule, "ddp", f"worker-{index}")
        assert before == ([(index, 2, 0)] if index < 2 else [])
        assert (rank, size) == (index, 3)
        assert first > 0, "it goes on from its checkpoint"
    text = (folder(schedule, "ddp") / "worker-0.log").read_text()
    assert int(re.findall(r"(\d+)% right", text)[-1]) >= 95
    assert schedule.stop() == 0
