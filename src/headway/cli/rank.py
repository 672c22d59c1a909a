"""What a policy has to say of one job beside why it waits: its score, whether it will be in time, whether it moves."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.combined_priority import CombinedPriority
from headway.policies.deadline import Deadline
from headway.policies.elastic import Elastic
from headway.policies.migration import Migration
from headway.policies.steps.relocate import verdict
from headway.policies.value.in_time import admission
from headway.policies.wrappers.queues import Queued


def rank_of(policy: Policy, snapshot: Snapshot, row: int) -> dict[str, Any]:
    """By name, ready for JSON; empty where the policy has nothing to say of this job."""
    if isinstance(policy, Queued):
        policy = policy.policy
    if isinstance(policy, Migration) and snapshot.jobs.state_of(row) is State.RUNNING:
        return {"move": verdict(snapshot, row, policy)}
    if isinstance(policy, Elastic) and snapshot.jobs.state_of(row) in (State.RUNNING, State.WAITING):
        why = policy.why(snapshot, row)
        return {"size": why} if why else {}
    if snapshot.jobs.state_of(row) is not State.WAITING:
        return {}
    if isinstance(policy, CombinedPriority):
        score = policy.score(snapshot, row)
        return {"score": {"total": score.total, **asdict(score)}}
    if isinstance(policy, Deadline) and math.isfinite(snapshot.jobs.deadline[row]) and snapshot.estimates.known:
        answer = asdict(admission(policy, snapshot, row))
        return {"in_time": {**answer, "done_at": None if math.isnan(answer["done_at"]) else answer["done_at"]}}
    return {}


def rank_lines(rank: dict[str, Any]) -> list[str]:
    lines = []
    if score := rank.get("score"):
        parts = " + ".join(f"{name} {part:.3f}" for name, part in score.items() if name != "total")
        lines.append(f"  score     {score['total']:.3f} = {parts}")
    if answer := rank.get("in_time"):
        lines.append(f"  in time   {answer['verdict']}: {answer['sentence']}")
        if answer["remedy"]:
            lines.append(f"  needs     {answer['remedy']}")
    if size := rank.get("size"):
        lines.append(f"  size      {size}")
    if move := rank.get("move"):
        lines.append(f"  move      {move}")
    return lines
