"""MaskablePPO trains in Order-v0, respects the masks and gives the same agent by seed: `make torch-test`."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import headway.learn  # noqa: F401  registers the environments
from learn_tasks import small

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.torch, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


def _script(monkeypatch, file: str):
    """The example and the benchmark have the same name, so they are loaded by their paths."""
    pytest.importorskip("sb3_contrib")
    path = ROOT / file
    monkeypatch.syspath_prepend(str(path.parent))
    spec = spec_from_file_location(file.replace("/", "_").removesuffix(".py"), path)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_a_stock_maskable_ppo_trains_and_its_actions_are_legal(tmp_path, monkeypatch):
    example = _script(monkeypatch, "examples/learn/ppo.py")
    monkeypatch.chdir(tmp_path)
    example.train(steps=128, suite=small(), n_steps=64, batch_size=64).save(example.FILE)
    env = gymnasium.make("headway/Order-v0", suite=small(), disable_env_checker=True)
    seen, _ = env.reset(seed=5)
    chosen, over = set(), [False]
    while not any(over):
        action = example.agent(seen)
        assert seen["action_mask"][action]
        chosen.add(action)
        seen, _, *over, _ = env.step(action)
    assert len(chosen) > 1


def test_imitation_then_ppo_gives_the_same_weights_by_seed(monkeypatch):
    bench = _script(monkeypatch, "bench/ppo.py")
    monkeypatch.setattr(bench, "SUITE", small())
    told, weights = [], []
    for seed, steps in ((1, 4096), (1, 4096), (2, 0)):
        model = bench.imitated(seed, 2, "sjf", told.append)
        if steps:
            model.learn(steps)
        weights.append(np.concatenate([value.numpy().ravel() for value in model.policy.state_dict().values()]))
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])
    assert "decisions imitated" in told[0]


def test_an_expert_without_stops_earns_nothing_against_itself(monkeypatch):
    bench = _script(monkeypatch, "bench/ppo.py")
    monkeypatch.setattr(bench, "SUITE", small())
    env = bench.make_env("srsf")
    for seed in (1, 2):
        env.reset(seed=seed)
        expert, earned, over = bench.Expert(bench.experts()["srsf"], strict=False), 0.0, [False]
        while not any(over):
            _, reward, *over, _ = env.step(expert(env))
            earned += reward
        assert expert.left_out
        assert earned == pytest.approx(0.0, abs=1e-9)


def test_a_jobs_score_does_not_depend_on_its_slot(monkeypatch):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    kernel = _script(monkeypatch, "bench/ppo_net.py").Kernel(4)
    jobs, mask, cluster = torch.rand(1, 4, 12), torch.ones(1, 4), torch.rand(1, 13)
    turned = [2, 0, 3, 1]

    def seen(rows, ahead):
        return kernel(torch.cat((rows.flatten(1), mask, cluster, torch.full((1, 1), ahead)), 1))

    scores, other = seen(jobs, 0.0)[0][0], seen(jobs[:, turned], 0.0)[0][0]
    assert torch.allclose(scores[turned], other[:4], atol=1e-6)
    assert torch.allclose(scores[4], other[4], atol=1e-6)
    later, worth = seen(jobs, 3.0)
    assert torch.equal(later[0], scores), "only the critic sees how far ahead the agent is"
    assert not torch.equal(worth, seen(jobs, 0.0)[1])
