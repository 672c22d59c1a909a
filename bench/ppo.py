"""MaskablePPO on Order-v0 as an honest reference: it imitates an expert, then learns; scored on tasks not seen.

    python bench/ppo.py [--seeds 1 2] [--imitate 32] [--steps 196608] [--checkpoints 8] [--expert srsf]
                        [--folder FOLDER] [--quick]

Needs the extra `ppo` (torch, 5 GB). One core; deterministic by seed. The checkpoint with the lowest mean completion on
`validation` is scored on `test`. It decides only which job starts next and stops nothing; `srsf` and `headway` stop
jobs, too. All have the same beliefs: what users declare, which is wrong by a factor of e.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from ppo_net import KernelPolicy
from ppo_scores import Runs, agent_runs, mean, policy_runs, table
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import headway.learn  # noqa: F401  registers the environments
from headway.compare.perform import Task
from headway.core.draft import Draft
from headway.core.plan import Plan, Start
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.learn.experts import Expert, experts
from headway.learn.rewards import JobSeconds, RelativeTo
from headway.policies.placing.pack import place_asked
from headway.trained.file import policy_named

SUITE, ESTIMATES, REWARD_SCALE = "fixed-v1", "declared", 3e-5
BASELINES = ("first-fit", "sjf", "srsf", "headway")
ENVS = 8


@dataclass(frozen=True)
class StartsOnly:
    """A policy without what Order-v0 has no actions for: its starts, where the packing policy would put them, too."""

    policy: Policy

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        for decision in self.policy(snapshot).decisions:
            row = snapshot.jobs.row_of[decision.job]
            if isinstance(decision, Start) and place_asked(snapshot, draft.free, row) == decision.placement:
                draft.start(row, decision.placement)
        return draft.plan()


class Ahead(gymnasium.Wrapper):
    """Shows the critic `ahead`: how many jobs fewer than the reward's policy the agent had while time last went on.

    What is earned later is mostly this times how long it lasts: with it the critic explains twice as much of what is
    earned. Scores do not depend on it, so a trained agent does not need it.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        shown = {**env.observation_space.spaces, "ahead": gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)}
        self.observation_space, self._now, self._ahead = gymnasium.spaces.Dict(shown), 0.0, 0.0

    def reset(self, **given: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        seen, info = self.env.reset(**given)
        self._now, self._ahead = info["now"], 0.0
        return with_ahead(seen), info

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, info = self.env.step(action)
        if info["now"] > self._now:
            self._ahead, self._now = float(reward) / (info["now"] - self._now), info["now"]
        return with_ahead(seen, self._ahead), float(reward) * REWARD_SCALE, terminated, truncated, info


def with_ahead(seen: dict[str, np.ndarray], ahead: float = 0.0) -> dict[str, np.ndarray]:
    return {**seen, "ahead": np.array([ahead], np.float32)}


def make_env(expert: str, **more: object) -> gymnasium.Env:
    """What is earned is what is saved against the expert on the same arrivals, in 33,000 job-seconds."""
    given = {"suite": SUITE, "estimates": ESTIMATES, "reward": RelativeTo(StartsOnly(experts()[expert])), **more}
    return Ahead(gymnasium.make("headway/Order-v0", disable_env_checker=True, warm_up=0.0, **given))


def make_envs(expert: str) -> VecMonitor:
    return VecMonitor(DummyVecEnv([partial(make_env, expert)] * ENVS))


# ── imitation ───────────────────────────────────────────────────────────────────────────────────────────────


def collect(name: str, episodes: int, seed: int) -> dict[str, np.ndarray]:
    """What an expert saw, and what it did."""
    env = make_env(name, reward=JobSeconds())  # what it earns, and `ahead`, are not asked for
    found: dict[str, list[object]] = {key: [] for key in (*env.observation_space, "action")}
    for episode in range(episodes):
        seen, _ = env.reset(seed=seed * 10_000 + episode)
        expert, over = Expert(experts()[name], strict=False), [False]
        while not any(over):
            action = expert(env)
            for key, value in {**with_ahead(seen), "action": action}.items():
                found[key].append(value)
            seen, _, *over, _ = env.step(action)
    return {key: np.array(values) for key, values in found.items()}


def imitate(model: MaskablePPO, pairs: dict[str, np.ndarray], epochs: int, seed: int) -> str:
    """Behaviour cloning of the expert's actions. The critic has nothing to learn: the expert earns 0 against itself."""
    policy, random, count = model.policy, np.random.default_rng(seed), len(pairs["action"])
    optimizer, likely, agreed = torch.optim.Adam(policy.parameters(), lr=1e-3), 0.0, 0
    for _ in range(epochs):
        likely, agreed = 0.0, 0
        for batch in np.array_split(random.permutation(count), max(1, count // 256)):
            given = {key: torch.as_tensor(values[batch]).float() for key, values in pairs.items()}
            action = given.pop("action")
            chances = policy.get_distribution(given, pairs["action_mask"][batch])
            log_prob = chances.log_prob(action)
            optimizer.zero_grad()
            (-log_prob.mean()).backward()
            optimizer.step()
            likely += float(log_prob.exp().detach().sum())
            agreed += int((chances.mode() == action).sum())
    return (
        f"{count:,} decisions imitated; the most likely one is the expert's in {100 * agreed / count:.0f} %, "
        f"its probability {likely / count:.2f} in the mean"
    )


def imitated(seed: int, episodes: int, expert: str, tell: Callable[[str], None]) -> MaskablePPO:
    """The same arguments give the same weights, also after `learn`."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    model = MaskablePPO(
        KernelPolicy, make_envs(expert), gamma=1.0, gae_lambda=0.98, n_steps=4096 // ENVS,
        batch_size=512, n_epochs=6, learning_rate=1e-3, clip_range=0.2, ent_coef=1e-3, target_kl=0.03, seed=seed,
        device="cpu",
    )  # fmt: skip
    tell(imitate(model, collect(expert, episodes, seed), 10, seed))
    return model


# ── training and scores ─────────────────────────────────────────────────────────────────────────────────────


def checkpoints(seed: int, options: argparse.Namespace, folder: Path) -> Iterator[tuple[int, MaskablePPO]]:
    """After imitation and after each part of the steps. Those whose files are in the folder are not trained again."""
    model, tell = None, partial(print, flush=True)
    for steps in np.linspace(0, options.steps, options.checkpoints + 1).astype(int).tolist():
        file, began = folder / f"{options.expert}-{options.imitate}-seed{seed}-{steps}.zip", time.process_time()
        if file.exists():
            model = MaskablePPO.load(file, make_envs(options.expert), device="cpu")
        else:
            if model is None:
                model = imitated(seed, options.imitate, options.expert, tell)
            else:
                model.learn(steps - model.num_timesteps, reset_num_timesteps=False)
            model.save(file)
        earned = [episode["r"] / REWARD_SCALE for episode in model.ep_info_buffer or ()]
        last = f"; {np.mean(earned):+,.0f} job-seconds saved an episode lately" if earned else ""
        tell(f"seed {seed}, {steps:,} steps: {time.process_time() - began:.0f} s of one core{last}")
        yield steps, model


@dataclass(frozen=True)
class Scores:
    """Completion times by name, on the first tasks of a part."""

    expert: str
    part: str
    tasks: int

    def of_policies(self) -> dict[str, Runs]:
        """As they are, and the expert as far as Order-v0 has actions for it."""
        makers = {name: partial(policy_named, name) for name in BASELINES}
        makers["expert"] = partial(StartsOnly, policy_named(self.expert))
        return {
            name: policy_runs(Task(policy=name, make=make, estimates=ESTIMATES), SUITE, self.part, self.tasks)
            for name, make in makers.items()
        }

    def of_agent(self, model: MaskablePPO) -> Runs:
        def agent(seen: dict[str, np.ndarray]) -> int:
            return int(model.predict(with_ahead(seen), action_masks=seen["action_mask"], deterministic=True)[0])

        return agent_runs(
            agent, make_env(self.expert, part=self.part, reward=JobSeconds()), SUITE, self.part, self.tasks
        )


def compared(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, Runs]]:
    """By part: policies, and the agent of each seed. On `test` only imitation and the best on `validation`."""
    validation, test = (Scores(options.expert, part, options.tasks) for part in ("validation", "test"))
    found = {scores.part: scores.of_policies() for scores in (validation, test)}
    for seed in options.seeds:
        best = np.inf
        for steps, model in checkpoints(seed, options, folder):
            runs = found["validation"][f"seed {seed}, {steps:,} steps"] = validation.of_agent(model)
            if steps == 0 or mean(runs) < best:
                found["test"][f"seed {seed}, {'imitation' if steps == 0 else 'PPO'}"] = test.of_agent(model)
            if steps:
                best = min(best, mean(runs))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--imitate", type=int, default=32, help="episodes of the expert")
    parser.add_argument("--steps", type=int, default=196_608, help="rounded up to whole rounds of 4,096")
    parser.add_argument("--checkpoints", type=int, default=8)
    parser.add_argument("--expert", default="srsf")
    parser.add_argument("--folder", type=Path, help="keeps the checkpoints; a second start goes on from there")
    parser.add_argument("--quick", action="store_true", help="one seed and next to no training: does it run?")
    options = parser.parse_args()
    options.tasks = 1000
    if options.quick:
        options.seeds, options.imitate, options.steps, options.checkpoints, options.tasks = [1], 2, 4096, 1, 2
    with tempfile.TemporaryDirectory() as own:
        folder = options.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        for part, found in compared(options, folder).items():
            print(f"\n{SUITE}, {part}, {ESTIMATES}\n{table(found, ('expert', 'headway'))}")


if __name__ == "__main__":
    main()
