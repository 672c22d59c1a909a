"""Training: the same seed gives the same network, a second start goes on, the choice is made on other tasks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import gymnasium
import pytest

import headway.learn  # noqa: F401  registers the environments
from forked import call
from headway.compare.perform import Task, simulate
from headway.core.errors import UserError
from headway.learn.experts import run_expert
from headway.learn.suites import digest_of, suite_named
from headway.learn.training.candidate import Candidate, inner_layer, run_candidate
from headway.learn.training.train import TrainSettings, check_knobs, least_budget, tasks_of, train
from headway.learn.tuning.runs import Runs
from headway.policies.learned import Learned
from headway.policies.network import HIDDEN
from learn_tasks import elastic, fixed, small

GIVEN = TrainSettings(knobs=("trial", "restart"), budget=8, population=3, seed=3)


SMALL = [small(lambda number: elastic(number, 7)), small(lambda number: fixed(number, 12))]
TASKS = tasks_of(SMALL, "train", 2)


def _train(file, given=GIVEN):
    with ThreadPoolExecutor(1) as pool:
        runs = Runs(pool, file, run_candidate)
        return train(TASKS, tasks_of(SMALL, "validation", 1), given, runs), runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    file = tmp_path_factory.mktemp("train") / "runs"
    return _train(file), file


def test_the_same_seed_gives_the_same_network_and_a_second_start_makes_no_run_again(trained):
    (found, runs), file = trained
    assert runs.fresh > 0
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:-3], lines[-3][:20]]))  # killed while it wrote
    again, second = _train(file)
    assert again == found
    assert 0 < second.fresh <= 3
    assert len(found.candidate.outer) == 2 * (HIDDEN + 1)


def test_the_file_says_what_it_was_trained_on(trained):
    (found, runs), _ = trained
    assert found.trained_on["tasks"] == ["small/train/0", "small/train/0"]
    assert found.trained_on["validation"] == ["small/validation/0"]
    assert found.scores["runs"] == runs.made
    assert found.scores["mean completion"] > 0
    assert found.trained_on["digest"] == digest_of(TASKS)


def test_the_hash_of_the_tasks_is_the_same_in_every_version():
    """A field that jobs get later must not change it: nobody could tell what a file was trained on."""
    tasks = tasks_of([suite_named("elastic-v1"), suite_named("bursty-v1")], "train", 2)
    assert digest_of(tasks)[:16] == "019ba391270a19af"
    assert digest_of(tasks[:1]) != digest_of(tasks)


def test_another_seed_gives_another_network():
    one, other = inner_layer(1), inner_layer(2)
    assert (one[0] != other[0]).any()
    assert (inner_layer(1)[0] == one[0]).all()


def test_an_episode_of_knobs_under_the_policy_is_what_a_run_of_the_training_is(trained, tmp_path):
    (found, _), _ = trained
    candidate: Candidate = found.candidate
    case, policy = elastic(5, 8), Learned(network=candidate.network())
    env = gymnasium.make("headway/Knobs-v0", suite=small(elastic), disable_env_checker=True)
    total = run_expert(env, policy, seed=0, options={"scenario": case, "world_seed": 0, "log": tmp_path / "a.log",
                                                     "name": "learned", "warm_up": 0.0})  # fmt: skip
    simulate(case, Task(policy="learned", make=lambda: policy, estimates="progress"), log=tmp_path / "b.log")
    assert (tmp_path / "a.log").read_bytes() == (tmp_path / "b.log").read_bytes()
    figures = run_candidate(case, candidate)
    assert -total == pytest.approx(figures.mean * len(case.trace.jobs))


def test_the_least_budget_is_that_of_one_generation(tmp_path, capsys, trained):
    (found, _), _ = trained
    assert (GIVEN.budget, found.scores["generations"]) == (least_budget(2, GIVEN), 1)
    words = ("learn", "train", "--suites", "bursty-v1", "--tasks", 2, "--validate", 1, "--out", tmp_path / "t.npz")
    code, _, err = call(capsys, *words, "--budget", 21)
    assert (code, "--budget 21: nothing would be tried; here one generation takes 22 runs" in err) == (2, True)
    assert not (tmp_path / "t.npz").exists(), "a file without weights would be exactly headway"


def test_a_setting_that_is_named_twice_is_turned_once():
    assert check_knobs(["trial", " margin", "trial", ""]) == ("trial", "margin")


def test_settings_that_headway_does_not_have_are_refused():
    with pytest.raises(UserError, match="--knobs colour: there are trial"):
        check_knobs(["colour"])
