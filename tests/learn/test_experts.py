"""Every policy as an expert: run through an environment it gives the log that `headway simulate` gives."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import headway.learn  # noqa: F401  registers the environments
from headway.compare.perform import Task, simulate
from headway.learn.experts import CannotSay, Expert, experts, run_expert
from headway.policies.headway import Headway
from headway.policies.knobs import KNOBS, headway_at, settings_at
from headway.policies.registry import POLICIES, settings_of
from learn_tasks import elastic, fixed, small

STARTS_ONLY = ("fifo", "first-fit", "sjf", "drf")


def _simulated(case, name, policy, path, estimates="progress"):
    task = Task(policy=name, make=lambda: policy, seed=7, estimates=estimates)
    simulate(case, task, log=path)
    return path.read_bytes()


def _options(case, name, log, **more):
    return {"scenario": case, "world_seed": 7, "log": log, "name": name, **more}


@pytest.mark.parametrize("name", POLICIES)
def test_an_expert_in_order_gives_the_log_of_simulate(name, tmp_path):
    case, policy = fixed(1, 20), experts()[name]
    env = gymnasium.make("headway/Order-v0", suite=small(), estimates="progress", disable_env_checker=True)
    run_expert(env, policy, seed=0, options=_options(case, name, tmp_path / "a.log"))
    assert (tmp_path / "a.log").read_bytes() == _simulated(case, name, policy, tmp_path / "b.log")


def test_the_expert_learned_is_the_trained_policy_that_comes_with_headway():
    """Without a file it would be exactly headway, on leaderboards, too."""
    assert not experts()["learned"].network.silent
    assert experts()["learned"].name.startswith("shipped.npz ")


@pytest.mark.parametrize("kind", ["Size", "Knobs"])
@pytest.mark.parametrize("name", ["headway", "elastic", "optimus", "first-fit", "backfill"])
def test_an_expert_where_sizes_are_chosen_gives_the_log_of_simulate(kind, name, tmp_path):
    case, policy = elastic(1, 8), experts()[name]
    env = gymnasium.make(f"headway/{kind}-v0", suite=small(elastic), disable_env_checker=True)
    run_expert(env, policy, seed=0, options=_options(case, name, tmp_path / "a.log"))
    assert (tmp_path / "a.log").read_bytes() == _simulated(case, name, policy, tmp_path / "b.log")


@pytest.mark.parametrize("name", STARTS_ONLY)
@pytest.mark.parametrize("kind", ["Order", "Size"])
def test_policies_that_only_start_jobs_can_be_said_in_actions(name, kind, tmp_path):
    case, policy = fixed(2, 20), experts()[name]
    env = gymnasium.make(
        f"headway/{kind}-v0", suite=small(), estimates="declared", every_cycle=True, warm_up=0.0,
        disable_env_checker=True,
    )  # fmt: skip
    env.reset(seed=0, options=_options(case, name, tmp_path / "a.log"))
    expert, over = Expert(policy), [False]
    while not any(over):
        _, _, *over, _ = env.step(expert(env))
    assert (tmp_path / "a.log").read_bytes() == _simulated(case, name, policy, tmp_path / "b.log", "declared")


def test_what_has_no_action_is_told_or_left_out():
    env = gymnasium.make("headway/Order-v0", suite=small(), disable_env_checker=True)
    env.reset(seed=1)
    with pytest.raises(CannotSay, match="no action for Stop"):
        _imitate(env, Expert(experts()["edf"]))
    env.reset(seed=1)
    expert = Expert(experts()["edf"], strict=False)
    _imitate(env, expert)
    assert expert.left_out > 0


@pytest.mark.parametrize("name", ["spread", "migration"])
def test_an_expert_that_places_otherwise_still_plays_to_the_end(name):
    """Its starts have no action, so it would wait; while nothing runs, that is not legal."""
    env = gymnasium.make("headway/Order-v0", suite=small(), warm_up=0.0, disable_env_checker=True)
    env.reset(seed=1)
    expert = Expert(experts()[name], strict=False)
    _imitate(env, expert)
    assert expert.left_out > 0


def _imitate(env, expert):
    over = [False]
    while not any(over):
        _, _, *over, _ = env.step(expert(env))


def test_knobs_at_zero_are_exactly_the_default_policy(tmp_path):
    case = elastic(2, 10)
    env = gymnasium.make("headway/Knobs-v0", suite=small(elastic), warm_up=0.0, disable_env_checker=True)
    env.reset(seed=0, options=_options(case, "headway", tmp_path / "a.log"))
    over = [False]
    while not any(over):
        _, _, *over, _ = env.step(np.zeros(env.action_space.shape, np.float32))
    assert (tmp_path / "a.log").read_bytes() == _simulated(case, "headway", Headway(), tmp_path / "b.log")


def test_knobs_reach_their_ends_and_come_back():
    assert headway_at([0.0] * len(KNOBS)) == Headway()
    assert settings_at([0.0] * len(KNOBS)) == {}
    for knob in KNOBS:
        assert knob.name in settings_of("headway")
        assert knob.min < knob.default < knob.max
        assert (knob.value(-1.0), knob.value(1.0)) == (knob.min, knob.max)
        values = list(map(knob.value, np.linspace(-1, 1, 9)))
        assert values == sorted(values)
        for value in values:
            assert knob.value(knob.offset(value)) == pytest.approx(value, rel=0.01, abs=1e-6)
    assert len(settings_at([1.0] * len(KNOBS))) == len(KNOBS)


def test_every_expert_is_there():
    made = experts()
    assert set(made) == set(POLICIES)
    assert all(callable(policy) for policy in made.values())
