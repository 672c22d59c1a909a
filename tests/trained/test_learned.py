"""`learned` without weights is exactly headway; with weights it turns settings, where it may."""

from __future__ import annotations

import time

import numpy as np
import pytest
from networks import a_network

from headway.compare.perform import Task, simulate
from headway.core.snapshot import Standing
from headway.policies.headway import Headway
from headway.policies.knobs import BY_NAME, KNOBS
from headway.policies.learned import PLAIN, Learned
from headway.policies.network import SettingsNetwork
from headway.policies.value.outlook import FEATURES, outlook
from learn_tasks import elastic, fixed
from make import a_job, a_snapshot, running, some_nodes


def _log(case, policy, path):
    simulate(case, Task(policy="one", make=lambda: policy, seed=3, estimates="progress"), log=path)
    return path.read_bytes()


@pytest.mark.parametrize("case", [fixed(4, 15), elastic(4, 7)], ids=["fixed", "elastic"])
@pytest.mark.parametrize("network", [SettingsNetwork(), a_network(0.0)], ids=["empty", "no outer weights"])
def test_without_weights_the_log_is_byte_for_byte_that_of_headway(case, network, tmp_path):
    plain = _log(case, Headway(), tmp_path / "a.log")
    assert _log(case, Learned(network=network), tmp_path / "b.log") == plain


@pytest.mark.parametrize("case", [fixed(4, 15), elastic(4, 7)], ids=["fixed", "elastic"])
def test_with_weights_it_decides_otherwise_and_outside_its_training_like_headway(case, tmp_path):
    plain = _log(case, Headway(), tmp_path / "a.log")
    assert _log(case, Learned(network=a_network()), tmp_path / "b.log") != plain


def _busy():
    jobs = [a_job(f"w{number}", gpus=2) for number in range(3)]
    return a_snapshot(*jobs, running(a_job("r", gpus=4, most=8), [0] * 4), nodes=some_nodes(2, gpus=4), now=60,
                      left={"r": 30.0, "w0": 90.0})  # fmt: skip


def test_the_outlook_is_what_its_names_say():
    seen = dict(zip(FEATURES, outlook(_busy()).tolist(), strict=True))
    assert seen["load"] == 0.5
    assert seen["queue"] == pytest.approx(np.log2(1 + 3 * 2 / 8))
    assert seen["waiting"] == 2.0
    assert seen["elastic"] == 0.25
    assert seen["known"] == 0.5
    assert seen["history"] == 0.0


def test_settings_are_those_of_the_networks_offsets():
    snapshot, network = _busy(), a_network()
    policy = Learned(network=network).settled(snapshot)
    offsets = network.offsets(outlook(snapshot))
    for name, offset in zip(network.knobs, offsets.tolist(), strict=True):
        assert getattr(policy, name) == BY_NAME[name].value(offset)
    others = [knob.name for knob in KNOBS if knob.name not in network.knobs]
    assert all(getattr(policy, name) == getattr(PLAIN, name) for name in others)


@pytest.mark.parametrize(("mode", "plain"), [("", False), ("on", False), ("shadow", True), ("off", True)])
def test_who_decides_is_an_input_and_part_of_why(mode, plain):
    snapshot = _busy().standing_as(Standing(mode, "it was found to be worse"))
    policy = Learned(network=a_network(), name="t.npz abc")
    assert (policy.settled(snapshot) == PLAIN) is plain
    guard = policy.explain(snapshot, 0)["guard"]
    assert guard["mode"] == (mode or "unwatched")
    assert "it was found to be worse" in guard["sentence"]
    assert ("headway decides" in guard["sentence"]) is plain


def test_a_state_unlike_the_training_is_left_to_headway_and_why_says_so():
    snapshot, policy = _busy(), Learned(network=a_network(high=0.6))
    assert policy.settled(snapshot) == PLAIN
    assert "queue is 0.81, it was trained on 0.00 to 0.60" in policy.explain(snapshot, 0)["guard"]["sentence"]


def test_it_costs_less_than_a_millisecond_with_a_thousand_waiting_jobs():
    jobs = [a_job(f"w{number}", gpus=1 + number % 4, most=8) for number in range(1000)]
    left = {job.id: 60.0 for job in jobs}
    snapshot = a_snapshot(*jobs, nodes=some_nodes(64, gpus=4), now=60, left=left)
    policy, times = Learned(network=a_network()), []
    for _ in range(20):
        begun = time.perf_counter()
        assert policy.settled(snapshot) != PLAIN
        times.append(time.perf_counter() - begun)
    assert min(times) < 0.001
