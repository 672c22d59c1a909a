"""`learned` without weights is exactly headway; with weights it turns settings, where it may."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from networks import a_network

from headway.compare.perform import Task, simulate
from headway.core.snapshot import TrainedMode
from headway.policies.headway import Headway
from headway.policies.knobs import BY_NAME, KNOBS
from headway.policies.learned import PLAIN, Learned
from headway.policies.network import SettingsNetwork
from headway.policies.value.outlook import FEATURES, outlook
from headway.trained.file import shipped
from learn_tasks import elastic, fixed
from make import a_job, a_role, a_snapshot, over, running, some_nodes


def _log(case, policy, path):
    simulate(case, Task(policy="one", make=lambda: policy, seed=3, estimates="progress"), log=path)
    return path.read_bytes()


@pytest.mark.parametrize("case", [fixed(4, 15), elastic(4, 7)], ids=["fixed", "elastic"])
@pytest.mark.parametrize("network", [SettingsNetwork(), a_network(0.0)], ids=["empty", "no outer weights"])
def test_without_weights_the_log_is_byte_for_byte_that_of_headway(case, network, tmp_path):
    plain = _log(case, Headway(), tmp_path / "a.log")
    assert _log(case, Learned(network=network), tmp_path / "b.log") == plain


@pytest.mark.parametrize("case", [fixed(4, 15), elastic(4, 7)], ids=["fixed", "elastic"])
def test_with_weights_it_decides_otherwise(case, tmp_path):
    plain = _log(case, Headway(), tmp_path / "a.log")
    assert _log(case, Learned(network=a_network()), tmp_path / "b.log") != plain


def _busy():
    jobs = [a_job(f"w{number}", gpus=2) for number in range(3)]
    return a_snapshot(*jobs, running(a_job("r", gpus=4, max=8), [0] * 4), nodes=some_nodes(2, gpus=4), now=60,
                      left={"r": 30.0, "w0": 90.0})  # fmt: skip


def test_the_outlook_is_what_its_names_say():
    seen = dict(zip(FEATURES, outlook(_busy()).tolist(), strict=True))
    assert seen == pytest.approx({
        "load": 0.5, "used": 1.0, "queue": 0.75 / 1.75, "waiting": 0.75, "elastic": 0.25, "known": 0.5,
        "spread": seen["spread"], "history": 0.0,
    })  # fmt: skip


def test_used_is_what_was_measured_of_the_cores_that_are_held():
    """`a` uses 1 of 4 cores, `b` more than its 2 times 2; `c` is not measured."""
    roles = (a_role(cpu=4), a_role(replicas=2, cpu=2), a_role(cpu=1))
    jobs = [a_job(name, roles=[role]) for name, role in zip("abc", roles, strict=True)]
    where = ([0], [0, 1], [1])
    snapshot = a_snapshot(*map(running, jobs, where), nodes=some_nodes(2, gpus=0, cpu=8))
    measured = replace(snapshot, used_cpu={0: 1.0, 1: 6.0})
    assert dict(zip(FEATURES, outlook(measured).tolist(), strict=True))["used"] == pytest.approx(5 / 8)


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
    snapshot = _busy().standing_as(TrainedMode(mode, "it was found to be worse"))
    policy = Learned(network=a_network(), name="t.npz abc")
    assert (policy.settled(snapshot) == PLAIN) is plain
    guard = policy.explain(snapshot, 0)["guard"]
    assert guard["mode"] == (mode or "unwatched")
    assert "it was found to be worse" in guard["sentence"]
    assert ("headway decides" in guard["sentence"]) is plain


def test_in_a_state_unlike_the_training_it_decides_as_at_its_end_and_why_says_so():
    snapshot, network = _busy(), a_network(high=0.3)
    policy, features = Learned(network=network), outlook(snapshot)
    assert policy.settled(snapshot) != PLAIN
    nearest = np.clip(features, -0.075, 0.375)
    assert (network.offsets(features) == network.offsets(nearest)).all()
    assert (network.offsets(features) != a_network().offsets(features)).any()
    sentence = policy.explain(snapshot, 0)["guard"]["sentence"]
    assert sentence.startswith("The trained policy decides: ")
    assert "load is 0.50, it was trained on 0.00 to 0.30" in sentence


def test_the_one_that_ships_still_decides_after_5000_finished_jobs():
    done = [over(a_job(f"f{number}")) for number in range(5000)]
    snapshot = a_snapshot(*done, *[a_job(f"w{number}", gpus=2) for number in range(3)], nodes=some_nodes(2, gpus=4))
    assert dict(zip(FEATURES, outlook(snapshot).tolist(), strict=True))["history"] == pytest.approx(50 / 51)
    turned, kept_out = shipped().judged(snapshot)
    assert kept_out is None
    assert turned != PLAIN


def test_the_one_that_ships_still_decides_with_500_waiting_jobs():
    """They ask for 62 clusters."""
    snapshot = a_snapshot(*[a_job(f"w{number}", gpus=1) for number in range(500)], nodes=some_nodes(2, gpus=4))
    turned, kept_out = shipped().judged(snapshot)
    assert kept_out is None
    assert turned != PLAIN


@pytest.mark.parametrize("waiting", [0, 1, 7, 500])
@pytest.mark.parametrize("done", [0, 3, 5000])
def test_every_feature_is_a_share_however_many_jobs_there_are(waiting, done):
    jobs = [over(a_job(f"f{number}")) for number in range(done)] + [a_job(f"w{number}") for number in range(waiting)]
    seen = dict(zip(FEATURES, outlook(a_snapshot(*jobs, nodes=some_nodes(2, gpus=4))).tolist(), strict=True))
    assert seen.pop("spread") <= 2.0
    assert all(0.0 <= value <= 1.0 for value in seen.values())


def test_it_costs_less_than_a_millisecond_with_a_thousand_waiting_jobs():
    jobs = [a_job(f"w{number}", gpus=1 + number % 4, max=8) for number in range(1000)]
    left = {job.id: 60.0 for job in jobs}
    snapshot = a_snapshot(*jobs, nodes=some_nodes(64, gpus=4), now=60, left=left)
    policy, times = Learned(network=a_network()), []
    for _ in range(20):
        begun = time.perf_counter()
        assert policy.settled(snapshot) != PLAIN
        times.append(time.perf_counter() - begun)
    assert min(times) < 0.001
