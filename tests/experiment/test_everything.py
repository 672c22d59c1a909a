"""Everything: which jobs a cell has, on which nodes, what is kept from policies, and that a cell runs."""

from __future__ import annotations

import gzip

import pytest

from headway.core.errors import UserError
from headway.experiment import everything_cells
from headway.experiment.case import Cell, RunSize
from headway.experiment.everything import (
    CLAIRVOYANT,
    ENTRIES,
    EVERYTHING,
    MAIN,
    to_best,
    to_best_within_tail,
    to_clairvoyant,
    to_first_fit,
)
from headway.experiment.everything_cells import CELLS, PARTS, SOURCES, Source, blind, busiest, case_of, window
from headway.experiment.gather import result, run
from headway.policies.registry import POLICIES
from headway.workload.trace import Trace
from make import a_job

HEADER = "job_id,submit_s,submit_time,duration_s,num_gpus,vc\n"


@pytest.fixture
def traces(tmp_path, monkeypatch):
    """A folder with a Philly of 1,500 jobs."""
    rows = [f"{i},{100 * i},x,{60 + 37 * (i % 50)},{1 + i % 3},vc{i % 2}\n" for i in range(1500)]
    (tmp_path / "philly").mkdir()
    with gzip.open(tmp_path / "philly/philly_jobs.csv.gz", "wt") as file:
        file.write(HEADER + "".join(rows))
    monkeypatch.setenv("HEADWAY_TRACES", str(tmp_path))
    everything_cells.read_trace.cache_clear()
    yield tmp_path
    everything_cells.read_trace.cache_clear()


def test_tuning_and_reporting_share_no_job(traces):
    tuned, reported = (case_of("philly, half", 1, 50, tuning=tuning) for tuning in (True, False))
    again = case_of("philly, half", 2, 50)
    names = [{job.id for job in case.trace.jobs} for case in (tuned, reported, again)]
    assert [len(one) for one in names] == [50, 50, 50]
    assert not names[0] & names[1]
    assert not names[1] & names[2]
    assert max(int(job.id) for job in tuned.trace.jobs) < 500 <= min(int(job.id) for job in reported.trace.jobs)


def test_nobody_is_told_how_long_a_job_takes(traces):
    case = case_of("philly, half", 1, 50)
    assert all(job.seconds is None and job.steps == PARTS for job in case.trace.jobs)
    assert all(60 <= (case.trace.work(job) or 0) <= 60 + 37 * 49 for job in case.trace.jobs)
    assert case.estimates == "progress"
    assert case.trace.jobs[0].submit == 0.0


def test_nodes_follow_from_the_busiest_moment(traces):
    half, quarter = (case_of(name, 1, 300) for name in ("philly, half", "philly, quarter"))
    most = busiest(half.trace, "gpu")
    assert 8 * len(half.nodes) >= most / 2 > 8 * (len(half.nodes) - 1)
    assert len(quarter.nodes) < len(half.nodes)
    jobs = (
        a_job("a", 2, seconds=10.0),
        a_job("b", 3, seconds=10.0, submit=5.0),
        a_job("c", 4, seconds=1.0, submit=10.0),
    )
    assert busiest(Trace(name="t", jobs=jobs), "gpu") == 7


def test_a_small_trace_is_taken_from_its_beginning():
    jobs = tuple(a_job(f"j{i}", seconds=10.0) for i in range(30))
    trace = Trace(name="t", jobs=jobs)
    assert window(trace, 3, 20).jobs == jobs[:20]
    assert len(blind(trace).jobs) == 30
    assert len(blind(Trace(name="t", jobs=(a_job("z", seconds=0.0),))).jobs) == 0


@pytest.mark.parametrize("tuning", [False, True])
def test_forty_places_of_a_trace_are_forty_windows_that_share_no_job(tuning):
    jobs = tuple(a_job(f"j{i}", seconds=10.0) for i in range(6000))
    trace = Trace(name="t", jobs=jobs)
    names = [job.id for place in range(1, 41) for job in window(trace, place, 45, tuning=tuning).jobs]
    assert len(names) == len(set(names)) == 40 * 45
    assert {int(name[1:]) < 2000 for name in names} == {tuning}


def test_a_trace_that_is_not_there_is_said_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_TRACES", str(tmp_path))
    everything_cells.read_trace.cache_clear()
    with pytest.raises(UserError, match="HEADWAY_TRACES: name a folder of published traces that has tiresias"):
        case_of("tiresias", 1, 10)


def test_a_cell_runs_with_every_entry(traces, monkeypatch):
    monkeypatch.setitem(SOURCES, "philly, quarter", Source("philly/philly_jobs.csv.gz", cluster="1x4"))
    size = RunSize(25, (1,))
    cell = Cell("published", "philly, quarter")
    told = result(EVERYTHING, run(EVERYTHING, [cell], size, 1, lambda _: None), size)
    found = told["cells"][0]["policies"]
    assert set(found) == {entry.label for entry in ENTRIES}
    assert found[MAIN]["stuck"]["mean"] == 0.0
    assert told["cells"][0]["bound"]["jct"] <= min(found[label]["jct"]["mean"] for label in CLAIRVOYANT)
    assert all(target["median"] is not None for target in told["targets"])


def test_targets_compare_with_whom_they_say():
    def one(jct, p99, stuck=0.0):
        return {"jct": jct, "p99": p99, "stuck": stuck}

    by = {
        MAIN: one(100.0, 900.0), "first-fit": one(200.0, 1000.0), "srtf": one(90.0, 1500.0), "las": one(110.0, 800.0),
        "kube-default": one(10.0, 10.0, stuck=0.5), "srtf, all-knowing": one(80.0, 1500.0),
        "srsf, all-knowing": one(85.0, 1.0), "headway, all-knowing": one(70.0, 1.0),
    }  # fmt: skip
    assert to_clairvoyant(by) == pytest.approx(100 / 80)
    assert to_best(by) == pytest.approx(100 / 90)
    assert to_best_within_tail(by) == pytest.approx(100 / 110)
    assert to_first_fit(by) == pytest.approx(0.9)


def test_every_source_is_a_cell_and_every_entry_a_policy():
    assert {cell.mix for cell in CELLS} == set(SOURCES)
    assert all(entry.policy in POLICIES for entry in ENTRIES)
