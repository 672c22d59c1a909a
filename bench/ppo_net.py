"""A policy network for MaskablePPO on Order-v0: one small network scores every job alike, whatever its slot.

The same kernel as in RLScheduler, for sets: a job's score depends on its own row and on the cluster. Whether to wait
depends on the cluster, on the mean over the jobs and on the most that any has: is there one worth waiting for? What the
state is worth has a network of its own, so that its errors do not disturb the scores. It alone sees `ahead`: by how
many jobs the agent is ahead of the policy that its reward is relative to. 6,000 weights for any number of slots.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from headway.learn.sight import CLUSTER_FEATURES, JOB_FEATURES

JOB, CLUSTER, HIDDEN, LATENT = len(JOB_FEATURES), len(CLUSTER_FEATURES), 32, 16
SCALE = 0.25
"""Features are logarithms to base 2 and shares: most are then between -2 and 2."""
SHARE, SMALLEST = JOB_FEATURES.index("share"), 2.0**-12
"""A job of one GPU and one of two ask for a 64th and a 32nd: as logarithms these differ as much as times do."""


class Rows(BaseFeaturesExtractor):
    """Jobs, their mask, the cluster and `ahead`, side by side in one row of numbers."""

    def __init__(self, space: spaces.Dict) -> None:
        self.slots = space["job_mask"].shape[0]
        super().__init__(space, self.slots * (JOB + 1) + CLUSTER + 1)

    def forward(self, seen: dict[str, Tensor]) -> Tensor:
        return torch.cat((seen["jobs"].flatten(1), seen["job_mask"], seen["cluster"], seen["ahead"]), 1)


class Eye(nn.Module):
    """What is made of each job, and of the whole: the cluster, and the mean and the most over its jobs."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots, self.width = slots, 2 * LATENT + CLUSTER
        self.job = nn.Sequential(nn.Linear(JOB + CLUSTER, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, LATENT), nn.ReLU())

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        flat, mask, cluster, _ = features.split((self.slots * JOB, self.slots, CLUSTER, 1), 1)
        rows, cluster = flat.view(-1, self.slots, JOB).clone(), cluster * SCALE
        rows[:, :, SHARE] = rows[:, :, SHARE].clamp(min=SMALLEST).log2()
        beside = cluster.unsqueeze(1).expand(-1, self.slots, -1)
        jobs = self.job(torch.cat((rows * SCALE, beside), 2)) * mask.unsqueeze(2)
        mean = jobs.sum(1) / mask.sum(1, keepdim=True).clamp(min=1.0)
        return jobs, torch.cat((mean, jobs.amax(1), cluster), 1)


class Kernel(nn.Module):
    """The features of `Rows` to a score per action, and to what the value is computed from."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.latent_dim_pi, self.latent_dim_vf = slots + 1, 2 * HIDDEN
        self.actor, self.critic = Eye(slots), Eye(slots)
        self.score = nn.Linear(LATENT, 1)
        self.wait = nn.Sequential(nn.Linear(self.actor.width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        self.worth = nn.Sequential(nn.Linear(self.critic.width, HIDDEN), nn.ReLU())

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        jobs, whole = self.actor(features)
        return torch.cat((self.score(jobs).squeeze(2), self.wait(whole)), 1)

    def forward_critic(self, features: Tensor) -> Tensor:
        """For a value of the form a + b x ahead, where a and b depend on the state."""
        worth = self.worth(self.critic(features)[1])
        return torch.cat((worth, worth * features[:, -1:]), 1)


class KernelPolicy(MaskableMultiInputActorCriticPolicy):
    """MaskablePPO's own policy with this network in the place of its fully connected ones."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **{**more, "features_extractor_class": Rows, "ortho_init": False})

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = Kernel(self.features_extractor.slots)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = nn.Identity()  # the kernel's scores are the logits
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)
