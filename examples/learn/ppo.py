"""Trains a stock MaskablePPO of sb3-contrib to choose which job comes next. Needs `pip install 'headway[ppo]'`.

python examples/learn/ppo.py
headway learn leaderboard --suite bursty-v1 --policies sjf,headway --agent examples/learn/ppo.py:agent
headway simulate jobs.yaml --policy examples/learn/ppo.py:agent --env headway/Order-v0 --estimates progress

The leaderboard's tasks have beliefs from progress, so it trains with those.
"""

from functools import cache

import gymnasium
from sb3_contrib import MaskablePPO

import headway.learn  # noqa: F401  registers the environments

FILE = "ppo.zip"


def train(steps=50_000, suite="bursty-v1", **more):
    env = gymnasium.make("headway/Order-v0", suite=suite, estimates="progress", disable_env_checker=True)
    settings = {"gamma": 1.0, "n_steps": 512, "batch_size": 128, "seed": 1, "device": "cpu", **more}
    return MaskablePPO("MultiInputPolicy", env, **settings).learn(steps)


@cache
def trained():
    return MaskablePPO.load(FILE, device="cpu")


def agent(seen):
    """From an observation to an action, for the leaderboard."""
    return int(trained().predict(seen, action_masks=seen["action_mask"], deterministic=True)[0])


if __name__ == "__main__":
    train(verbose=1).save(FILE)
