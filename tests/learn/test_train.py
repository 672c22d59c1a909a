"""Training: the same seed gives the same network, a second start goes on, the choice is made on other tasks."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest

import headway.learn  # noqa: F401  registers the environments
from forked import call
from headway.cli.learn.train import _tell_whether
from headway.compare.perform import Task, simulate
from headway.compare.scenario import Scenario
from headway.core.errors import UserError
from headway.learn.experts import run_expert
from headway.learn.suites import digest_of, fixed_world, suite_named
from headway.learn.trace_suites import log_suite
from headway.learn.training.candidate import Candidate, inner_layer, run_candidate
from headway.learn.training.train import TrainSettings, check_knobs, least_budget, pays, tasks_of, train
from headway.learn.tuning.runs import Runs
from headway.learn.tuning.verdict import Judged
from headway.policies.headway import Headway
from headway.policies.learned import Learned
from headway.policies.network import HIDDEN
from headway.sim.world import Costs
from headway.trained.file import read_trained
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
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


NODES = tuple(open_cluster("2x4"))
OWN = generate(Settings(jobs=150, load=2.0, mean_seconds=300.0, spread=0.6, seed=3), NODES)


@pytest.fixture(scope="module")
def own_log(tmp_path_factory):
    """Of a run whose starts take 5 s and whose stops 2 s."""
    log = tmp_path_factory.mktemp("own") / "run.log"
    world = replace(fixed_world(OWN, 0), costs=Costs(start=5.0, stop=2.0))
    task = Task(policy="headway", make=Headway, estimates="progress", settings=("round=60",))
    simulate(Scenario(OWN, NODES, lambda *_: world, "progress"), task, log=log)
    return log


def test_a_suite_of_a_log_has_its_jobs_in_time_and_its_costs(own_log):
    suite = log_suite(own_log, "", 8)
    cases = {part: [suite.scenario(part, number) for number in range(size)] for part, size in suite.sizes.items()}
    ends = {part: max(job.id for case in found for job in case.trace.jobs) for part, found in cases.items()}
    assert ends["train"] < ends["validation"] < ends["test"]
    assert suite.sizes == {"train": 21, "validation": 2, "test": 2}, "one window of jobs is left out between parts"
    case = cases["test"][0]
    costs = case.world(case.trace, 0).costs
    assert (costs.start, costs.save) == (pytest.approx(5.0, rel=0.01), pytest.approx(2.0, rel=0.01))
    truth = {job.id: OWN.work(job) for job in OWN.jobs}
    small_ones = [job for job in case.trace.jobs if job.replicas == 1]
    assert len(small_ones) > 3
    assert all(case.trace.work(job) == pytest.approx(truth[job.id]) for job in small_ones)


WORDS = ("--window", 8, "--tasks", 1, "--validate", 1, "--knobs", "trial", "--budget", 11, "-j", 1)


def test_training_on_ones_own_log_says_whether_it_pays(own_log, tmp_path, capsys):
    words = ("learn", "train", "--log", own_log, "--out", tmp_path / "mine.npz", *WORDS)
    code, out, _ = call(capsys, *words)
    assert code == 0
    assert "it does not pay: " in out
    assert "; keep headway\n  mean completion " in out
    assert "later window" in out
    assert "note: the log's run decided in rounds" in out
    told = json.loads(call(capsys, *words, "--json")[1])["pays"]
    assert told["pays"] is False
    assert told["windows"] >= 1
    assert told["why"]
    assert read_trained(tmp_path / "mine.npz").trained_on["tasks"] == ["run.log/8/train/0"]


def test_what_pays_is_told_with_how_to_use_it(capsys):
    _tell_whether(Judged(True, "", (), 0.04, (0.02, 0.06), 0.0, 0.0, 8), Path("mine.npz"))
    assert capsys.readouterr().out.splitlines() == [
        "it pays:", "  mean completion -4.0% (-6.0% to -2.0%) on 8 later windows that it did not see", "use it with:",
        "  --policy learned --set file=mine.npz",
    ]  # fmt: skip


def test_it_pays_only_against_headway_on_other_tasks(trained, tmp_path):
    (found, _), _ = trained
    with ThreadPoolExecutor(1) as pool:
        runs, last = Runs(pool, tmp_path / "runs", run_candidate), tasks_of(SMALL, "test", 2)
        zero = replace(found.candidate, outer=(0.0,) * len(found.candidate.outer))
        assert pays(zero, last, GIVEN, runs).why == "nothing better was found"
        judged = pays(found.candidate, last, GIVEN, runs)
    ratio = [run_candidate(case, found.candidate).mean / run_candidate(case, zero).mean for case in last]
    assert 1 - judged.gain == pytest.approx((ratio[0] * ratio[1]) ** 0.5)


def test_a_log_is_a_log_and_not_both(own_log, tmp_path, capsys):
    code, _, err = call(capsys, "learn", "train", "--log", own_log, "--trace", own_log, "--out", tmp_path / "a.npz")
    assert (code, "give --trace or --log" in err) == (2, True)
    (tmp_path / "jobs.yaml").write_text("jobs: []")
    code, _, err = call(capsys, "learn", "train", "--log", tmp_path / "jobs.yaml", "--out", tmp_path / "a.npz")
    assert (code, "this is not a headway log; give a trace as --trace" in err) == (2, True)
    code, _, err = call(capsys, "learn", "train", "--log", own_log, "--out", own_log)
    assert (code, "would overwrite it" in err) == (2, True)
