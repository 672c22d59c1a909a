"""The plan of the proof: which windows, no job in two sets, what taught ended before; and its statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs
from headway.experiment import everything_cells
from headway.experiment.learning import proof_windows
from headway.experiment.learning.plan import Window, read_plan, small, windows_of
from headway.experiment.learning.proof import Proof, keep_networks, look, looks, told
from headway.experiment.learning.proof_runs import KNOWING, OTHERS, Learnt, ProofContext, arm, labels, told_by
from headway.experiment.learning.proof_stats import change, interval, slowest_of
from headway.experiment.learning.proof_windows import GENERATED, SOURCES, first_arrival, scenario, teaching
from headway.learn.training.candidate import Candidate, Ranges
from headway.learn.training.train import TASKS_AT_ONCE, Trained, TrainSettings
from headway.policies.headway import Headway
from headway.policies.knobs import KNOBS
from headway.policies.learned import Learned
from headway.policies.network import HIDDEN
from headway.record.results import Outcome
from headway.trained.file import read_trained
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings

PLAN, DIGEST = read_plan()
LOOKED_AT = {"itp, half": {*range(49)}, "philly, half": {*range(54)}, "chronus mix2": {*range(54)}}
"""By plans 1 to 5."""
NOT_FRESH = {"sia": {7, 8}, "openb": {12, 29, 30, 39, 40}}


@pytest.fixture
def trace(monkeypatch):
    """1,200 jobs of our own in place of the published trace."""
    nodes = tuple(open_cluster("8x4"))
    made = generate(Settings(jobs=1200, load=1.2, elastic=1.0, mean_seconds=900.0, seed=4), nodes)
    for module in (everything_cells, proof_windows):
        monkeypatch.setattr(module, "read_trace", lambda _: made)
    return made


def test_places_that_were_looked_at_before_are_not_in_the_plan_and_parts_do_not_overlap():
    named = [(one.source, one.place) for one in windows_of(PLAN)]
    assert len(named) == len(set(named)) == 60
    for source, places in LOOKED_AT.items():
        assert not {one.place for one in windows_of(PLAN) if one.source == source} & places
    for source, places in NOT_FRESH.items():
        assert {one.place for one in windows_of(PLAN) if one.source == source} == places


def test_the_budgets_allow_at_least_one_generation_of_settings_and_two_of_networks():
    """A budget below that leaves both exactly at headway."""
    given, usual = PLAN.training, TrainSettings()
    assert given.tasks + 2 * usual.population * min(TASKS_AT_ONCE, given.tasks) <= given.budget
    knobs = [knob for knob in KNOBS if knob.acts != "deadlines"]
    population, windows = 4 + int(3 * math.log(len(knobs) + 1)), PLAN.tuning.windows
    assert windows + population * windows + 2 * windows <= PLAN.tuning.budget


def test_no_job_is_in_two_sets(trace):
    plan = replace_jobs(60)
    sets = job_sets(plan, "itp, half")
    assert len(sets) == 10
    names = [name for found in sets.values() for name in found]
    assert min(map(len, sets.values())) > 0
    assert len(names) == len(set(names))
    own = job_sets(plan, "generated")
    assert len(own) == 23
    assert len({name for found in own.values() for name in found}) == sum(map(len, own.values()))


def job_sets(plan, source):
    """By window and by part that teaches: its jobs."""
    found = {one.source: _names(one) for one in teaching(plan, DIGEST, source)}
    return found | {
        one.name: _names(scenario(plan, DIGEST, one)) for one in windows_of(plan) if one.source == source
    }  # fmt: skip


def _names(one):
    """Generated workloads and those of one file each number their jobs alike: the window is part of the name."""
    own = (
        one.source.startswith(GENERATED) or "{}" in SOURCES[one.source.rpartition(" ")[0].removesuffix(" tuning")].file
    )
    return {f"{one.source if own else ''}/{job.id}" for job in one.trace.jobs}


def replace_jobs(jobs):
    import msgspec

    return msgspec.structs.replace(PLAN, jobs=jobs, generated={**PLAN.generated, "jobs": 20})


def test_only_jobs_teach_that_ended_before_the_first_window(trace):
    plan = replace_jobs(60)
    begins = first_arrival(plan, trace, "itp, half")
    taught = {job.id for case in teaching(plan, DIGEST, "itp, half") for job in case.trace.jobs}
    submits = {job.id: job.submit for job in trace.jobs}
    works = {job.id: trace.work(job) for job in trace.jobs}
    assert taught
    assert all(submits[name] + works[name] < begins for name in taught)


def test_generated_windows_depend_on_the_plans_hash():
    window = next(one for one in windows_of(PLAN) if one.source == "generated")
    one, same, other = (scenario(PLAN, digest, window) for digest in (DIGEST, DIGEST, f"{int(DIGEST[:8], 16) ^ 1:08x}"))
    assert one.trace.jobs == same.trace.jobs
    assert one.trace.jobs != other.trace.jobs


def test_each_arm_is_what_its_name_says():
    ranges = Ranges(*((0.0,) * 8, (1.0,) * 8, (0.0,) * 8, (9.0,) * 8))
    network = Candidate(("trial",), 1, ranges, (0.1,) * (HIDDEN + 1))
    own, foreign = LearnedBeliefs(name="own"), LearnedBeliefs(name="foreign")
    learnt = Learnt(
        {"itp, half": own},
        {"itp": foreign},
        {"chosen": (("trial", 60.0),)},
        (("margin", 0.2),),
        {1: Trained(network, {}, {})},
    )
    context = ProofContext(small(PLAN), DIGEST, learnt, None)
    window = Window("itp, half", 7, "itp", "chosen", "test")
    expected = {"0": NO_BELIEFS, KNOWING: NO_BELIEFS, "beliefs": own, OTHERS: foreign, "tuned": own, "learned 1": own,
                "elastic": own, "first-fit": own}  # fmt: skip
    assert labels(context.plan, "chosen") == list(expected)
    for label, beliefs in expected.items():
        task, found = arm(context, window, label)
        assert found is beliefs
        assert task.estimates == ("oracle" if label == KNOWING else "progress")
        assert task.rigid is (label == "first-fit")
    assert arm(context, window, "tuned")[0].make() == Headway(trial=60.0)
    assert arm(context, window, "0")[0].make() == Headway()
    assert isinstance(arm(context, window, "learned 1")[0].make(), Learned)
    assert arm(context, window, "elastic, tuned")[0].make().margin == 0.2


def test_the_networks_are_kept_as_files_and_the_one_that_did_best_on_other_tasks_is_named(tmp_path):
    ranges = Ranges(*((0.0,) * 8, (1.0,) * 8, (0.0,) * 8, (9.0,) * 8))
    networks = {
        seed: Trained(
            Candidate(("trial",), seed, ranges, (0.1 * seed,) * (HIDDEN + 1)), {"validation score": score}, {}
        )
        for seed, score in ((1, 0.02), (2, -0.03), (3, 0.0))
    }
    kept = keep_networks(tmp_path, Learnt({}, {}, {}, (), networks))
    assert [one["best"] for one in kept.values()] == [False, True, False]
    assert [one["validation score"] for one in kept.values()] == [0.02, -0.03, 0.0]
    for seed, one in kept.items():
        file = tmp_path / one["file"]
        assert sha256(file.read_bytes()).hexdigest() == one["sha256"]
        assert (read_trained(file).network.outer == networks[seed].candidate.network().outer).all()


def test_what_a_kept_run_is_named_by_is_the_same_in_every_process():
    context = ProofContext(small(PLAN), DIGEST, Learnt({"generated": NO_BELIEFS}, {}, {}, (), {}), None)
    window = Window("generated", 7, "generated", "chosen", "test")
    names = {label: told_by(arm(context, window, label)[0], "x") for label in ("0", "beliefs", "elastic")}
    assert not [name for name in names.values() if " at 0x" in name]
    assert len(set(names.values())) == 3


def _outcome(times):
    times = np.array(times, float)
    return Outcome("one", 0, {}, times, times, times, {})


def test_a_step_is_the_mean_of_paired_log_ratios_and_tells_who_got_worse():
    before = [{"a": _outcome([10, 20, 30, 40])}, {"a": _outcome([100, 200, 300, 400])}]
    after = [{"x": _outcome([5, 10, 15, 20])}, {"x": _outcome([200, 200, 300, 300])}]
    found = change(after, before, 0.95, 500, 1)
    assert found.ratio == pytest.approx(0.5**0.5)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(1.0))
    assert found.worst == pytest.approx(1.0)
    assert found.worse_jobs == pytest.approx(0.125)
    both = change([{"x": one["x"], "y": two["a"]} for one, two in zip(after, before, strict=True)], before, 0.9, 500, 1)
    assert both.ratio == pytest.approx(0.5**0.25), "several seeds are averaged window by window"


def test_intervals_cover_and_are_wider_at_a_higher_level():
    logs = np.random.default_rng(3).normal(0.0, 0.1, 20)
    low, high = interval(logs, 2000, 0.95, 1)
    lower, higher = interval(logs, 2000, 0.99, 1)
    assert lower < low < np.exp(logs.mean()) < high < higher


def test_the_slowest_are_a_share_of_the_finished():
    assert slowest_of(_outcome(range(1, 101)), 0.05) == 98.0


def test_windows_that_were_not_run_under_all_arms_are_named_and_do_not_count():
    plan = small(PLAN)
    whole, part = [one for one in windows_of(plan) if one.part == "test"]
    found = {(whole, label): _outcome([10.0, 20.0 + number]) for number, label in enumerate(labels(plan, "chosen"))}
    found[part, "0"] = _outcome([10.0, 20.0])
    proof = Proof(plan, DIGEST, found, Learnt({}, {}, {}, (), {}))
    assert proof.windows("chosen", "test") == [whole]
    said = told(proof)
    assert list(said["missing"]) == [part.name, "generated 1"]
    assert said["missing"][part.name] == labels(plan, "chosen")[1:]
    assert said["steps"]["chosen, test"]["0 -> beliefs"]["windows"] == 1


def test_every_look_is_counted(tmp_path):
    look(tmp_path, "abc", small(PLAN))
    look(tmp_path, "abc", small(PLAN))
    assert [one["plan"] for one in looks(tmp_path)] == ["abc", "abc"]
    assert looks(tmp_path)[0]["windows"] == ["generated 7", "generated 8", "generated 1"]
    assert replace(Window("a", 1, "b", "c", "d"), place=2).name == "a 2"
