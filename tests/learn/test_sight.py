"""What environments keep from cycle to cycle and copy is what a look at the snapshot alone shows."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from plain_sight import seen_plainly

import headway.learn  # noqa: F401  registers the environments
from headway.compare.scenario import Scenario
from headway.core.check import check
from headway.learn.experts import experts
from headway.learn.suites import Suite
from headway.policies.placing.pack import place_asked
from headway.sim.faults import Faults
from learn_tasks import elastic, fixed, small

NOT_DECLARED = 5
"""Every fifth job declares no time."""


def _odd(number: int) -> Scenario:
    """Some jobs declare nothing; nodes go down, so that jobs wait again."""
    case = fixed(number)
    jobs = tuple(
        replace(job, seconds=None) if place % NOT_DECLARED == 0 else job for place, job in enumerate(case.trace.jobs)
    )
    trace = replace(case.trace, jobs=jobs, truth={job.id: case.trace.work(job) or 0.0 for job in case.trace.jobs})
    faults = Faults(mean_seconds_between=8_000.0, mean_repair_seconds=600.0)
    return Scenario(
        trace,
        case.nodes,
        lambda trace, seed: replace(case.world(trace, seed), faults=faults, checkpoint_seconds=60.0),
        "progress",
        "odd",
    )


@pytest.mark.parametrize(
    ("name", "case", "estimates", "slots"),
    [
        ("Order", fixed, "declared", 128), ("Order", fixed, "progress", 128), ("Order", fixed, "none", 128),
        ("Order", fixed, "declared", 6), ("Order", _odd, "declared", 128), ("Order", _odd, "linear", 8),
        ("Size", elastic, "progress", 64), ("Size", elastic, "progress", 4), ("Size", fixed, "declared", 64),
    ],
)  # fmt: skip
def test_what_is_seen_is_what_a_plain_look_shows(name, case, estimates, slots):
    suite = Suite("odd", "", {"train": 4}, lambda _, number: case(number)) if case is _odd else small(case)
    env = gymnasium.make(f"headway/{name}-v0", suite=suite, estimates=estimates, slots=slots, disable_env_checker=True)
    env.action_space.seed(1)
    (seen, _), bare, over, steps, back = env.reset(seed=2), env.unwrapped, [False], 0, 0
    while not any(over) and steps < (80 if case is _odd else 40):
        snapshot, draft, shown = bare.play.episode.seen(), bare.play.draft, bare.shown.tolist()
        waits = [row in bare.play.line.rows for row in shown]
        fits = [
            wait and place_asked(snapshot, draft.free, row) is not None for row, wait in zip(shown, waits, strict=True)
        ]
        plain = seen_plainly(snapshot, draft, shown, fits, slots)
        for key, expected in plain.items():
            assert seen[key] == pytest.approx(expected, rel=1e-4, abs=2e-5), (steps, key)
        back += sum(snapshot.jobs.read(row).attained > 0 for row in bare.play.line.rows)
        seen, _, *over, _ = env.step(env.action_space.sample())
        steps += 1
    assert steps > 20
    assert back or case is not _odd, "jobs that have trained wait again"


@pytest.mark.parametrize("name", ["Order", "Size"])
def test_every_plan_that_an_environment_makes_keeps_the_rules(name, monkeypatch):
    """They are not checked again when they are carried out."""
    env = gymnasium.make(
        f"headway/{name}-v0", suite=small(fixed if name == "Order" else elastic), disable_env_checker=True
    )
    env.action_space.seed(3)
    env.reset(seed=3)
    episode, plans = env.unwrapped.play.episode, 0
    carried_out = episode.carry_out_legal

    def checked(plan):
        nonlocal plans
        plans += bool(plan.decisions)
        assert not check(episode.bare, plan)
        return carried_out(plan)

    monkeypatch.setattr(episode, "carry_out_legal", checked)
    over = [False]
    while not any(over):
        _, _, *over, _ = env.step(env.action_space.sample())
    assert plans > 5


def test_a_draft_that_a_policy_overrules_leaves_no_trace():
    env = gymnasium.make("headway/Order-v0", suite=small(), disable_env_checker=True).unwrapped
    env.reset(seed=4)
    for _ in range(12):
        legal = np.flatnonzero(env.action_masks()[:-1])
        if len(legal):
            row = env.shown.item(int(legal[0]))
            env.step(int(legal[0]))
            assert row not in env.play.line.rows
        if env.play.over:
            break
        env.step_with(experts()["fifo"])
        assert env.play.line.rows == env.play.snapshot.jobs.waiting().tolist()
