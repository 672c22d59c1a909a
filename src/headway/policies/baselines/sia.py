"""Sia with fixed batch sizes: an integer programme each minute says which job runs on which type.

A job's speed on a type counts as a multiple of its slowest, times its accelerators, and less on types on which it does
not run now (the restart factor: the share of its life that was not lost to restarts). To the power of -0.5 it is what
the job costs; a job that does not run costs 1.1. The sum is as small as possible. (Jayaram Subramanya et al., SOSP
2023, by its simulator's rules for rigid jobs.) Costs are rounded, and of equal jobs the earlier runs. Each programme is
bounded in branches, not in seconds, so that it gives the same answer everywhere. Every restart counts as 30 s, as its
simulator has it for models that it does not know.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

from headway.core.node import FloatArray
from headway.policies.steps.type_rounds import Asked, Chosen, TypeRounds, fill
from headway.policies.value.shares import solver

ROUND, RESTART = 60.0, 30.0
POWER, IDLE, EARLIER = -0.5, 1.1, 1e-3
"""What speed is raised to; what a job costs that does not run; what is taken off at most for jobs that came earlier."""
GAP, BRANCHES = 1e-4, 2000
"""How near to the best is near enough, as in its simulator; and how many branches are looked at at most."""


def sia() -> TypeRounds:
    return TypeRounds(ROUND, lambda: choose)


def choose(asked: Asked) -> Chosen:
    worth = _worth(asked)
    jobs, kinds = (worth > 0).nonzero()
    if not len(jobs):
        return fill(asked, ())
    sparse, optimize = import_module("scipy.sparse"), solver()
    each = np.arange(len(jobs))
    entries = (np.concatenate([jobs, len(worth) + kinds]), np.concatenate([each, each]))
    rows = sparse.csr_array((np.concatenate([np.ones(len(jobs)), asked.width[jobs]]), entries))
    most = np.concatenate([np.ones(len(worth)), asked.slots])[: rows.shape[0]]
    found = optimize.milp(
        -worth[jobs, kinds] - EARLIER * (1.0 - jobs / len(worth)), integrality=np.ones(len(jobs)),
        bounds=optimize.Bounds(asked.fixed[jobs], 1), constraints=optimize.LinearConstraint(rows, ub=most),
        options={"mip_rel_gap": GAP, "node_limit": BRANCHES},
    )  # fmt: skip
    chosen = each[found.x > 0.5] if found.x is not None else np.argsort(-worth[jobs, kinds], kind="stable")
    return fill(asked, zip(jobs[chosen].tolist(), kinds[chosen].tolist(), strict=True))


def _worth(asked: Asked) -> FloatArray:
    """(jobs, types): by how much it costs less to run the job there than not at all; 0 where it does not run."""
    seconds = np.where(asked.fixed[:, None] & (np.arange(len(asked.slots)) != asked.at[:, None]), np.inf, asked.seconds)
    runs = np.isfinite(seconds)
    slowest = np.where(np.isfinite(asked.seconds), asked.seconds, 0.0).max(axis=1, keepdims=True)
    speed = np.where(runs, asked.width[:, None] * slowest / np.where(runs, seconds, 1.0), 0.0)
    factor = np.maximum(asked.age - asked.stops * RESTART, 0.0) / (asked.age + RESTART)
    factor = np.where((asked.at < 0) | (asked.service < RESTART), 1.0, factor)
    here = np.arange(len(asked.slots)) == asked.at[:, None]
    speed *= np.where(here, 1.0, factor[:, None])
    cost = np.round(np.where(speed > 0, np.maximum(speed, 1e-9), 1.0) ** POWER, 2)
    return np.where(speed > 0, np.maximum(IDLE - cost, 0.0), 0.0)
