"""MaskablePPO on Order-v0 as an honest reference: it imitates an expert, then learns; scored on tasks not seen.

    python bench/ppo.py [--seed 1] [--imitate 24] [--steps 60000] [--part test] [--expert sjf]
                         [--save FILE] [--load FILE]

Needs the extra `ppo` (torch, 5 GB). Deterministic by seed. It decides only which job starts next and stops nothing;
`srtf` and `headway` stop jobs, too. All have the same beliefs: what users declare, which is wrong by a factor of e.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium.wrappers import TransformReward
from ppo_net import KernelPolicy
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

import headway.learn  # noqa: F401  registers the environments
from headway.compare.perform import Task, perform
from headway.learn.experts import Expert, experts
from headway.learn.leaderboard import made
from headway.learn.rewards import RelativeTo
from headway.learn.suites import suite_named
from headway.policies.baselines.fifo import first_fit
from headway.record.log import read
from headway.record.metrics import Tally
from headway.record.results import outcome

SUITE, ESTIMATES, REWARD_SCALE = "fixed-v1", "declared", 1e-6
BASELINES = ("first-fit", "sjf", "srtf", "headway")


def make_env(**more: object) -> gymnasium.Env:
    """What is earned is what is saved against first-fit, in millions of job-seconds."""
    given = {"suite": SUITE, "estimates": ESTIMATES, "reward": RelativeTo(first_fit), **more}
    env = gymnasium.make("headway/Order-v0", disable_env_checker=True, **given)
    return TransformReward(env, lambda reward: reward * REWARD_SCALE)


# ── imitation ───────────────────────────────────────────────────────────────────────────────────────────────


def collect(name: str, episodes: int, seed: int) -> dict[str, np.ndarray]:
    """What an expert saw, what it did, and what it earned from then on."""
    env, found = make_env(), {"jobs": [], "job_mask": [], "cluster": [], "action_mask": [], "action": [], "worth": []}
    for episode in range(episodes):
        seen, _ = env.reset(seed=seed * 10_000 + episode)
        expert, rewards, over = Expert(experts()[name], strict=False), [], [False]
        while not any(over):
            action = expert(env)
            for key, value in {**seen, "action": action}.items():
                found[key].append(value)
            seen, reward, *over, _ = env.step(action)
            rewards.append(reward)
        found["worth"].extend(np.cumsum(rewards[::-1])[::-1])
    return {key: np.array(values) for key, values in found.items()}


def imitate(model: MaskablePPO, pairs: dict[str, np.ndarray], epochs: int, seed: int) -> str:
    """Behaviour cloning of the expert's actions; the critic learns what the expert earns."""
    policy, random, count = model.policy, np.random.default_rng(seed), len(pairs["action"])
    optimizer, agreed = torch.optim.Adam(policy.parameters(), lr=1e-3), 0.0
    for _ in range(epochs):
        agreed = 0.0
        for batch in np.array_split(random.permutation(count), max(1, count // 256)):
            given = {key: torch.as_tensor(values[batch]).float() for key, values in pairs.items()}
            action, worth = given.pop("action"), given.pop("worth")
            value, log_prob, _ = policy.evaluate_actions(given, action, action_masks=pairs["action_mask"][batch])
            loss = -log_prob.mean() + 0.5 * torch.nn.functional.mse_loss(value.squeeze(1), worth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            agreed += float(log_prob.exp().detach().sum())
    return f"{count:,} decisions imitated; its own probability of the expert's is {agreed / count:.2f} in the mean"


def imitated(seed: int, episodes: int, expert: str, tell: Callable[[str], None]) -> MaskablePPO:
    """The same arguments give the same weights, also after `learn`."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    model = MaskablePPO(
        KernelPolicy, DummyVecEnv([make_env] * 4), gamma=1.0, gae_lambda=0.98, n_steps=1024, batch_size=1024,
        n_epochs=4, learning_rate=1e-4, clip_range=0.1, ent_coef=1e-3, target_kl=0.02, seed=seed, device="cpu",
    )  # fmt: skip
    tell(imitate(model, collect(expert, episodes, seed), 8, seed))
    return model


# ── scores ──────────────────────────────────────────────────────────────────────────────────────────────────


def agent_completions(model: MaskablePPO, part: str, folder: Path) -> list[np.ndarray]:
    """By task: the completion times when the agent decides from the first job on."""
    suite, env, found = suite_named(SUITE), make_env(part=part, warm_up=0.0), []
    for number in range(suite.sizes[part]):
        log = folder / f"{number}.log"
        seen, _ = env.reset(seed=0, options={"task": number, "world_seed": 0, "log": log})
        over = [False]
        while not any(over):
            action, _ = model.predict(seen, action_masks=seen["action_mask"], deterministic=True)
            seen, _, *over, _ = env.step(int(action))
        tally = Tally()
        for line in read(log):
            tally(line)
        found.append(outcome(tally, suite.scenario(part, number).trace.jobs).completion)
    return found


def baseline_completions(name: str, part: str) -> list[np.ndarray]:
    suite = suite_named(SUITE)
    task = Task(policy=name, make=partial(made, name), estimates=ESTIMATES)
    return [perform(suite.scenario(part, number), task).completion for number in range(suite.sizes[part])]


def table(found: dict[str, list[np.ndarray]]) -> str:
    """Mean, the slowest 5 %, and who waits longer than under first-fit; by job over all tasks."""
    lines = [f"{'':14}{'mean':>9}{'slowest 5 %':>13}{'better tasks':>14}{'jobs worse':>12}{'by, median':>12}"]
    base = found["first-fit"]
    for name, runs in found.items():
        slowest = [run[run >= np.quantile(run, 0.95)].mean() for run in runs]
        better = sum(run.mean() < other.mean() for run, other in zip(runs, base, strict=True))
        ratio = np.concatenate(runs) / np.concatenate(base)
        worse = ratio > 1.01
        by = f"{100 * (np.median(ratio[worse]) - 1):.0f} %" if worse.any() else "-"
        lines.append(
            f"{name:14}{np.mean([run.mean() for run in runs]):9,.0f}{np.mean(slowest):13,.0f}"
            f"{f'{better} of {len(runs)}':>14}{100 * worse.mean():10.0f} %{by:>12}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--imitate", type=int, default=24, help="episodes of the expert")
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--part", default="test")
    parser.add_argument("--expert", default="sjf")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--load", type=Path, help="a file of --save: train nothing")
    options = parser.parse_args()
    began, found = time.process_time(), {name: baseline_completions(name, options.part) for name in BASELINES}
    print(f"{SUITE}, part {options.part}, {ESTIMATES}; baselines: {time.process_time() - began:.0f} s", flush=True)
    model = (
        None if options.load else imitated(options.seed, options.imitate, options.expert, partial(print, flush=True))
    )
    for name, steps in (("imitation", 0), ("imitation+PPO", options.steps)):
        began = time.process_time()
        if options.load:
            model = MaskablePPO.load(options.load.with_suffix(f".{steps}.zip"), device="cpu")
        elif steps:
            model.learn(steps)
        if options.save:
            model.save(options.save.with_suffix(f".{steps}.zip"))
        with tempfile.TemporaryDirectory() as folder:
            found[name] = agent_completions(model, options.part, Path(folder))
        print(f"{name}: {time.process_time() - began:.0f} s of one core", flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
