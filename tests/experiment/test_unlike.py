"""The experiment on unlike accelerators, on small traces made here."""

from __future__ import annotations

import numpy as np
import pytest

from headway.compare.scenario import Scenario
from headway.core.node import Node
from headway.experiment import unlike
from headway.experiment.case import Cell, RunSize
from headway.experiment.perform import measure
from headway.experiment.trace_folder import with_traces
from headway.experiment.unlike import BASELINE, MAIN, TWIN, UNLIKE, make
from headway.policies.registry import POLICIES
from headway.workload.trace import Trace
from make import a_job

SMALL = RunSize(24, (1,), quick=True)


def _trace(count=400):
    """Jobs of two models, of which one gains much from a V100."""
    chance = np.random.default_rng(0)
    jobs, on = [], {}
    for number in range(count):
        gain, seconds = (7.0, 4.0)[number % 2], float(chance.uniform(600, 7200))
        job = a_job(f"j{number}", int(chance.choice([1, 1, 2])), submit=60.0 * number, seconds=seconds, steps=10_000,
                    model=f"m{number % 2}")  # fmt: skip
        on[job.id] = {"v100": seconds, "p100": seconds * gain**0.4, "k80": seconds * gain}
        jobs.append(job)
    return Trace(name="made", jobs=tuple(jobs), seconds_on=on)


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(unlike, "read_trace", lambda _: _trace())


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("costs", [unlike.FREE, unlike.COSTLY])
def test_types_are_worth_much(costs):
    found = measure(UNLIKE, Cell(costs, unlike.FAIRNESS), 1, SMALL)
    by = found.figures
    assert set(by) == {entry.label for entry in UNLIKE.entries}
    assert found.bound["jct"] <= by[TWIN]["jct"] <= 1.1 * by[MAIN]["jct"]
    assert by[MAIN]["jct"] < 0.8 * min(by[BASELINE]["jct"], by["headway without types"]["jct"])
    assert found.bound["end"] <= by[MAIN]["end"]


@pytest.mark.usefixtures("made")
def test_nobody_is_told_how_long_a_job_takes():
    case = make(Cell(unlike.FREE, unlike.FAIRNESS), 1, SMALL)
    assert len(case.trace.jobs) == 24
    assert case.source in unlike.WHOLE
    assert all(job.seconds is None and job.deadline is None for job in case.trace.jobs)


@pytest.mark.usefixtures("made")
def test_slices_of_msr_are_the_later_jobs_and_equally_busy():
    case = make(Cell(unlike.FREE, unlike.MSR), 1, SMALL)
    assert case.trace.jobs[0].id == "j300"
    hours = sum(job.replicas * case.trace.seconds_on[job.id]["v100"] for job in case.trace.jobs) / 3600
    assert case.trace.jobs[-1].submit / 3600 == pytest.approx(hours / unlike.BUSY)


def test_fairness_of_a_worked_example():
    nodes = tuple(Node(name=kind, capacity=(("gpu", 1),), accelerator=kind) for kind in ("fast", "slow"))
    jobs = tuple(a_job(name, 2) for name in ("a", "b"))
    on = {job.id: {"fast": 100.0, "slow": 300.0} for job in jobs}
    case = Scenario(Trace(name="two", jobs=jobs, seconds_on=on), nodes, lambda *_: None)
    # On both types in the mean each takes 150 s, and both ask for four accelerators, where there are two.
    assert unlike._finish_time_fairness(case, np.array([300.0, 600.0])) == pytest.approx([1.0, 600 / 150 / 1.5])


def test_what_is_measured_of_gavel_is_measured_on_its_whole_traces():
    one = {"jct": 3.0, "end": 17.0, "gavel": 0.0}
    goals = {goal.reach: goal for goal in UNLIKE.targets[:-2]}
    assert goals[3.7].measure({MAIN: one}) == 3.0
    assert goals[7.5].measure({MAIN: one}) is None
    assert goals[4.06].measure({MAIN: one}) is None
    assert goals[4.06].measure({MAIN: one | {"gavel": 2.0}}) == 3.0
    assert goals[3.7].measure({MAIN: one | {"gavel": -1.0}}) is None


def test_who_knows_all_is_measured_apart():
    one, published = {"jct": 3.0}, {label: {"jct": 2.0} for label in unlike.PUBLISHED}
    by = {MAIN: one, "las": one | {"jct": 4.0}, TWIN: one | {"jct": 1.0}} | published
    assert [goal.measure(by) for goal in UNLIKE.targets[-2:]] == [0.75, 1.5]
    assert all(entry.estimates == "oracle" for entry in UNLIKE.entries if entry.label in unlike.PUBLISHED)


def test_every_cell_has_files_and_every_entry_a_policy():
    assert {cell.mix for cell in UNLIKE.cells} == set(unlike.FILES) == set(unlike.CLUSTERS)
    assert all(entry.policy in POLICIES for entry in UNLIKE.entries)


def test_cells_whose_traces_are_not_there_are_left_out_unless_all_are(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_TRACES", str(tmp_path))
    assert with_traces(UNLIKE, UNLIKE.cells) == UNLIKE.cells, "then the error names what is missing"
    for file in unlike.FILES[unlike.MSR]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert {cell.mix for cell in with_traces(UNLIKE, UNLIKE.cells)} == {unlike.MSR}
