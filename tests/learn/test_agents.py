"""An agent of an environment as a policy: the same episode gives the same log; live it is watched."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from forked import call
from headway.cli.wiring import guard_for, make_policy
from headway.compare.perform import Task, make_cluster, make_head, simulate
from headway.core.errors import UserError
from headway.core.snapshot import TrainedMode
from headway.cycle.loop import run
from headway.estimates.plain_books import NoEstimates
from headway.learn.agents import agent_policy, as_agent
from headway.policies.headway import Headway
from headway.record.replay import ReplayCluster
from learn_tasks import elastic, fixed, small

AGENTS = """
import time

import numpy as np

def agent(seen):
    "Drawn, but the same for the same observation: it waits, too."
    chance = np.random.default_rng(int(1000 * abs(float(seen["jobs"].sum() + seen["cluster"].sum()))))
    return int(chance.choice(np.flatnonzero(seen["action_mask"])))

class Masked:
    def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
        assert deterministic and action_masks.dtype == bool
        return np.array(int(action_masks.argmax())), None

class Unmasked:
    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        return np.int64(0), None

masked, unmasked = Masked(), Unmasked()

def lost(seen):
    return 10_000

def broken(seen):
    return 1 // 0

loaded = []

def heavy(seen):
    "Its network is loaded when it is asked first."
    loaded or time.sleep(0.7)
    loaded.append(True)
    return int(seen["action_mask"].argmax())
