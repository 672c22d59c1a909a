"""Profiles from folders of measurements."""

from __future__ import annotations

import gzip
import json

import pytest

from headway.core.errors import UserError
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.profiles import Layout
from headway.sim.measured import load_profiles


def test_measured_profiles_take_the_place_of_built_in_ones(tmp_path) -> None:
    (tmp_path / "pollux/profiles/cifar10").mkdir(parents=True)
    (tmp_path / "pollux/profiles/cifar10/placements.csv").write_text(
        "placement,local_bsz,step_time,sync_time\n1,32,0.5,0\n2,32,0.6,0\n11,32,0.8,0\n"
    )
    (tmp_path / "dl2").mkdir()
    (tmp_path / "dl2/ps_worker_speed.csv").write_text(
        "model,sync_mode,total_batch,num_ps,num_worker,speed_steps_sum\nresnet-50,dist_sync,32,1,2,15.4\n"
    )
    (tmp_path / "gavel").mkdir()
    table = {"v100": {"('LM (batch size 5)', 2)": {"null": 3.0}}, "v100_unconsolidated": {}}
    (tmp_path / "gavel/simulation_throughputs.json.gz").write_bytes(gzip.compress(json.dumps(table).encode()))
    profiles = load_profiles(tmp_path)
    assert profiles["cifar10"].throughput(Layout(2, 0, 1, 1.0)) == pytest.approx(2 / 0.6)
    assert profiles["cifar10"].throughput(Layout(2, 0, 2, 1.0)) == pytest.approx(2 / 0.8)
    assert profiles["cifar10"].curve == BUILT_IN["cifar10"].curve
    assert profiles["resnet-50"].throughput(Layout(2, 1, 2, 0.0)) == 15.4
    assert profiles["gavel-lm"].throughput(Layout(2, 0, 1, 1.0)) == 3.0, "steps per second of the whole gang"
    assert profiles["bert"] is BUILT_IN["bert"]


def test_a_broken_measurement_is_named(tmp_path) -> None:
    (tmp_path / "dl2").mkdir()
    (tmp_path / "dl2/ps_worker_speed.csv").write_text("model,num_ps,num_worker,speed_steps_sum\nx,1,1,fast\n")
    with pytest.raises(UserError, match="field speed_steps_sum: must be a number, is 'fast'"):
        load_profiles(tmp_path)
