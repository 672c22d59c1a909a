"""The contract of the environments: Gymnasium's own, what rewards add up to, what an agent may not see."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import headway.learn
from headway.core.check import check
from headway.core.errors import UserError
from headway.core.plan import Plan, Start
from headway.learn.actions import IllegalAction
from headway.learn.rewards import MissedDeadlines, RelativeTo
from headway.policies.baselines.fifo import fifo, first_fit
from headway.policies.placing.pack import place_asked
from headway.record.log import read
from headway.record.metrics import Tally
from learn_tasks import elastic, fixed, small, with_truth

NAMES = tuple(headway.learn.ENVIRONMENTS)
MASKED = NAMES[:2]
CASES = {"headway/Order-v0": fixed, "headway/Size-v0": elastic, "headway/Knobs-v0": fixed}


def _make(name, **given):
    return gymnasium.make(name, suite=small(CASES[name]), disable_env_checker=True, **given)


def _first_or_last(env, number):
    """A rule that knows nothing: now the first legal action, now the last. Also fits Knobs."""
    if isinstance(env.action_space, gymnasium.spaces.Box):
        return np.full(env.action_space.shape, (number % 3 - 1) / 2, np.float32)
    legal = np.flatnonzero(env.unwrapped.action_masks())
    return legal[0] if number % 4 else legal[-1]


def _play(env, steps=None, **reset):
    """Observations, rewards and whether it was terminated."""
    seen, info = env.reset(**reset)
    told, rewards, over = [(seen, info)], [], (False, False)
    while not any(over) and (steps is None or len(rewards) < steps):
        seen, reward, *over, info = env.step(_first_or_last(env, len(rewards)))
        told.append((seen, info))
        rewards.append(reward)
    return told, rewards, over


def _bytes(told):
    return b"".join(seen[name].tobytes() for seen, _ in told for name in sorted(seen))


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_finds_nothing_wrong(name):
    lenient = {"illegal": "wait"} if name in MASKED else {}
    env = gymnasium.make(name, suite=small(CASES[name]), **lenient)
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("warm_up", [0.0, 0.5])
def test_rewards_add_up_to_minus_the_completion_times(name, warm_up, tmp_path):
    env, log = _make(name, warm_up=warm_up), tmp_path / "run.log"
    told, rewards, (terminated, truncated) = _play(env, seed=1, options={"log": log})
    assert terminated
    assert not truncated
    tally = Tally()
    for line in read(log):
        tally(line)
    handover = told[0][1]["now"]
    ends = {course.job.id: (course.job.submit, course.ended) for course in tally.courses.values()}
    assert len(ends) == len(env.unwrapped.play.scenario.trace.jobs)
    assert warm_up or handover <= min(submit for submit, _ in ends.values())
    spent = sum(max(0.0, ended - max(submit, env.unwrapped.play.began)) for submit, ended in ends.values())
    assert sum(rewards) == pytest.approx(-spent, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_episode(name):
    env, other = _make(name), _make(name)
    first, rewards, _ = _play(env, seed=5)
    again, same, _ = _play(other, seed=5)
    assert _bytes(first) == _bytes(again)
    assert rewards == same
    assert _bytes(_play(env, seed=5)[0]) == _bytes(first), "an episode leaves nothing behind"
    assert _bytes(_play(env, seed=6)[0]) != _bytes(first)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("estimates", ["progress", "declared"])
def test_the_truth_about_jobs_that_have_not_started_is_not_to_be_seen(name, estimates):
    env = _make(name, estimates=estimates, warm_up=0.3, **({} if name in MASKED else {"period": 200.0}))
    case = fixed(0) if name == MASKED[0] else elastic(0, 16)
    steps = 2 if name == MASKED[1] else 6
    told, *_ = _play(env, steps, seed=3, options={"scenario": case, "world_seed": 1})
    snapshot = env.unwrapped.play.snapshot
    new = {row for row in snapshot.jobs.waiting().tolist() if np.isnan(snapshot.jobs.first_start[row])}
    arrived = snapshot.jobs.serial_of(snapshot.jobs.count - 1) + 1
    unseen = {snapshot.jobs.job(row).id for row in new} | {job.id for job in case.trace.jobs[arrived:]}
    assert new
    assert len(unseen) < len(case.trace.jobs) - 3
    lied, *_ = _play(env, steps, seed=3, options=_lie(case, dict.fromkeys(unseen, 7.0)))
    assert _bytes(lied) == _bytes(told)
    others = [job.id for job in case.trace.jobs if job.id not in unseen]
    shorter, *_ = _play(env, steps, seed=3, options=_lie(case, dict.fromkeys(others, 0.2)))
    assert _bytes(shorter) != _bytes(told), "what has run does show"


def _lie(case, factor):
    return {"scenario": with_truth(case, factor), "world_seed": 1}


@pytest.mark.parametrize("name", MASKED)
def test_masks_agree_and_an_illegal_action_raises(name):
    env = _make(name)
    (seen, info), *_ = _play(env, 3, seed=2)[0][-1:]
    mask = env.unwrapped.action_masks()
    assert (seen["action_mask"] == mask).all()
    assert (info["action_mask"] == mask).all()
    illegal = int(np.flatnonzero(~mask)[0])
    with pytest.raises(IllegalAction, match="not legal now"):
        env.step(illegal)
    with pytest.raises(IllegalAction, match="there are the actions 0 to"):
        env.step(len(mask))
    for number in range(40):
        assert env.unwrapped.action_masks()[env.action_space.sample()], number


def test_knobs_outside_their_range_are_refused():
    env = _make("headway/Knobs-v0")
    env.reset(seed=0)
    for wrong in (np.full(env.action_space.shape, 1.5), np.zeros(3), np.full(env.action_space.shape, np.nan)):
        with pytest.raises(IllegalAction, match="numbers from -1 to 1"):
            env.step(wrong)


def test_the_mask_of_order_is_what_fits_and_every_start_keeps_the_rules():
    env = _make("headway/Order-v0").unwrapped
    env.reset(seed=4)
    for number in range(60):
        draft = env.play.draft
        legal = np.flatnonzero(env.action_masks()[: len(env.shown)]).tolist()
        fits = [
            slot for slot, row in enumerate(env.shown.tolist()) if place_asked(draft.snapshot, draft.free, row)
        ]  # fmt: skip
        assert legal == fits
        for slot in legal:
            row = env.shown.item(slot)
            start = Start(draft.snapshot.jobs.job(row).id, place_asked(draft.snapshot, draft.free, row))
            assert not check(draft.snapshot, Plan((start,)))
        _, _, *over, _ = env.step(_first_or_last(env, number))
        if any(over):
            break


def test_every_choice_of_size_keeps_the_rules():
    env = _make("headway/Size-v0").unwrapped
    env.reset(seed=4)
    random, kinds = np.random.default_rng(0), set()
    for _ in range(150):
        action = int(random.choice(np.flatnonzero(env.action_masks())))
        kinds.add(action % 7 if action < env.wait else "wait")
        draft = env.play.draft
        _, _, *over, _ = env.step(action)
        assert not check(draft.snapshot, draft.plan())
        if any(over):
            env.reset()
    assert kinds >= {"wait", 5, 6, 2}, "it waited, grew, shrank and started"


@pytest.mark.parametrize("name", NAMES)
def test_a_horizon_truncates(name):
    env = _make(name, horizon=2000.0)
    _, _, (terminated, truncated) = _play(env, seed=1)
    assert truncated
    assert not terminated
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.unwrapped.step_with(fifo)


def test_episodes_start_busy():
    env = _make("headway/Order-v0", warm_up=0.5).unwrapped
    env.reset(seed=1)
    snapshot = env.play.snapshot
    assert len(snapshot.placements) + len(snapshot.flights) >= 3
    assert snapshot.jobs.serial_of(snapshot.jobs.count - 1) + 1 >= 20


def test_of_more_jobs_than_slots_the_first_and_the_shortest_are_shown():
    env = _make("headway/Order-v0", slots=6, warm_up=0.9, warm_up_policy=_start_nothing).unwrapped
    seen, _ = env.reset(seed=1, options={"task": 0})
    jobs = env.play.view.snapshot.jobs
    waiting = jobs.waiting().tolist()
    left = env.play.snapshot.estimates.left(env.play.snapshot.now)
    shortest = sorted(waiting[3:], key=lambda row: left[row])[:3]
    assert env.shown.tolist() == [*waiting[:3], *sorted(shortest)]
    assert seen["cluster"][4] == pytest.approx(np.log2(1 + len(waiting) - 6))


def _start_nothing(_):
    return Plan((), 1e9)


def test_a_reward_relative_to_a_base_is_what_the_agent_saves():
    plain, relative = (_make("headway/Order-v0", **given) for given in ({}, {"reward": RelativeTo(first_fit)}))
    _, spent, _ = _play(plain, seed=3)
    _, saved, _ = _play(relative, seed=3)
    base = _make("headway/Order-v0").unwrapped
    base.reset(seed=3)
    total = 0.0
    while not base.play.over:
        total += base.step_with(first_fit)[1]
    assert sum(saved) == pytest.approx(sum(spent) - total, rel=1e-9)


def test_missed_deadlines_are_counted():
    env = _make("headway/Order-v0", reward=MissedDeadlines(), warm_up=0.0)
    _, rewards, _ = _play(env, seed=3)
    play = env.unwrapped.play
    jobs = play.scenario.trace.jobs
    assert -len([job for job in jobs if job.deadline]) <= sum(rewards) < 0
    assert all(reward == int(reward) for reward in rewards)


def test_mistakes_are_told_in_a_sentence():
    with pytest.raises(UserError, match="beliefs only"):
        _make("headway/Order-v0", estimates="oracle").reset(seed=0)
    with pytest.raises(UserError, match="there is no such suite"):
        gymnasium.make("headway/Order-v0", suite="none").reset(seed=0)
    with pytest.raises(UserError, match="there are the options"):
        _make("headway/Order-v0").reset(seed=0, options={"tusk": 1})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"slots": 0}, "slots 0: give 1 or more"),
        ({"horizon": 0.0}, "horizon 0.0: give seconds above 0"),
        ({"warm_up": 2.0}, "warm_up 2.0: give a share"),
        ({"warm_up": float("nan")}, "warm_up nan: give a share"),
    ],
)
def test_an_environment_whose_episodes_would_be_over_at_once_is_refused(name, given, says):
    with pytest.raises(UserError, match=says):
        _make(name, **given)


def test_a_reset_that_nobody_could_play_is_refused():
    with pytest.raises(UserError, match=r"warm_up -1\.0: give a share"):
        _make(NAMES[0]).reset(options={"warm_up": -1})


@pytest.mark.parametrize("name", NAMES)
def test_several_episodes_at_once_are_what_each_is_alone_and_begin_anew(name):
    envs = gymnasium.make_vec(name, num_envs=2, suite=small(CASES[name]))
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    alone = [_make(name), _make(name)]
    seen, info = envs.reset(seed=[4, 5])
    for env, seed in zip(alone, (4, 5), strict=True):
        env.reset(seed=seed)
    over, anew, step = np.zeros(2, np.bool_), 0, 0
    while anew < 2:
        masks = envs.action_masks()
        assert (masks == seen["action_mask"].astype(np.bool_)).all()
        assert (masks == info["action_mask"].astype(np.bool_)).all()
        actions = [_first_or_last(env, step) for env in alone]
        told = [env.reset()[0] if late else env.step(one) for env, one, late in zip(alone, actions, over, strict=True)]
        anew += int(over.sum())
        seen, rewards, *ended, info = envs.step(np.array(actions))
        for number, one in enumerate(told):
            expected, reward = (one, 0.0) if over[number] else one[:2]
            assert rewards[number] == reward
            assert all((seen[part][number] == expected[part]).all() for part in expected)
        over, step = ended[0] | ended[1], step + 1
    assert step > 2