"""
JOBS = "nodes: [{name: n, count: 2, gpu: 4}]\njobs:\n" + "".join(
    f"  - {{name: j{i}, gpu: 1, replicas: {1 + i % 4}, submit: {9 * i}, seconds: {20 + 7 * i % 90}}}\n"
    for i in range(12)
)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    (tmp_path / "mine.py").write_text(AGENTS)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return "mine.py"


@pytest.mark.parametrize("estimates", ["declared", "progress", "none"])
@pytest.mark.parametrize("kind", ["Order", "Size"])
@pytest.mark.parametrize("slots", [0, 6], ids=["all shown", "few shown"])
def test_the_same_episode_gives_the_same_log_and_a_replay_decides_the_same(mine, tmp_path, kind, slots, estimates):
    case, name = (fixed if kind == "Order" else elastic)(2, 14), f"headway/{kind}-v0"
    policy = agent_policy(f"{mine}:agent", name, slots)
    more = {"slots": slots} if slots else {}
    env = gymnasium.make(name, suite=small(), estimates=estimates, warm_up=0.0, disable_env_checker=True, **more)
    options = {"scenario": case, "world_seed": 7, "log": tmp_path / "env.log", "name": "mine"}
    seen, over = env.reset(seed=0, options=options)[0], [False]
    while not any(over):
        seen, _, *over, _ = env.step(policy.agent(seen))
    task = Task(policy="mine", make=lambda: policy, seed=7, estimates=estimates)
    simulate(case, task, log=tmp_path / "policy.log")
    assert (tmp_path / "policy.log").read_bytes() == (tmp_path / "env.log").read_bytes()
    again = ReplayCluster(tmp_path / "policy.log")
    run(again, policy, NoEstimates())
    assert again.cycles > 20
    assert again.differences == []


def test_what_has_predict_is_asked_as_stable_baselines_is(mine):
    seen = {"action_mask": np.array([0, 1, 1], np.int8)}
    masked, unmasked = (make_policy(f"{mine}:{name}", ["env=headway/Order-v0"]) for name in ("masked", "unmasked"))
    assert masked.agent(seen) == 1
    assert (masked.illegal, unmasked.illegal) == ("raise", "wait")
    assert as_agent(len) is len
    assert masked.slots == 128
    assert make_policy(f"{mine}:masked", ["env=headway/Size-v0"]).slots == 64
    assert make_policy(f"{mine}:masked", ["env=headway/Size-v0", "slots=5"]).slots == 5


@pytest.mark.parametrize("agent", ["agent", "masked", "unmasked"])
@pytest.mark.parametrize("env", ["headway/Order-v0", "headway/Size-v0"])
def test_simulate_runs_an_agent_and_replay_knows_it(mine, capsys, agent, env):
    words = ("--policy", f"{mine}:{agent}", "--env", env)
    code, out, _ = call(capsys, "simulate", "jobs.yaml", *words, "--log", "run.log", "--json")
    assert (code, json.loads(out)["finished"]) == (0, 12)
    head = json.loads(Path("run.log").read_text().splitlines()[0])
    assert f"env={env}" in json.dumps(head)
    assert f"{mine}:{agent} " in json.dumps(head)
    code, out, _ = call(capsys, "replay", "run.log")
    assert code == 0
    assert "0 plans differ" in out
    Path(mine).write_text(AGENTS + "\n")
    assert "which may decide otherwise" in call(capsys, "replay", "run.log")[2]


@pytest.mark.parametrize(
    ("agent", "env", "says"),
    [
        ("lost", "headway/Order-v0", "action 10000: there are the actions 0 to 128"),
        ("broken", "headway/Order-v0", "mine.py, line 26: ZeroDivisionError"),
        ("nobody", "headway/Order-v0", "there is no function nobody in mine.py"),
        ("agent", "headway/Knobs-v0", "choose one of headway/Order-v0, headway/Size-v0"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(mine, capsys, agent, env, says):
    code, _, err = call(capsys, "simulate", "jobs.yaml", "--policy", f"{mine}:{agent}", "--env", env)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_an_environment_is_of_an_agent(mine, capsys):
    code, _, err = call(capsys, "simulate", "jobs.yaml", "--env", "headway/Order-v0")
    assert (code, err.strip()) == (2, "headway: --env headway/Order-v0: it is of an agent; give --policy mine.py:agent")
    with pytest.raises(UserError, match="a live run is watched by its log; add --log FILE"):
        guard_for(f"{mine}:agent", ["env=headway/Order-v0"], None)


def test_live_it_begins_in_shadow_is_replayed_as_it_is_and_has_a_time(mine, tmp_path):
    log, settings = tmp_path / "run.log", ["env=headway/Order-v0", "seconds=0.2"]
    policy = make_policy(f"{mine}:agent", settings)
    guard = guard_for(f"{mine}:agent", settings, log)
    assert guard.policy is policy, "it is not asked twice in a cycle"
    assert policy.seconds_per_cycle == 0.2
    case, task = fixed(2, 16), Task(policy="mine", make=lambda: policy, estimates="progress")
    simulate(case, task, log=log)
    replay = pickle.loads(pickle.dumps(guard.replay))
    assert replay(log, 16).jobs == 16
    assert replay(log, 16).mean != 0.0, "the agent decides it, not headway"
    snapshot = make_cluster(case, task).next_snapshot()
    shadow = snapshot.standing_as(guard.standing)
    assert policy(shadow) == Headway()(shadow)
    assert "headway decides, the agent is in shadow: fewer than 100" in policy.explain(shadow, 0)["guard"]["sentence"]
    assert policy(snapshot.standing_as(TrainedMode("on", ""))) == policy.asked(snapshot)
    assert policy.took(snapshot, lambda: 1 / 0) > 0.0, "measured while it decided"
    assert make_head(case, task).policy == "mine"


def test_what_an_agent_loads_for_its_first_answer_is_not_its_time_live(mine, tmp_path):
    settings = ["env=headway/Order-v0"]
    guard = guard_for(f"{mine}:heavy", settings, tmp_path / "run.log")
    task = Task(policy="mine", make=lambda: make_policy(f"{mine}:heavy", settings), estimates="progress")
    snapshot = make_cluster(fixed(2, 16), task).next_snapshot().standing_as(guard.standing)
    assert guard.policy.took(snapshot, time.perf_counter) < 0.5
