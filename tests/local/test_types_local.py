"""Nodes of two types on this machine: a job ends up where it was measured to be faster, whatever is published."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.timeout(120)
TRAIN = """
import os, sys, time
from pathlib import Path
from headway import progress

file = progress.checkpoint_dir() / "count"
first, total = int(file.read_text()) if file.exists() else 0, int(sys.argv[1])
on = os.environ["CUDA_VISIBLE_DEVICES"]
print("on", on, flush=True)
with progress.track(total_steps=total, save=lambda step: file.write_text(str(step))) as p:
    for step in range(first + 1, total + 1):
        time.sleep({"0": 0.02, "1": 0.06}[on])
        p.report(step)
"""


def test_a_job_tries_the_type_that_is_published_to_be_faster_and_comes_back(gpus):
    gpus.has(0, name="Tesla K80").has(1, name="Tesla V100-SXM2-16GB")
    (gpus.folder / "train.py").write_text(TRAIN)
    file = gpus.folder / "jobs.yaml"
    job = {"gpu": 1, "cpu": "200m"}
    file.write_text(json.dumps({
        "nodes": [{"name": name, "cpu": "500m", "gpu": 1, "accelerator": name} for name in ("k80", "v100")],
        "jobs": [
            {"name": "first", **job, "accelerator": "v100", "command": ["python", "train.py", "40"]},
            {"name": "long", **job, "command": ["python", "train.py", "300"]},
        ],
    }))  # fmt: skip
    terms = [word for one in ("trial=1", "cool_down=1", "restart=0.2") for word in ("--set", one)]
    told, _ = gpus.headway("run", str(file), *terms).communicate(timeout=90)
    assert "2 of 2 jobs finished" in told
    assert [line for line in gpus.output("long").splitlines() if line.startswith("on")] == ["on 0", "on 1", "on 0"]
