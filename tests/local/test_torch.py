"""A stock torch script trains on two processes, also after a change of size and under torchrun: `make torch-test`."""

from __future__ import annotations

import re

import pytest
from conftest_local import Run
from test_frameworks import Changes, jobs_of, starts

pytestmark = [pytest.mark.torch, pytest.mark.timeout(650)]


def test_ddp_trains_before_and_after_a_change_of_size_and_under_torchrun(tmp_path):
    pytest.importorskip("torch")
    run = Run(tmp_path, jobs_of("frameworks/torch.yaml"), cpu=8000).go(Changes(tmp_path, {"ddp": 3}), seconds=600)
    assert (run.state("ddp"), run.state("elastic")) == ("FINISHED", "FINISHED"), run.notes
    for index in range(3):
        *before, (rank, size, first) = starts(run, "ddp", f"worker-{index}")
        assert before == ([(index, 2, 0)] if index < 2 else [])
        assert (rank, size) == (index, 3)
        assert 0 < first < 20, "it goes on from its checkpoint"
    assert int(re.findall(r"(\d+)% right", run.output("ddp"))[-1]) >= 95
    ranks = [starts(run, "elastic", f"worker-{index}") for index in range(2)]
    assert sorted(one for found in ranks for one in found) == [(0, 2, 0), (1, 2, 0)]
